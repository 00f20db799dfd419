//! What nodes are, for those who look for composites among rows.

use crate::graph::{Graph, Movement, Node, NodeData, Op};
use crate::op::Pointwise;

fn args(graph: &Graph, node: Node, op: Pointwise) -> Option<&[Node]> {
    let NodeData { op: own, args, .. } = &graph.nodes[node];
    (*own == Op::Map(op)).then_some(args)
}

/// The operand of a row `op`.
pub(super) fn unary(graph: &Graph, node: Node, op: Pointwise) -> Option<Node> {
    args(graph, node, op).map(|args| args[0])
}

/// The operands of a row `op`.
pub(super) fn binary(graph: &Graph, node: Node, op: Pointwise) -> Option<(Node, Node)> {
    args(graph, node, op).map(|args| (args[0], args[1]))
}

/// The operands of a row `op` whose order says nothing, both ways round.
pub(super) fn either(graph: &Graph, node: Node, op: Pointwise) -> Option<[(Node, Node); 2]> {
    binary(graph, node, op).map(|(a, b)| [(a, b), (b, a)])
}

/// What was converted, or the node itself.
pub(super) fn cast_of(graph: &Graph, node: Node) -> Node {
    unary(graph, node, Pointwise::Cast).unwrap_or(node)
}

/// What was repeated, or the node itself.
pub(super) fn expanded(graph: &Graph, node: Node) -> Node {
    match graph.nodes[node].op {
        Op::Move(Movement::Expand) => graph.nodes[node].args[0],
        _ => node,
    }
}
