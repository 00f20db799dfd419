//! The 16-bit floats as numbers: exact widening, and narrowing with one rounding to nearest even.  Written on integers,
//! so that it means the same on every processor.

use crate::dtype::DType;

/// Canonical quiet NaN of a 16-bit format with `mantissa` stored bits.
const fn nan(mantissa: u32) -> u64 {
    0x7fff & !((1 << (mantissa - 1)) - 1)
}

/// Stored mantissa bits of a 16-bit float.
fn mantissa(dtype: DType) -> u32 {
    if dtype == DType::F16 { 10 } else { 7 }
}

/// The number that the bits of an `f16`, `bf16` or `f32` stand for; exact.
pub fn widen(dtype: DType, bits: u64) -> f32 {
    match dtype {
        DType::F16 => half::f16::from_bits(bits as u16).to_f32(),
        DType::Bf16 => f32::from_bits((bits as u32) << 16),
        _ => f32::from_bits(bits as u32),
    }
}

/// The nearest `f16` or `bf16`, ties to even; a NaN becomes the canonical one.
pub fn narrow(dtype: DType, x: f64) -> u64 {
    let m = mantissa(dtype);
    let exponent_bits = 15 - m;
    let bias = (1i64 << (exponent_bits - 1)) - 1;
    let bits = x.to_bits();
    let sign = bits >> 63 << 15;
    if x.is_nan() {
        return nan(m);
    }
    let infinity = ((1u64 << exponent_bits) - 1) << m;
    let exponent = (bits >> 52 & 0x7ff) as i64 - 1023 + bias;
    if x.is_infinite() || exponent >= (1 << exponent_bits) - 1 {
        return sign | infinity;
    }
    // The f64 significand with its hidden bit; an f64 subnormal is far below every half of a smallest subnormal.
    let significand = bits & ((1 << 52) - 1) | u64::from(bits >> 52 & 0x7ff != 0) << 52;
    // Below the normal range the exponent stays and the significand shifts on.
    let shift = 52 - m as i64 + (1 - exponent).max(0);
    if shift > 54 {
        return sign;
    }
    let kept = significand >> shift;
    let rest = significand & ((1 << shift) - 1);
    let half = 1u64 << (shift - 1);
    let up = rest > half || rest == half && kept & 1 == 1;
    // The hidden bit adds one to the exponent field, and so does a carry out of the significand.
    let base = ((exponent - 1).max(0) as u64) << m;
    sign | (base + kept + u64::from(up))
}

/// The f64 that rounds to every narrower format as the integer itself would: inexact results have an odd significand.
pub fn odd(magnitude: u64, negative: bool) -> f64 {
    let excess = 11u32.saturating_sub(magnitude.leading_zeros());
    let sticky = u64::from(magnitude & ((1 << excess) - 1) != 0);
    let kept = (magnitude >> excess | sticky) << excess;
    let x = kept as f64;
    if negative { -x } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_widening_and_narrowing() {
        for dtype in [DType::F16, DType::Bf16] {
            for bits in 0..=0xffff {
                let x = widen(dtype, bits);
                let back = narrow(dtype, f64::from(x));
                assert!(back == bits || x.is_nan() && widen(dtype, back).is_nan(), "{dtype} {bits:#x} {back:#x}");
            }
        }
    }

    #[test]
    fn halfway_between_neighbours_goes_to_even_and_a_little_more_goes_up() {
        for dtype in [DType::F16, DType::Bf16] {
            let infinity = if dtype == DType::F16 { 0x7c00 } else { 0x7f80 };
            for bits in 0..infinity - 1 {
                let (a, b) = (f64::from(widen(dtype, bits)), f64::from(widen(dtype, bits + 1)));
                let middle = (a + b) / 2.0;
                let next = |x: f64, by: i64| f64::from_bits((x.to_bits() as i64 + by) as u64);
                assert_eq!(narrow(dtype, middle), bits + (bits & 1), "{dtype} {bits:#x}");
                assert_eq!(narrow(dtype, next(middle, 1)), bits + 1);
                assert_eq!(narrow(dtype, next(middle, -1)), bits);
                assert_eq!(narrow(dtype, -middle), 0x8000 | (bits + (bits & 1)));
            }
        }
        assert_eq!(narrow(DType::F16, 65519.99), 0x7bff);
        assert_eq!(narrow(DType::F16, 65520.0), 0x7c00);
    }

    #[test]
    fn large_integers_round_once() {
        // 2^61 + 2^52 is halfway between two bf16 numbers, one more is above.
        let x = (1u64 << 61) + (1 << 53);
        assert_eq!(narrow(DType::Bf16, odd(x, false)) + 1, narrow(DType::Bf16, odd(x + 1, false)));
        assert_eq!(odd(u64::MAX, true) as i128, -((1i128 << 64) - (1 << 11)));
    }
}
