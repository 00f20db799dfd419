//! The exponential function and what is made of it directly.
//!
//! `e^x = 2^n · e^r` with `n = round(x / ln 2)` and `|r| ≤ ln 2 / 2`; `e^r` is a minimax polynomial, computed with
//! Sollya's `fpminimax`, which finds coefficients that are exact in the format.  So are the others in this folder, but
//! for one of erf's.

use super::bits::{by_type, format, from_bits, to_bits};
use super::pair::fast_two_sum;
use super::{Expander, Term};

/// `(e^r − 1 − r) / r²` on ±ln 2 / 2, relative error of `e^r` 2^−28.2.
pub(super) const EXP_32: &[f64] = &[0.0013823552, 0.008368824, 0.041668236, 0.1666652, 0.49999994];
/// The same for f64, 2^−57.9.
pub(super) const EXP_64: &[f64] = &[
    2.5003225322679648e-08,
    2.7630537163848767e-07,
    2.755757700396035e-06,
    2.4801492265489312e-05,
    0.00019841269516385736,
    0.0013888888944473428,
    0.008333333333490232,
    0.041666666666526686,
    0.1666666666666642,
    0.5000000000000011,
];

/// ln 2 in two parts, the first short enough that its products with integers below 2^9 (2^12) are exact.
pub(super) const LN2_32: [f64; 2] = [0.693145751953125, 1.428606765330187e-06];
pub(super) const LN2_64: [f64; 2] = [0.6931471805601177, -1.7239444525614835e-13];

/// An argument taken apart: `x = n · ln 2 + r`.
pub(super) struct Split {
    /// `n` plus twice the exponent's bias in the low bits of a float near 1.5 · 2^mantissa.
    pub power: Term,
    /// The rest, at most ln 2 / 2.
    pub rest: Term,
}

/// Takes `x + tail` apart; `|x|` is below 2^12.
pub(super) fn split(e: &mut dyn Expander, x: Term, tail: Option<Term>) -> Split {
    let [high, low] = by_type(e, x, LN2_32, LN2_64);
    let f = format(e, x);
    let magic = f.magic + 2.0 * f.bias as f64;
    let (magic, log2_e) = (e.float(x, magic), e.float(x, std::f64::consts::LOG2_E));
    let power = e.fma(x, log2_e, magic);
    let n = e.sub(power, magic);
    let (high, low) = (e.float(x, -high), e.float(x, -low));
    let rest = e.fma(n, high, x);
    let rest = match tail {
        None => e.fma(n, low, rest),
        Some(tail) => {
            let low = e.fma(n, low, tail);
            e.add(rest, low)
        }
    };
    Split { power, rest }
}

/// `e^r − 1` for `|r| ≤ ln 2 / 2`.
pub(super) fn exp_minus_one(e: &mut dyn Expander, r: Term) -> Term {
    let coefficients = by_type(e, r, EXP_32, EXP_64);
    let q = e.horner(r, coefficients);
    let square = e.mul(r, r);
    e.fma(q, square, r)
}

/// `e^r − 1` as a pair.
fn exp_minus_one_pair(e: &mut dyn Expander, r: Term) -> (Term, Term) {
    let coefficients = by_type(e, r, EXP_32, EXP_64);
    let q = e.horner(r, coefficients);
    let square = e.mul(r, r);
    let bend = e.mul(q, square);
    fast_two_sum(e, r, bend)
}

/// `2^(n + shift)` for a result in the normal range.
pub(super) fn two_to(e: &mut dyn Expander, power: Term, shift: i64) -> Term {
    let f = format(e, power);
    let bits = to_bits(e, power);
    let mantissa = e.int(f.bits, f.mantissa);
    // The bits of 1.5 · 2^mantissa itself leave at the top.
    let field = e.shl(bits, mantissa);
    let bias = e.int(f.bits, (shift - f.bias) << f.mantissa);
    let field = e.add(field, bias);
    from_bits(e, field)
}

/// `○(1 + p) · 2^n` rounded once, for `n` from twice the smallest to twice the largest exponent: half of `n` at a time.
fn scale(e: &mut dyn Expander, p: Term, power: Term) -> Term {
    let f = format(e, power);
    let bits = to_bits(e, power);
    // `n` plus both biases in the place of an exponent; half of that, rounded down; and what is left.
    let (mantissa, less) = (e.int(f.bits, f.mantissa), e.int(f.bits, f.mantissa - 1));
    let both = e.shl(bits, mantissa);
    let halved = e.shl(bits, less);
    let whole = e.int(f.bits, -1 << f.mantissa);
    let first = e.and(halved, whole);
    let second = e.sub(both, first);
    let (first, second) = (from_bits(e, first), from_bits(e, second));
    let y = e.fma(p, first, first);
    e.mul(y, second)
}

