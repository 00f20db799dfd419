//! Matrix products, linear layers and the cross product.

use kiln_lowering::graph::{Graph, Node, Reduction};
use kiln_lowering::op::Pointwise as P;
use smallvec::SmallVec;

use super::checks::{self, fail};
use super::dims::dims;
use super::record_list;
use crate::KilnTensor;
use crate::record::record;

/// Stacks of matrices multiplied, batch axes broadcast.
pub fn matmul(op: &'static str, a: KilnTensor, b: KilnTensor) -> KilnTensor {
    checks::matmul(op, &a, &b);
    record(op, &a.device(), [&a, &b], a.dtype(), |t, [a, b]| product(t, a, b))
}

/// As [`Graph::contract`], but a stack times a single matrix is one tall matrix times that matrix.
fn product(t: &mut Graph, a: Node, b: Node) -> Node {
    let (da, db) = (t.dims(a).clone(), t.dims(b).clone());
    let (ra, rb) = (da.len(), db.len());
    let single = db[..rb - 2].iter().all(|&n| n == 1);
    if !single || ra == 2 || rb > ra {
        return t.contract(a, b);
    }
    let rows = da[..ra - 1].iter().product();
    let a = t.reshape(a, &[rows, da[ra - 1]]);
    let b = t.reshape(b, &[db[rb - 2], db[rb - 1]]);
    let y = t.contract(a, b);
    let mut to = da;
    to[ra - 1] = db[rb - 1];
    t.reshape(y, &to)
}

/// `x · weight + bias` along the last axis.  With a bias, 16-bit floats are added before the one rounding.
pub fn linear(op: &'static str, x: KilnTensor, weight: KilnTensor, bias: Option<KilnTensor>) -> KilnTensor {
    checks::rank(op, "weight", &weight, 2);
    checks::same_device(op, &x, &weight);
    checks::same_dtype(op, &x, &weight);
    let (dx, dw) = (dims(&x), dims(&weight));
    if dx.last() != Some(&dw[0]) {
        let details = format!("Input shape {:?}, weight shape {:?}.", x.shape(), weight.shape());
        fail(op, "The last dimension of the input must be the first of the weight.", &details);
    }
    if let Some(bias) = &bias {
        checks::same_dtype(op, &x, bias);
        checks::shape(op, "bias", bias, &dw[1..]);
    }
    let mut inputs: SmallVec<[&KilnTensor; 3]> = smallvec::smallvec![&x, &weight];
    inputs.extend(bias.as_ref());
    let dtype = x.kiln_dtype();
    let rows = dx[..dx.len() - 1].iter().product();
    let mut to = dx.clone();
    to[dx.len() - 1] = dw[1];
    record_list(op, &x.device(), &inputs, x.dtype(), |t, nodes| {
        let wide = if nodes.len() > 2 { dtype.compute() } else { dtype };
        let x = t.reshape(nodes[0], &[rows, dw[0]]);
        let (x, weight) = (t.cast(x, wide), t.cast(nodes[1], wide));
        let mut y = t.contract(x, weight);
        if let Some(&bias) = nodes.get(2) {
            let bias = t.cast(bias, wide);
            y = t.map(P::Add, &[y, bias]);
        }
        let y = t.cast(y, dtype);
        t.reshape(y, &to)
    })
}

/// The gradient of the input.
pub fn linear_x_backward(op: &'static str, weight: KilnTensor, grad: KilnTensor) -> KilnTensor {
    linear(op, grad, super::views::swap(op, weight, 0, 1), None)
}

/// The gradient of the weight: one product over all rows.
pub fn linear_weight_backward(op: &'static str, x: KilnTensor, grad: KilnTensor) -> KilnTensor {
    checks::same_device(op, &x, &grad);
    checks::same_dtype(op, &x, &grad);
    let (dx, dg) = (dims(&x), dims(&grad));
    let (n, m) = (dx[dx.len() - 1], dg[dg.len() - 1]);
    let rows: u64 = dx[..dx.len() - 1].iter().product();
    if rows != dg[..dg.len() - 1].iter().product::<u64>() {
        let details = format!("Input shape {:?}, gradient shape {:?}.", x.shape(), grad.shape());
        fail(op, "The input and the gradient must have the same leading dimensions.", &details);
    }
    record(op, &x.device(), [&x, &grad], x.dtype(), |t, [x, grad]| {
        let x = t.reshape(x, &[rows, n]);
        let x = t.permute(x, &[1, 0]);
        let grad = t.reshape(grad, &[rows, m]);
        t.contract(x, grad)
    })
}

/// The gradient of the bias.
pub fn linear_bias_backward(op: &'static str, grad: KilnTensor) -> KilnTensor {
    let d = dims(&grad);
    let (last, rows) = (d[d.len() - 1], d[..d.len() - 1].iter().product());
    record(op, &grad.device(), [&grad], grad.dtype(), |t, [grad]| {
        let dtype = t.dtype(grad);
        let grad = t.reshape(grad, &[rows, last]);
        let sum = t.reduce(Reduction::Sum, grad, &[0], dtype);
        t.reshape(sum, &[last])
    })
}

/// `(a × b)ᵢ = aⱼ·bₖ − aₖ·bⱼ` with (i, j, k) cyclic, along an axis of three.
pub fn cross(op: &'static str, a: KilnTensor, b: KilnTensor, dim: usize) -> KilnTensor {
    checks::pair(op, &a, &b);
    checks::axis(op, &a, dim);
    let (da, db) = (dims(&a), dims(&b));
    if da.len() != db.len() || da[dim] != 3 || db[dim] != 3 {
        let details = format!("Lhs shape {:?}, rhs shape {:?}.", a.shape(), b.shape());
        fail(op, &format!("Cross product requires dimension {dim} to have size 3."), &details);
    }
    record(op, &a.device(), [&a, &b], a.dtype(), |t, [a, b]| {
        let dtype = t.dtype(a);
        let (a, b) = (t.cast(a, dtype.compute()), t.cast(b, dtype.compute()));
        let left = [rotate(t, a, dim, 1), rotate(t, b, dim, 2)];
        let right = [rotate(t, a, dim, 2), rotate(t, b, dim, 1)];
        let (left, right) = (t.map(P::Mul, &left), t.map(P::Mul, &right));
        let y = t.map(P::Sub, &[left, right]);
        t.cast(y, dtype)
    })
}

/// Element `i` of the axis is element `i + by`, cyclic.
fn rotate(t: &mut Graph, x: Node, dim: usize, by: u64) -> Node {
    let n = t.dims(x)[dim];
    let parts = [t.narrow(x, dim, by, n - by), t.narrow(x, dim, 0, by)];
    t.concat(&parts, dim)
}

/// Rows and columns of a transposed view, used by attention.
pub fn transposed(t: &mut Graph, x: Node) -> Node {
    let rank = t.dims(x).len();
    let mut perm: SmallVec<[usize; 6]> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    t.permute(x, &perm)
}
