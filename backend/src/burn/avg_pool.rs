//! Average pooling, over fixed windows and adaptive, with gradients.  Sums 16-bit floats in f32 and rounds once.

use burn_backend::Scalar;
use kiln_lowering::DType;
use kiln_lowering::graph::{Dims, Index, Node, Reduction};
use kiln_lowering::op::Pointwise as P;

use super::checks::{self, fail};
use super::dims::{along, dims, with};
use super::elementwise::{beside, fixed, map_fixed};
use super::views::upsample;
use super::windows::{Extents, Windows, sizes};
use crate::KilnTensor;
use crate::record::{Tape, record};

/// The mean of each window; padding counts or does not.
pub fn pool(op: &'static str, x: KilnTensor, w: &Windows, count_padding: bool, ceil: bool) -> KilnTensor {
    checks::rank(op, "input", &x, 2 + w.rank());
    let input = Extents::from_slice(&dims(&x)[2..]);
    let counts = w.pool_counts(op, &input, ceil);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let dtype = t.dtype(x);
        let wide = t.cast(x, dtype.compute());
        let windows = w.over(t, wide, &counts, 0);
        let sum = w.combine(t, Reduction::Sum, windows, dtype.compute());
        let mean = divide(t, sum, w, &input, count_padding);
        t.cast(mean, dtype)
    })
}

/// The gradient of the input: at each place, the sum over the windows that cover it of their share.
pub fn backward(op: &'static str, x: KilnTensor, grad: KilnTensor, w: &Windows, count_padding: bool) -> KilnTensor {
    checks::rank(op, "gradient", &grad, 2 + w.rank());
    let input = Extents::from_slice(&dims(&x)[2..]);
    record(op, &grad.device(), [&grad], grad.dtype(), |t, [grad]| {
        let dtype = t.dtype(grad);
        let wide = t.cast(grad, dtype.compute());
        let share = divide(t, wide, w, &input, count_padding);
        let exact = (0..w.rank()).all(|i| w.kernel[i] == w.stride[i] && w.dilation[i] == 1);
        let sum = if exact {
            w.own(t, share, &input, 0)
        } else {
            let windows = w.covering(t, share, &input, 0);
            w.combine(t, Reduction::Sum, windows, dtype.compute())
        };
        t.cast(sum, dtype)
    })
}

/// Divides by the number of elements that count in each window.
fn divide(t: &mut Tape, sum: Node, w: &Windows, input: &[u64], count_padding: bool) -> Node {
    let d = t.dims(sum).clone();
    let all: u64 = w.kernel.iter().product();
    let inside = |i: usize| d[2 + i].saturating_sub(1) * w.stride[i] + w.kernel[i] <= input[i] + 2 * w.low[i];
    let unpadded = |i: usize| count_padding || w.low[i] == 0;
    if (0..w.rank()).all(|i| inside(i) && unpadded(i)) {
        return map_fixed(t, P::Div, sum, all as f64);
    }
    let dtype = t.dtype(sum);
    let mut count: Option<Node> = None;
    for i in 0..w.rank() {
        let along_axis = along(d.len(), 2 + i, d[2 + i]);
        let n = elements(t, w, i, input[i], &along_axis, count_padding);
        let n = t.cast(n, dtype);
        count = Some(match count {
            Some(count) => t.map(P::Mul, &[count, n]),
            None => n,
        });
    }
    match count {
        Some(count) => t.map(P::Div, &[sum, count]),
        None => sum,
    }
}

/// Elements of each window along one axis that lie in the input, or in the input and its padding.
fn elements(t: &mut Tape, w: &Windows, axis: usize, n: u64, to: &[u64], count_padding: bool) -> Node {
    let start = t.iota(DType::I64, 2 + axis, to);
    let start = map_fixed(t, P::Mul, start, w.stride[axis] as f64);
    let end = map_fixed(t, P::Add, start, w.kernel[axis] as f64);
    let (low, last) = (w.low[axis], if count_padding { n + 2 * w.low[axis] } else { n + w.low[axis] });
    let last = beside(t, end, Scalar::UInt(last));
    let end = t.map(P::Min, &[end, last]);
    let start = if count_padding { start } else { map_fixed(t, P::Max, start, low as f64) };
    t.map(P::Sub, &[end, start])
}

