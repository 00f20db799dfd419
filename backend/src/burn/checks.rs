//! What must hold before an operation is recorded; a violation panics at the call, in the words and the form that Burn
//! uses.  Looks at shapes, dtypes and devices only: what depends on values is checked where they are known.

use burn_backend::{Shape, Slice};
use kiln_lowering::graph::Graph;

use super::dims::dims;
use crate::KilnTensor;

/// Ends the call: `op` cannot be done, for this reason.
#[cold]
#[track_caller]
pub fn fail(op: &str, reason: &str, details: &str) -> ! {
    panic!("=== Tensor Operation Error ===\n  Operation: '{op}'\n  Reason:\n    1. {reason} {details} \n")
}

/// Methods of Burn's interface that nothing computes yet; they panic, and so does what Burn builds on them.
pub const NOT_LOWERED: &[&str] = &[
    "all_reduce",
    "dequantize",
    "q_flip",
    "q_from_data",
    "q_into_data",
    "q_permute",
    "q_reshape",
    "q_swap_dims",
    "q_to_device",
    "quantize",
    "quantize_dynamic",
    "sync_collective",
];

/// Ends the call of a method that is [`NOT_LOWERED`].
#[cold]
#[track_caller]
pub fn not_lowered(op: &str) -> ! {
    debug_assert!(NOT_LOWERED.contains(&op), "`{op}` is missing from the list");
    panic!("Kiln has not lowered `{op}` yet")
}

/// Both operands live on one device.
#[track_caller]
pub fn same_device(op: &str, a: &KilnTensor, b: &KilnTensor) {
    if a.device() != b.device() {
        let details = format!("Lhs tensor device {:?}, Rhs tensor device {:?}.", a.device(), b.device());
        fail(op, "The provided tensors are not on the same device.", &details);
    }
}

/// Both operands have one element type.
#[track_caller]
pub fn same_dtype(op: &str, a: &KilnTensor, b: &KilnTensor) {
    if a.dtype() != b.dtype() {
        let details = format!("Lhs tensor dtype {}, Rhs tensor dtype {}.", a.dtype().name(), b.dtype().name());
        fail(op, "The provided tensors have different data types.", &details);
    }
}

/// Both operands broadcast to a common shape.
#[track_caller]
pub fn broadcast(op: &str, a: &KilnTensor, b: &KilnTensor) {
    let (da, db) = (dims(a), dims(b));
    if let Err(from_end) = Graph::common_dims([da.as_slice(), db.as_slice()]) {
        let (la, lb) = (da.len() - 1 - from_end, db.len() - 1 - from_end);
        let details = format!(
            "Incompatible size at dimension '{la}' => '{} != {}', which can't be broadcasted. Lhs tensor shape {:?}, Rhs \
             tensor shape {:?}.",
            da[la],
            db[lb],
            a.shape(),
            b.shape(),
        );
        fail(op, "The provided tensors have incompatible shapes.", &details);
    }
}

/// The operands of an elementwise operation agree.
#[track_caller]
pub fn pair(op: &str, a: &KilnTensor, b: &KilnTensor) {
    same_device(op, a, b);
    same_dtype(op, a, b);
    broadcast(op, a, b);
}

/// `dim` names an axis.
#[track_caller]
pub fn axis(op: &str, x: &KilnTensor, dim: usize) {
    let rank = x.shape().num_dims();
    if dim >= rank {
        let details = format!("Got dimension {dim} for a tensor of {rank} dimensions with shape {:?}.", x.shape());
        fail(op, "The dimension is out of range.", &details);
    }
}

/// Each axis is named, and at most once.
#[track_caller]
pub fn axes(op: &str, x: &KilnTensor, axes: &[usize]) {
    for (i, &dim) in axes.iter().enumerate() {
        axis(op, x, dim);
        if axes[..i].contains(&dim) {
            fail(op, "The axes must be unique.", &format!("Got {axes:?}."));
        }
    }
}

/// The axes are a permutation.
#[track_caller]
pub fn permutation(op: &str, x: &KilnTensor, perm: &[usize]) {
    let rank = x.shape().num_dims();
    if perm.len() != rank {
        let details = format!("Got {} axes for a tensor of {rank} dimensions.", perm.len());
        fail(op, "The number of axes must be that of the tensor.", &details);
    }
    axes(op, x, perm);
}

/// The tensor has this many dimensions.
#[track_caller]
pub fn rank(op: &str, what: &str, x: &KilnTensor, wanted: usize) {
    if x.shape().num_dims() != wanted {
        let details = format!("Wanted {wanted}, got shape {:?}.", x.shape());
        fail(op, &format!("The {what} tensor has the wrong number of dimensions."), &details);
    }
}

