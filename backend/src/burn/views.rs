//! Operations that move no numbers: every result is a view of its operand.

use burn_backend::{Shape, Slice};
use kiln_lowering::graph::{Dims, Graph, Node, PadDim, SliceDim, WindowDim};
use smallvec::SmallVec;

use super::checks::{self, fail};
use super::dims::{dims, extents, with};
use crate::KilnTensor;
use crate::record::record;

/// The same elements in row-major order under another shape.
pub fn reshape(op: &'static str, x: KilnTensor, shape: Shape) -> KilnTensor {
    checks::reshape(op, &x, &shape);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| t.reshape(x, &extents(&shape)))
}

/// Axis `i` of the result is axis `axes[i]` of the tensor.
pub fn permute(op: &'static str, x: KilnTensor, axes: &[usize]) -> KilnTensor {
    checks::permutation(op, &x, axes);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| t.permute(x, axes))
}

/// Two axes exchanged.
pub fn swap(op: &'static str, x: KilnTensor, a: usize, b: usize) -> KilnTensor {
    checks::axis(op, &x, a);
    checks::axis(op, &x, b);
    let mut axes: SmallVec<[usize; 6]> = (0..x.shape().num_dims()).collect();
    axes.swap(a, b);
    permute(op, x, &axes)
}

/// The last two axes exchanged.
pub fn transpose(op: &'static str, x: KilnTensor) -> KilnTensor {
    let rank = x.shape().num_dims();
    if rank < 2 {
        fail(op, "A transposed tensor has at least 2 dimensions.", &format!("Got shape {:?}.", x.shape()));
    }
    swap(op, x, rank - 2, rank - 1)
}

/// Axes reversed.
pub fn flip(op: &'static str, x: KilnTensor, axes: &[usize]) -> KilnTensor {
    checks::axes(op, &x, axes);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| t.flip(x, axes))
}

/// Axes of extent 1, and missing leading ones, repeated.
pub fn expand(op: &'static str, x: KilnTensor, shape: Shape) -> KilnTensor {
    checks::expand(op, &x, &shape);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| t.expand(x, &extents(&shape)))
}

/// One axis tiled.
pub fn repeat(op: &'static str, x: KilnTensor, dim: usize, times: usize) -> KilnTensor {
    checks::axis(op, &x, dim);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let d = t.dims(x).clone();
        let (mut split, mut tiled) = (d.clone(), d.clone());
        split.insert(dim, 1);
        tiled.insert(dim, times as u64);
        let x = t.reshape(x, &split);
        let x = t.expand(x, &tiled);
        t.reshape(x, &with(&d, dim, d[dim] * times as u64))
    })
}

/// Every `step`-th element of a range per axis; a negative step walks down from the range's end.
pub fn slice(op: &'static str, x: KilnTensor, slices: &[Slice]) -> KilnTensor {
    checks::slices(op, &x, slices);
    let ranges = ranges(&dims(&x), slices);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| t.slice(x, &ranges))
}

/// Burn's slices in the graph's terms, full ranges for the axes that are not named.
pub fn ranges(dims: &[u64], slices: &[Slice]) -> SmallVec<[SliceDim; 6]> {
    let full = Slice::full();
    let one = |(i, &n): (usize, &u64)| {
        let slice = slices.get(i).unwrap_or(&full);
        let range = slice.to_range(n as usize);
        let len = slice.output_size(n as usize) as u64;
        let start = if slice.step < 0 && len > 0 { range.end - 1 } else { range.start };
        SliceDim { start: if len == 0 { 0 } else { start as u64 }, len, step: slice.step as i64 }
    };
    dims.iter().enumerate().map(one).collect()
}

/// All complete windows of an axis; the windows become a new last axis.
pub fn unfold(op: &'static str, x: KilnTensor, dim: usize, size: usize, step: usize) -> KilnTensor {
    checks::axis(op, &x, dim);
    if size == 0 || step == 0 {
        fail(op, "The size and step of the windows are positive.", &format!("Got size {size}, step {step}."));
    }
    let (n, size, step) = (dims(&x)[dim], size as u64, step as u64);
    let count = if n < size { 0 } else { (n - size) / step + 1 };
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        t.window(x, &[WindowDim { axis: dim as u8, count, size, step, dilation: 1 }])
    })
}

/// How an axis is laid out anew: elements spread apart, and new ones added (or, where negative, old ones dropped) at
/// either end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Margin {
    /// Before the first.
    pub low: i64,
    /// After the last.
    pub high: i64,
    /// Between neighbours.
    pub interior: u64,
}

/// Pads, then crops.
pub fn pad_or_crop(t: &mut Graph, x: Node, margins: &[Margin], fill: u64) -> Node {
    let pads: SmallVec<[PadDim; 6]> = margins
        .iter()
        .map(|m| PadDim { low: m.low.max(0) as u64, high: m.high.max(0) as u64, interior: m.interior })
        .collect();
    let x = t.pad(x, &pads, fill);
    let kept: SmallVec<[SliceDim; 6]> = t
        .dims(x)
        .iter()
        .zip(margins)
        .map(|(&n, m)| {
            let (front, back) = ((-m.low).max(0) as u64, (-m.high).max(0) as u64);
            SliceDim { start: front, len: n - front - back, step: 1 }
        })
        .collect();
    t.slice(x, &kept)
}

/// Each element of the named axes repeated `times` in a row, without moving any.
pub fn upsample(t: &mut Graph, x: Node, axes: &[(usize, u64)]) -> Node {
    let mut x = x;
    for &(axis, times) in axes {
        if times == 1 {
            continue;
        }
        let d = t.dims(x).clone();
        let (mut split, mut repeated): (Dims, Dims) = (d.clone(), d.clone());
        split.insert(axis + 1, 1);
        repeated.insert(axis + 1, times);
        x = t.reshape(x, &split);
        x = t.expand(x, &repeated);
        x = t.reshape(x, &with(&d, axis, d[axis] * times));
    }
    x
}