/// `e^(x + tail)` for any `x`; the tail is far below `x`.
pub(super) fn exp_with_tail(e: &mut dyn Expander, x: Term, tail: Option<Term>) -> Term {
    let s = split(e, x, tail);
    let p = exp_minus_one(e, s.rest);
    scale(e, p, s.power)
}

/// Bounds beyond which `e^x` is 0 or infinite; [`exp`] itself goes on to [`NOTHING`].
pub(super) const LIMITS_32: [f64; 2] = [-104.0, 89.0];
pub(super) const LIMITS_64: [f64; 2] = [-746.0, 710.0];

/// Where `n` is −254 (−2046), and both factors that [`scale`] takes `2^n` apart into are 0.
const NOTHING: [f64; 2] = [-176.1, -1418.2];

/// `e^x`.
///
/// What −∞ becomes is a product of zeros: one that underflows takes a processor some 150 cycles, and a masked row of
/// attention is full of −∞.
///
/// Measured: 1.013 ulp in f32, 0.98 in f64.
pub fn exp(e: &mut dyn Expander, args: &[Term]) -> Term {
    let (low, high) = by_type(e, args[0], (NOTHING[0], LIMITS_32[1]), (NOTHING[1], LIMITS_64[1]));
    let x = e.at_least(args[0], low);
    let x = e.at_most(x, high);
    exp_with_tail(e, x, None)
}

/// What the results of [`exp_below`] are computed larger by: `2^n` stays in the normal range.
const ABOVE: [i64; 2] = [64, 512];

/// Where `2^(n + ABOVE)` has no bits left, and everything is 0.
const BELOW: [f64; 2] = [-132.4, -1064.0];

/// `e^−|x|`, the bits that [`exp`] has for `−|x|`: nothing overflows, so that one factor is enough on the way down.
///
/// Measured: 1.013 ulp in f32, 0.98 in f64.
pub fn exp_below(e: &mut dyn Expander, args: &[Term]) -> Term {
    let magnitude = e.abs(args[0]);
    let x = e.neg(magnitude);
    let (low, above) = by_type(e, x, (BELOW[0], ABOVE[0]), (BELOW[1], ABOVE[1]));
    let x = e.at_least(x, low);
    let s = split(e, x, None);
    let p = exp_minus_one(e, s.rest);
    let power = two_to(e, s.power, above);
    let y = e.fma(p, power, power);
    let down = e.float(x, 2f64.powi(-above as i32));
    e.mul(y, down)
}

/// `e^x − 1 = 2·(2^(n−1)·(e^r − 1) + (2^(n−1) − ½))`, with `e^r − 1` as a pair.
///
/// Measured: 1.421 ulp in f32, 1.47 in f64.
pub fn expm1(e: &mut dyn Expander, args: &[Term]) -> Term {
    let x = args[0];
    // Below these the result is −1 and above them infinite.
    let [low, high] = by_type(e, x, [-18.0, LIMITS_32[1]], [-38.0, LIMITS_64[1]]);
    let clamped = e.at_least(x, low);
    let clamped = e.at_most(clamped, high);
    let s = split(e, clamped, None);
    let (p, lost) = exp_minus_one_pair(e, s.rest);
    let half_power = two_to(e, s.power, -1);
    let half = e.float(x, 0.5);
    let rest = e.sub(half_power, half);
    let sum = e.fma(half_power, p, rest);
    let sum = e.fma(half_power, lost, sum);
    let result = e.add(sum, sum);
    // Halving would round denormals and lose the sign of a zero.
    let tiny = by_type(e, x, 2f64.powi(-25), 2f64.powi(-54));
    let tiny = e.float(x, tiny);
    let magnitude = e.abs(x);
    let linear = e.lt(magnitude, tiny);
    e.select(linear, x, result)
}

/// `1 / (1 + e^−x)`, the denominator small enough by `2^−shift` for every `x`.
///
/// With `w = 2^n` and `p = e^r − 1` the denominator is `(1 + w) + p·w`.  What the sum in brackets lacks joins the product,
/// which is smaller: nothing but where `w` has no room for a 1.
///
/// Measured: 1.668 ulp in f32, 1.63 in f64.
pub fn sigmoid(e: &mut dyn Expander, args: &[Term]) -> Term {
    let x = args[0];
    // Above the first the result is 1 and below the second 0.
    let ([high, low], shift) = by_type(e, x, ([18.0, -104.0], 64), ([38.0, -746.0], 512));
    let clamped = e.at_most(x, high);
    let clamped = e.at_least(clamped, low);
    let negative = e.neg(clamped);
    let s = split(e, negative, None);
    let p = exp_minus_one(e, s.rest);
    let power = two_to(e, s.power, -shift);
    let small = e.float(x, 2f64.powi(-shift as i32));
    let sum = e.add(power, small);
    let lost = e.sub(power, sum);
    let lost = e.add(lost, small);
    let rest = e.fma(p, power, lost);
    let below = e.add(sum, rest);
    let one = e.float(x, 1.0);
    let quotient = e.div(one, below);
    e.mul(quotient, small)
}
