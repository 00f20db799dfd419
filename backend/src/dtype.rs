//! Burn's element types and scalars as Kiln's.  The way bools are stored in Burn's data is not seen below here.

use burn_backend::{BoolStore, DType as BurnDType, Scalar};
use half::{bf16, f16};
use kiln_lowering::DType;

/// Kiln's type for a Burn type.
///
/// # Panics
///
/// For quantized types.
pub fn to_kiln(dtype: BurnDType) -> DType {
    match dtype {
        BurnDType::F64 => DType::F64,
        BurnDType::F32 | BurnDType::Flex32 => DType::F32,
        BurnDType::F16 => DType::F16,
        BurnDType::BF16 => DType::Bf16,
        BurnDType::I64 => DType::I64,
        BurnDType::I32 => DType::I32,
        BurnDType::I16 => DType::I16,
        BurnDType::I8 => DType::I8,
        BurnDType::U64 => DType::U64,
        BurnDType::U32 => DType::U32,
        BurnDType::U16 => DType::U16,
        BurnDType::U8 => DType::U8,
        BurnDType::Bool(_) => DType::Bool,
        BurnDType::QFloat(scheme) => panic!("Kiln has no quantized tensors yet, got {scheme:?}"),
    }
}

/// Burn's type for a Kiln type; bools are Burn's native ones.
pub fn from_kiln(dtype: DType) -> BurnDType {
    match dtype {
        DType::Bool => BurnDType::Bool(BoolStore::Native),
        DType::I8 => BurnDType::I8,
        DType::I16 => BurnDType::I16,
        DType::I32 => BurnDType::I32,
        DType::I64 => BurnDType::I64,
        DType::U8 => BurnDType::U8,
        DType::U16 => BurnDType::U16,
        DType::U32 => BurnDType::U32,
        DType::U64 => BurnDType::U64,
        DType::F16 => BurnDType::F16,
        DType::Bf16 => BurnDType::BF16,
        DType::F32 => BurnDType::F32,
        DType::F64 => BurnDType::F64,
    }
}

/// The bit pattern of a scalar in a type: integers wrap, floats round once, to nearest even; a float becomes an
/// integer by truncation, within the integer's range.
pub(crate) fn scalar_bits(dtype: DType, value: Scalar) -> u64 {
    match value {
        Scalar::Float(x) => float_bits(dtype, x),
        Scalar::Int(i) => int_bits(dtype, i as i128),
        Scalar::UInt(u) => int_bits(dtype, u as i128),
        Scalar::Bool(b) => int_bits(dtype, b as i128),
    }
}

/// The bit pattern of a number in a type.
pub(crate) fn float_bits(dtype: DType, x: f64) -> u64 {
    match dtype {
        DType::Bool => (x != 0.0) as u64,
        DType::I8 => x as i8 as u8 as u64,
        DType::I16 => x as i16 as u16 as u64,
        DType::I32 => x as i32 as u32 as u64,
        DType::I64 => x as i64 as u64,
        DType::U8 => x as u8 as u64,
        DType::U16 => x as u16 as u64,
        DType::U32 => x as u32 as u64,
        DType::U64 => x as u64,
        DType::F16 => f16::from_f32(narrow_odd(x)).to_bits() as u64,
        DType::Bf16 => bf16::from_f32(narrow_odd(x)).to_bits() as u64,
        DType::F32 => (x as f32).to_bits() as u64,
        DType::F64 => x.to_bits(),
    }
}

fn int_bits(dtype: DType, i: i128) -> u64 {
    match dtype {
        DType::Bool => (i != 0) as u64,
        DType::F32 => (i as f32).to_bits() as u64,
        DType::F64 => (i as f64).to_bits(),
        DType::F16 | DType::Bf16 => {
            // |i| < 2^65: f64 to odd, then narrower, rounds once.
            let near = i as f64;
            let exact = near as i128 == i;
            float_bits(dtype, to_odd(near, exact, (near.abs() as u128) < i.unsigned_abs()))
        }
        _ => i as u64 & (u64::MAX >> (64 - dtype.bits())),
    }
}

/// Rounds to odd: exact values stay, of the two neighbours of any other the one with an odd mantissa is taken.  A later
/// rounding to nearest, to a type at least two bits narrower, then gives what one rounding would have given
/// (Boldo and Melquiond, "When double rounding is odd", 2004).
fn to_odd(near: f64, exact: bool, magnitude_is_less: bool) -> f64 {
    let bits = near.to_bits();
    if exact || bits & 1 == 1 {
        return near;
    }
    f64::from_bits(if magnitude_is_less { bits + 1 } else { bits - 1 })
}

/// As [`to_odd`], from f64 to f32.
fn narrow_odd(x: f64) -> f32 {
    let near = x as f32;
    let bits = near.to_bits();
    if near.is_nan() || f64::from(near) == x || bits & 1 == 1 {
        return near;
    }
    f32::from_bits(if f64::from(near).abs() < x.abs() { bits + 1 } else { bits - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_round_trip() {
        for &dtype in DType::ALL {
            assert_eq!(to_kiln(from_kiln(dtype)), dtype);
        }
        assert_eq!(to_kiln(BurnDType::Bool(BoolStore::U32)), DType::Bool);
    }

    #[test]
    fn integers_are_exact_and_wrap() {
        let i = |dtype, value| scalar_bits(dtype, Scalar::Int(value));
        assert_eq!(i(DType::I64, i64::MIN + 1), (i64::MIN + 1) as u64);
        assert_eq!(i(DType::I8, -1), 0xff);
        assert_eq!(i(DType::U32, -1), 0xffff_ffff);
        assert_eq!(scalar_bits(DType::U64, Scalar::UInt(u64::MAX)), u64::MAX);
        assert_eq!(scalar_bits(DType::I32, Scalar::Float(-1e20)), i32::MIN as u32 as u64);
    }

    #[test]
    fn sixteen_bit_floats_round_once() {
        // 1 + 2^-11 is a tie in f16; a hair above it must go up, though f32 cannot see the hair.
        let hair = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(scalar_bits(DType::F16, Scalar::Float(hair)), 0x3c01);
        assert_eq!(scalar_bits(DType::F16, Scalar::Float(1.0 + 2f64.powi(-11))), 0x3c00);
        let hair = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
        assert_eq!(scalar_bits(DType::Bf16, Scalar::Float(hair)), 0x3f81);
        assert_eq!(scalar_bits(DType::Bf16, Scalar::Int((1 << 62) + (1 << 54) + 1)), 0x5e81);
        assert_eq!(scalar_bits(DType::Bf16, Scalar::Int((1 << 62) + (1 << 54))), 0x5e80);
        assert_eq!(scalar_bits(DType::F16, Scalar::Float(1e300)), 0x7c00);
        assert_eq!(scalar_bits(DType::F16, Scalar::Float(f64::NEG_INFINITY)), 0xfc00);
        assert!(f16::from_bits(scalar_bits(DType::F16, Scalar::Float(f64::NAN)) as u16).is_nan());
    }
}
