//! Convolution in one, two and three dimensions, its gradients, and the same transposed.  Checks and options live here,
//! the products in [`contraction`].

use burn_backend::ops::{ConvOptions, ConvTransposeOptions};
use kiln_lowering::graph::{Dims, Node, Reduction};
use kiln_lowering::op::Pointwise as P;
use smallvec::{SmallVec, smallvec};

use super::checks::{self, fail};
use super::contraction::{self, swap_leading};
use super::dims::{along, dims};
use super::record_list;
use super::windows::{Extents, Windows, sizes};
use crate::KilnTensor;
use crate::record::{Tape, record};

fn windows<const N: usize>(weight: &KilnTensor, stride: [usize; N], dilation: [usize; N], low: [usize; N]) -> Windows {
    Windows {
        kernel: Extents::from_slice(&dims(weight)[2..]),
        stride: sizes(&stride),
        dilation: sizes(&dilation),
        low: sizes(&low),
    }
}

/// The tensors of a convolution fit each other; `channels` is the axis of the weight that meets the input's channels.
fn check<const N: usize>(op: &str, x: &KilnTensor, weight: &KilnTensor, expected: u64, groups: usize) {
    checks::rank(op, "input", x, N + 2);
    checks::rank(op, "weight", weight, N + 2);
    checks::same_device(op, x, weight);
    checks::same_dtype(op, x, weight);
    let got = dims(x)[1];
    if got != expected {
        let reason = "Number of channels in input tensor and input channels of convolution must be equal.";
        fail(op, reason, &format!("got: {got}, expected: {expected}"));
    }
    let first = dims(weight)[0];
    if groups == 0 || !first.is_multiple_of(groups as u64) {
        let details = format!("Got {groups} groups for a weight of shape {:?}.", weight.shape());
        fail(op, "The number of groups must divide the number of channels.", &details);
    }
}

fn check_bias(op: &str, x: &KilnTensor, bias: Option<&KilnTensor>, channels: u64) {
    if let Some(bias) = bias {
        checks::same_device(op, x, bias);
        checks::same_dtype(op, x, bias);
        checks::shape(op, "bias", bias, &[channels]);
    }
}

/// Records `body(x, weight)`, which gives `[O, N, …]`, adds the bias, and puts the batch first.  With a bias, 16-bit
/// floats are added before the one rounding.
fn with_bias(
    op: &'static str,
    x: &KilnTensor,
    weight: &KilnTensor,
    bias: Option<&KilnTensor>,
    body: impl FnOnce(&mut Tape, Node, Node) -> Node,
) -> KilnTensor {
    let mut inputs: SmallVec<[&KilnTensor; 3]> = smallvec![x, weight];
    inputs.extend(bias);
    let dtype = x.kiln_dtype();
    record_list(op, &x.device(), &inputs, x.dtype(), |t, nodes| {
        let wide = if nodes.len() > 2 { dtype.compute() } else { dtype };
        let (x, weight) = (t.cast(nodes[0], wide), t.cast(nodes[1], wide));
        let mut y = body(t, x, weight);
        if let Some(&bias) = nodes.get(2) {
            let to = along(t.dims(y).len(), 0, t.dims(y)[0]);
            let bias = t.cast(bias, wide);
            let bias = t.reshape(bias, &to);
            y = t.map(P::Add, &[y, bias]);
        }
        let y = t.cast(y, dtype);
        swap_leading(t, y)
    })
}

/// `[N, C, in…]` by `[O, C / groups, kernel…]` to `[N, O, out…]`.
pub fn conv<const N: usize>(
    op: &'static str,
    x: KilnTensor,
    weight: KilnTensor,
    bias: Option<KilnTensor>,
    options: &ConvOptions<N>,
) -> KilnTensor {
    checks::rank(op, "weight", &weight, N + 2);
    check::<N>(op, &x, &weight, dims(&weight)[1] * options.groups as u64, options.groups);
    check_bias(op, &x, bias.as_ref(), dims(&weight)[0]);
    let w = windows(&weight, options.stride, options.dilation, options.padding_begin());
    let counts = w.counts(op, &dims(&x)[2..], &sizes(&options.padding_end()));
    let groups = options.groups as u64;
    with_bias(op, &x, &weight, bias.as_ref(), |t, x, weight| contraction::forward(t, x, weight, groups, &w, &counts))
}

/// The gradient of a convolution's input.
pub fn conv_x_backward<const N: usize>(
    op: &'static str,
    x: KilnTensor,
    weight: KilnTensor,
    grad: KilnTensor,
    options: &ConvOptions<N>,
) -> KilnTensor {
    checks::rank(op, "weight", &weight, N + 2);
    check::<N>(op, &grad, &weight, dims(&weight)[0], options.groups);
    let w = windows(&weight, options.stride, options.dilation, options.padding_begin());
    let input = Dims::from_slice(&dims(&x)[2..]);
    let groups = options.groups as u64;
    with_bias(op, &grad, &weight, None, |t, y, weight| contraction::towards_input(t, y, weight, groups, &w, &input))
}

