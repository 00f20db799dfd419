//! Pointwise methods: each is one row, or a few with the same meaning.  Knows no reductions and no views.

use std::cmp::Ordering;

use burn_backend::{BoolDType, Scalar};
use kiln_lowering::DType;
use kiln_lowering::graph::Node;
use kiln_lowering::op::Pointwise as P;

use super::checks;
use super::dims::dims;
use super::scalars::{as_f64, as_i128, is_limit, range, saturated};
use crate::record::{Tape, record};
use crate::{KilnTensor, to_kiln};

/// One row over one tensor.
pub fn unary(op: &'static str, row: P, x: KilnTensor) -> KilnTensor {
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| t.map(row, &[x]))
}

/// One row over two tensors.
pub fn binary(op: &'static str, row: P, a: KilnTensor, b: KilnTensor) -> KilnTensor {
    checks::pair(op, &a, &b);
    record(op, &a.device(), [&a, &b], a.dtype(), |t, [a, b]| t.map(row, &[a, b]))
}

/// One row over a tensor and a number that may be another at the next run.
pub fn with_scalar(op: &'static str, row: P, x: KilnTensor, s: Scalar) -> KilnTensor {
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let s = beside(t, x, s);
        t.map(row, &[x, s])
    })
}

/// A run-time number in the type and shape of `x`.
pub fn beside(t: &mut Tape, x: Node, s: Scalar) -> Node {
    let (dtype, dims) = (t.dtype(x), t.dims(x).clone());
    t.scalar(dtype, s, &dims)
}

/// A number to compare with, or to fill in where a mask holds.  One that [limits](is_limit) its type is of the program's
/// text, by which composites are known; another one is bound at run time.
pub fn bound(t: &mut Tape, x: Node, s: Scalar) -> Node {
    if is_limit(t.dtype(x), s) { fixed(t, x, as_f64(s)) } else { beside(t, x, s) }
}

/// A number of the program's text in the type and shape of `x`.
pub fn fixed(t: &mut Tape, x: Node, value: f64) -> Node {
    let (dtype, dims) = (t.dtype(x), t.dims(x).clone());
    t.literal(dtype, value, &dims)
}

/// `row(x, value)` for a number of the program's text.
pub fn map_fixed(t: &mut Tape, row: P, x: Node, value: f64) -> Node {
    let value = fixed(t, x, value);
    t.map(row, &[x, value])
}

/// `row(x, value)` for a number bound at run time.
pub fn map_scalar(t: &mut Tape, row: P, x: Node, value: f64) -> Node {
    let value = beside(t, x, Scalar::Float(value));
    t.map(row, &[x, value])
}

/// A comparison of two tensors.
pub fn compare(op: &'static str, row: P, a: KilnTensor, b: KilnTensor, out: BoolDType) -> KilnTensor {
    checks::pair(op, &a, &b);
    record(op, &a.device(), [&a, &b], out.into(), |t, [a, b]| t.map(row, &[a, b]))
}

/// A comparison with a number.  One that an integer type cannot hold is above or below every element.
pub fn compare_elem(op: &'static str, row: P, x: KilnTensor, s: Scalar, out: BoolDType) -> KilnTensor {
    let dtype = x.kiln_dtype();
    record(op, &x.device(), [&x], out.into(), |t, [x]| {
        let outside = if dtype.is_int() { side(dtype, s) } else { Ordering::Equal };
        if outside != Ordering::Equal {
            let holds = match row {
                P::Ne => true,
                P::Lt | P::Le => outside == Ordering::Greater,
                P::Gt | P::Ge => outside == Ordering::Less,
                _ => false,
            };
            let dims = t.dims(x).clone();
            return t.literal(DType::Bool, f64::from(u8::from(holds)), &dims);
        }
        let s = bound(t, x, s);
        t.map(row, &[x, s])
    })
}

/// On which side of an integer type's range a number lies, `Equal` meaning inside.
fn side(dtype: DType, s: Scalar) -> Ordering {
    let (least, most) = range(dtype);
    match as_i128(s) {
        s if s < least => Ordering::Less,
        s if s > most => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// A test of one float tensor.
pub fn test(op: &'static str, row: P, x: KilnTensor, out: BoolDType) -> KilnTensor {
    record(op, &x.device(), [&x], out.into(), |t, [x]| t.map(row, &[x]))
}

/// The same numbers in another type.
pub fn cast(op: &'static str, x: KilnTensor, out: burn_backend::DType) -> KilnTensor {
    if x.dtype() == out {
        return x;
    }
    record(op, &x.device(), [&x], out, |t, [x]| t.cast(x, to_kiln(out)))
}

/// `max(min(x, high), low)`, either bound absent.  NaN stays NaN.
pub fn clamp(op: &'static str, x: KilnTensor, low: Option<Scalar>, high: Option<Scalar>) -> KilnTensor {
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let mut y = x;
        for (row, bound) in [(P::Min, high), (P::Max, low)] {
            if let Some(bound) = bound {
                let bound = beside(t, y, saturated(t.dtype(y), bound));
                y = t.map(row, &[y, bound]);
            }
        }
        y
    })
}

/// Shifts by a number, taken modulo the width.
pub fn shift(op: &'static str, row: P, x: KilnTensor, count: Scalar) -> KilnTensor {
    let bits = i128::from(x.kiln_dtype().bits());
    with_scalar(op, row, x, Scalar::Int((as_i128(count) & (bits - 1)) as i64))
}

/// Boolean tensor against a truth value.
pub fn equals_truth(op: &'static str, row: P, x: KilnTensor, s: Scalar) -> KilnTensor {
    let d = dims(&x);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let s = t.literal(DType::Bool, f64::from(u8::from(s.elem::<bool>())), &d);
        t.map(row, &[x, s])
    })
}
