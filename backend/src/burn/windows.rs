//! Sliding windows over the spatial axes of `[N, C, …]`, and their adjoint: the geometry that convolution, pooling and
//! folding share.  Knows no weights and no dtypes.

use kiln_lowering::DType;
use kiln_lowering::graph::{Dims, Graph, Node, Reduction, WindowDim};
use smallvec::SmallVec;

use super::checks::fail;
use super::views::{Margin, pad_or_crop};

/// One number per spatial axis.
pub type Extents = SmallVec<[u64; 3]>;

/// How windows lie over the spatial axes: element `k` of window `o` is the input's element `o·stride + k·dilation − low`.
#[derive(Clone, Debug)]
pub struct Windows {
    /// Elements in a window.
    pub kernel: Extents,
    /// Distance between windows.
    pub stride: Extents,
    /// Distance between elements of a window.
    pub dilation: Extents,
    /// Padding before the first element.
    pub low: Extents,
}

/// Burn's sizes as extents.
pub fn sizes(from: &[usize]) -> Extents {
    from.iter().map(|&n| n as u64).collect()
}

impl Windows {
    /// Number of spatial axes.
    pub fn rank(&self) -> usize {
        self.kernel.len()
    }

    /// Input elements that a window spans.
    pub fn span(&self, axis: usize) -> u64 {
        self.dilation[axis] * (self.kernel[axis] - 1) + 1
    }

    /// Whether no input element is in two windows.
    pub fn are_disjoint(&self) -> bool {
        (0..self.rank()).all(|i| self.kernel[i] <= self.stride[i] && self.dilation[i] == 1)
    }

    /// Windows that fit into an input padded by `low` and `high`.
    #[track_caller]
    pub fn counts(&self, op: &str, input: &[u64], high: &[u64]) -> Extents {
        self.check(op);
        let one = |i: usize| {
            let padded = input[i] + self.low[i] + high[i];
            if padded < self.span(i) {
                self.too_small(op, i, padded);
            }
            (padded - self.span(i)) / self.stride[i] + 1
        };
        (0..self.rank()).map(one).collect()
    }

    /// Likewise with equal padding on both ends; in ceil mode a last window may hang over, if it starts inside the input
    /// or the padding before it.
    #[track_caller]
    pub fn pool_counts(&self, op: &str, input: &[u64], ceil: bool) -> Extents {
        if !ceil {
            return self.counts(op, input, &self.low);
        }
        self.check(op);
        let one = |i: usize| {
            let (n, low, stride, span) = (input[i], self.low[i], self.stride[i], self.span(i));
            let padded = n + 2 * low;
            if padded + stride - 1 < span {
                self.too_small(op, i, padded);
            }
            let count = (padded + stride - 1 - span) / stride + 1;
            if (count - 1) * stride >= n + low { count - 1 } else { count }
        };
        (0..self.rank()).map(one).collect()
    }

    #[track_caller]
    fn check(&self, op: &str) {
        let positive = |sizes: &Extents| sizes.iter().all(|&n| n > 0);
        if !(positive(&self.kernel) && positive(&self.stride) && positive(&self.dilation)) {
            let (kernel, stride, dilation) = (&self.kernel, &self.stride, &self.dilation);
            let details = format!("Got kernel {kernel:?}, stride {stride:?}, dilation {dilation:?}.");
            fail(op, "Kernel size, stride and dilation must be non-zero.", &details);
        }
    }

    #[track_caller]
    fn too_small(&self, op: &str, axis: usize, padded: u64) -> ! {
        let details =
            format!("At spatial dimension {axis} the window spans {}, the padded input has {padded}.", self.span(axis));
        fail(op, "The kernel is larger than the padded input.", &details)
    }

