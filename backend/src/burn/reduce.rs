//! Reductions along axes or over everything.  Knows no trees and no kernels: 16-bit floats accumulate in f32 by the
//! meaning of the row.

use burn_backend::{BoolDType, DType as BurnType, Scalar};
use kiln_lowering::DType;
use kiln_lowering::graph::{Node, Reduction};
use kiln_lowering::op::Pointwise as P;
use smallvec::smallvec;

use super::checks;
use super::dims::{dims, with};
use super::elementwise::{beside, map_fixed};
use crate::record::{Tape, record, record_many};
use crate::{KilnTensor, to_kiln};

/// Along one axis, which stays with extent 1.
pub fn along(op: &'static str, kind: Reduction, x: KilnTensor, dim: usize) -> KilnTensor {
    axes(op, kind, x, &[dim])
}

/// Along several axes, which stay with extent 1.
pub fn axes(op: &'static str, kind: Reduction, x: KilnTensor, axes: &[usize]) -> KilnTensor {
    checks::axes(op, &x, axes);
    needs_elements(op, kind, &x, axes);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let dtype = t.dtype(x);
        t.reduce(kind, x, axes, dtype)
    })
}

/// Over everything, to a tensor of one element.
pub fn whole(op: &'static str, kind: Reduction, x: KilnTensor) -> KilnTensor {
    let axes = all_axes(&x);
    needs_elements(op, kind, &x, &axes);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let dtype = t.dtype(x);
        let y = t.reduce(kind, x, &axes, dtype);
        t.reshape(y, &[1])
    })
}

fn needs_elements(op: &str, kind: Reduction, x: &KilnTensor, axes: &[usize]) {
    if matches!(kind, Reduction::Max | Reduction::Min | Reduction::ArgMax | Reduction::ArgMin) {
        checks::not_empty(op, x, axes);
    }
}

fn all_axes(x: &KilnTensor) -> Vec<usize> {
    (0..x.shape().num_dims()).collect()
}

/// The index of the first NaN, else of the first of the greatest or least.
pub fn arg(op: &'static str, kind: Reduction, x: KilnTensor, dim: usize, out: BurnType) -> KilnTensor {
    checks::axis(op, &x, dim);
    needs_elements(op, kind, &x, &[dim]);
    record(op, &x.device(), [&x], out, |t, [x]| t.reduce(kind, x, &[dim], to_kiln(out)))
}

/// The greatest or least along an axis, and where it is.
pub fn with_indices(
    op: &'static str,
    kind: Reduction,
    x: KilnTensor,
    dim: usize,
    out: BurnType,
) -> (KilnTensor, KilnTensor) {
    checks::axis(op, &x, dim);
    needs_elements(op, kind, &x, &[dim]);
    let arg = if kind == Reduction::Max { Reduction::ArgMax } else { Reduction::ArgMin };
    let dtype = x.dtype();
    let both = record_many(op, &x.device(), &[&x], |t, x| {
        let values = t.reduce(kind, x[0], &[dim], to_kiln(dtype));
        let indices = t.reduce(arg, x[0], &[dim], to_kiln(out));
        smallvec![(values, dtype), (indices, out)]
    });
    super::two(both)
}

/// The greatest magnitude, along one axis or over everything.
pub fn max_abs(op: &'static str, x: KilnTensor, dim: Option<usize>) -> KilnTensor {
    let x = super::elementwise::unary(op, P::Abs, x);
    match dim {
        Some(dim) => along(op, Reduction::Max, x, dim),
        None => whole(op, Reduction::Max, x),
    }
}

/// The mean along an axis, or over everything.  Floats: of nothing it is NaN.
pub fn mean(op: &'static str, x: KilnTensor, dim: Option<usize>) -> KilnTensor {
    if let Some(dim) = dim {
        checks::axis(op, &x, dim);
    }
    let axes = dim.map_or_else(|| all_axes(&x), |dim| vec![dim]);
    let dtype = x.kiln_dtype();
    if dtype.is_int() {
        checks::not_empty(op, &x, &axes);
    }
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        // Sums of narrow integers would wrap.
        let wide = if dtype.is_int() && dtype != DType::U64 { DType::I64 } else { dtype.compute() };
        let x = t.cast(x, wide);
        let mean = mean_node(t, x, &axes);
        let mean = t.cast(mean, dtype);
        if dim.is_some() { mean } else { t.reshape(mean, &[1]) }
    })
}

/// The sum over axes, divided by their extent; in the type of `x`, which is a wide one.
pub fn mean_node(t: &mut Tape, x: Node, axes: &[usize]) -> Node {
    let count: u64 = axes.iter().map(|&a| t.dims(x)[a]).product();
    let dtype = t.dtype(x);
    let sum = t.reduce(Reduction::Sum, x, axes, dtype);
    let count = beside(t, sum, Scalar::UInt(count));
    t.map(P::Div, &[sum, count])
}

/// Whether any or all elements differ from zero, along an axis or over everything.
pub fn truth(op: &'static str, kind: Reduction, x: KilnTensor, dim: Option<usize>, out: BoolDType) -> KilnTensor {
    if let Some(dim) = dim {
        checks::axis(op, &x, dim);
    }
    let axes = dim.map_or_else(|| all_axes(&x), |dim| vec![dim]);
    let to = dim.map_or_else(|| smallvec![1], |dim| with(&dims(&x), dim, 1));
    let is_bool = x.kiln_dtype() == DType::Bool;
    record(op, &x.device(), [&x], out.into(), |t, [x]| {
        let holds = if is_bool { x } else { map_fixed(t, P::Ne, x, 0.0) };
        let y = t.reduce(kind, holds, &axes, DType::Bool);
        t.reshape(y, &to)
    })
}
