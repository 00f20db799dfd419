//! What is measured: a row on an element type, what it should give there, and what it may be off by.

use kiln_lowering::DType;
use kiln_lowering::graph::number;
use kiln_lowering::op::Pointwise;
use kiln_lowering::op::pointwise::Gives;

use crate::exact;
use crate::wide::{Wide, wide};

/// A row on an element type.
#[derive(Clone, Copy)]
pub struct Subject {
    /// The row.
    pub op: Pointwise,
    /// The element type.
    pub dtype: DType,
    wide: Wide,
}

/// What a result is worth.
pub struct Verdict {
    /// Distance to the true value in units in the last place; infinite where one of them is NaN or has another sign.
    pub error: f64,
    /// Whether it is the number nearest to the true value.
    pub nearest: bool,
}

impl Subject {
    /// The row on that type, if it maps one or two floats to a float of their type.
    pub fn of(op: Pointwise, dtype: DType) -> Option<Subject> {
        let row = op.row();
        let fits = dtype.is_float() && row.accepts(dtype) && row.gives == Gives::Same && row.arity <= 2;
        if fits { Some(Subject { op, dtype, wide: wide(op)? }) } else { None }
    }

    /// Every row that can be measured on a type.
    pub fn all(dtype: DType) -> impl Iterator<Item = Subject> {
        Pointwise::ALL.iter().filter_map(move |&op| Subject::of(op, dtype))
    }

    /// Whether each value takes as long as arithmetic of many digits does.
    pub fn is_slow(&self) -> bool {
        self.dtype == DType::F64 && self.op.row().ulp > 0
    }

    /// Largest error allowed, in units in the last place of the type.
    ///
    /// A row with no error rounds once.  16-bit floats are computed in f32 and then rounded, which adds the error in f32,
    /// a small part of their own unit.
    pub fn bound(&self) -> f64 {
        let ulp = f64::from(self.op.row().ulp);
        match self.dtype {
            DType::F16 | DType::Bf16 => {
                let narrower = number::precision(DType::F32) - number::precision(self.dtype);
                0.5 + (ulp + 0.5) * (-f64::from(narrower)).exp2()
            }
            _ if ulp == 0.0 => 0.5,
            _ => ulp,
        }
    }

    /// Judges a result, given as a bit pattern like its operands.
    #[inline]
    pub fn judge(&self, operands: [u64; 2], got: u64) -> Verdict {
        let numbers = operands.map(|bits| decode(self.dtype, bits));
        let numbers = &numbers[..self.op.row().arity];
        if self.is_slow()
            && let Some(wanted) = exact::exact(self.op, numbers)
        {
            let error = exact::error(f64::from_bits(got), &wanted);
            return Verdict { error, nearest: error <= 0.5 };
        }
        let wanted = (self.wide)(numbers);
        let value = decode(self.dtype, got);
        let nearest = got == encode(self.dtype, wanted) || value.is_nan() && wanted.is_nan();
        Verdict {
            error: if nearest && self.dtype == DType::F64 { 0.0 } else { error(self.dtype, value, wanted) },
            nearest,
        }
    }
}

/// [`number::to_f64`], with a way of its own for the type of which there are most.
#[inline]
fn decode(dtype: DType, bits: u64) -> f64 {
    if dtype == DType::F32 { f64::from(f32::from_bits(bits as u32)) } else { number::to_f64(dtype, bits) }
}

/// [`number::from_f64`], likewise.
#[inline]
fn encode(dtype: DType, x: f64) -> u64 {
    if dtype == DType::F32 { u64::from((x as f32).to_bits()) } else { number::from_f64(dtype, x) }
}

/// How far a result is from a number, in units in the last place of the number.
#[inline]
fn error(dtype: DType, got: f64, wanted: f64) -> f64 {
    let precision = number::precision(dtype) as i32;
    let least = number::least_exponent(dtype);
    let exponent = (wanted.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    if got.abs() < f64::INFINITY && exponent <= 1 - least && got.is_sign_negative() == wanted.is_sign_negative() {
        return (got - wanted).abs() * power_of_two(precision - 1 - exponent.max(least));
    }
    if got == wanted && got != 0.0 || got.is_nan() && wanted.is_nan() {
        return 0.0;
    }
    // Signs of zeros count.
    if got.is_nan() || wanted.is_nan() || got.is_sign_negative() != wanted.is_sign_negative() {
        return f64::INFINITY;
    }
    // An infinity stands where the next number after the greatest would.
    let next = power_of_two(2 - least);
    let place = |x: f64| x.abs().min(next);
    (place(got) - place(wanted)).abs() * power_of_two(precision - 2 + least)
}

/// `2^exponent`, in the normal range.
#[inline]
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(got: f32, wanted: f64) -> f64 {
        error(DType::F32, got.into(), wanted)
    }

    #[test]
    fn errors_are_in_units_of_the_type() {
        assert_eq!(f32s(1.0f32.next_up(), 1.0), 1.0);
        assert_eq!(f32s(f32::from_bits(3), f64::from(f32::from_bits(1))), 2.0);
        assert_eq!(f32s(0.0, 7e-46).round(), 0.0);
        assert_eq!(f32s(f32::INFINITY, f64::from(f32::MAX)), 1.0);
        assert_eq!(f32s(f32::INFINITY, 1e300), 0.0);
        assert_eq!(f32s(f32::MAX, 1e300), 1.0);
        assert_eq!(error(DType::F16, 1.0 + 1.0 / 1024.0, 1.0), 1.0);
        assert_eq!(error(DType::F16, 5.960464477539063e-8, 0.0), 1.0);
        assert_eq!(error(DType::F64, 1.0f64.next_up(), 1.0), 1.0);
        for (got, wanted) in [(-0.0, 0.0), (f32::NAN, 1.0), (1.0, f64::NAN), (-1e-45, 1e-45)] {
            assert!(f32s(got, wanted).is_infinite());
        }
    }

    #[test]
    fn a_wrong_result_is_seen() {
        let exp = Subject::of(Pointwise::Exp, DType::F32).expect("it is a function");
        let one = u64::from(1f32.to_bits());
        let verdict = exp.judge([one, one], u64::from(1f32.exp().next_up().next_up().next_up().to_bits()));
        assert!(verdict.error > exp.bound() && !verdict.nearest);
        let add = Subject::of(Pointwise::Add, DType::F32).expect("it is a function");
        assert!(add.judge([one, one], u64::from(2f32.next_up().to_bits())).error > add.bound());
    }
}
