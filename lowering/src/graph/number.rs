//! Elements as bit patterns, and as the wide numbers they stand for.  Knows no tensors.
//!
//! A pattern sits in the low bits of a `u64`; the bits above the element's width are zero.

use crate::dtype::{Class, DType};

/// The bits that an element of this type occupies.
pub const fn mask(dtype: DType) -> u64 {
    u64::MAX >> (64 - dtype.bits())
}

/// Stored bits of precision and exponent of a float type.
const fn format(dtype: DType) -> (u32, u32) {
    match dtype {
        DType::F16 => (10, 5),
        DType::Bf16 => (7, 8),
        DType::F32 => (23, 8),
        _ => (52, 11),
    }
}

/// The bits of precision of a float type, the leading one included.
pub const fn precision(dtype: DType) -> u32 {
    format(dtype).0 + 1
}

/// The exponent of the least normal number of a float type.
pub const fn least_exponent(dtype: DType) -> i32 {
    2 - (1 << (format(dtype).1 - 1))
}

/// The number that a pattern stands for; integers are rounded to the nearest f64.
pub fn to_f64(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        DType::F16 | DType::Bf16 => widen(dtype, bits),
        _ => to_int(dtype, bits) as f64,
    }
}

/// The integer or truth value that a pattern stands for; floats are truncated towards zero and saturate.
pub fn to_int(dtype: DType, bits: u64) -> i128 {
    match dtype.class() {
        Class::Signed => {
            let unused = 64 - dtype.bits();
            i128::from(((bits << unused) as i64) >> unused)
        }
        Class::Unsigned => i128::from(bits & mask(dtype)),
        Class::Bool => i128::from(bits != 0),
        Class::Float => to_f64(dtype, bits) as i128,
    }
}

/// The pattern of a number in a float type, rounded once, to nearest, ties to even.
pub fn from_f64(dtype: DType, x: f64) -> u64 {
    match dtype {
        DType::F64 => x.to_bits(),
        DType::F32 => u64::from((x as f32).to_bits()),
        DType::F16 | DType::Bf16 => narrow(dtype, x),
        _ => saturate(dtype, x),
    }
}

/// The pattern of an integer: wrapped in an integer type, rounded once in a float type.
pub fn from_int(dtype: DType, x: i128) -> u64 {
    match dtype.class() {
        Class::Bool => u64::from(x != 0),
        Class::Signed | Class::Unsigned => x as u64 & mask(dtype),
        Class::Float => match dtype {
            DType::F64 => (x as f64).to_bits(),
            DType::F32 => u64::from((x as f32).to_bits()),
            // Rounded to odd first: what f64 drops stays visible as a last bit, so that the second rounding is right.
            _ => {
                let near = x as f64;
                let excess = (near as i128).wrapping_sub(x);
                let odd = match excess {
                    0 => near,
                    _ if near.to_bits() & 1 == 1 => near,
                    e if (e > 0) == (near > 0.0) => f64::from_bits(near.to_bits() - 1),
                    _ => f64::from_bits(near.to_bits() + 1),
                };
                narrow(dtype, odd)
            }
        },
    }
}

/// Float to integer: truncated towards zero, saturated, 0 for NaN.
fn saturate(dtype: DType, x: f64) -> u64 {
    if dtype == DType::Bool {
        return u64::from(x != 0.0);
    }
    let width = dtype.bits();
    let (low, high) = match dtype.is_signed() {
        true => (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1),
        false => (0, (1i128 << width) - 1),
    };
    from_int(dtype, (x as i128).clamp(low, high))
}

/// The pattern in another type of the number that `bits` stands for: the row `cast`.
pub fn convert(from: DType, bits: u64, to: DType) -> u64 {
    if from == to {
        bits
    } else if from.is_float() {
        from_f64(to, to_f64(from, bits))
    } else {
        from_int(to, to_int(from, bits))
    }
}

fn widen(dtype: DType, bits: u64) -> f64 {
    let (stored, exponents) = format(dtype);
    let negative = bits >> (stored + exponents) & 1 == 1;
    let exponent = (bits >> stored & ((1 << exponents) - 1)) as i32;
    let fraction = bits & ((1 << stored) - 1);
    let magnitude = if exponent == (1 << exponents) - 1 {
        if fraction == 0 { f64::INFINITY } else { f64::NAN }
    } else {
        let (significand, power) = match exponent {
            0 => (fraction, least_exponent(dtype)),
            e => (fraction | 1 << stored, e - 1 + least_exponent(dtype)),
        };
        significand as f64 * f64::from(power - stored as i32).exp2()
    };
    if negative { -magnitude } else { magnitude }
}

