//! Powers.  An exponent known at the call becomes products, a root or a reciprocal where that is at least as exact as the
//! general row, special values included.

use burn_backend::Scalar;
use kiln_lowering::graph::Node;
use kiln_lowering::op::Pointwise as P;

use super::checks;
use super::elementwise::{beside, fixed, map_fixed};
use super::scalars::{as_f64, as_i128};
use crate::KilnTensor;
use crate::record::{Tape, record};

/// Floats to the power of a number.
pub fn float_scalar(op: &'static str, x: KilnTensor, exponent: Scalar) -> KilnTensor {
    let e = as_f64(exponent);
    if e == 1.0 {
        return x;
    }
    let dtype = x.kiln_dtype();
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        if e == 0.0 {
            return fixed(t, x, 1.0);
        }
        // A product in the wide type rounds once.
        let wide = t.cast(x, dtype.compute());
        let power = match e {
            -1.0 => t.map(P::Recip, &[wide]),
            0.5 => root(t, wide),
            2.0 => t.map(P::Mul, &[wide, wide]),
            3.0 => {
                let square = t.map(P::Mul, &[wide, wide]);
                t.map(P::Mul, &[square, wide])
            }
            4.0 => {
                let square = t.map(P::Mul, &[wide, wide]);
                t.map(P::Mul, &[square, square])
            }
            _ => {
                let e = beside(t, wide, Scalar::Float(e));
                t.map(P::Pow, &[wide, e])
            }
        };
        t.cast(power, dtype)
    })
}

/// x to the power of one half: a square root, but (−0) gives +0 and −∞ gives +∞.
fn root(t: &mut Tape, x: Node) -> Node {
    let root = t.map(P::Sqrt, &[x]);
    let root = map_fixed(t, P::Add, root, 0.0);
    let below = map_fixed(t, P::Eq, x, f64::NEG_INFINITY);
    let infinity = fixed(t, x, f64::INFINITY);
    t.map(P::Select, &[below, infinity, root])
}

/// Floats to the power of integers, in a float type wide enough for both.
pub fn float_ints(op: &'static str, x: KilnTensor, exponent: KilnTensor) -> KilnTensor {
    checks::same_device(op, &x, &exponent);
    checks::broadcast(op, &x, &exponent);
    let dtype = x.kiln_dtype();
    record(op, &x.device(), [&x, &exponent], x.dtype(), |t, [x, e]| {
        let (x, e) = (t.cast(x, dtype.compute()), t.cast(e, dtype.compute()));
        let power = t.map(P::Pow, &[x, e]);
        t.cast(power, dtype)
    })
}

/// Integers to the power of a number.
pub fn int_scalar(op: &'static str, x: KilnTensor, exponent: Scalar) -> KilnTensor {
    let e = as_i128(exponent).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    if e == 1 {
        return x;
    }
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| match e {
        0 => fixed(t, x, 1.0),
        2 => t.map(P::Mul, &[x, x]),
        3 => {
            let square = t.map(P::Mul, &[x, x]);
            t.map(P::Mul, &[square, x])
        }
        _ => {
            let e = beside(t, x, Scalar::Int(e));
            t.map(P::Pow, &[x, e])
        }
    })
}
