//! Reading and writing at indices that are data.  Whether an index is in range is checked where it is read.

use burn_backend::Scalar;
use burn_backend::tensor::IndexingUpdateOp;
use kiln_lowering::DType;
use kiln_lowering::graph::{Dims, Index, Node, Update};
use kiln_lowering::op::Pointwise as P;

use super::checks::{self, fail};
use super::dims::{dims, extents};
use super::elementwise::{beside, fixed};
use crate::KilnTensor;
use crate::record::{Tape, record};

/// Burn's update in the graph's terms.
pub fn update(op: IndexingUpdateOp) -> Update {
    match op {
        IndexingUpdateOp::Assign => Update::Assign,
        IndexingUpdateOp::Add => Update::Add,
        IndexingUpdateOp::Mul => Update::Mul,
        IndexingUpdateOp::Min => Update::Min,
        IndexingUpdateOp::Max => Update::Max,
    }
}

/// `out[.., i, ..] = x[.., indices[.., i, ..], ..]`.
pub fn gather(op: &'static str, dim: usize, x: KilnTensor, indices: KilnTensor) -> KilnTensor {
    checks::indices(op, &x, dim, &indices);
    record(op, &x.device(), [&x, &indices], x.dtype(), |t, [x, i]| t.gather(Index::Elements, x, dim, i))
}

/// Puts each value where its index says.
pub fn scatter(
    op: &'static str,
    dim: usize,
    x: KilnTensor,
    indices: KilnTensor,
    values: KilnTensor,
    update: Update,
) -> KilnTensor {
    checks::indices(op, &x, dim, &indices);
    checks::same_dtype(op, &x, &values);
    checks::same_device(op, &x, &values);
    if indices.shape() != values.shape() {
        let details = format!("The shape differs: {:?} != {:?}", indices.shape(), values.shape());
        fail(op, "Indices tensor shape should be the same as the value tensor shape.", &details);
    }
    record(op, &x.device(), [&x, &indices, &values], x.dtype(), |t, [x, i, v]| {
        t.scatter(Index::Elements, update, x, dim, i, v)
    })
}

/// Whole slices of an axis, in the order of the indices.
pub fn select(op: &'static str, x: KilnTensor, dim: usize, indices: KilnTensor) -> KilnTensor {
    checks::axis(op, &x, dim);
    checks::rank(op, "indices", &indices, 1);
    checks::same_device(op, &x, &indices);
    record(op, &x.device(), [&x, &indices], x.dtype(), |t, [x, i]| t.gather(Index::Positions, x, dim, i))
}

/// Puts whole slices of an axis where the indices say.
pub fn select_assign(
    op: &'static str,
    x: KilnTensor,
    dim: usize,
    indices: KilnTensor,
    values: KilnTensor,
    update: Update,
) -> KilnTensor {
    checks::axis(op, &x, dim);
    checks::rank(op, "indices", &indices, 1);
    checks::same_device(op, &x, &indices);
    checks::same_device(op, &x, &values);
    checks::same_dtype(op, &x, &values);
    checks::shape(op, "value", &values, &super::dims::with(&dims(&x), dim, dims(&indices)[0]));
    record(op, &x.device(), [&x, &indices, &values], x.dtype(), |t, [x, i, v]| {
        t.scatter(Index::Positions, update, x, dim, i, v)
    })
}

/// What an operation on leading axes works with: the data with its first `k` axes made one, and the batch and slice
/// parts of the result's shape.
struct Leading {
    flat: Dims,
    rest: u64,
    batch: Dims,
    tail: Dims,
}

fn leading(op: &str, x: &KilnTensor, indices: &KilnTensor) -> Leading {
    let (d, at) = (dims(x), dims(indices));
    let Some((&k, batch)) = at.split_last() else { fail(op, "Indices tensor must have rank >= 1.", "") };
    let k = k as usize;
    if k > d.len() {
        let reason = format!("Last dimension of indices (K={k}) must be <= data rank (D={}).", d.len());
        fail(op, &reason, &format!("Data shape {:?}, indices shape {:?}.", x.shape(), indices.shape()));
    }
    checks::same_device(op, x, indices);
    let tail = Dims::from_slice(&d[k..]);
    Leading { flat: Dims::from_slice(&d[..k]), rest: tail.iter().product(), batch: Dims::from_slice(batch), tail }
}

