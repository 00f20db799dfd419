//! Scaled dot-product attention from rows.  That it is one kernel is the scheduler's to find.

use burn_backend::Scalar;
use burn_backend::ops::AttentionModuleOptions;
use kiln_lowering::DType;
use kiln_lowering::graph::{Node, Reduction};
use kiln_lowering::op::Pointwise as P;
use smallvec::{SmallVec, smallvec};

use super::checks::{self, fail};
use super::dims::dims;
use super::elementwise::{beside, fixed, map_fixed, map_scalar};
use super::matmul::transposed;
use super::record_list;
use crate::KilnTensor;
use crate::record::Tape;

/// `softmax(q·kᵀ·scale) · v` with soft cap, mask, causal mask and bias applied to the scores in this order.  A row that
/// is masked altogether gives 0.
pub fn attention(
    op: &'static str,
    [q, k, v]: [KilnTensor; 3],
    mask: Option<KilnTensor>,
    bias: Option<KilnTensor>,
    options: &AttentionModuleOptions,
) -> KilnTensor {
    check(op, &q, &k, &v);
    if let Some(cap) = options.softcap.filter(|&cap| cap <= 0.0) {
        fail(op, "The soft cap must be positive.", &format!("Got {cap}."));
    }
    let mut inputs: SmallVec<[&KilnTensor; 5]> = smallvec![&q, &k, &v];
    inputs.extend(mask.as_ref());
    inputs.extend(bias.as_ref());
    for extra in &inputs[3..] {
        checks::same_device(op, &q, extra);
        checks::rank(op, "mask or bias", extra, 4);
    }
    let (dtype, dq) = (q.kiln_dtype(), dims(&q));
    let scale = options.scale.unwrap_or_else(|| 1.0 / (dq[3] as f64).sqrt());
    record_list(op, &q.device(), &inputs, q.dtype(), |t, nodes| {
        let [q, k, v] = [0, 1, 2].map(|i| t.cast(nodes[i], dtype.compute()));
        let k = transposed(t, k);
        let scores = t.contract(q, k);
        // A part of the program: a multiple of the product by a known number is scaled with the exponent.
        let mut scores = map_fixed(t, P::Mul, scores, scale);
        if let Some(cap) = options.softcap {
            let scaled = map_scalar(t, P::Div, scores, cap);
            let tanh = t.map(P::Tanh, &[scaled]);
            scores = map_scalar(t, P::Mul, tanh, cap);
        }
        let mut rest = nodes[3..].iter();
        if mask.is_some()
            && let Some(&mask) = rest.next()
        {
            scores = hide(t, scores, mask);
        }
        if options.is_causal {
            let future = future(t, scores);
            scores = hide(t, scores, future);
        }
        if bias.is_some()
            && let Some(&bias) = rest.next()
        {
            let bias = t.cast(bias, dtype.compute());
            scores = t.map(P::Add, &[scores, bias]);
        }
        let weights = safe_softmax(t, scores);
        let y = t.contract(weights, v);
        t.cast(y, dtype)
    })
}

fn check(op: &str, q: &KilnTensor, k: &KilnTensor, v: &KilnTensor) {
    for (what, x) in [("query", q), ("key", k), ("value", v)] {
        checks::rank(op, what, x, 4);
        checks::same_device(op, q, x);
        checks::same_dtype(op, q, x);
    }
    let (dq, dk, dv) = (dims(q), dims(k), dims(v));
    if dq[3] != dk[3] || dk[2] != dv[2] || dq[..2] != dk[..2] || dq[..2] != dv[..2] {
        let details = format!("Query {:?}, key {:?}, value {:?}.", q.shape(), k.shape(), v.shape());
        fail(op, "Query, key and value have incompatible shapes.", &details);
    }
}

/// −∞ where the mask holds.
fn hide(t: &mut Tape, scores: Node, mask: Node) -> Node {
    let nothing = fixed(t, scores, f64::NEG_INFINITY);
    t.map(P::Select, &[mask, nothing, scores])
}

/// Whether a key comes after the query; the last query sees the last key.
fn future(t: &mut Tape, scores: Node) -> Node {
    let d = t.dims(scores).clone();
    let grid = [d[2], d[3]];
    let (row, column) = (t.iota(DType::I32, 0, &grid), t.iota(DType::I32, 1, &grid));
    let offset = beside(t, row, Scalar::Int(d[3] as i64 - d[2] as i64));
    let last = t.map(P::Add, &[row, offset]);
    t.map(P::Gt, &[column, last])
}

/// Softmax along the last axis that gives 0 for a row of −∞: the shift is kept finite and the divisor above 0.
fn safe_softmax(t: &mut Tape, scores: Node) -> Node {
    let (dtype, last) = (t.dtype(scores), t.dims(scores).len() - 1);
    let (least, smallest) = match dtype {
        DType::F64 => (f64::MIN, f64::MIN_POSITIVE),
        _ => (f64::from(f32::MIN), f64::from(f32::MIN_POSITIVE)),
    };
    let most = t.reduce(Reduction::Max, scores, &[last], dtype);
    let most = map_fixed(t, P::Max, most, least);
    let shifted = t.map(P::Sub, &[scores, most]);
    let exp = t.map(P::Exp, &[shifted]);
    let sum = t.reduce(Reduction::Sum, exp, &[last], dtype);
    let sum = map_fixed(t, P::Max, sum, smallest);
    t.map(P::Div, &[exp, sum])
}
