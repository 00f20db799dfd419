//! Batch and layer normalisation.  Everything between the operands and the result is f32 (f64 for f64), rounded once.

use burn_backend::ops::{BatchNormTrain, BatchNormTrainBackward};
use kiln_lowering::graph::{Dims, Node, Reduction};
use kiln_lowering::op::Pointwise as P;
use smallvec::{SmallVec, smallvec};

use super::checks;
use super::dims::{along, dims};
use super::elementwise::map_scalar;
use super::record_list;
use super::reduce::mean_node;
use crate::record::{Tape, record, record_many};
use crate::{Kiln, KilnTensor};

/// Casts to the wide type of `x`, laid along an axis.
fn laid(t: &mut Tape, x: Node, to: &[u64]) -> Node {
    let wide = t.dtype(x).compute();
    let x = t.cast(x, wide);
    t.reshape(x, to)
}

/// √(variance + ε).
fn deviation(t: &mut Tape, variance: Node, epsilon: f64) -> Node {
    let sum = map_scalar(t, P::Add, variance, epsilon);
    t.map(P::Sqrt, &[sum])
}

fn check_channels(op: &str, x: &KilnTensor, params: &[(&str, &KilnTensor)]) -> u64 {
    checks::axis(op, x, 1);
    let channels = dims(x)[1];
    for (what, param) in params {
        checks::same_device(op, x, param);
        checks::shape(op, what, param, &[channels]);
    }
    channels
}

/// `(x − mean) / √(variance + ε) · gamma + beta` per channel.
pub fn batch(
    op: &'static str,
    x: KilnTensor,
    [gamma, beta, mean, variance]: [KilnTensor; 4],
    epsilon: f64,
) -> KilnTensor {
    let params = [("gamma", &gamma), ("beta", &beta), ("mean", &mean), ("variance", &variance)];
    let channels = check_channels(op, &x, &params);
    let dtype = x.kiln_dtype();
    record(op, &x.device(), [&x, &gamma, &beta, &mean, &variance], x.dtype(), |t, [x, gamma, beta, mean, variance]| {
        let to = along(t.dims(x).len(), 1, channels);
        let x = t.cast(x, dtype.compute());
        let [gamma, beta, mean, variance] = [gamma, beta, mean, variance].map(|p| laid(t, p, &to));
        let centred = t.map(P::Sub, &[x, mean]);
        let y = scaled(t, centred, variance, epsilon, gamma, Some(beta));
        t.cast(y, dtype)
    })
}

/// `centred / √(variance + ε) · gamma + beta`.
fn scaled(t: &mut Tape, centred: Node, variance: Node, epsilon: f64, gamma: Node, beta: Option<Node>) -> Node {
    let deviation = deviation(t, variance, epsilon);
    let normal = t.map(P::Div, &[centred, deviation]);
    let y = t.map(P::Mul, &[normal, gamma]);
    match beta {
        Some(beta) => t.map(P::Add, &[y, beta]),
        None => y,
    }
}

/// The mean, the deviations from it, and their mean square.
fn moments(t: &mut Tape, x: Node, axes: &[usize]) -> (Node, Node, Node) {
    let mean = mean_node(t, x, axes);
    let centred = t.map(P::Sub, &[x, mean]);
    let square = t.map(P::Mul, &[centred, centred]);
    let variance = mean_node(t, square, axes);
    (mean, centred, variance)
}

fn all_but_channels(rank: usize) -> SmallVec<[usize; 5]> {
    (0..rank).filter(|&i| i != 1).collect()
}

/// Batch normalisation with the batch's own mean and (biased) variance, which are returned.
pub fn batch_train(
    op: &'static str,
    x: KilnTensor,
    gamma: KilnTensor,
    beta: KilnTensor,
    epsilon: f64,
) -> BatchNormTrain<Kiln> {
    let channels = check_channels(op, &x, &[("gamma", &gamma), ("beta", &beta)]);
    let (out, dtype) = (x.dtype(), x.kiln_dtype());
    let mut results = record_many(op, &x.device(), &[&x, &gamma, &beta], |t, nodes| {
        let rank = t.dims(nodes[0]).len();
        let to = along(rank, 1, channels);
        let x = t.cast(nodes[0], dtype.compute());
        let (gamma, beta) = (laid(t, nodes[1], &to), laid(t, nodes[2], &to));
        let (mean, centred, variance) = moments(t, x, &all_but_channels(rank));
        let y = scaled(t, centred, variance, epsilon, gamma, Some(beta));
        let y = t.cast(y, dtype);
        let [mean, variance] = [mean, variance].map(|stat| {
            let stat = t.cast(stat, dtype);
            t.reshape(stat, &[channels])
        });
        smallvec![(y, out), (mean, out), (variance, out)]
    })
    .into_iter();
    match (results.next(), results.next(), results.next()) {
        (Some(output), Some(mean), Some(variance)) => BatchNormTrain::new(output, mean, variance),
        _ => unreachable!("three results were recorded"),
    }
}

