//! Max pooling with its indices and gradient.  The gradient gathers: each place looks which windows chose it.

use burn_backend::{DType as BurnType, Scalar};
use kiln_lowering::DType;
use kiln_lowering::graph::{Node, Reduction};
use kiln_lowering::op::Pointwise as P;
use smallvec::smallvec;

use super::checks;
use super::dims::dims;
use super::elementwise::{beside, fixed, map_fixed};
use super::two;
use super::windows::{Extents, Windows};
use crate::dtype::float_bits;
use crate::record::{Tape, record, record_many};
use crate::{KilnTensor, to_kiln};

/// The greatest of each window.
pub fn pool(op: &'static str, x: KilnTensor, w: &Windows, ceil: bool) -> KilnTensor {
    checks::rank(op, "input", &x, 2 + w.rank());
    let counts = w.pool_counts(op, &dims(&x)[2..], ceil);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let windows = filled(t, x, w, &counts);
        let dtype = t.dtype(x);
        w.combine(t, Reduction::Max, windows, dtype)
    })
}

/// The windows, −∞ outside the input.
fn filled(t: &mut Tape, x: Node, w: &Windows, counts: &[u64]) -> Node {
    let fill = float_bits(t.dtype(x), f64::NEG_INFINITY);
    w.over(t, x, counts, fill)
}

/// Likewise, with the row-major place in the input's spatial axes of what was chosen.
pub fn pool_with_indices(
    op: &'static str,
    x: KilnTensor,
    w: &Windows,
    ceil: bool,
    indices: BurnType,
) -> (KilnTensor, KilnTensor) {
    checks::rank(op, "input", &x, 2 + w.rank());
    let input = Extents::from_slice(&dims(&x)[2..]);
    let counts = w.pool_counts(op, &input, ceil);
    let dtype = x.dtype();
    two(record_many(op, &x.device(), &[&x], |t, x| {
        let windows = filled(t, x[0], w, &counts);
        let values = w.combine(t, Reduction::Max, windows, to_kiln(dtype));
        let places = chosen(t, windows, w, &input);
        let places = t.cast(places, to_kiln(indices));
        smallvec![(values, dtype), (places, indices)]
    }))
}

/// Places of the greatest elements.
fn chosen(t: &mut Tape, windows: Node, w: &Windows, input: &[u64]) -> Node {
    let small = input.iter().product::<u64>() < 1 << 31;
    let int = if small { DType::I32 } else { DType::I64 };
    let mut rest = w.combine(t, Reduction::ArgMax, windows, int);
    let to = t.dims(rest).clone();
    let mut place = t.literal(int, 0.0, &to);
    let mut size = 1;
    for i in (0..w.rank()).rev() {
        let k = map_fixed(t, P::Rem, rest, w.kernel[i] as f64);
        rest = map_fixed(t, P::Div, rest, w.kernel[i] as f64);
        let start = t.iota(int, 2 + i, &to);
        let start = map_fixed(t, P::Mul, start, w.stride[i] as f64);
        let k = if w.low[i] == 0 { k } else { first_inside(t, k, start, w.low[i], w.dilation[i]) };
        let step = map_fixed(t, P::Mul, k, w.dilation[i] as f64);
        let at = t.map(P::Add, &[start, step]);
        let at = map_fixed(t, P::Sub, at, w.low[i] as f64);
        let scale = beside(t, at, Scalar::UInt(size));
        let at = t.map(P::Mul, &[at, scale]);
        place = t.map(P::Add, &[place, at]);
        size *= input[i];
    }
    place
}

/// Padding is the first of equals only in a window that holds nothing above −∞; the first element inside is meant then.
fn first_inside(t: &mut Tape, k: Node, start: Node, low: u64, dilation: u64) -> Node {
    let outside = fixed(t, start, (low + dilation - 1) as f64);
    let outside = t.map(P::Sub, &[outside, start]);
    let first = map_fixed(t, P::Div, outside, dilation as f64);
    t.map(P::Max, &[k, first])
}

/// The gradient of the input: at each place, the sum of the gradients of the windows that chose it.
pub fn backward(op: &'static str, x: KilnTensor, w: &Windows, grad: KilnTensor, indices: KilnTensor) -> KilnTensor {
    checks::rank(op, "gradient", &grad, 2 + w.rank());
    checks::same_device(op, &grad, &indices);
    checks::shape(op, "indices", &indices, &dims(&grad));
    let input = Extents::from_slice(&dims(&x)[2..]);
    record(op, &grad.device(), [&grad, &indices], grad.dtype(), |t, [grad, indices]| {
        let (dtype, int) = (t.dtype(grad), t.dtype(indices));
        let nowhere = u64::MAX >> (64 - int.bits());
        if w.are_disjoint() {
            let grad = w.own(t, grad, &input, 0);
            let indices = w.own(t, indices, &input, nowhere);
            return matching(t, grad, indices, &input);
        }
        let grad = w.covering(t, grad, &input, 0);
        let indices = w.covering(t, indices, &input, nowhere);
        let chosen = matching(t, grad, indices, &input);
        w.combine(t, Reduction::Sum, chosen, dtype)
    })
}

/// The gradient where the index is that of the place itself, 0 elsewhere.
fn matching(t: &mut Tape, grad: Node, indices: Node, input: &[u64]) -> Node {
    let (int, to) = (t.dtype(indices), t.dims(indices).clone());
    let mut place = t.literal(int, 0.0, &to);
    let mut size = 1;
    for (i, &n) in input.iter().enumerate().rev() {
        let at = t.iota(int, 2 + i, &to);
        let scale = beside(t, at, Scalar::UInt(size));
        let at = t.map(P::Mul, &[at, scale]);
        place = t.map(P::Add, &[place, at]);
        size *= n;
    }
    let here = t.map(P::Eq, &[indices, place]);
    let zero = fixed(t, grad, 0.0);
    t.map(P::Select, &[here, grad, zero])
}
