//! Folding: overlapping windows added back into the tensor they were cut from, each place gathering what covers it.

use burn_backend::ops::UnfoldOptions;
use kiln_lowering::graph::{Dims, Graph, Node, PadDim, SliceDim};
use kiln_lowering::op::Pointwise as P;
use smallvec::{SmallVec, smallvec};

use super::checks::{self, fail};
use super::dims::dims;
use super::views::{Margin, pad_or_crop};
use super::windows::{Extents, Windows, sizes, spread};
use crate::KilnTensor;
use crate::record::record;

/// `[A, B, kernel…, count…]` to `[A, B, input…]`: the sum over all windows that cover an element.
pub fn fold(t: &mut Graph, x: Node, w: &Windows, input: &[u64]) -> Node {
    if w.are_disjoint() { fold_disjoint(t, x, w, input) } else { fold_overlapping(t, x, w, input) }
}

/// Windows side by side: a rearrangement.
fn fold_disjoint(t: &mut Graph, x: Node, w: &Windows, input: &[u64]) -> Node {
    let rank = w.rank();
    let d = t.dims(x).clone();
    let mut perm: SmallVec<[usize; 8]> = smallvec![0, 1];
    let mut pads: SmallVec<[PadDim; 8]> = smallvec![PadDim::default(); 2];
    let mut joined: Dims = Dims::from_slice(&d[..2]);
    for i in 0..rank {
        perm.extend([2 + rank + i, 2 + i]);
        pads.extend([PadDim::default(), PadDim { low: 0, high: w.stride[i] - w.kernel[i], interior: 0 }]);
        joined.push(d[2 + rank + i] * w.stride[i]);
    }
    let x = t.permute(x, &perm);
    let x = t.pad(x, &pads, 0);
    let x = t.reshape(x, &joined);
    w.crop(t, x, input, 0)
}

/// One shifted and stretched summand per element of the window.
fn fold_overlapping(t: &mut Graph, x: Node, w: &Windows, input: &[u64]) -> Node {
    let rank = w.rank();
    let d = t.dims(x).clone();
    let kept: Dims = d[..2].iter().chain(&d[2 + rank..]).copied().collect();
    let mut sum: Option<Node> = None;
    for element in 0..w.kernel.iter().product::<u64>() {
        let at = coordinates(element, &w.kernel);
        let ranges: SmallVec<[SliceDim; 8]> = d
            .iter()
            .enumerate()
            .map(|(axis, &n)| match axis.checked_sub(2) {
                Some(i) if i < rank => SliceDim { start: at[i], len: 1, step: 1 },
                _ => SliceDim { start: 0, len: n, step: 1 },
            })
            .collect();
        let part = t.slice(x, &ranges);
        let part = t.reshape(part, &kept);
        let margin = |i: usize| {
            let low = (at[i] * w.dilation[i]) as i64 - w.low[i] as i64;
            let high = input[i] as i64 - low - spread(kept[2 + i], w.stride[i]);
            Margin { low, high, interior: w.stride[i] - 1 }
        };
        let part = pad_or_crop(t, part, &w.margins(margin), 0);
        sum = Some(match sum {
            Some(sum) => t.map(P::Add, &[sum, part]),
            None => part,
        });
    }
    match sum {
        Some(sum) => sum,
        None => unreachable!("a window has an element"),
    }
}

fn coordinates(mut element: u64, extents: &[u64]) -> Extents {
    let mut at: Extents = smallvec![0; extents.len()];
    for (i, &n) in extents.iter().enumerate().rev() {
        at[i] = element % n;
        element /= n;
    }
    at
}

fn unfold_windows(kernel: [usize; 2], options: &UnfoldOptions) -> Windows {
    Windows {
        kernel: sizes(&kernel),
        stride: sizes(&options.stride),
        dilation: sizes(&options.dilation),
        low: sizes(&options.padding),
    }
}

/// `[N, C, H, W]` to `[N, C·kernel, windows]`.
pub fn unfold4d(op: &'static str, x: KilnTensor, kernel: [usize; 2], options: &UnfoldOptions) -> KilnTensor {
    checks::rank(op, "input", &x, 4);
    let w = unfold_windows(kernel, options);
    let d = dims(&x);
    let counts = w.counts(op, &d[2..], &w.low);
    let to = [d[0], d[1] * w.kernel.iter().product::<u64>(), counts.iter().product()];
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let x = w.over(t, x, &counts, 0);
        let x = t.permute(x, &[0, 1, 4, 5, 2, 3]);
        t.reshape(x, &to)
    })
}

/// The adjoint: `[N, C·kernel, windows]` to `[N, C, output…]`.
pub fn fold4d(
    op: &'static str,
    x: KilnTensor,
    output: [usize; 2],
    kernel: [usize; 2],
    options: &UnfoldOptions,
) -> KilnTensor {
    checks::rank(op, "input", &x, 3);
    let w = unfold_windows(kernel, options);
    let (d, output) = (dims(&x), sizes(&output));
    let counts = w.counts(op, &output, &w.low);
    let (elements, blocks): (u64, u64) = (w.kernel.iter().product(), counts.iter().product());
    if d[1] % elements != 0 || d[2] != blocks {
        let details = format!("Got shape {:?} for a kernel of {elements} elements and {blocks} blocks.", x.shape());
        fail(op, "The input must have a whole number of kernels and one column per block.", &details);
    }
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let dtype = t.dtype(x);
        let x = t.cast(x, dtype.compute());
        let x = t.reshape(x, &[d[0], d[1] / elements, w.kernel[0], w.kernel[1], counts[0], counts[1]]);
        let y = fold(t, x, &w, &output);
        t.cast(y, dtype)
    })
}
