//! Burn's scalars as numbers of the host.

use burn_backend::Scalar;
use half::{bf16, f16};
use kiln_lowering::DType;

/// As a float.
pub fn as_f64(s: Scalar) -> f64 {
    match s {
        Scalar::Float(x) => x,
        Scalar::Int(i) => i as f64,
        Scalar::UInt(u) => u as f64,
        Scalar::Bool(b) => f64::from(u8::from(b)),
    }
}

/// As an integer: floats truncate and saturate, NaN gives 0.
pub fn as_i128(s: Scalar) -> i128 {
    match s {
        Scalar::Float(x) => x as i128,
        Scalar::Int(i) => i.into(),
        Scalar::UInt(u) => u.into(),
        Scalar::Bool(b) => b.into(),
    }
}

/// The least and the greatest number of an integer type.
pub fn range(dtype: DType) -> (i128, i128) {
    let bits = dtype.bits();
    if dtype.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The nearest number that an integer type holds; other types as they are.
pub fn saturated(dtype: DType, s: Scalar) -> Scalar {
    if !dtype.is_int() {
        return s;
    }
    let (least, most) = range(dtype);
    let value = as_i128(s).clamp(least, most);
    if dtype.is_signed() { Scalar::Int(value as i64) } else { Scalar::UInt(value as u64) }
}

/// Whether a number is 0 or an end of what a float type holds: an infinity, its least and greatest finite number, the
/// least positive one with all its digits.  Masks and bounds are made of these.
pub fn is_limit(dtype: DType, s: Scalar) -> bool {
    let (most, least) = match dtype {
        DType::F64 => (f64::MAX, f64::MIN_POSITIVE),
        DType::F32 => (f32::MAX.into(), f32::MIN_POSITIVE.into()),
        DType::F16 => (f16::MAX.into(), f16::MIN_POSITIVE.into()),
        DType::Bf16 => (bf16::MAX.into(), bf16::MIN_POSITIVE.into()),
        _ => return false,
    };
    let x = as_f64(s);
    x == 0.0 || x.is_infinite() || x.abs() == most || x == least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_type() {
        for (dtype, x) in [(DType::Bf16, -3.3895313892515355e38), (DType::F16, 65504.0), (DType::F32, f32::MIN.into())]
        {
            assert!(is_limit(dtype, Scalar::Float(x)) && !is_limit(dtype, Scalar::Float(x / 2.0)), "{dtype}");
        }
        assert!([0.0, f64::NEG_INFINITY].iter().all(|&x| is_limit(DType::F16, Scalar::Float(x))));
        assert!(!is_limit(DType::I32, Scalar::Int(0)) && !is_limit(DType::F32, Scalar::Float(1.0)));
    }

    #[test]
    fn ranges_are_those_of_the_host() {
        assert_eq!(range(DType::I8), (-128, 127));
        assert_eq!(range(DType::U64), (0, u64::MAX.into()));
        assert_eq!(range(DType::I64), (i64::MIN.into(), i64::MAX.into()));
        assert_eq!(as_i128(Scalar::Float(f64::NAN)), 0);
        assert_eq!(as_i128(Scalar::Float(-2.9)), -2);
    }
}
