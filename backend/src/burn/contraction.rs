//! Convolution's three products over windows: forward, towards the input, and towards the weights.  Each is one large
//! matrix product, groups being its batch axis.  Transposed convolution is the same three with the roles exchanged.

use kiln_lowering::graph::{Dims, Graph, Node};
use smallvec::SmallVec;

use super::fold::fold;
use super::windows::Windows;

/// `[N, G·C, P…, K…]` to `[G, C·K, N·P]`, or without the first axis for one group.
fn columns(t: &mut Graph, windows: Node, groups: u64, rank: usize) -> Node {
    arrange(
        t,
        windows,
        groups,
        rank,
        |places, kernel| [1, 2].into_iter().chain(kernel).chain([0]).chain(places).collect(),
        2 + rank,
    )
}

/// `[N, G·C, P…, K…]` to `[G, N·P, C·K]`, or without the first axis for one group.
fn rows(t: &mut Graph, windows: Node, groups: u64, rank: usize) -> Node {
    arrange(
        t,
        windows,
        groups,
        rank,
        |places, kernel| [1, 0].into_iter().chain(places).chain([2]).chain(kernel).collect(),
        2 + rank,
    )
}

/// Splits the channels into groups, permutes, and joins axes `1..split` and `split..` into two.
fn arrange(
    t: &mut Graph,
    windows: Node,
    groups: u64,
    rank: usize,
    perm: impl FnOnce(std::ops::Range<usize>, std::ops::Range<usize>) -> SmallVec<[usize; 9]>,
    split: usize,
) -> Node {
    let mut d = t.dims(windows).clone();
    d[1] /= groups;
    d.insert(1, groups);
    let x = t.reshape(windows, &d);
    let x = t.permute(x, &perm(3..3 + rank, 3 + rank..3 + 2 * rank));
    let d = t.dims(x).clone();
    matrix(t, x, groups, d[1..split].iter().product(), d[split..].iter().product())
}

fn matrix(t: &mut Graph, x: Node, groups: u64, m: u64, n: u64) -> Node {
    if groups == 1 { t.reshape(x, &[m, n]) } else { t.reshape(x, &[groups, m, n]) }
}

/// `[N, G·C, P…]` to `[G, C, N·P]`, or without the first axis for one group.
fn channels_first(t: &mut Graph, x: Node, groups: u64) -> Node {
    let d = t.dims(x).clone();
    let x = swap_leading(t, x);
    let places: u64 = d[2..].iter().product();
    matrix(t, x, groups, d[1] / groups, d[0] * places)
}

/// Exchanges the first two axes.
pub fn swap_leading(t: &mut Graph, x: Node) -> Node {
    let perm: SmallVec<[usize; 6]> = [1, 0].into_iter().chain(2..t.dims(x).len()).collect();
    t.permute(x, &perm)
}

/// `y[o, n, p…] = Σ w[o, c, k…] · x[n, c, p·stride + k·dilation − low]`.
pub fn forward(t: &mut Graph, x: Node, weight: Node, groups: u64, w: &Windows, counts: &[u64]) -> Node {
    let windows = w.over(t, x, counts, 0);
    weigh(t, windows, weight, groups)
}

/// `y[o, n, p…] = Σ w[o, c, k…] · windows[n, c, p…, k…]`.
pub fn weigh(t: &mut Graph, windows: Node, weight: Node, groups: u64) -> Node {
    let (from, d) = (t.dims(windows).clone(), t.dims(weight).clone());
    let rank = d.len() - 2;
    let columns = columns(t, windows, groups, rank);
    let weight = matrix(t, weight, groups, d[0] / groups, d[1..].iter().product());
    let y = t.contract(weight, columns);
    let to: Dims = [d[0], from[0]].into_iter().chain(from[2..2 + rank].iter().copied()).collect();
    t.reshape(y, &to)
}

/// The adjoint in `x`: from `y: [N, G·O, P…]` and `weight: [G·O, C, K…]` to `[G·C, N, input…]`.
///
/// With unit strides it is a convolution with the flipped kernel.  Other strides would multiply by the zeros between the
/// elements; there the product comes first and its columns are folded.
pub fn towards_input(t: &mut Graph, y: Node, weight: Node, groups: u64, w: &Windows, input: &[u64]) -> Node {
    if w.stride.iter().all(|&s| s == 1) {
        let d = t.dims(weight).clone();
        let windows = w.covering(t, y, input, 0);
        let flipped: SmallVec<[usize; 3]> = (2..2 + w.rank()).collect();
        let weight = t.flip(weight, &flipped);
        // [G, O, C, K…] to [G·C, O, K…]
        let split: Dims = [groups, d[0] / groups].into_iter().chain(d[1..].iter().copied()).collect();
        let weight = t.reshape(weight, &split);
        let perm: SmallVec<[usize; 6]> = [0, 2, 1].into_iter().chain(3..split.len()).collect();
        let weight = t.permute(weight, &perm);
        let joined: Dims = [groups * d[1], d[0] / groups].into_iter().chain(d[2..].iter().copied()).collect();
        let weight = t.reshape(weight, &joined);
        return weigh(t, windows, weight, groups);
    }
    let dtype = t.dtype(y);
    let (y, weight) = (t.cast(y, dtype.compute()), t.cast(weight, dtype.compute()));
    let columns = spread(t, y, weight, groups);
    let x = fold(t, columns, w, input);
    t.cast(x, dtype)
}

/// The adjoint in the windows: from `y: [N, G·O, P…]` and `weight: [G·O, C, K…]` to `[G·C, N, K…, P…]`.
pub fn spread(t: &mut Graph, y: Node, weight: Node, groups: u64) -> Node {
    let (dy, d) = (t.dims(y).clone(), t.dims(weight).clone());
    let (outer, inner, rank) = (d[0] / groups, d[1..].iter().product(), d.len() - 2);
    let weight = t.reshape(weight, &[groups, outer, inner]);
    let weight = t.permute(weight, &[0, 2, 1]);
    let weight = matrix(t, weight, groups, inner, outer);
    let y = channels_first(t, y, groups);
    let columns = t.contract(weight, y);
    let split: Dims = [groups * d[1]].iter().chain(&d[2..]).chain(&dy[..1]).chain(&dy[2..]).copied().collect();
    let columns = t.reshape(columns, &split);
    let perm: SmallVec<[usize; 8]> =
        [0, 1 + rank].into_iter().chain(1..1 + rank).chain(2 + rank..2 + 2 * rank).collect();
    t.permute(columns, &perm)
}

/// The adjoint in the weights: from `x: [N, G·C, …]` and `y: [N, G·O, P…]` to `[G·O, C, K…]`.
pub fn towards_weight(t: &mut Graph, x: Node, y: Node, groups: u64, w: &Windows) -> Node {
    let counts = Dims::from_slice(&t.dims(y)[2..]);
    let windows = w.over(t, x, &counts, 0);
    correlate(t, windows, y, groups)
}

/// Likewise from `windows: [N, G·C, P…, K…]`.
pub fn correlate(t: &mut Graph, windows: Node, y: Node, groups: u64) -> Node {
    let (d, outer) = (t.dims(windows).clone(), t.dims(y)[1]);
    let rank = (d.len() - 2) / 2;
    let rows = rows(t, windows, groups, rank);
    let y = channels_first(t, y, groups);
    let weight = t.contract(y, rows);
    let to: Dims = [outer, d[1] / groups].into_iter().chain(d[2 + rank..].iter().copied()).collect();
    t.reshape(weight, &to)
}
