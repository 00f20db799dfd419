//! Conversions between any two element types, each with one rounding.

use crate::dtype::{Class, DType};
use crate::op::round;

/// The nearest `to` of a number; from float to integer the truncated number, saturated, and 0 for NaN; from integer to
/// integer the low bits; to bool whether it differs from zero.
pub fn cast(from: DType, to: DType, bits: u64) -> u64 {
    match (from.class(), to.class()) {
        _ if from == to => bits,
        (Class::Float, Class::Float) => from_f64(to, to_f64(from, bits)),
        (Class::Float, Class::Bool) => u64::from(to_f64(from, bits) != 0.0),
        (_, Class::Bool) => u64::from(bits != 0),
        (Class::Float, Class::Signed) => {
            let top = (to.mask() >> 1) as i64;
            (to_f64(from, bits) as i64).clamp(-top - 1, top) as u64 & to.mask()
        }
        (Class::Float, _) => (to_f64(from, bits) as u64).min(to.mask()),
        (_, Class::Float) => from_int(to, from.sign_extend(bits), from.is_signed()),
        _ => from.sign_extend(bits) as u64 & to.mask(),
    }
}

/// Exact.
fn to_f64(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        _ => f64::from(round::widen(dtype, bits)),
    }
}

fn from_f64(dtype: DType, x: f64) -> u64 {
    match dtype {
        DType::F64 if x.is_nan() => 0x7ff8_0000_0000_0000,
        DType::F32 if x.is_nan() => 0x7fc0_0000,
        DType::F64 => x.to_bits(),
        DType::F32 => (x as f32).to_bits().into(),
        _ => round::narrow(dtype, x),
    }
}

fn from_int(dtype: DType, x: i64, signed: bool) -> u64 {
    match (dtype, signed) {
        (DType::F64, true) => (x as f64).to_bits(),
        (DType::F64, false) => (x as u64 as f64).to_bits(),
        (DType::F32, true) => (x as f32).to_bits().into(),
        (DType::F32, false) => (x as u64 as f32).to_bits().into(),
        (_, true) => round::narrow(dtype, round::odd(x.unsigned_abs(), x < 0)),
        (_, false) => round::narrow(dtype, round::odd(x as u64, false)),
    }
}
