//! Functions that a few native rows make up exactly.

use super::{Expander, Term};

/// −1, 0 or 1; NaN and both zeros give 0.
pub fn sign(e: &mut dyn Expander, args: &[Term]) -> Term {
    let x = args[0];
    let dtype = e.dtype(x);
    let constant = |e: &mut dyn Expander, value: i64| {
        if dtype.is_float() { e.float(x, value as f64) } else { e.int(dtype, value) }
    };
    let (zero, one) = (constant(e, 0), constant(e, 1));
    let positive = e.gt(x, zero);
    if !dtype.is_float() && !dtype.is_signed() {
        return e.select(positive, one, zero);
    }
    let minus = constant(e, -1);
    let negative = e.lt(x, zero);
    let below = e.select(negative, minus, zero);
    e.select(positive, one, below)
}

/// `1 / x`, correctly rounded.
pub fn recip(e: &mut dyn Expander, args: &[Term]) -> Term {
    let one = e.float(args[0], 1.0);
    e.div(one, args[0])
}

/// Whether `x` is no number: whether it differs from itself.
pub fn is_nan(e: &mut dyn Expander, args: &[Term]) -> Term {
    e.ne(args[0], args[0])
}

/// Whether `x` is infinite.
pub fn is_inf(e: &mut dyn Expander, args: &[Term]) -> Term {
    let magnitude = e.abs(args[0]);
    let infinity = e.float(args[0], f64::INFINITY);
    e.eq(magnitude, infinity)
}
