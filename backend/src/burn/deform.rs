//! Deformable convolution: each element of a window is read at a place of its own, between pixels, and 0 outside.
//! Everything but the operands and results is f32 (f64 for f64).
//!
//! With `v` the four pixels around a place and `w` their weights, a sample is `Σ w·v`; its derivative towards the pixels
//! is `w`, towards the place the difference of neighbouring pixels.

use burn_backend::Scalar;
use burn_backend::ops::{DeformConv2dBackward, DeformConvOptions};
use kiln_lowering::DType;
use kiln_lowering::graph::{Index, Node, Reduction, Update};
use kiln_lowering::op::Pointwise as P;
use smallvec::{SmallVec, smallvec};

use super::checks::{self, fail};
use super::contraction::{self, swap_leading};
use super::dims::{along, dims};
use super::elementwise::{beside, fixed, map_fixed};
use super::join::concat;
use super::windows::{Extents, Windows, sizes};
use super::{conv, record_list};
use crate::record::{Tape, record_many};
use crate::{Kiln, KilnTensor};

/// The sizes of one call: batch, channels, extents of the image, of the kernel and of the result.
struct Sizes {
    n: u64,
    channels: u64,
    image: [u64; 2],
    kernel: [u64; 2],
    out: [u64; 2],
    stride: Extents,
    dilation: Extents,
    low: Extents,
    weight_groups: u64,
    offset_groups: u64,
}

/// The four pixels around each place: `[N, offset group, channel, kernel·out]` where there are channels, 1 where not.
struct Samples {
    /// Row-major places in the image.
    places: [Node; 4],
    /// Whether they are in the image.
    inside: [Node; 4],
    /// Their weights.
    weights: [Node; 4],
    /// How far the place lies past the first row and column.
    past: [Node; 2],
}

impl Sizes {
    fn new(
        op: &str,
        [x, offset, weight]: [&KilnTensor; 3],
        mask: Option<&KilnTensor>,
        options: &DeformConvOptions<2>,
    ) -> Sizes {
        for (what, tensor) in [("input", x), ("offset", offset), ("weight", weight)] {
            checks::rank(op, what, tensor, 4);
            checks::same_device(op, x, tensor);
            checks::same_dtype(op, x, tensor);
        }
        let (dx, dw) = (dims(x), dims(weight));
        let windows = Windows {
            kernel: Extents::from_slice(&dw[2..]),
            stride: sizes(&options.stride),
            dilation: sizes(&options.dilation),
            low: sizes(&options.padding),
        };
        let out = windows.counts(op, &dx[2..], &windows.low);
        let s = Sizes {
            n: dx[0],
            channels: dx[1],
            image: [dx[2], dx[3]],
            kernel: [dw[2], dw[3]],
            out: [out[0], out[1]],
            stride: windows.stride,
            dilation: windows.dilation,
            low: windows.low,
            weight_groups: options.weight_groups as u64,
            offset_groups: options.offset_groups as u64,
        };
        if s.channels != dw[1] * s.weight_groups || !s.channels.is_multiple_of(s.offset_groups) {
            let details = format!("Got input {:?}, weight {:?}, {options:?}.", x.shape(), weight.shape());
            fail(op, "The channels do not fit the weight and the groups.", &details);
        }
        let elements = s.offset_groups * s.kernel[0] * s.kernel[1];
        checks::shape(op, "offset", offset, &[s.n, 2 * elements, s.out[0], s.out[1]]);
        if let Some(mask) = mask {
            checks::same_device(op, x, mask);
            checks::same_dtype(op, x, mask);
            checks::shape(op, "mask", mask, &[s.n, elements, s.out[0], s.out[1]]);
        }
        s
    }

    /// Number of places in the kernel and the result.
    fn places(&self) -> u64 {
        self.kernel.iter().chain(&self.out).product()
    }

    /// `[N, offset group, 1, kernel·out]`.
    fn flat(&self) -> [u64; 4] {
        [self.n, self.offset_groups, 1, self.places()]
    }

    /// `[N, offset group, channel, kernel·out]`.
    fn per_channel(&self) -> [u64; 4] {
        [self.n, self.offset_groups, self.channels / self.offset_groups, self.places()]
    }

    /// `[N, C, kernel…, out…]`.
    fn columns(&self) -> [u64; 6] {
        let ([kh, kw], [oh, ow]) = (self.kernel, self.out);
        [self.n, self.channels, kh, kw, oh, ow]
    }

    /// Where the windows' elements are read along one axis of the image.
    fn coordinate(&self, t: &mut Tape, offset: Node, axis: usize) -> Node {
        let ([kh, kw], [oh, ow]) = (self.kernel, self.out);
        let dtype = t.dtype(offset);
        let offset = t.reshape(offset, &[self.n, self.offset_groups, kh * kw, 2, oh * ow]);
        let offset = t.narrow(offset, 3, axis as u64, 1);
        let offset = t.reshape(offset, &self.flat());
        let grid = [kh, kw, oh, ow];
        let (o, k) = (t.iota(DType::I64, 2 + axis, &grid), t.iota(DType::I64, axis, &grid));
        let o = map_fixed(t, P::Mul, o, self.stride[axis] as f64);
        let k = map_fixed(t, P::Mul, k, self.dilation[axis] as f64);
        let at = t.map(P::Add, &[o, k]);
        let at = map_fixed(t, P::Sub, at, self.low[axis] as f64);
        let at = t.cast(at, dtype);
        let at = t.reshape(at, &along(4, 3, self.places()));
        t.map(P::Add, &[at, offset])
    }

