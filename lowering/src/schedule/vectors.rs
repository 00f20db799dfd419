//! Products with a vector as reductions: where one factor has a single column, or the other a single row, each element of
//! the matrix is used once, and what counts is how fast it is read.  Libraries are built for the other kind of product.
//!
//! The terms are exact for 16-bit floats (a product of two has at most 22 bits) and are summed in the tree of a
//! [reduction](super::simplify) instead of one after the other.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::graph::{Dims, Graph, Node};
use crate::op::Pointwise;

/// Fewest terms for which it is worth it.
const WORTH: u64 = 128;

/// Which operand is the vector.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Vector {
    /// The left one, a row.
    Row,
    /// The right one, a column.
    Column,
}

/// The vector of a product of floats, if it has one.
pub(super) fn vector(graph: &Graph, a: Node, b: Node) -> Option<Vector> {
    let (left, right) = (graph.dims(a), graph.dims(b));
    let [m, k] = [left[left.len() - 2], left[left.len() - 1]];
    let n = right[right.len() - 1];
    if !graph.dtype(a).is_float() || k < WORTH {
        return None;
    }
    match (m, n) {
        (1, _) => Some(Vector::Row),
        (_, 1) => Some(Vector::Column),
        _ => None,
    }
}

/// The terms of a product with a vector and the axis that they are to be summed along, in the type that sums have.
pub(super) fn terms(graph: &mut Graph, a: Node, b: Node, vector: Vector) -> (Node, u8) {
    let rank = graph.dims(a).len();
    let mut turn: SmallVec<[usize; 6]> = (0..rank).collect();
    turn.swap(rank - 2, rank - 1);
    // The vector lies along the terms like the matrix does.
    let [a, b] = match vector {
        Vector::Row => [graph.permute(a, &turn), b],
        Vector::Column => [a, graph.permute(b, &turn)],
    };
    let batch = graph.dims(a).iter().zip(graph.dims(b)).map(|(&x, &y)| if x == 1 { y } else { x });
    let dims: Dims = batch.collect();
    let wide = |graph: &mut Graph, x: Node| {
        let dtype: DType = graph.dtype(x).compute();
        let x = graph.cast(x, dtype);
        graph.expand(x, &dims)
    };
    let [a, b] = [wide(graph, a), wide(graph, b)];
    let axis = if vector == Vector::Row { rank - 2 } else { rank - 1 };
    (graph.map(Pointwise::Mul, &[a, b]), axis as u8)
}

/// The sums as the product's result.
pub(super) fn result(graph: &mut Graph, sums: Node, dims: &Dims, dtype: DType) -> Node {
    let sums = graph.reshape(sums, dims);
    graph.cast(sums, dtype)
}
