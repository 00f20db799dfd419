//! Kernels that walk one axis step by step, each kind in a file of its own.

use super::super::grain::Grain;
use super::super::looped::{Looped, Walk};
use super::{Passes, prefix, product, scatter};
use crate::DType;
use crate::graph::{Graph, Node};

/// Writes the kernels of a looped row.  `inplace` names results that share an operand's buffer, and that operand.
pub fn emit(
    graph: &Graph,
    node: Node,
    looped: &Looped,
    inplace: &[(Node, Node)],
    grain: Grain,
    index: DType,
) -> Passes {
    match &looped.walk {
        Walk::Product { a, b } => Passes::from(product::emit((graph, node), looped, [*a, *b], inplace, grain, index)),
        Walk::Prefix { x, kind } => prefix::emit(graph, node, looped, (*x, *kind), grain, index),
        Walk::Scatter { value, update, inside } => {
            Passes::from(scatter::emit(graph, node, looped, (*value, *update, inside), grain, index))
        }
    }
}