/// The tensor has exactly this shape.
#[track_caller]
pub fn shape(op: &str, what: &str, x: &KilnTensor, wanted: &[u64]) {
    if dims(x).as_slice() != wanted {
        let details = format!("Wanted {wanted:?}, got {:?}.", x.shape());
        fail(op, &format!("The {what} tensor has the wrong shape."), &details);
    }
}

/// A reduction that has no value over nothing has something to reduce.
#[track_caller]
pub fn not_empty(op: &str, x: &KilnTensor, axes: &[usize]) {
    let d = dims(x);
    let kept: u64 = (0..d.len()).filter(|i| !axes.contains(i)).map(|i| d[i]).product();
    let reduced: u64 = axes.iter().map(|&i| d[i]).product();
    if reduced == 0 && kept != 0 {
        let details = format!("Got shape {:?}, reduced over dimensions {axes:?}.", x.shape());
        fail(op, "The reduction of an empty dimension has no value.", &details);
    }
}

/// The elements fit the new shape.
#[track_caller]
pub fn reshape(op: &str, x: &KilnTensor, to: &Shape) {
    if x.shape().num_elements() != to.num_elements() {
        let details = format!("Current shape {:?}, new shape {to:?}.", x.shape());
        fail(op, "The given shape doesn't have the same number of elements as the current shape.", &details);
    }
}

/// The shape broadcasts to the other.
#[track_caller]
pub fn expand(op: &str, x: &KilnTensor, to: &Shape) {
    let from = x.shape();
    let fits =
        from.num_dims() <= to.num_dims() && from.iter().rev().zip(to.iter().rev()).all(|(&a, &b)| a == b || a == 1);
    if !fits {
        let details = format!("Tensor shape {from:?}, Target shape {to:?}.");
        fail(op, "The provided tensor can't be broadcasted to the target shape.", &details);
    }
}

/// The slices stay inside the tensor.
#[track_caller]
pub fn slices(op: &str, x: &KilnTensor, slices: &[Slice]) {
    let shape = x.shape();
    if slices.len() > shape.num_dims() {
        let details = format!(
            "The slices array must be smaller or equal to the tensor number of dimensions. Tensor number of dimensions: \
             {}, slices array length {}.",
            shape.num_dims(),
            slices.len(),
        );
        fail(op, "The provided slices array has a higher number of dimensions than the current tensor.", &details);
    }
    for (i, slice) in slices.iter().enumerate() {
        if let Some(end) = slice.end.filter(|&end| end > 0 && end as usize > shape[i]) {
            let details = format!(
                "The slice end index {end} exceeds the size of the tensor ({}) at dimension {i}. Tensor shape {shape:?}.",
                shape[i],
            );
            fail(op, "The provided slice has a range that exceeds the current tensor size.", &details);
        }
    }
}

/// Gather's or scatter's indices agree with the tensor on every other axis.
#[track_caller]
pub fn indices(op: &str, x: &KilnTensor, dim: usize, indices: &KilnTensor) {
    axis(op, x, dim);
    same_device(op, x, indices);
    let (shape, at) = (x.shape(), indices.shape());
    let fits = shape.num_dims() == at.num_dims() && (0..shape.num_dims()).all(|i| i == dim || at[i] <= shape[i]);
    if !fits {
        let details = format!("Tensor shape {shape:?}, indices shape {at:?}, dimension {dim}.");
        fail(op, "The tensor shape should be the same as the index tensor shape.", &details);
    }
}

/// Two matrices, or stacks of them, can be multiplied.
#[track_caller]
pub fn matmul(op: &str, a: &KilnTensor, b: &KilnTensor) {
    same_device(op, a, b);
    same_dtype(op, a, b);
    let (da, db) = (dims(a), dims(b));
    let (ra, rb) = (da.len(), db.len());
    let shapes = || format!("Lhs shape {:?}, rhs shape {:?}.", a.shape(), b.shape());
    if ra < 2 || rb < 2 {
        let got = ra.min(rb);
        let reason = format!("Matmul requires tensors with at least 2 dimensions, but got {got} dimension(s).");
        fail(op, &reason, &shapes());
    }
    if da[ra - 1] != db[rb - 2] {
        let reason =
            format!("The inner dimension of matmul should be the same, but got {} and {}.", da[ra - 1], db[rb - 2]);
        fail(op, &reason, &shapes());
    }
    if Graph::common_dims([&da[..ra - 2], &db[..rb - 2]]).is_err() {
        fail(op, "Tensors are not broadcastable along the batch dimensions.", &shapes());
    }
}

/// No more elements are asked for than the axis has.
#[track_caller]
pub fn top(op: &str, x: &KilnTensor, dim: usize, k: usize) {
    axis(op, x, dim);
    if k > x.shape()[dim] {
        let details = format!("Got k={k} for dimension {dim} with input shape {:?}.", x.shape());
        fail(op, "The selected index k is out of range.", &details);
    }
}