    /// `[N, C, in…]` to `[N, C, count…, kernel…]`; elements outside the input have the bit pattern `fill`.
    pub fn over(&self, t: &mut Graph, x: Node, counts: &[u64], fill: u64) -> Node {
        let input = Dims::from_slice(&t.dims(x)[2..]);
        let margin = |i: usize| {
            let reach = counts[i].saturating_sub(1) * self.stride[i] + self.span(i);
            let high = reach.saturating_sub(input[i] + self.low[i]);
            Margin { low: self.low[i] as i64, high: high as i64, interior: 0 }
        };
        let x = pad_or_crop(t, x, &self.margins(margin), fill);
        let windows: SmallVec<[WindowDim; 3]> = (0..self.rank())
            .map(|i| WindowDim {
                axis: 2 + i as u8,
                count: counts[i],
                size: self.kernel[i],
                step: self.stride[i],
                dilation: self.dilation[i],
            })
            .collect();
        t.window(x, &windows)
    }

    /// The adjoint's windows: `[N, C, count…]` to `[N, C, input…, kernel…]`, where element `(p, k)` belongs to the window
    /// that has the input's element `p` as its element `kernel − 1 − k`, or is `fill` if there is none.
    pub fn covering(&self, t: &mut Graph, y: Node, input: &[u64], fill: u64) -> Node {
        let counts = Dims::from_slice(&t.dims(y)[2..]);
        let margin = |i: usize| {
            let low = self.span(i) as i64 - 1 - self.low[i] as i64;
            let high = (input[i] + self.span(i) - 1) as i64 - low - spread(counts[i], self.stride[i]);
            Margin { low, high, interior: self.stride[i] - 1 }
        };
        let y = pad_or_crop(t, y, &self.margins(margin), fill);
        let windows: SmallVec<[WindowDim; 3]> = (0..self.rank())
            .map(|i| WindowDim {
                axis: 2 + i as u8,
                count: input[i],
                size: self.kernel[i],
                step: 1,
                dilation: self.dilation[i],
            })
            .collect();
        t.window(y, &windows)
    }

    /// For disjoint windows: `[N, C, count…]` to `[N, C, input…]`, each element that of the window over that place.
    pub fn own(&self, t: &mut Graph, y: Node, input: &[u64], fill: u64) -> Node {
        let axes: SmallVec<[(usize, u64); 3]> = (0..self.rank()).map(|i| (2 + i, self.stride[i])).collect();
        let y = super::views::upsample(t, y, &axes);
        self.crop(t, y, input, fill)
    }

    /// Drops the padding before the first element and pads or crops to the input's extents.
    pub fn crop(&self, t: &mut Graph, y: Node, input: &[u64], fill: u64) -> Node {
        let have = Dims::from_slice(&t.dims(y)[2..]);
        let margin = |i: usize| {
            let low = -(self.low[i] as i64);
            Margin { low, high: input[i] as i64 - low - have[i] as i64, interior: 0 }
        };
        pad_or_crop(t, y, &self.margins(margin), fill)
    }

    /// No margins for the two leading axes, then one per spatial axis.
    pub fn margins(&self, spatial: impl Fn(usize) -> Margin) -> SmallVec<[Margin; 6]> {
        [Margin::default(); 2].into_iter().chain((0..self.rank()).map(spatial)).collect()
    }

    /// Combines each window of [`Windows::over`] or [`Windows::covering`] into one element of type `dtype`.
    pub fn combine(&self, t: &mut Graph, kind: Reduction, windows: Node, dtype: DType) -> Node {
        let axes: SmallVec<[usize; 3]> = (2 + self.rank()..2 + 2 * self.rank()).collect();
        let y = t.reduce(kind, windows, &axes, dtype);
        let to = Dims::from_slice(&t.dims(y)[..2 + self.rank()]);
        t.reshape(y, &to)
    }
}

/// Extent of `n` elements `stride` apart.
pub fn spread(n: u64, stride: u64) -> i64 {
    if n == 0 { 0 } else { ((n - 1) * stride + 1) as i64 }
}