    fn samples(&self, t: &mut Tape, offset: Node) -> Samples {
        let mut past = [offset; 2];
        let mut near = [[(offset, offset, offset); 2]; 2];
        for axis in 0..2 {
            let at = self.coordinate(t, offset, axis);
            let floor = t.map(P::Floor, &[at]);
            past[axis] = t.map(P::Sub, &[at, floor]);
            let one = fixed(t, at, 1.0);
            let rest = t.map(P::Sub, &[one, past[axis]]);
            for (side, weight) in [(0, rest), (1, past[axis])] {
                let place = map_fixed(t, P::Add, floor, side as f64);
                let last = beside(t, place, Scalar::UInt(self.image[axis] - 1));
                let kept = t.map(P::Min, &[place, last]);
                let kept = map_fixed(t, P::Max, kept, 0.0);
                let inside = t.map(P::Eq, &[place, kept]);
                near[axis][side] = (t.cast(kept, DType::I64), inside, weight);
            }
        }
        let corner = |t: &mut Tape, i: usize| {
            let ((y, inside_y, weight_y), (x, inside_x, weight_x)) = (near[0][i / 2], near[1][i % 2]);
            let width = beside(t, y, Scalar::UInt(self.image[1]));
            let row = t.map(P::Mul, &[y, width]);
            let (place, inside) = (t.map(P::Add, &[row, x]), t.map(P::And, &[inside_y, inside_x]));
            (place, inside, t.map(P::Mul, &[weight_y, weight_x]))
        };
        let corners = [0, 1, 2, 3].map(|i| corner(t, i));
        Samples { places: corners.map(|c| c.0), inside: corners.map(|c| c.1), weights: corners.map(|c| c.2), past }
    }

    /// The pixels around each place, 0 outside.
    fn pixels(&self, t: &mut Tape, x: Node, samples: &Samples) -> [Node; 4] {
        let [n, groups, channels, _] = self.per_channel();
        let x = t.reshape(x, &[n, groups, channels, self.image[0] * self.image[1]]);
        [0, 1, 2, 3].map(|i| {
            let at = t.expand(samples.places[i], &self.per_channel());
            let v = t.gather(Index::Elements, x, 3, at);
            let zero = fixed(t, v, 0.0);
            t.map(P::Select, &[samples.inside[i], v, zero])
        })
    }
}

/// `Σ a·b`.
fn dot(t: &mut Tape, a: [Node; 4], b: [Node; 4]) -> Node {
    let mut sum = t.map(P::Mul, &[a[0], b[0]]);
    for i in 1..4 {
        let product = t.map(P::Mul, &[a[i], b[i]]);
        sum = t.map(P::Add, &[sum, product]);
    }
    sum
}

/// `[N, C, kernel…, out…]` as windows `[N, C, out…, kernel…]`.
fn as_windows(t: &mut Tape, columns: Node, s: &Sizes) -> Node {
    let columns = t.reshape(columns, &s.columns());
    t.permute(columns, &[0, 1, 4, 5, 2, 3])
}

/// `[N, C, H, W]` by `[O, C / groups, kernel…]` to `[N, O, out…]`.
pub fn conv(
    op: &'static str,
    [x, offset, weight]: [KilnTensor; 3],
    mask: Option<KilnTensor>,
    bias: Option<KilnTensor>,
    options: &DeformConvOptions<2>,
) -> KilnTensor {
    let s = Sizes::new(op, [&x, &offset, &weight], mask.as_ref(), options);
    let mut inputs: SmallVec<[&KilnTensor; 5]> = smallvec![&x, &offset, &weight];
    inputs.extend(mask.as_ref());
    inputs.extend(bias.as_ref());
    let dtype = x.kiln_dtype();
    record_list(op, &x.device(), &inputs, x.dtype(), |t, nodes| {
        let wide: SmallVec<[Node; 5]> = nodes.iter().map(|&x| t.cast(x, dtype.compute())).collect();
        let samples = s.samples(t, wide[1]);
        let pixels = s.pixels(t, wide[0], &samples);
        let mut columns = dot(t, samples.weights, pixels);
        let mut rest = wide[3..].iter();
        if mask.is_some()
            && let Some(&mask) = rest.next()
        {
            let mask = t.reshape(mask, &s.flat());
            columns = t.map(P::Mul, &[columns, mask]);
        }
        let windows = as_windows(t, columns, &s);
        let mut y = contraction::weigh(t, windows, wide[2], s.weight_groups);
        if let Some(&bias) = rest.next() {
            let to = along(4, 0, t.dims(y)[0]);
            let bias = t.reshape(bias, &to);
            y = t.map(P::Add, &[y, bias]);
        }
        let y = swap_leading(t, y);
        t.cast(y, dtype)
    })
}

