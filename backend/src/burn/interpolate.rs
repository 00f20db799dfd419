//! Resizing images.  Every mode is separable: along an axis, an output is a weighted sum of a few inputs, its taps.
//! Coordinates are f64, so that large images do not blur; values are f32 inside.

use burn_backend::Scalar;
use burn_backend::ops::{InterpolateMode, InterpolateOptions};
use kiln_lowering::DType;
use kiln_lowering::graph::{Index, Node, Reduction, Update};
use kiln_lowering::op::Pointwise as P;
use smallvec::{SmallVec, smallvec};

use super::checks::{self, fail};
use super::dims::{along, dims, with};
use super::elementwise::{beside, fixed, map_fixed, map_scalar};
use super::views::upsample;
use super::windows::sizes;
use crate::KilnTensor;
use crate::record::{Tape, record};

/// The inputs (i64) and weights (f64) of each output along an axis.
type Taps = SmallVec<[(Node, Node); 6]>;

fn check(op: &str, x: &KilnTensor, output: &[usize; 2]) {
    checks::rank(op, "input", x, 4);
    if dims(x)[2..].contains(&0) || output.contains(&0) {
        let details = format!("Got input shape {:?}, output size {output:?}.", x.shape());
        fail(op, "The spatial dimensions must be non-zero.", &details);
    }
}

/// `[N, C, H, W]` to `[N, C, output…]`.
pub fn interpolate(
    op: &'static str,
    x: KilnTensor,
    output: [usize; 2],
    options: &InterpolateOptions,
) -> KilnTensor {
    check(op, &x, &output);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let dtype = t.dtype(x);
        let nearest = is_nearest(&options.mode);
        let mut y = if nearest {
            x
        } else {
            t.cast(x, dtype.compute())
        };
        for (i, &out) in sizes(&output).iter().enumerate() {
            let (axis, n) = (2 + i, t.dims(y)[2 + i]);
            y = if n == out {
                y
            } else if nearest && out.is_multiple_of(n) {
                upsample(t, y, &[(axis, out / n)])
            } else if nearest {
                let place = nearest_place(t, &options.mode, n, out);
                t.gather(Index::Positions, y, axis, place)
            } else {
                let taps = taps(t, options, n, out);
                weighted(t, y, axis, out, &taps)
            };
        }
        t.cast(y, dtype)
    })
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
    let input = dims(&x);
    checks::shape(
        op,
        "gradient",
        &grad,
        &[input[0], input[1], output[0] as u64, output[1] as u64],
    );
    record(op, &grad.device(), [&grad], grad.dtype(), |t, [grad]| {
        let dtype = t.dtype(grad);
        let nearest = is_nearest(&options.mode);
        let mut g = t.cast(grad, dtype.compute());
        for axis in (2..4).rev() {
            let (n, out) = (input[axis], t.dims(g)[axis]);
            g = if n == out {
                g
            } else if nearest && out.is_multiple_of(n) {
                sum_runs(t, g, axis, out / n)
            } else if nearest {
                let place = nearest_place(t, &options.mode, n, out);
                add_at(t, None, g, axis, n, place)
            } else {
                let taps = taps(t, options, n, out);
                spread(t, g, axis, n, &taps)
            };
        }
        t.cast(g, dtype)
    })
}

fn is_nearest(mode: &InterpolateMode) -> bool {
    matches!(
        mode,
        InterpolateMode::Nearest | InterpolateMode::NearestExact
    )
}

/// `⌊o·in/out⌋`, or with half a pixel of offset `⌊(2o + 1)·in/(2·out)⌋`, in integers and so exactly.
fn nearest_place(t: &mut Tape, mode: &InterpolateMode, n: u64, out: u64) -> Node {
    let o = t.iota(DType::I64, 0, &[out]);
    let (numerator, divisor) = match mode {
        InterpolateMode::NearestExact => {
            let double = map_fixed(t, P::Mul, o, 2.0);
            (map_fixed(t, P::Add, double, 1.0), 2 * out)
        }
        _ => (o, out),
    };
    let (n, divisor) = (
        beside(t, o, Scalar::UInt(n)),
        beside(t, o, Scalar::UInt(divisor)),
    );
    let product = t.map(P::Mul, &[numerator, n]);
    t.map(P::Div, &[product, divisor])
}

