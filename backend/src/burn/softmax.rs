//! Softmax and its logarithm, f32 inside.

use kiln_lowering::graph::{Node, Reduction};
use kiln_lowering::op::Pointwise as P;

use super::checks;
use crate::KilnTensor;
use crate::record::{Tape, record};

fn composite(op: &'static str, x: KilnTensor, dim: usize, body: impl FnOnce(&mut Tape, Node) -> Node) -> KilnTensor {
    checks::axis(op, &x, dim);
    checks::not_empty(op, &x, &[dim]);
    let dtype = x.kiln_dtype();
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let x = t.cast(x, dtype.compute());
        let y = body(t, x);
        t.cast(y, dtype)
    })
}

/// `x − max x`.
fn shifted(t: &mut Tape, x: Node, dim: usize) -> Node {
    let dtype = t.dtype(x);
    let most = t.reduce(Reduction::Max, x, &[dim], dtype);
    t.map(P::Sub, &[x, most])
}

fn soft(t: &mut Tape, x: Node, dim: usize) -> Node {
    let shifted = shifted(t, x, dim);
    let exp = t.map(P::Exp, &[shifted]);
    let dtype = t.dtype(x);
    let sum = t.reduce(Reduction::Sum, exp, &[dim], dtype);
    t.map(P::Div, &[exp, sum])
}

/// `exp(x − max) / Σ exp(x − max)`.
pub fn softmax(op: &'static str, x: KilnTensor, dim: usize) -> KilnTensor {
    composite(op, x, dim, |t, x| soft(t, x, dim))
}

/// `softmax(−x)`.
pub fn softmin(op: &'static str, x: KilnTensor, dim: usize) -> KilnTensor {
    composite(op, x, dim, |t, x| {
        let x = t.map(P::Neg, &[x]);
        soft(t, x, dim)
    })
}

/// `(x − max) − log Σ exp(x − max)`.
pub fn log_softmax(op: &'static str, x: KilnTensor, dim: usize) -> KilnTensor {
    composite(op, x, dim, |t, x| {
        let shifted = shifted(t, x, dim);
        let exp = t.map(P::Exp, &[shifted]);
        let dtype = t.dtype(x);
        let sum = t.reduce(Reduction::Sum, exp, &[dim], dtype);
        let log = t.map(P::Log, &[sum]);
        t.map(P::Sub, &[shifted, log])
    })
}
