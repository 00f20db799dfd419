//! Resizing images.  Every mode is separable: along an axis, an output is a weighted sum of a few inputs, its taps.
//! Which and how much depends on the sizes alone; it is computed here, in f64, and becomes two small operands, so that
//! other sizes are the same program.

use std::f64::consts::PI;

use burn_backend::TensorData;
use burn_backend::ops::{InterpolateMode, InterpolateOptions};
use kiln_lowering::DType;
use kiln_lowering::graph::{Index, Node, Reduction, Update};
use kiln_lowering::op::Pointwise as P;

use super::checks::{self, fail};
use super::dims::{along, dims, with};
use super::views::upsample;
use crate::record::{Tape, from_data, record};
use crate::{KilnDevice, KilnTensor, from_kiln};

/// The inputs and weights of each output along an axis: `count` of them for the first output, then for the second, …
struct Taps {
    count: u64,
    places: Vec<i64>,
    weights: Vec<f64>,
}

fn check(op: &str, x: &KilnTensor, output: &[usize; 2]) {
    checks::rank(op, "input", x, 4);
    if dims(x)[2..].contains(&0) || output.contains(&0) {
        let details = format!("Got input shape {:?}, output size {output:?}.", x.shape());
        fail(op, "The spatial dimensions must be non-zero.", &details);
    }
}

/// `[N, C, H, W]` to `[N, C, output…]`.
pub fn interpolate(op: &'static str, x: KilnTensor, output: [usize; 2], options: &InterpolateOptions) -> KilnTensor {
    check(op, &x, &output);
    resize(op, x, output.map(|n| n as u64), options, forward)
}

/// The gradient of the input: each output's gradient is added to its taps.
pub fn backward(
    op: &'static str,
    x: KilnTensor,
    grad: KilnTensor,
    output: [usize; 2],
    options: &InterpolateOptions,
) -> KilnTensor {
    check(op, &x, &output);
    let d = dims(&x);
    checks::shape(op, "gradient", &grad, &[d[0], d[1], output[0] as u64, output[1] as u64]);
    resize(op, grad, [d[2], d[3]], options, adjoint)
}