fn narrow(dtype: DType, x: f64) -> u64 {
    let (stored, exponents) = format(dtype);
    let sign = u64::from(x.is_sign_negative()) << (stored + exponents);
    let infinity = ((1u64 << exponents) - 1) << stored;
    let x = x.abs();
    if x.is_nan() {
        return sign | infinity | 1 << (stored - 1);
    }
    // In units of the last place at this magnitude, so that rounding to an integer is the rounding wanted.  Scaling by
    // a power of two is exact: what could underflow is far below half of the least subnormal.
    let exponent = ((x.to_bits() >> 52) as i32 - 1023).max(least_exponent(dtype));
    let units = x * f64::from(stored as i32 - exponent).exp2();
    if !units.is_finite() {
        return sign | infinity;
    }
    // The significand's leading one adds 1 to the exponent field, as does a carry out of rounding.
    let field = (exponent - least_exponent(dtype)) as u64;
    let pattern = (field << stored) + units.round_ties_even() as u64;
    sign | pattern.min(infinity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_the_16_bit_floats_round_trips() {
        for dtype in [DType::F16, DType::Bf16] {
            for bits in 0..=0xffffu64 {
                let x = to_f64(dtype, bits);
                if x.is_nan() {
                    assert!(to_f64(dtype, from_f64(dtype, x)).is_nan());
                } else {
                    assert_eq!(from_f64(dtype, x), bits, "{dtype} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn midpoints_go_to_the_even_neighbour_and_their_neighbours_do_not() {
        for dtype in [DType::F16, DType::Bf16] {
            let infinity = from_f64(dtype, f64::INFINITY);
            for bits in 0..infinity - 1 {
                let middle = (to_f64(dtype, bits) + to_f64(dtype, bits + 1)) / 2.0;
                assert_eq!(from_f64(dtype, middle), bits + (bits & 1), "{dtype} {bits:#x}");
                assert_eq!(from_f64(dtype, middle.next_down()), bits);
                assert_eq!(from_f64(dtype, middle.next_up()), bits + 1);
            }
        }
        assert_eq!(from_f64(DType::F16, 65519.999), 0x7bff);
        assert_eq!(from_f64(DType::F16, 65520.0), 0x7c00);
        assert_eq!(from_f64(DType::F16, f64::MIN_POSITIVE), 0);
        assert_eq!(from_f64(DType::Bf16, f64::MAX), 0x7f80);
    }

    #[test]
    fn integers_are_rounded_once() {
        // 2⁶² + 2⁵⁴ is a midpoint of bf16; one more is above it, which f64 alone would not see.
        let middle = (1i128 << 62) + (1 << 54);
        assert_eq!(from_int(DType::Bf16, middle), from_f64(DType::Bf16, (1u64 << 62) as f64));
        assert_eq!(from_int(DType::Bf16, middle + 1), from_int(DType::Bf16, 1 << 62) + 1);
        assert_eq!(from_int(DType::Bf16, -middle - 1), from_int(DType::Bf16, -(1 << 62)) + 1);
    }

    #[test]
    fn floats_saturate_and_integers_wrap() {
        assert_eq!(convert(DType::F32, u64::from(f32::NAN.to_bits()), DType::I32), 0);
        assert_eq!(convert(DType::F64, 1e300f64.to_bits(), DType::I8), 0x7f);
        assert_eq!(convert(DType::F64, (-1e300f64).to_bits(), DType::I64), 1 << 63);
        assert_eq!(convert(DType::F64, 1e300f64.to_bits(), DType::U64), u64::MAX);
        assert_eq!(convert(DType::F64, (-0.5f64).to_bits(), DType::U8), 0);
        assert_eq!(convert(DType::I32, 0x1ff, DType::U8), 0xff);
        assert_eq!(to_int(DType::I8, 0x80), -128);
        assert_eq!(convert(DType::F32, u64::from(f32::NAN.to_bits()), DType::Bool), 1);
    }
}