/// The mean over windows `⌊o·in/out⌋ .. ⌈(o + 1)·in/out⌉`.
pub fn adaptive(op: &'static str, x: KilnTensor, output: &[usize]) -> KilnTensor {
    checks::rank(op, "input", &x, 2 + output.len());
    let (d, output) = (dims(&x), sizes(output));
    if d[2..].contains(&0) || output.contains(&0) {
        let details = format!("Got input shape {:?}, output size {output:?}.", x.shape());
        fail(op, "The spatial dimensions must be non-zero.", &details);
    }
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let dtype = t.dtype(x);
        let mut y = t.cast(x, dtype.compute());
        for (i, &out) in output.iter().enumerate() {
            y = adaptive_sum(t, y, 2 + i, out);
        }
        for (i, &out) in output.iter().enumerate() {
            y = adaptive_divide(t, y, 2 + i, d[2 + i], out);
        }
        t.cast(y, dtype)
    })
}

/// The gradient of the input: an element is covered by exactly the windows that the same rule gives with input and
/// output exchanged, since `o·in/out < p + 1` and `(o + 1)·in/out > p` are symmetric in both.
pub fn adaptive_backward(op: &'static str, x: KilnTensor, grad: KilnTensor) -> KilnTensor {
    let (dx, dg) = (dims(&x), dims(&grad));
    checks::rank(op, "gradient", &grad, dx.len());
    record(op, &grad.device(), [&grad], grad.dtype(), |t, [grad]| {
        let dtype = t.dtype(grad);
        let mut y = t.cast(grad, dtype.compute());
        for axis in 2..dx.len() {
            y = adaptive_divide(t, y, axis, dx[axis], dg[axis]);
        }
        for axis in 2..dx.len() {
            y = adaptive_sum(t, y, axis, dx[axis]);
        }
        t.cast(y, dtype)
    })
}

/// Sums an axis into `out` windows.
fn adaptive_sum(t: &mut Tape, x: Node, axis: usize, out: u64) -> Node {
    let (dtype, d) = (t.dtype(x), t.dims(x).clone());
    let n = d[axis];
    if n.is_multiple_of(out) {
        let mut split = with(&d, axis, out);
        split.insert(axis + 1, n / out);
        let x = t.reshape(x, &split);
        let sum = t.reduce(Reduction::Sum, x, &[axis + 1], dtype);
        return t.reshape(sum, &with(&d, axis, out));
    }
    if out.is_multiple_of(n) {
        return upsample(t, x, &[(axis, out / n)]);
    }
    // ⌈n/out⌉ + 1 elements at most: gather that many from each start, and ignore those behind the end.
    let widest = n.div_ceil(out) + 1;
    let grid = [out, widest];
    let (start, end) = bounds(t, 0, n, out, &grid);
    let step = t.iota(DType::I64, 1, &grid);
    let place = t.map(P::Add, &[start, step]);
    let inside = t.map(P::Lt, &[place, end]);
    let last = beside(t, place, Scalar::UInt(n - 1));
    let place = t.map(P::Min, &[place, last]);
    let place = t.reshape(place, &[out * widest]);
    let parts = t.gather(Index::Positions, x, axis, place);
    let mut split = with(&d, axis, out);
    split.insert(axis + 1, widest);
    let parts = t.reshape(parts, &split);
    let mut over: Dims = along(split.len(), axis, out);
    over[axis + 1] = widest;
    let inside = t.reshape(inside, &over);
    let zero = fixed(t, parts, 0.0);
    let parts = t.map(P::Select, &[inside, parts, zero]);
    let sum = t.reduce(Reduction::Sum, parts, &[axis + 1], dtype);
    t.reshape(sum, &with(&d, axis, out))
}

/// Divides by the extents of the windows that cut an axis of `n` into `out`.
fn adaptive_divide(t: &mut Tape, x: Node, axis: usize, n: u64, out: u64) -> Node {
    let (dtype, rank) = (t.dtype(x), t.dims(x).len());
    let to = along(rank, axis, out);
    let (start, end) = bounds(t, axis, n, out, &to);
    let count = t.map(P::Sub, &[end, start]);
    let count = t.cast(count, dtype);
    t.map(P::Div, &[x, count])
}

/// First element, and one past the last, of each window.
fn bounds(t: &mut Tape, axis: usize, n: u64, out: u64, to: &[u64]) -> (Node, Node) {
    let o = t.iota(DType::I64, axis, to);
    let (n, out) = (beside(t, o, Scalar::UInt(n)), beside(t, o, Scalar::UInt(out)));
    let first = t.map(P::Mul, &[o, n]);
    let start = t.map(P::Div, &[first, out]);
    let next = t.map(P::Add, &[first, n]);
    let round_up = map_fixed(t, P::Sub, out, 1.0);
    let next = t.map(P::Add, &[next, round_up]);
    let end = t.map(P::Div, &[next, out]);
    (start, end)
}