/// Resizes one axis after the other, in the wide type, and rounds once.
fn resize(
    op: &'static str,
    x: KilnTensor,
    to: [u64; 2],
    options: &InterpolateOptions,
    axis: fn(&'static str, KilnTensor, usize, u64, &InterpolateOptions) -> KilnTensor,
) -> KilnTensor {
    let out = x.dtype();
    let mut y = super::elementwise::cast(op, x, from_kiln(crate::to_kiln(out).compute()));
    for (i, &n) in to.iter().enumerate() {
        if dims(&y)[2 + i] != n {
            y = axis(op, y, 2 + i, n, options);
        }
    }
    super::elementwise::cast(op, y, out)
}

fn is_nearest(mode: &InterpolateMode) -> bool {
    matches!(mode, InterpolateMode::Nearest | InterpolateMode::NearestExact)
}

/// One axis resized to `out`.
fn forward(op: &'static str, x: KilnTensor, axis: usize, out: u64, options: &InterpolateOptions) -> KilnTensor {
    let n = dims(&x)[axis];
    if is_nearest(&options.mode) && out.is_multiple_of(n) {
        return record(op, &x.device(), [&x], x.dtype(), |t, [x]| upsample(t, x, &[(axis, out / n)]));
    }
    let taps = Taps::new(options, n, out);
    let (places, weights) = taps.upload(&x);
    record(op, &x.device(), [&x, &places, &weights], x.dtype(), |t, [x, places, weights]| {
        let (dtype, d) = (t.dtype(x), t.dims(x).clone());
        let parts = t.gather(Index::Positions, x, axis, places);
        if taps.count == 1 {
            return parts;
        }
        let mut split = with(&d, axis, out);
        split.insert(axis + 1, taps.count);
        let parts = t.reshape(parts, &split);
        let weights = laid(t, weights, axis, out, taps.count, split.len());
        let parts = t.map(P::Mul, &[parts, weights]);
        let sum = t.reduce(Reduction::Sum, parts, &[axis + 1], dtype);
        t.reshape(sum, &with(&d, axis, out))
    })
}

/// One axis of a gradient, of the extent of the output, brought back to the input's `n`.
fn adjoint(op: &'static str, grad: KilnTensor, axis: usize, n: u64, options: &InterpolateOptions) -> KilnTensor {
    let out = dims(&grad)[axis];
    if is_nearest(&options.mode) && out.is_multiple_of(n) {
        return record(op, &grad.device(), [&grad], grad.dtype(), |t, [grad]| sum_runs(t, grad, axis, out / n));
    }
    let taps = Taps::new(options, n, out);
    let (places, weights) = taps.upload(&grad);
    record(op, &grad.device(), [&grad, &places, &weights], grad.dtype(), |t, [grad, places, weights]| {
        let (dtype, d) = (t.dtype(grad), t.dims(grad).clone());
        let mut parts = grad;
        if taps.count > 1 {
            let mut split = d.clone();
            split.insert(axis + 1, 1);
            let grad = t.reshape(grad, &split);
            let weights = laid(t, weights, axis, out, taps.count, split.len());
            let products = t.map(P::Mul, &[grad, weights]);
            parts = t.reshape(products, &with(&d, axis, out * taps.count));
        }
        let onto = t.literal(dtype, 0.0, &with(&d, axis, n));
        t.scatter(Index::Positions, Update::Add, onto, axis, places, parts)
    })
}

/// Weights along an axis and the one after it.
fn laid(t: &mut Tape, weights: Node, axis: usize, out: u64, count: u64, rank: usize) -> Node {
    let mut to = along(rank, axis, out);
    to[axis + 1] = count;
    t.reshape(weights, &to)
}

/// Sums runs of neighbours along an axis.
fn sum_runs(t: &mut Tape, x: Node, axis: usize, run: u64) -> Node {
    let (dtype, d) = (t.dtype(x), t.dims(x).clone());
    let mut split = with(&d, axis, d[axis] / run);
    split.insert(axis + 1, run);
    let x = t.reshape(x, &split);
    let sum = t.reduce(Reduction::Sum, x, &[axis + 1], dtype);
    t.reshape(sum, &with(&d, axis, d[axis] / run))
}

impl Taps {
    fn new(options: &InterpolateOptions, n: u64, out: u64) -> Taps {
        let at = |o: u64| coordinate(options.align_corners, n, out, o);
        let each: Vec<Vec<(i64, f64)>> = match options.mode {
            // ⌊o·in/out⌋, or with half a pixel of offset, in integers and so exactly.
            InterpolateMode::Nearest => (0..out).map(|o| vec![((o * n / out) as i64, 1.0)]).collect(),
            InterpolateMode::NearestExact => {
                (0..out).map(|o| vec![(((2 * o + 1) * n / (2 * out)) as i64, 1.0)]).collect()
            }
            InterpolateMode::Bilinear => (0..out).map(|o| linear(at(o).max(0.0))).collect(),
            InterpolateMode::Bicubic => (0..out).map(|o| cubic(at(o))).collect(),
            InterpolateMode::Lanczos3 => (0..out).map(|o| lanczos(at(o), n as i64)).collect(),
        };
        let count = each.first().map_or(1, Vec::len) as u64;
        let (places, weights) = each.into_iter().flatten().unzip();
        let mut taps = Taps { count, places, weights };
        for place in &mut taps.places {
            *place = (*place).clamp(0, n as i64 - 1);
        }
        taps
    }

    /// As tensors beside `x`, the weights in its type.
    fn upload(&self, x: &KilnTensor) -> (KilnTensor, KilnTensor) {
        let (device, shape): (KilnDevice, _) = (x.device(), [self.places.len()]);
        let weights = match x.kiln_dtype() {
            DType::F64 => TensorData::new(self.weights.clone(), shape),
            _ => TensorData::new(self.weights.iter().map(|&w| w as f32).collect(), shape),
        };
        (from_data(TensorData::new(self.places.clone(), shape), &device), from_data(weights, &device))
    }
}

/// Where an output lies on the input's axis: `o·(in − 1)/(out − 1)` with aligned corners, else `(o + ½)·in/out − ½`.
fn coordinate(align: bool, n: u64, out: u64, o: u64) -> f64 {
    if align {
        return o as f64 * ((n - 1) as f64 / (out - 1).max(1) as f64);
    }
    (o as f64 + 0.5) * (n as f64 / out as f64) - 0.5
}

fn linear(at: f64) -> Vec<(i64, f64)> {
    let (base, weight) = (at.floor(), at.fract());
    vec![(base as i64, 1.0 - weight), (base as i64 + 1, weight)]
}

/// Keys' cubic convolution with a = −¾, the border repeated.
fn cubic(at: f64) -> Vec<(i64, f64)> {
    const A: f64 = -0.75;
    let weight = |d: f64| match d.abs() {
        d if d < 1.0 => ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0,
        d if d < 2.0 => ((A * d - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A,
        _ => 0.0,
    };
    (-1..=2).map(|k| (at.floor() as i64 + k, weight(at - at.floor() - k as f64))).collect()
}

/// `sinc(d)·sinc(d/3)` over six elements; those outside the input are left out and the rest made to sum to 1.
fn lanczos(at: f64, n: i64) -> Vec<(i64, f64)> {
    let weight = |d: f64| match d.abs() {
        0.0 => 1.0,
        d if d < 3.0 => (PI * d).sin() * (PI * d / 3.0).sin() / (PI * d * PI * d / 3.0),
        _ => 0.0,
    };
    let base = at.floor() as i64;
    let inside = |place: i64| if (0..n).contains(&place) { weight(at - place as f64) } else { 0.0 };
    let total: f64 = (base - 2..=base + 3).map(inside).sum();
    (base - 2..=base + 3).map(|place| (place, inside(place) / total)).collect()
}