/// Tuples of indices as positions in row-major order; one that leaves its own axis becomes −1, out of range for all.
fn positions(t: &mut Tape, indices: Node, axes: &[u64]) -> Node {
    let k = axes.len();
    let count: u64 = t.dims(indices).iter().rev().skip(1).product();
    let indices = t.cast(indices, DType::I64);
    let indices = t.reshape(indices, &[count, k as u64]);
    let mut position = t.literal(DType::I64, 0.0, &[count]);
    let mut inside = t.literal(DType::Bool, 1.0, &[count]);
    for (axis, &extent) in axes.iter().enumerate() {
        let i = t.narrow(indices, 1, axis as u64, 1);
        let i = t.reshape(i, &[count]);
        let extent = beside(t, i, Scalar::UInt(extent));
        let zero = fixed(t, i, 0.0);
        let (above, below) = (t.map(P::Ge, &[i, zero]), t.map(P::Lt, &[i, extent]));
        inside = t.map(P::And, &[inside, above]);
        inside = t.map(P::And, &[inside, below]);
        position = t.map(P::Mul, &[position, extent]);
        position = t.map(P::Add, &[position, i]);
    }
    let nowhere = fixed(t, position, -1.0);
    t.map(P::Select, &[inside, position, nowhere])
}

/// Slices at tuples of indices into the leading axes.
pub fn gather_nd(op: &'static str, x: KilnTensor, indices: KilnTensor) -> KilnTensor {
    let Leading { flat, rest, batch, tail } = leading(op, &x, &indices);
    record(op, &x.device(), [&x, &indices], x.dtype(), |t, [x, i]| {
        let x = t.reshape(x, &[flat.iter().product(), rest]);
        let i = positions(t, i, &flat);
        let y = t.gather(Index::Positions, x, 0, i);
        let to: Dims = batch.iter().chain(&tail).copied().collect();
        t.reshape(y, &to)
    })
}

/// Puts slices at tuples of indices into the leading axes.
pub fn scatter_nd(
    op: &'static str,
    x: KilnTensor,
    indices: KilnTensor,
    values: KilnTensor,
    update: Update,
) -> KilnTensor {
    let Leading { flat, rest, batch, tail } = leading(op, &x, &indices);
    checks::same_device(op, &x, &values);
    checks::same_dtype(op, &x, &values);
    checks::shape(op, "values", &values, &batch.iter().chain(&tail).copied().collect::<Dims>());
    let whole = extents(x.shape());
    record(op, &x.device(), [&x, &indices, &values], x.dtype(), |t, [x, i, v]| {
        let x = t.reshape(x, &[flat.iter().product(), rest]);
        let v = t.reshape(v, &[batch.iter().product(), rest]);
        let i = positions(t, i, &flat);
        let y = t.scatter(Index::Positions, update, x, 0, i, v);
        t.reshape(y, &whole)
    })
}

/// One row of a table per index.
pub fn embedding(op: &'static str, table: KilnTensor, indices: KilnTensor) -> KilnTensor {
    checks::rank(op, "weights", &table, 2);
    checks::same_device(op, &table, &indices);
    let (width, at) = (dims(&table)[1], dims(&indices));
    record(op, &table.device(), [&table, &indices], table.dtype(), |t, [table, i]| {
        let i = t.reshape(i, &[at.iter().product()]);
        let rows = t.gather(Index::Positions, table, 0, i);
        let to: Dims = at.iter().copied().chain([width]).collect();
        t.reshape(rows, &to)
    })
}

/// The gradient of a table from those of the rows that were read; added up in f32 for 16-bit floats.
pub fn embedding_backward(op: &'static str, table: KilnTensor, grad: KilnTensor, indices: KilnTensor) -> KilnTensor {
    checks::rank(op, "weights", &table, 2);
    checks::same_device(op, &grad, &indices);
    let (d, count) = (dims(&table), dims(&indices).iter().product());
    record(op, &grad.device(), [&grad, &indices], grad.dtype(), |t, [grad, i]| {
        let dtype = t.dtype(grad);
        let i = t.reshape(i, &[count]);
        let grad = t.cast(grad, dtype.compute());
        let grad = t.reshape(grad, &[count, d[1]]);
        let zeros = t.literal(dtype.compute(), 0.0, &d);
        let sum = t.scatter(Index::Positions, Update::Add, zeros, 0, i, grad);
        t.cast(sum, dtype)
    })
}
