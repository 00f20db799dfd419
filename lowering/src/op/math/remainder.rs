//! The remainder with the divisor's sign: exact, whatever the magnitudes.

use super::bits::{flip_sign, from_bits, sign_bit, to_bits};
use super::{Expander, Term};
use crate::dtype::DType;

/// `x − y·⌊x / y⌋`; modulo zero an integer gives 0, a float NaN.
pub fn remainder(e: &mut dyn Expander, args: &[Term]) -> Term {
    let (x, y) = (args[0], args[1]);
    match e.dtype(x) {
        DType::F32 => narrow(e, x, y),
        DType::F64 => wide(e, x, y),
        _ => integer(e, x, y),
    }
}

fn integer(e: &mut dyn Expander, x: Term, y: Term) -> Term {
    let dtype = e.dtype(x);
    let zero = e.int(dtype, 0);
    let quotient = e.div(x, y);
    let product = e.mul(quotient, y);
    let mut rest = e.sub(x, product);
    if dtype.is_signed() {
        let signs = e.xor(rest, y);
        let differ = e.lt(signs, zero);
        let some = e.ne(rest, zero);
        let wrong = e.and(differ, some);
        let moved = e.add(rest, y);
        rest = e.select(wrong, moved, rest);
    }
    let by_zero = e.eq(y, zero);
    e.select(by_zero, zero, rest)
}

/// Subtracts multiples of `y`, `2^48·y`, `2^96·y`, … from `x` in f64.  Each quotient is off by at most ¾, so that what
/// is left is at most ¾ of the multiple; being a multiple of the smaller unit, it fits 24 bits, and the fused
/// multiply-add gives it exactly.
fn narrow(e: &mut dyn Expander, x: Term, y: Term) -> Term {
    let (x, y) = (e.cast(x, DType::F64), e.cast(y, DType::F64));
    let one = e.float(x, 1.0);
    let inverse = e.div(one, y);
    let mut rest = x;
    // Exponents of f32 differ by at most 277, and the sixth step reaches to 240 + 48.
    for step in (0..6).rev() {
        let (up, down) = (e.float(x, -(2f64.powi(48 * step))), e.float(x, 2f64.powi(-48 * step)));
        let (multiple, inverse) = (e.mul(y, up), e.mul(inverse, down));
        let quotient = e.mul(rest, inverse);
        let quotient = e.round(quotient);
        rest = e.fma(quotient, multiple, rest);
    }
    let result = with_sign_of_divisor(e, x, y, rest);
    e.cast(result, DType::F32)
}

/// From a rest of either sign to the one of the divisor's sign; a zero has the sign of `x`.
fn with_sign_of_divisor(e: &mut dyn Expander, x: Term, y: Term, rest: Term) -> Term {
    let (width, height) = (e.abs(x), e.abs(y));
    // Also where y is infinite.
    let small = e.lt(width, height);
    let rest = e.select(small, x, rest);
    let zero = e.float(x, 0.0);
    let signed_zero = e.mul(x, zero);
    let none = e.eq(rest, zero);
    let moved = e.add(rest, y);
    let (rest_below, y_below) = (e.lt(rest, zero), e.lt(y, zero));
    let wrong = e.xor(rest_below, y_below);
    let result = e.select(wrong, moved, rest);
    e.select(none, signed_zero, result)
}

/// A positive number as a mantissa from 1 to 2 and a biased exponent, which for denormals is below 1.
fn take_apart(e: &mut dyn Expander, x: Term) -> (Term, Term) {
    let (smallest, factor) = (e.float(x, f64::MIN_POSITIVE), e.float(x, 2f64.powi(54)));
    let denormal = e.lt(x, smallest);
    let scaled = e.mul(x, factor);
    let normal = e.select(denormal, scaled, x);
    let bits = to_bits(e, normal);
    let int = |e: &mut dyn Expander, value: i64| e.int(DType::U64, value);
    let (count, mask, one) = (int(e, 52), int(e, (1 << 52) - 1), int(e, 1.0f64.to_bits() as i64));
    let exponent = e.shr(bits, count);
    let (shift, zero) = (int(e, 54), int(e, 0));
    let shift = e.select(denormal, shift, zero);
    let exponent = e.sub(exponent, shift);
    let mantissa = e.and(bits, mask);
    let mantissa = e.or(mantissa, one);
    (from_bits(e, mantissa), exponent)
}

/// `2^(exponent − 1023)` for a biased exponent in the normal range.
fn power(e: &mut dyn Expander, exponent: Term) -> Term {
    let count = e.int(DType::U64, 52);
    let field = e.shl(exponent, count);
    from_bits(e, field)
}

/// Long division of the mantissas, 50 bits of quotient a step; exact for the reason given at [`narrow`].
fn wide(e: &mut dyn Expander, x: Term, y: Term) -> Term {
    let (width, height) = (e.abs(x), e.abs(y));
    let (x_mantissa, x_exponent) = take_apart(e, width);
    let (y_mantissa, y_exponent) = take_apart(e, height);
    let int = |e: &mut dyn Expander, value: i64| e.int(DType::U64, value);
    // ⌊d / 50⌋ for d below 2098; where d is negative, x is the result.
    let distance = e.sub(x_exponent, y_exponent);
    let (factor, count, fifty, bias) = (int(e, 1311), int(e, 16), int(e, 50), int(e, 1023));
    let steps = e.mul(distance, factor);
    let steps = e.shr(steps, count);
    let covered = e.mul(steps, fifty);
    let first = e.sub(distance, covered);
    let first = e.add(first, bias);
    let first = power(e, first);
    let one = e.float(x, 1.0);
    let inverse = e.div(one, y_mantissa);
    let divisor = e.neg(y_mantissa);
    let start = e.mul(x_mantissa, first);
    let quotient = e.mul(start, inverse);
    let quotient = e.round(quotient);
    let mut rest = e.fma(quotient, divisor, start);
    let shift = e.float(x, 2f64.powi(50));
    let inverse = e.mul(inverse, shift);
    for step in 0..41 {
        let quotient = e.mul(rest, inverse);
        let quotient = e.round(quotient);
        let shifted = e.mul(rest, shift);
        let next = e.fma(quotient, divisor, shifted);
        let index = int(e, step);
        let taken = e.gt(steps, index);
        rest = e.select(taken, next, rest);
    }
    // Back to the unit of y, in two factors as for a result that may be denormal.
    let one_bit = int(e, 1);
    let both = e.add(y_exponent, bias);
    let half = e.shr(both, one_bit);
    let other = e.sub(both, half);
    let (half, other) = (power(e, half), power(e, other));
    let rest = e.mul(rest, half);
    let rest = e.mul(rest, other);
    let sign = sign_bit(e, x);
    let rest = flip_sign(e, rest, sign);
    let result = with_sign_of_divisor(e, x, y, rest);
    let (zero, infinity, nan) = (e.float(x, 0.0), e.float(x, f64::INFINITY), e.float(x, f64::NAN));
    let finite = e.lt(width, infinity);
    let divisible = e.gt(height, zero);
    let defined = e.and(finite, divisible);
    e.select(defined, result, nan)
}
