//! Tensors out of nothing: constants and ranges, described rather than transferred.

use std::ops::Range;

use burn_backend::{DType as BurnType, Scalar, Shape};
use kiln_lowering::DType;
use kiln_lowering::op::Pointwise as P;

use super::checks::fail;
use super::dims::extents;
use super::elementwise::beside;
use crate::record::record;
use crate::{KilnDevice, KilnTensor, to_kiln};

/// Every element a number of the program's text.
pub fn fixed(op: &'static str, shape: &Shape, value: f64, device: &KilnDevice, dtype: BurnType) -> KilnTensor {
    record(op, device, [], dtype, |t, []| t.literal(to_kiln(dtype), value, &extents(shape)))
}

/// Every element a number that may be another at the next run.
pub fn full(op: &'static str, shape: &Shape, value: Scalar, device: &KilnDevice, dtype: BurnType) -> KilnTensor {
    record(op, device, [], dtype, |t, []| t.scalar(to_kiln(dtype), value, &extents(shape)))
}

/// `start, start + step, …` below `end`.
pub fn arange(op: &'static str, range: Range<i64>, step: usize, device: &KilnDevice, dtype: BurnType) -> KilnTensor {
    if step == 0 {
        fail(op, "The step must be positive.", "Got 0.");
    }
    let span = i128::from(range.end) - i128::from(range.start);
    let len = if span <= 0 { 0 } else { (span as u128).div_ceil(step as u128) as u64 };
    let element = to_kiln(dtype);
    record(op, device, [], dtype, |t, []| {
        let wide = if element.bytes() < 4 { DType::I64 } else { element };
        let mut index = t.iota(wide, 0, &[len]);
        if step != 1 {
            let step = beside(t, index, Scalar::UInt(step as u64));
            index = t.map(P::Mul, &[index, step]);
        }
        if range.start != 0 {
            let start = beside(t, index, Scalar::Int(range.start));
            index = t.map(P::Add, &[index, start]);
        }
        t.cast(index, element)
    })
}
