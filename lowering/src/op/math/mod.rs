//! Mathematical functions as expansions into native rows, so that every target returns the same bits.
//!
//! Straight-line and free of tables: a case distinction is a select.  Operands are f32 or f64 (narrower floats are
//! widened before), for `remainder`, `sign` and `pow` also integers.  Errors are quoted in units in the last
//! place: the largest that were found, for f32 with one operand among all numbers, else in samples of all magnitudes and
//! hard cases.  `cargo x ulp --full` measures them anew, on compiled kernels, and fails where one is beyond the bound in
//! the operation's row.

mod bits;
mod error_function;
pub mod evaluate;
mod exponential;
mod hyperbolic;
mod hypotenuse;
mod inverse;
mod inverse_hyperbolic;
mod logarithm;
mod near;
mod pair;
mod power;
mod reduction;
pub mod reference;
mod remainder;
mod simple;
mod small;
mod trigonometric;

pub use error_function::erf;
pub use exponential::{exp, exp_below, expm1, sigmoid};
pub use hyperbolic::{cosh, sinh, tanh};
pub use hypotenuse::hypot;
pub use inverse::{acos, asin, atan, atan2};
pub use inverse_hyperbolic::{acosh, asinh, atanh};
pub use logarithm::{log, log1p};
pub use power::pow;
pub use remainder::remainder;
pub use simple::{is_inf, is_nan, recip, sign};
pub use trigonometric::{cos, sin, tan};

use super::{Expander, Pointwise, Term};
use crate::dtype::DType;

/// An expansion into native rows.
pub type Expansion = fn(&mut dyn Expander, &[Term]) -> Term;

/// What a row becomes on f16 and bf16, widened to f32 and about to be rounded, where that is less than on f32.
pub fn on_small_floats(op: Pointwise, dtype: DType) -> Option<Expansion> {
    match (op, dtype) {
        (Pointwise::Sigmoid, DType::Bf16) => Some(near::sigmoid),
        (Pointwise::Sigmoid, _) => Some(small::sigmoid),
        (Pointwise::Erf, DType::F16) => Some(small::erf_f16),
        (Pointwise::Erf, DType::Bf16) => Some(small::erf_bf16),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