/// Where each output lies on the input's axis: `o·(in − 1)/(out − 1)` with aligned corners, else `(o + ½)·in/out − ½`.
fn coordinate(t: &mut Tape, align: bool, n: u64, out: u64) -> Node {
    let o = t.iota(DType::I64, 0, &[out]);
    let o = t.cast(o, DType::F64);
    if align {
        let ratio = (n - 1) as f64 / (out - 1).max(1) as f64;
        return map_scalar(t, P::Mul, o, ratio);
    }
    let middle = map_fixed(t, P::Add, o, 0.5);
    let scaled = map_scalar(t, P::Mul, middle, n as f64 / out as f64);
    map_fixed(t, P::Sub, scaled, 0.5)
}

fn taps(t: &mut Tape, options: &InterpolateOptions, n: u64, out: u64) -> Taps {
    let at = coordinate(t, options.align_corners, n, out);
    match options.mode {
        InterpolateMode::Bicubic => cubic_taps(t, at, n),
        InterpolateMode::Lanczos3 => lanczos_taps(t, at, n),
        _ => linear_taps(t, at, n),
    }
}

fn clamped(t: &mut Tape, place: Node, n: u64) -> Node {
    let last = beside(t, place, Scalar::UInt(n - 1));
    let place = t.map(P::Min, &[place, last]);
    map_fixed(t, P::Max, place, 0.0)
}

fn linear_taps(t: &mut Tape, at: Node, n: u64) -> Taps {
    let at = map_fixed(t, P::Max, at, 0.0);
    let floor = t.map(P::Floor, &[at]);
    let weight = t.map(P::Sub, &[at, floor]);
    let one = fixed(t, weight, 1.0);
    let rest = t.map(P::Sub, &[one, weight]);
    let low = t.cast(floor, DType::I64);
    let high = map_fixed(t, P::Add, low, 1.0);
    let (low, high) = (clamped(t, low, n), clamped(t, high, n));
    smallvec![(low, rest), (high, weight)]
}

/// Keys' cubic convolution with a = −¾, the border repeated.
fn cubic_taps(t: &mut Tape, at: Node, n: u64) -> Taps {
    const A: f64 = -0.75;
    let floor = t.map(P::Floor, &[at]);
    let fraction = t.map(P::Sub, &[at, floor]);
    let base = t.cast(floor, DType::I64);
    let mut taps = Taps::new();
    for offset in -1..=2 {
        let place = map_fixed(t, P::Add, base, f64::from(offset));
        let place = clamped(t, place, n);
        let distance = map_fixed(t, P::Sub, fraction, f64::from(offset));
        let d = t.map(P::Abs, &[distance]);
        let weight = if offset == 0 || offset == 1 {
            // ((a + 2)·d − (a + 3))·d² + 1
            let inner = map_fixed(t, P::Mul, d, A + 2.0);
            let inner = map_fixed(t, P::Sub, inner, A + 3.0);
            let square = t.map(P::Mul, &[d, d]);
            let product = t.map(P::Mul, &[inner, square]);
            map_fixed(t, P::Add, product, 1.0)
        } else {
            // ((a·d − 5a)·d + 8a)·d − 4a
            let mut inner = map_fixed(t, P::Mul, d, A);
            for term in [-5.0 * A, 8.0 * A] {
                inner = map_fixed(t, P::Add, inner, term);
                inner = t.map(P::Mul, &[inner, d]);
            }
            map_fixed(t, P::Sub, inner, 4.0 * A)
        };
        taps.push((place, weight));
    }
    taps
}

