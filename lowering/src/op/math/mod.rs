//! Mathematical functions as expansions into native rows.  Placeholder bodies while the families are being written.

use super::{Expander, Term};

pub mod reference;

/// `remainder`
pub fn remainder(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `sign`
pub fn sign(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `recip`
pub fn recip(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `is_nan`
pub fn is_nan(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `is_inf`
pub fn is_inf(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `exp`
pub fn exp(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `expm1`
pub fn expm1(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `log`
pub fn log(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `log1p`
pub fn log1p(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `sin`
pub fn sin(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `cos`
pub fn cos(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `tan`
pub fn tan(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `sinh`
pub fn sinh(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `cosh`
pub fn cosh(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `tanh`
pub fn tanh(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `asin`
pub fn asin(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `acos`
pub fn acos(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `atan`
pub fn atan(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `asinh`
pub fn asinh(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `acosh`
pub fn acosh(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `atanh`
pub fn atanh(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `atan2`
pub fn atan2(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `pow`
pub fn pow(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `erf`
pub fn erf(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

/// `sigmoid`
pub fn sigmoid(_: &mut dyn Expander, args: &[Term]) -> Term {
    args[0]
}

