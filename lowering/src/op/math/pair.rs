//! Unevaluated sums of two floats, for the steps that need more than the format's own precision.
//!
//! Dekker's and Knuth's error-free transformations; a pair `(high, low)` stands for `high + low`.

use super::{Expander, Term};

/// `x + y` exactly, for `|x| ≥ |y|` or `x = 0`.
pub(super) fn fast_two_sum(e: &mut dyn Expander, x: Term, y: Term) -> (Term, Term) {
    let sum = e.add(x, y);
    let kept = e.sub(sum, x);
    let lost = e.sub(y, kept);
    (sum, lost)
}

/// `x + y` exactly.
pub(super) fn two_sum(e: &mut dyn Expander, x: Term, y: Term) -> (Term, Term) {
    let sum = e.add(x, y);
    let of_y = e.sub(sum, x);
    let of_x = e.sub(sum, of_y);
    let lost_y = e.sub(y, of_y);
    let lost_x = e.sub(x, of_x);
    let lost = e.add(lost_x, lost_y);
    (sum, lost)
}

/// `x · y` exactly.
pub(super) fn two_product(e: &mut dyn Expander, x: Term, y: Term) -> (Term, Term) {
    let product = e.mul(x, y);
    let negative = e.neg(product);
    let lost = e.fma(x, y, negative);
    (product, lost)
}

/// `x / y` for pairs, from one division; the quotient of the high parts and a correction to it.
pub(super) fn divide(e: &mut dyn Expander, x: (Term, Term), y: (Term, Term)) -> (Term, Term) {
    let one = e.float(y.0, 1.0);
    let reciprocal = e.div(one, y.0);
    let quotient = e.mul(x.0, reciprocal);
    let negative = e.neg(quotient);
    let rest = e.fma(negative, y.0, x.0);
    let rest = e.add(rest, x.1);
    let rest = e.fma(negative, y.1, rest);
    let correction = e.mul(rest, reciprocal);
    (quotient, correction)
}

/// `√x` for a pair, `x ≥ 0`; the root of the high part and a correction to it.
pub(super) fn square_root(e: &mut dyn Expander, x: (Term, Term), smallest: f64) -> (Term, Term) {
    let root = e.sqrt(x.0);
    let negative = e.neg(root);
    let rest = e.fma(negative, root, x.0);
    let rest = e.add(rest, x.1);
    // 2·√x, kept from zero so that a zero yields 0 / tiny and not 0 / 0.
    let two = e.float(root, 2.0);
    let tiny = e.float(root, smallest);
    let twice = e.fma(two, root, tiny);
    let correction = e.div(rest, twice);
    (root, correction)
}

/// `x·z·P(z)` with `z = x²`: what an odd function adds to its argument.
pub(super) fn odd_rest(e: &mut dyn Expander, x: Term, coefficients: &[f64]) -> Term {
    let z = e.mul(x, x);
    let p = e.horner(z, coefficients);
    let cube = e.mul(x, z);
    e.mul(p, cube)
}

/// `x + x·z·P(z)` with `z = x²`: an odd function whose series begins with `x`.
pub(super) fn odd(e: &mut dyn Expander, x: Term, coefficients: &[f64]) -> Term {
    let z = e.mul(x, x);
    let p = e.horner(z, coefficients);
    let cube = e.mul(x, z);
    e.fma(p, cube, x)
}
