//! `√(x² + y²)`, without overflow on the way.

use super::{Expander, Term};
use crate::DType;

/// Beyond these powers of two a square leaves f64's range.
const FAR: i32 = 500;

/// What brings such operands back, or sends their root there.
const SHIFT: i32 = 600;

/// `√(x² + y²)`; infinite if either operand is, whatever the other.
///
/// f32: 0.5 ulp, in f64, which has room for the squares.  f64: 1 ulp, plus the last rounding of a denormal result.
pub fn hypot(e: &mut dyn Expander, args: &[Term]) -> Term {
    let dtype = e.dtype(args[0]);
    let [x, y] = [args[0], args[1]].map(|a| e.abs(a));
    let infinity = e.float(x, f64::INFINITY);
    let (left, right) = (e.eq(x, infinity), e.eq(y, infinity));
    let infinite = e.or(left, right);
    let root = match dtype {
        DType::F64 => scaled(e, x, y),
        _ => {
            let (x, y) = (e.cast(x, DType::F64), e.cast(y, DType::F64));
            let root = root_of_squares(e, x, y);
            e.cast(root, dtype)
        }
    };
    e.select(infinite, infinity, root)
}

fn root_of_squares(e: &mut dyn Expander, x: Term, y: Term) -> Term {
    let square = e.mul(y, y);
    let sum = e.fma(x, x, square);
    e.sqrt(sum)
}

/// Both operands times a power of two, the root divided by it.
fn scaled(e: &mut dyn Expander, x: Term, y: Term) -> Term {
    let power = |e: &mut dyn Expander, exponent: i32| e.float(x, 2f64.powi(exponent));
    let (large, small, one) = (power(e, FAR), power(e, -FAR), power(e, 0));
    let (up, down) = (power(e, SHIFT), power(e, -SHIFT));
    let (x_large, y_large) = (e.gt(x, large), e.gt(y, large));
    let (x_small, y_small) = (e.lt(x, small), e.lt(y, small));
    let (large, small) = (e.or(x_large, y_large), e.and(x_small, y_small));
    let factor = e.select(small, up, one);
    let factor = e.select(large, down, factor);
    let back = e.select(small, down, one);
    let back = e.select(large, up, back);
    let (x, y) = (e.mul(x, factor), e.mul(y, factor));
    let root = root_of_squares(e, x, y);
    e.mul(root, back)
}
