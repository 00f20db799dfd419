//! Concatenation, padding and assignment to slices: results in which several tensors, or a tensor and a constant, lie
//! side by side.

use burn_backend::ops::PadMode;
use burn_backend::{Scalar, Slice};
use kiln_lowering::DType;
use kiln_lowering::graph::{Node, PadDim};
use kiln_lowering::op::Pointwise as P;
use smallvec::{SmallVec, smallvec};

use super::checks::{self, fail};
use super::dims::{dims, with};
use super::elementwise::beside;
use super::record_list;
use super::views::ranges;
use crate::KilnTensor;
use crate::dtype::float_bits;
use crate::record::{Tape, record};

/// Tensors one after the other along an axis.
pub fn cat(op: &'static str, parts: Vec<KilnTensor>, dim: usize) -> KilnTensor {
    let Some(first) = parts.first() else { fail(op, "The list of tensors to concatenate is empty.", "") };
    checks::axis(op, first, dim);
    for part in &parts {
        checks::same_device(op, first, part);
        checks::same_dtype(op, first, part);
        let (a, b) = (dims(first), dims(part));
        if a.len() != b.len() || with(&a, dim, 0) != with(&b, dim, 0) {
            let details = format!("First shape {:?}, other shape {:?}, dimension {dim}.", first.shape(), part.shape());
            fail(op, "Tensors to concatenate agree in every dimension but one.", &details);
        }
    }
    if parts.len() == 1 {
        return parts.into_iter().next().unwrap_or_else(|| unreachable!());
    }
    let inputs: SmallVec<[&KilnTensor; 8]> = parts.iter().collect();
    record_list(op, &first.device(), &inputs, first.dtype(), |t, nodes| concat(t, nodes, dim))
}

/// Joins along an axis: each part padded to the whole extent, and selected by the index.  The bounds are bound at run
/// time, so that other extents are the same program.
pub fn concat(t: &mut Tape, parts: &[Node], axis: usize) -> Node {
    let total: u64 = parts.iter().map(|&part| t.dims(part)[axis]).sum();
    let to = with(t.dims(parts[0]), axis, total);
    let mut start = 0;
    let mut joined: Option<Node> = None;
    for &part in parts {
        let n = t.dims(part)[axis];
        let mut pads: SmallVec<[PadDim; 6]> = smallvec![PadDim::default(); to.len()];
        pads[axis] = PadDim { low: start, high: total - start - n, interior: 0 };
        let padded = t.pad(part, &pads, 0);
        joined = Some(match joined {
            None => padded,
            Some(before) => {
                let index = t.iota(DType::I64, axis, &to);
                let bound = beside(t, index, Scalar::UInt(start));
                let is_before = t.map(P::Lt, &[index, bound]);
                t.map(P::Select, &[is_before, before, padded])
            }
        });
        start += n;
    }
    joined.unwrap_or(parts[0])
}

/// New elements around a tensor, one `(before, after)` pair per axis.
pub fn pad(op: &'static str, x: KilnTensor, padding: &[(usize, usize)], mode: PadMode) -> KilnTensor {
    let shape = x.shape();
    if padding.len() != shape.num_dims() {
        let details = format!("Got {} pairs for shape {shape:?}.", padding.len());
        fail(op, "Padding must have one pair per dimension.", &details);
    }
    for (dim, &(before, after)) in padding.iter().enumerate() {
        let details = || format!("Got ({before}, {after}) at dimension {dim} of shape {shape:?}.");
        match mode {
            PadMode::Reflect if before.max(after) > 0 && before.max(after) >= shape[dim] => {
                fail(op, "Reflect padding must be less than dimension size.", &details());
            }
            PadMode::Edge if before + after > 0 && shape[dim] == 0 => {
                fail(op, "Edge padding cannot be applied to an empty dimension.", &details());
            }
            _ => {}
        }
    }
    let dtype = x.kiln_dtype();
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| match mode {
        PadMode::Constant(value) => {
            let pads: SmallVec<[PadDim; 6]> =
                padding.iter().map(|&(low, high)| PadDim { low: low as u64, high: high as u64, interior: 0 }).collect();
            t.pad(x, &pads, float_bits(dtype, f64::from(value)))
        }
        PadMode::Reflect => padding.iter().enumerate().fold(x, |x, (dim, &pair)| reflect(t, x, dim, pair)),
        PadMode::Edge => padding.iter().enumerate().fold(x, |x, (dim, &pair)| edge(t, x, dim, pair)),
    })
}

/// Mirrors at both ends, the end itself not repeated.
fn reflect(t: &mut Tape, x: Node, dim: usize, (before, after): (usize, usize)) -> Node {
    let (before, after, n) = (before as u64, after as u64, t.dims(x)[dim]);
    let mut parts: SmallVec<[Node; 3]> = smallvec![];
    if before > 0 {
        let part = t.narrow(x, dim, 1, before);
        parts.push(t.flip(part, &[dim]));
    }
    parts.push(x);
    if after > 0 {
        let part = t.narrow(x, dim, n - 1 - after, after);
        parts.push(t.flip(part, &[dim]));
    }
    concat(t, &parts, dim)
}

/// Repeats the first and last elements.
fn edge(t: &mut Tape, x: Node, dim: usize, (before, after): (usize, usize)) -> Node {
    let d = t.dims(x).clone();
    let mut parts: SmallVec<[Node; 3]> = smallvec![];
    if before > 0 {
        let part = t.narrow(x, dim, 0, 1);
        parts.push(t.expand(part, &with(&d, dim, before as u64)));
    }
    parts.push(x);
    if after > 0 {
        let part = t.narrow(x, dim, d[dim] - 1, 1);
        parts.push(t.expand(part, &with(&d, dim, after as u64)));
    }
    concat(t, &parts, dim)
}

/// The tensor with the elements of the slices replaced: the values are padded to the whole shape, and a padded `true`
/// says where they hold.
pub fn slice_assign(op: &'static str, x: KilnTensor, slices: &[Slice], value: KilnTensor) -> KilnTensor {
    checks::slices(op, &x, slices);
    checks::same_device(op, &x, &value);
    checks::same_dtype(op, &x, &value);
    let d = dims(&x);
    let ranges = ranges(&d, slices);
    let wanted: SmallVec<[u64; 6]> = ranges.iter().map(|r| r.len).collect();
    if dims(&value) != wanted {
        let details = format!("The slices select {wanted:?}, the value tensor has shape {:?}.", value.shape());
        fail(op, "The value tensor must match the amount of elements selected with the slices array.", &details);
    }
    if wanted.contains(&0) {
        return x;
    }
    let backwards: SmallVec<[usize; 6]> = (0..d.len()).filter(|&i| ranges[i].step < 0).collect();
    let pads: SmallVec<[PadDim; 6]> = ranges
        .iter()
        .zip(&d)
        .map(|(r, &n)| {
            let (step, reach) = (r.step.unsigned_abs(), (r.len - 1) * r.step.unsigned_abs());
            let low = if r.step < 0 { r.start - reach } else { r.start };
            PadDim { low, high: n - low - reach - 1, interior: step - 1 }
        })
        .collect();
    record(op, &x.device(), [&x, &value], x.dtype(), |t, [x, value]| {
        let value = t.flip(value, &backwards);
        let there = t.literal(DType::Bool, 1.0, &wanted);
        let (value, there) = (t.pad(value, &pads, 0), t.pad(there, &pads, 0));
        t.map(P::Select, &[there, value, x])
    })
}