/// With x̂ the normalised input and g the gradient of the output:
/// `dβ = Σ g`, `dγ = Σ g·x̂`, `dx = γ/σ · (g − mean(g) − x̂·mean(g·x̂))`.
pub fn batch_train_backward(
    op: &'static str,
    x: KilnTensor,
    [gamma, mean, variance]: [KilnTensor; 3],
    epsilon: f64,
    grad: KilnTensor,
) -> BatchNormTrainBackward<Kiln> {
    let channels = check_channels(op, &x, &[("gamma", &gamma), ("mean", &mean), ("variance", &variance)]);
    checks::shape(op, "gradient", &grad, &dims(&x));
    let (out, dtype) = (x.dtype(), x.kiln_dtype());
    let mut results = record_many(op, &x.device(), &[&x, &gamma, &mean, &variance, &grad], |t, nodes| {
        let rank = t.dims(nodes[0]).len();
        let (to, axes) = (along(rank, 1, channels), all_but_channels(rank));
        let wide = dtype.compute();
        let (x, grad) = (t.cast(nodes[0], wide), t.cast(nodes[4], wide));
        let [gamma, mean, variance] = [nodes[1], nodes[2], nodes[3]].map(|p| laid(t, p, &to));
        let deviation = deviation(t, variance, epsilon);
        let centred = t.map(P::Sub, &[x, mean]);
        let normal = t.map(P::Div, &[centred, deviation]);
        let weighted = t.map(P::Mul, &[grad, normal]);
        let beta_grad = t.reduce(Reduction::Sum, grad, &axes, wide);
        let gamma_grad = t.reduce(Reduction::Sum, weighted, &axes, wide);
        let count: u64 = axes.iter().map(|&a| t.dims(x)[a]).product();
        let mean_grad = map_scalar(t, P::Div, beta_grad, count as f64);
        let mean_weighted = map_scalar(t, P::Div, gamma_grad, count as f64);
        let projected = t.map(P::Mul, &[normal, mean_weighted]);
        let rest = t.map(P::Sub, &[grad, mean_grad]);
        let rest = t.map(P::Sub, &[rest, projected]);
        let scale = t.map(P::Div, &[gamma, deviation]);
        let x_grad = t.map(P::Mul, &[scale, rest]);
        let x_grad = t.cast(x_grad, dtype);
        let [gamma_grad, beta_grad] = [gamma_grad, beta_grad].map(|g| {
            let g = t.cast(g, dtype);
            t.reshape(g, &[channels])
        });
        smallvec![(x_grad, out), (gamma_grad, out), (beta_grad, out)]
    })
    .into_iter();
    match (results.next(), results.next(), results.next()) {
        (Some(x), Some(gamma), Some(beta)) => BatchNormTrainBackward::new(x, gamma, beta),
        _ => unreachable!("three results were recorded"),
    }
}

/// `(x − mean) / √(variance + ε) · gamma + beta` along the last axis.
pub fn layer(op: &'static str, x: KilnTensor, gamma: KilnTensor, beta: Option<KilnTensor>, epsilon: f64) -> KilnTensor {
    let d = dims(&x);
    let width: Dims = d.iter().rev().take(1).copied().collect();
    checks::same_device(op, &x, &gamma);
    checks::shape(op, "gamma", &gamma, &width);
    if let Some(beta) = &beta {
        checks::same_device(op, &x, beta);
        checks::shape(op, "beta", beta, &width);
    }
    let mut inputs: SmallVec<[&KilnTensor; 3]> = smallvec![&x, &gamma];
    inputs.extend(beta.as_ref());
    let dtype = x.kiln_dtype();
    record_list(op, &x.device(), &inputs, x.dtype(), |t, nodes| {
        let x = t.cast(nodes[0], dtype.compute());
        let gamma = laid(t, nodes[1], &width);
        let beta = nodes.get(2).map(|&beta| laid(t, beta, &width));
        let (_, centred, variance) = moments(t, x, &[d.len() - 1]);
        let y = scaled(t, centred, variance, epsilon, gamma, beta);
        t.cast(y, dtype)
    })
}
