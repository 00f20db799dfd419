//! Floats seen as bit patterns: their sign, their exponent, and the constants that differ between f32 and f64.

use super::{Expander, Term};
use crate::dtype::DType;

/// What an expansion must know about a float format.
pub(super) struct Format {
    /// The unsigned integer of the same width.
    pub bits: DType,
    /// Width in bits.
    pub width: i64,
    /// Number of stored mantissa bits.
    pub mantissa: i64,
    /// Exponent bias.
    pub bias: i64,
    /// 1.5 · 2^mantissa: adding it rounds a small number to an integer, which then sits in the low bits.
    pub magic: f64,
    /// The smallest normal number.
    pub smallest: f64,
}

const NARROW: Format = Format {
    bits: DType::U32,
    width: 32,
    mantissa: 23,
    bias: 127,
    magic: 12_582_912.0,
    smallest: 1.175_494_350_822_287_5e-38,
};
const WIDE: Format = Format {
    bits: DType::U64,
    width: 64,
    mantissa: 52,
    bias: 1023,
    magic: 6_755_399_441_055_744.0,
    smallest: f64::MIN_POSITIVE,
};

impl Format {
    /// The bit pattern of a constant.
    pub fn pattern(&self, value: f64) -> i64 {
        if self.width == 64 { value.to_bits() as i64 } else { i64::from((value as f32).to_bits()) }
    }

    /// The exponent field, in place.
    pub fn exponent_mask(&self) -> i64 {
        (2 * self.bias + 1) << self.mantissa
    }
}

/// The format of `x`.
pub(super) fn format(e: &dyn Expander, x: Term) -> &'static Format {
    by_type(e, x, &NARROW, &WIDE)
}

/// Picks what belongs to the type of `x`, f32 or f64.
pub(super) fn by_type<T>(e: &dyn Expander, x: Term, narrow: T, wide: T) -> T {
    match e.dtype(x) {
        DType::F32 => narrow,
        DType::F64 => wide,
        other => panic!("mathematical functions are expanded on f32 and f64, not on {other}"),
    }
}

/// The bit pattern of a float.
pub(super) fn to_bits(e: &mut dyn Expander, x: Term) -> Term {
    let bits = format(e, x).bits;
    e.bitcast(x, bits)
}

/// The float of that bit pattern.
pub(super) fn from_bits(e: &mut dyn Expander, bits: Term) -> Term {
    let float = if e.dtype(bits) == DType::U32 { DType::F32 } else { DType::F64 };
    e.bitcast(bits, float)
}

/// The sign bit of `x`, in place, all other bits zero.
pub(super) fn sign_bit(e: &mut dyn Expander, x: Term) -> Term {
    let bits = to_bits(e, x);
    let dtype = e.dtype(bits);
    let mask = e.int(dtype, 1 << (dtype.bits() - 1));
    e.and(bits, mask)
}

/// `magnitude` with its sign flipped where the sign bit in `sign` is set.
pub(super) fn flip_sign(e: &mut dyn Expander, magnitude: Term, sign: Term) -> Term {
    let bits = to_bits(e, magnitude);
    let signed = e.xor(bits, sign);
    from_bits(e, signed)
}

/// `magnitude`, which is not negative, with the sign of `of`.
pub(super) fn copy_sign(e: &mut dyn Expander, magnitude: Term, of: Term) -> Term {
    let sign = sign_bit(e, of);
    let bits = to_bits(e, magnitude);
    let signed = e.or(bits, sign);
    from_bits(e, signed)
}

/// A small unsigned integer, below 2^mantissa, plus `offset`, as a float of its width: the integer becomes the
/// mantissa of 2^mantissa, which is then subtracted.  No target but AVX-512 converts 64-bit integers in one instruction.
pub(super) fn to_float(e: &mut dyn Expander, integer: Term, offset: f64) -> Term {
    let dtype = e.dtype(integer);
    let f = if dtype == DType::U32 { &NARROW } else { &WIDE };
    let base = 2f64.powi(f.mantissa as i32);
    let exponent = e.int(dtype, f.pattern(base));
    let biased = e.or(integer, exponent);
    let biased = from_bits(e, biased);
    let base = e.float(biased, base - offset);
    e.sub(biased, base)
}