/// The gradient of a convolution's weight.
pub fn conv_weight_backward<const N: usize>(
    op: &'static str,
    x: KilnTensor,
    weight: KilnTensor,
    grad: KilnTensor,
    options: &ConvOptions<N>,
) -> KilnTensor {
    check::<N>(op, &grad, &weight, dims(&weight)[0], options.groups);
    checks::rank(op, "input", &x, N + 2);
    let w = windows(&weight, options.stride, options.dilation, options.padding_begin());
    let groups = options.groups as u64;
    record(op, &x.device(), [&x, &grad], x.dtype(), |t, [x, y]| contraction::towards_weight(t, x, y, groups, &w))
}

/// The gradient of a bias: the sum over batch and places.
pub fn bias_backward(op: &'static str, grad: KilnTensor) -> KilnTensor {
    let d = dims(&grad);
    let axes: SmallVec<[usize; 5]> = (0..d.len()).filter(|&i| i != 1).collect();
    record(op, &grad.device(), [&grad], grad.dtype(), |t, [grad]| {
        let dtype = t.dtype(grad);
        let sum = t.reduce(Reduction::Sum, grad, &axes, dtype);
        t.reshape(sum, &[d[1]])
    })
}

/// `[N, C, in…]` by `[C, O / groups, kernel…]` to `[N, O, out…]` with `out = (in − 1)·stride + span + padding_out − 2·padding`.
pub fn conv_transpose<const N: usize>(
    op: &'static str,
    x: KilnTensor,
    weight: KilnTensor,
    bias: Option<KilnTensor>,
    options: &ConvTransposeOptions<N>,
) -> KilnTensor {
    checks::rank(op, "weight", &weight, N + 2);
    let (dx, dw) = (dims(&x), dims(&weight));
    check::<N>(op, &x, &weight, dw[0], options.groups);
    check_bias(op, &x, bias.as_ref(), dw[1] * options.groups as u64);
    let w = windows(&weight, options.stride, options.dilation, options.padding);
    let output: Extents = (0..N)
        .map(|i| {
            let full = dx[2 + i].saturating_sub(1) * w.stride[i] + w.span(i) + options.padding_out[i] as u64;
            if dx[2 + i] == 0 || full < 2 * w.low[i] {
                let details =
                    format!("Got input shape {:?}, weight shape {:?}, {options:?}.", x.shape(), weight.shape());
                fail(op, "The output of the transposed convolution would have no elements.", &details);
            }
            full - 2 * w.low[i]
        })
        .collect();
    let groups = options.groups as u64;
    with_bias(op, &x, &weight, bias.as_ref(), |t, x, weight| {
        contraction::towards_input(t, x, weight, groups, &w, &output)
    })
}

/// The gradient of a transposed convolution's input: a convolution.
pub fn conv_transpose_x_backward<const N: usize>(
    op: &'static str,
    weight: KilnTensor,
    grad: KilnTensor,
    options: &ConvTransposeOptions<N>,
) -> KilnTensor {
    checks::rank(op, "weight", &weight, N + 2);
    check::<N>(op, &grad, &weight, dims(&weight)[1] * options.groups as u64, options.groups);
    let w = windows(&weight, options.stride, options.dilation, options.padding);
    let output = dims(&grad);
    let counts: Extents = (0..N)
        .map(|i| {
            let reach = output[2 + i] + 2 * w.low[i] - options.padding_out[i] as u64;
            if reach < w.span(i) { 0 } else { (reach - w.span(i)) / w.stride[i] + 1 }
        })
        .collect();
    let groups = options.groups as u64;
    with_bias(op, &grad, &weight, None, |t, y, weight| contraction::forward(t, y, weight, groups, &w, &counts))
}

/// The gradient of a transposed convolution's weight: input and gradient exchange their roles.
pub fn conv_transpose_weight_backward<const N: usize>(
    op: &'static str,
    x: KilnTensor,
    weight: KilnTensor,
    grad: KilnTensor,
    options: &ConvTransposeOptions<N>,
) -> KilnTensor {
    checks::rank(op, "weight", &weight, N + 2);
    check::<N>(op, &x, &weight, dims(&weight)[0], options.groups);
    checks::rank(op, "gradient", &grad, N + 2);
    let w = windows(&weight, options.stride, options.dilation, options.padding);
    let groups = options.groups as u64;
    record(op, &x.device(), [&x, &grad], x.dtype(), |t, [x, y]| contraction::towards_weight(t, y, x, groups, &w))
}
