//! Logarithms: `x = 2^k · (1 + f)` with `1 + f` from 2/3 to 4/3, and `log x = k · ln 2 + log(1 + f)`.

use super::bits::{by_type, format, from_bits, to_bits, to_float};
use super::exponential::{LN2_32, LN2_64};
use super::pair::{fast_two_sum, two_sum};
use super::{Expander, Term};
use crate::dtype::DType;

/// `(log(1 + f) − f) / f²` on ±1/3, relative error of the logarithm 2^−27.6.
const LOG_32: &[f64] =
    &[-0.12832235, 0.14002587, -0.121986285, 0.14001654, -0.16679384, 0.20010713, -0.24999824, 0.3333321, -0.5];
/// `(log((1 + s) / (1 − s)) − 2s) / s³` in `s²` for `|s| ≤ 1/5`, relative error of the logarithm 2^−62.6.
const LOG_64: &[f64] = &[
    0.13839098893892576,
    0.1317416661770491,
    0.15391079432053692,
    0.1818166681659099,
    0.22222224282150774,
    0.2857142855593508,
    0.4000000000005638,
    0.666666666666666,
];

/// `x = 2^k · m`, with `m` from some origin to twice that.
pub(super) struct Split {
    /// `k` as a float.
    pub k: Term,
    /// `k` in the place of an exponent.
    pub field: Term,
    /// The bits of `x`.
    pub bits: Term,
}

/// Takes a positive normal `x` apart, `m` starting at `origin`; `k` comes out smaller by `offset`.
pub(super) fn split(e: &mut dyn Expander, x: Term, origin: f64, offset: Option<Term>) -> Split {
    let f = format(e, x);
    let bits = to_bits(e, x);
    let origin = e.int(f.bits, f.pattern(origin));
    let above = e.sub(bits, origin);
    let mask = e.int(f.bits, f.exponent_mask() | 1 << (f.width - 1));
    let field = e.and(above, mask);
    let mantissa = e.int(f.bits, f.mantissa);
    let k = if f.bits == DType::U32 {
        let (signed, mantissa) = (e.bitcast(above, DType::I32), e.bitcast(mantissa, DType::I32));
        let k = e.shr(signed, mantissa);
        e.cast(k, DType::F32)
    } else {
        // Few targets convert 64-bit integers in one instruction.
        let bias = e.int(f.bits, f.bias << f.mantissa);
        let biased = e.add(above, bias);
        let biased = e.shr(biased, mantissa);
        to_float(e, biased, -f.bias as f64)
    };
    let k = match offset {
        None => k,
        Some(offset) => e.sub(k, offset),
    };
    Split { k, field, bits }
}

/// The low part of `log(1 + f) = f + low`.
fn low_part(e: &mut dyn Expander, f: Term) -> Term {
    let square = e.mul(f, f);
    if by_type(e, f, true, false) {
        let p = e.horner(f, LOG_32);
        return e.mul(p, square);
    }
    // With s = f / (2 + f): log(1 + f) = f − (f²/2 − s·(f²/2 + R(s²))), as in FreeBSD's e_log.c.
    let (two, half) = (e.float(f, 2.0), e.float(f, 0.5));
    let sum = e.add(f, two);
    let s = e.div(f, sum);
    let w = e.mul(s, s);
    let p = e.horner(w, LOG_64);
    let half_square = e.mul(square, half);
    let inner = e.fma(w, p, half_square);
    let negative = e.neg(half_square);
    e.fma(s, inner, negative)
}

/// `k · ln 2 + log(1 + f + tail)`.
fn finish(e: &mut dyn Expander, k: Term, f: Term, tail: Option<Term>) -> Term {
    let [high, low] = by_type(e, f, LN2_32, LN2_64);
    let (high, low) = (e.float(f, high), e.float(f, low));
    let mut small = low_part(e, f);
    if let Some(tail) = tail {
        // tail / (1 + f), nearly.
        let negative = e.neg(f);
        let tail = e.fma(negative, tail, tail);
        small = e.add(small, tail);
    }
    let small = e.fma(k, low, small);
    let whole = e.mul(k, high);
    let (sum, lost) = fast_two_sum(e, whole, f);
    let lost = e.add(lost, small);
    e.add(sum, lost)
}