/// `sinc(d)·sinc(d/3)` over six elements; those outside the input are left out and the rest made to sum to 1.
fn lanczos_taps(t: &mut Tape, at: Node, n: u64) -> Taps {
    let floor = t.map(P::Floor, &[at]);
    let fraction = t.map(P::Sub, &[at, floor]);
    let base = t.cast(floor, DType::I64);
    let mut taps = Taps::new();
    let mut total: Option<Node> = None;
    for offset in -2..=3 {
        let place = map_fixed(t, P::Add, base, f64::from(offset));
        let inside = clamped(t, place, n);
        let counts = t.map(P::Eq, &[place, inside]);
        let distance = map_fixed(t, P::Sub, fraction, f64::from(offset));
        let weight = lanczos(t, distance);
        let zero = fixed(t, weight, 0.0);
        let weight = t.map(P::Select, &[counts, weight, zero]);
        total = Some(match total {
            Some(total) => t.map(P::Add, &[total, weight]),
            None => weight,
        });
        taps.push((inside, weight));
    }
    if let Some(total) = total {
        for (_, weight) in &mut taps {
            *weight = t.map(P::Div, &[*weight, total]);
        }
    }
    taps
}

fn lanczos(t: &mut Tape, distance: Node) -> Node {
    let angle = map_fixed(t, P::Mul, distance, std::f64::consts::PI);
    let third = map_fixed(t, P::Div, angle, 3.0);
    let (a, b) = (t.map(P::Sin, &[angle]), t.map(P::Sin, &[third]));
    let (top, bottom) = (t.map(P::Mul, &[a, b]), t.map(P::Mul, &[angle, third]));
    let ratio = t.map(P::Div, &[top, bottom]);
    let away = t.map(P::Abs, &[distance]);
    let (none, centre) = (
        map_fixed(t, P::Ge, away, 3.0),
        map_fixed(t, P::Eq, away, 0.0),
    );
    let (zero, one) = (fixed(t, ratio, 0.0), fixed(t, ratio, 1.0));
    let ratio = t.map(P::Select, &[none, zero, ratio]);
    t.map(P::Select, &[centre, one, ratio])
}

/// A weight in the type of `x`, laid along an axis.
fn laid(t: &mut Tape, weight: Node, x: Node, axis: usize, out: u64) -> Node {
    let (dtype, rank) = (t.dtype(x), t.dims(x).len());
    let weight = t.cast(weight, dtype);
    t.reshape(weight, &along(rank, axis, out))
}

/// `Σ x[tap]·weight` along an axis.
fn weighted(t: &mut Tape, x: Node, axis: usize, out: u64, taps: &Taps) -> Node {
    let mut sum: Option<Node> = None;
    for &(place, weight) in taps {
        let part = t.gather(Index::Positions, x, axis, place);
        let weight = laid(t, weight, x, axis, out);
        let part = t.map(P::Mul, &[part, weight]);
        sum = Some(match sum {
            Some(sum) => t.map(P::Add, &[sum, part]),
            None => part,
        });
    }
    sum.unwrap_or(x)
}

/// The adjoint of [`weighted`].
fn spread(t: &mut Tape, grad: Node, axis: usize, n: u64, taps: &Taps) -> Node {
    let out = t.dims(grad)[axis];
    let mut sum: Option<Node> = None;
    for &(place, weight) in taps {
        let weight = laid(t, weight, grad, axis, out);
        let part = t.map(P::Mul, &[grad, weight]);
        sum = Some(add_at(t, sum, part, axis, n, place));
    }
    sum.unwrap_or(grad)
}

fn add_at(
    t: &mut Tape,
    onto: Option<Node>,
    values: Node,
    axis: usize,
    n: u64,
    place: Node,
) -> Node {
    let (dtype, to) = (t.dtype(values), with(t.dims(values), axis, n));
    let onto = onto.unwrap_or_else(|| t.literal(dtype, 0.0, &to));
    t.scatter(Index::Positions, Update::Add, onto, axis, place, values)
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
