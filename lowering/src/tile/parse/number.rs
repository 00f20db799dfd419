//! Constants as text: a number of the element type, or its bit pattern in hexadecimal.

use crate::dtype::{Class, DType};
use crate::op::round;

/// The bit pattern that a word stands for.
pub fn bits(dtype: DType, word: &str) -> Option<u64> {
    if let Some(hex) = word.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    match dtype.class() {
        Class::Bool => match word {
            "true" => Some(1),
            "false" => Some(0),
            _ => None,
        },
        Class::Float => {
            let number = word.trim_start_matches('-');
            if number != "inf" && !number.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            match dtype {
                DType::F64 => word.parse().ok().map(f64::to_bits),
                DType::F32 => word.parse().ok().map(|x: f32| x.to_bits().into()),
                _ => word.parse().ok().map(|x| round::narrow(dtype, x)),
            }
        }
        signed => {
            let top = i128::from(dtype.mask());
            let (low, high) = if signed == Class::Signed { (-(top / 2) - 1, top / 2) } else { (0, top) };
            let x: i128 = word.parse().ok()?;
            (low..=high).contains(&x).then_some(x as u64 & dtype.mask())
        }
    }
}
