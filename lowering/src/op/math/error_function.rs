//! The error function, the core of GELU: two polynomials and no exponential.

use super::bits::{by_type, copy_sign};
use super::{Expander, Term};

/// `(erf x − x) / x` in `x²` for `|x| ≤ 1`, relative error of erf 2^−29.3.
const NEAR_32: &[f64] = &[7.846173e-05, -0.0008007889, 0.0051880744, -0.026853692, 0.11283583, -0.37612626, 0.12837917];
/// The same for f64, 2^−56.3.
const NEAR_64: &[f64] = &[
    6.6830307649797e-11,
    -1.1829509211011156e-09,
    1.4786264738483684e-08,
    -1.6370595645881988e-07,
    1.6463083045836663e-06,
    -1.4925738251937323e-05,
    0.00012055337767440443,
    -0.0008548327189331384,
    0.005223977629091198,
    -0.026866170645619147,
    0.11283791670958741,
    -0.37612638903183876,
    0.1283791670955126,
];
/// `(1 − erf x)^¼` in `x − 3/2` for `x` from 1 to 3.93, error of erf 2^−27.7; a least-squares fit at Chebyshev nodes
/// with the weight that the fourth power asks for, its coefficients rounded one by one.  The root is smooth enough for
/// one polynomial to serve the whole range, and the error of its fourth power is a fraction of that of 1 − erf ≤ 0.16.
/// The origin is on the left, where that error counts most.
const FAR_32: &[f64] = &[
    1.12485095e-05,
    -7.118356e-05,
    -3.1458563e-05,
    0.001246337,
    -0.001601636,
    -0.012494582,
    0.032953013,
    0.06932971,
    -0.37638482,
    0.42907524,
];
/// The same for f64, in `x − 2` for `x` from 1 to 5.95, 2^−60.2.
const FAR_64: &[f64] = &[
    1.86968428486572e-18,
    6.747638987504593e-16,
    -1.3481984057990105e-14,
    7.818742562593307e-14,
    1.716683374089927e-13,
    -3.2245662866663903e-12,
    -1.4016288453628236e-12,
    1.364627685133778e-10,
    -3.185900775990356e-10,
    -3.4763406992152445e-09,
    1.6133427720897757e-08,
    6.589515585255318e-08,
    -5.49011653937217e-07,
    -5.793068044141003e-07,
    1.391625456585757e-05,
    -1.7777376929882986e-05,
    -0.0002193284683160515,
    0.0007508335439069572,
    0.0015647448590422285,
    -0.012226189050871437,
    0.006896920539688884,
    0.09913446629286775,
    -0.28886201113320914,
    0.2615224061028207,
];

/// `erf x`.
///
/// Measured: 1.268 ulp in f32, 1.42 in f64.
pub fn erf(e: &mut dyn Expander, args: &[Term]) -> Term {
    let x = args[0];
    let magnitude = e.abs(x);
    let square = e.mul(x, x);
    let coefficients = by_type(e, x, NEAR_32, NEAR_64);
    let p = e.horner(square, coefficients);
    let near = e.fma(p, magnitude, magnitude);
    // From the limits on the result rounds to 1.
    let (limit, origin) = by_type(e, x, (3.93, 1.5), (5.95, 2.0));
    let bounded = e.at_most(magnitude, limit);
    let origin = e.float(x, -origin);
    let shifted = e.add(bounded, origin);
    let coefficients = by_type(e, x, FAR_32, FAR_64);
    let root = e.horner(shifted, coefficients);
    let root = e.mul(root, root);
    let negative = e.neg(root);
    let one = e.float(x, 1.0);
    let far = e.fma(negative, root, one);
    let is_near = e.lt(magnitude, one);
    let value = e.select(is_near, near, far);
    copy_sign(e, value, x)
}