/// `result` for numbers from 0 to infinity, the right special values elsewhere; `pole` is where the logarithm of `x` ends.
fn outside(e: &mut dyn Expander, x: Term, pole: f64, result: Term) -> Term {
    let (end, infinity) = (e.float(x, pole), e.float(x, f64::INFINITY));
    let (low, nan) = (e.float(x, f64::NEG_INFINITY), e.float(x, f64::NAN));
    // Infinity and NaN are their own logarithms.
    let finite = e.lt(x, infinity);
    let result = e.select(finite, result, x);
    let below = e.lt(x, end);
    let result = e.select(below, nan, result);
    let at = e.eq(x, end);
    e.select(at, low, result)
}

/// The natural logarithm.
///
/// Measured: 0.937 ulp in f32, 0.81 in f64.
pub fn log(e: &mut dyn Expander, args: &[Term]) -> Term {
    let x = args[0];
    let fmt = format(e, x);
    // A denormal is made normal first.
    let bits = (fmt.mantissa + 1) as i32;
    let (smallest, factor) = (e.float(x, fmt.smallest), e.float(x, 2f64.powi(bits)));
    let (shift, zero) = (e.float(x, f64::from(bits)), e.float(x, 0.0));
    let denormal = e.lt(x, smallest);
    let scaled = e.mul(x, factor);
    let normal = e.select(denormal, scaled, x);
    let offset = e.select(denormal, shift, zero);
    let s = split(e, normal, 2.0 / 3.0, Some(offset));
    let mantissa = e.sub(s.bits, s.field);
    let mantissa = from_bits(e, mantissa);
    let one = e.float(x, 1.0);
    let f = e.sub(mantissa, one);
    let result = finish(e, s.k, f, None);
    outside(e, x, 0.0, result)
}

/// `log(high + low)` for a pair of at least 1, `extra` times ln 2 added.
pub(super) fn log_pair(e: &mut dyn Expander, x: (Term, Term), extra: Option<Term>) -> Term {
    let s = split(e, x.0, 2.0 / 3.0, extra);
    let scale = inverse_power(e, &s);
    let one = e.float(x.0, -1.0);
    let f = e.fma(x.0, scale, one);
    let tail = e.mul(x.1, scale);
    finish(e, s.k, f, Some(tail))
}

/// `log(1 + high + low)` for a pair above −1, `offset` times ln 2 subtracted.
pub(super) fn log1p_pair(e: &mut dyn Expander, x: (Term, Option<Term>), offset: Option<Term>) -> Term {
    let one = e.float(x.0, 1.0);
    let sum = e.add(x.0, one);
    let s = split(e, sum, 2.0 / 3.0, offset);
    let scale = inverse_power(e, &s);
    // f = 2^−k · x + (2^−k − 1), where both terms are exact or the second is all but −1.
    let first = e.mul(x.0, scale);
    let second = e.sub(scale, one);
    let (f, mut tail) = two_sum(e, second, first);
    if let Some(low) = x.1 {
        tail = e.fma(low, scale, tail);
    }
    finish(e, s.k, f, Some(tail))
}

/// `2^−k`, by way of `4 · 2^−k`, which stays normal for the largest `k`.
fn inverse_power(e: &mut dyn Expander, s: &Split) -> Term {
    let dtype = e.dtype(s.bits);
    let four = format(e, s.k).pattern(4.0);
    let four = e.int(dtype, four);
    let bits = e.sub(four, s.field);
    let fourfold = from_bits(e, bits);
    let quarter = e.float(s.k, 0.25);
    e.mul(fourfold, quarter)
}

/// `log(1 + x)`.
///
/// Measured: 0.939 ulp in f32, 0.81 in f64.
pub fn log1p(e: &mut dyn Expander, args: &[Term]) -> Term {
    let x = args[0];
    let result = log1p_pair(e, (x, None), None);
    // Only the sign of a zero can be wrong.
    let signed = super::bits::copy_sign(e, result, x);
    outside(e, x, -1.0, signed)
}