/// The gradients of all operands.
pub fn backward(
    op: &'static str,
    [x, offset, weight]: [KilnTensor; 3],
    mask: Option<KilnTensor>,
    bias: Option<KilnTensor>,
    grad: KilnTensor,
    options: &DeformConvOptions<2>,
) -> DeformConv2dBackward<Kiln> {
    let s = Sizes::new(op, [&x, &offset, &weight], mask.as_ref(), options);
    checks::shape(op, "gradient", &grad, &[s.n, dims(&weight)[0], s.out[0], s.out[1]]);
    let mut inputs: SmallVec<[&KilnTensor; 5]> = smallvec![&x, &offset, &weight, &grad];
    inputs.extend(mask.as_ref());
    let (out, dtype) = (x.dtype(), x.kiln_dtype());
    let mut results = record_many(op, &x.device(), &inputs, |t, nodes| {
        let wide: SmallVec<[Node; 5]> = nodes.iter().map(|&x| t.cast(x, dtype.compute())).collect();
        let mask = wide.get(4).map(|&mask| t.reshape(mask, &s.flat()));
        let gradients = gradients(t, &s, [wide[0], wide[1], wide[2], wide[3]], mask);
        gradients.into_iter().map(|g| (t.cast(g, dtype), out)).collect()
    })
    .into_iter();
    let bias = bias.map(|_| conv::bias_backward(op, grad.clone()));
    match (results.next(), results.next(), results.next()) {
        (Some(x), Some(offset), Some(weight)) => DeformConv2dBackward::new(x, offset, weight, results.next(), bias),
        _ => unreachable!("three results were recorded"),
    }
}

/// Of the input, the offset, the weight, and the mask where there is one.
fn gradients(t: &mut Tape, s: &Sizes, [x, offset, weight, grad]: [Node; 4], mask: Option<Node>) -> SmallVec<[Node; 4]> {
    let dtype = t.dtype(x);
    let samples = s.samples(t, offset);
    let pixels = s.pixels(t, x, &samples);
    let sample = dot(t, samples.weights, pixels);
    let columns = contraction::spread(t, grad, weight, s.weight_groups);
    let columns = swap_leading(t, columns);
    let columns = t.reshape(columns, &s.per_channel());
    let (windows, scaled) = match mask {
        Some(mask) => (t.map(P::Mul, &[sample, mask]), t.map(P::Mul, &[columns, mask])),
        None => (sample, columns),
    };
    let windows = as_windows(t, windows, s);
    let weight_grad = contraction::correlate(t, windows, grad, s.weight_groups);

    let [n, groups, channels, _] = s.per_channel();
    let mut x_grad = t.literal(dtype, 0.0, &[n, groups, channels, s.image[0] * s.image[1]]);
    for i in 0..4 {
        let share = t.map(P::Mul, &[scaled, samples.weights[i]]);
        let zero = fixed(t, share, 0.0);
        let share = t.map(P::Select, &[samples.inside[i], share, zero]);
        let at = t.expand(samples.places[i], &s.per_channel());
        x_grad = t.scatter(Index::Elements, Update::Add, x_grad, 3, at, share);
    }
    let x_grad = t.reshape(x_grad, &[n, s.channels, s.image[0], s.image[1]]);

    // Towards row and column: differences between the rows, mixed by the column's weights, and the other way round.
    let ([kh, kw], [oh, ow]) = (s.kernel, s.out);
    let slopes = [([0, 2, 1, 3], 1), ([0, 1, 2, 3], 0)].map(|([a, b, c, d], other)| {
        let (first, second) = (t.map(P::Sub, &[pixels[b], pixels[a]]), t.map(P::Sub, &[pixels[d], pixels[c]]));
        let one = fixed(t, samples.past[other], 1.0);
        let rest = t.map(P::Sub, &[one, samples.past[other]]);
        let (first, second) = (t.map(P::Mul, &[first, rest]), t.map(P::Mul, &[second, samples.past[other]]));
        let slope = t.map(P::Add, &[first, second]);
        let slope = t.map(P::Mul, &[slope, scaled]);
        let sum = t.reduce(Reduction::Sum, slope, &[2], dtype);
        t.reshape(sum, &[n, groups * kh * kw, 1, oh, ow])
    });
    let offset_grad = concat(t, &slopes, 2);
    let offset_grad = t.reshape(offset_grad, &[n, 2 * groups * kh * kw, oh, ow]);

    let mut all: SmallVec<[Node; 4]> = smallvec![x_grad, offset_grad, weight_grad];
    if mask.is_some() {
        let product = t.map(P::Mul, &[columns, sample]);
        let sum = t.reduce(Reduction::Sum, product, &[2], dtype);
        all.push(t.reshape(sum, &[n, groups * kh * kw, oh, ow]));
    }
    all
}
