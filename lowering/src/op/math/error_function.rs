//! The error function, the core of GELU: two polynomials and no exponential.

use super::bits::{by_type, copy_sign};
use super::{Expander, Term};

/// `(erf x − x) / x` in `x²` for `|x| ≤ 1`, relative error of erf 2^−29.3.
const NEAR_32: &[f64] = &[7.846173e-05, -0.0008007889, 0.0051880744, -0.026853692, 0.11283583, -0.37612626, 0.12837917];
/// The same for f64, 2^−56.3.
const NEAR_64: &[f64] = &[
    6.6830307649797e-11, -1.1829509211011156e-09, 1.4786264738483684e-08, -1.6370595645881988e-07,
    1.6463083045836663e-06, -1.4925738251937323e-05, 0.00012055337767440443, -0.0008548327189331384,
    0.005223977629091198, -0.026866170645619147, 0.11283791670958741, -0.37612638903183876,
    0.1283791670955126,
];
/// `(1 − erf x)^¼` in `x − 2.4375` for `x` from 1 to 3.93, error of erf 2^−31; a least-squares fit at Chebyshev nodes
/// with the weight that the fourth power asks for, its coefficients rounded one by one.  The root is smooth enough for
/// one polynomial to serve the whole range, and the error of its fourth power is a fraction of that of 1 − erf ≤ 0.16.
const FAR_32: &[f64] = &[
    1.1592167e-05, 2.543948e-05, -0.00020726028, 6.497876e-05, 0.0026334743, -0.0073030987, -0.0105338115,
    0.09579227, -0.20190677, 0.1542795,
];
/// The same for f64, in `x − 3.5` for `x` from 1 to 5.95, 2^−63.
const FAR_64: &[f64] = &[
    3.764386521793176e-18, 7.826646561995273e-16, 1.0235746395490104e-14, 1.6950264440224563e-14,
    -2.6071978140775395e-13, 2.844874025674949e-14, 6.953458563164859e-12, -3.2187718147016195e-11,
    -1.2238974183892304e-10, 1.5129389556867327e-09, -1.5820050304343114e-09, -3.76431924857461e-08,
    1.7642704547315605e-07, 2.9248038273100817e-07, -5.025897267068641e-06, 1.2064450010886082e-05,
    4.947734753200389e-05, -0.00037584441364531447, 0.0006252853085625982, 0.002546306327095662,
    -0.016479699265459707, 0.04134507514014448, -0.05333384963146132, 0.02936037359953331,
];

/// `erf x`.
pub fn erf(e: &mut dyn Expander, args: &[Term]) -> Term {
    let x = args[0];
    let magnitude = e.abs(x);
    let square = e.mul(x, x);
    let coefficients = by_type(e, x, NEAR_32, NEAR_64);
    let p = e.horner(square, coefficients);
    let near = e.fma(p, magnitude, magnitude);
    // From the limits on the result rounds to 1.
    let (limit, centre) = by_type(e, x, (3.93, 2.4375), (5.95, 3.5));
    let bounded = e.at_most(magnitude, limit);
    let centre = e.float(x, -centre);
    let shifted = e.add(bounded, centre);
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
