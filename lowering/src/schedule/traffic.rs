//! Bytes that kernels move between memory and registers, and bytes that their rows would move one by one.  For reports:
//! nothing is decided here.  What a kernel reads twice, a cache is taken to hold.

use rustc_hash::{FxHashMap, FxHashSet};

use super::affine::Affine;
use super::expr::{Expr, Exprs};
use super::fuse::{Group, Groups, Work};
use super::group::AxisData;
use super::operands::operands;
use super::plan::Layout;
use super::trace::strided;
use crate::graph::{Graph, Movement, Node, Op};

/// A value that a kernel reads or writes, and how many of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The value.
    pub node: Node,
    /// Bytes, each counted once.
    pub bytes: u64,
}

/// What a group reads, by node; `held` tells the elements of a node's buffer.
pub fn reads(groups: &Groups, group: &Group, held: impl Fn(Node) -> u64) -> Vec<Moved> {
    let graph = &groups.graph;
    let mut elements: FxHashMap<Node, u64> = FxHashMap::default();
    let mut add = |node: Node, n: u64| *elements.entry(node).or_default() += n;
    match &group.work {
        Work::Fused { body, .. } => loads(&body.exprs, &body.domain.axes, &mut add),
        Work::Looped { body, initial, .. } => {
            loads(&body.exprs, &body.domain.axes, &mut add);
            if let Some(initial) = initial {
                loads(&initial.exprs, &initial.domain.axes, &mut add);
            }
        }
        Work::United => {}
        Work::Attention { body, .. } => {
            loads(&body.exprs, &body.domain.axes, &mut add);
            factors(&body.exprs, &body.domain.axes, body.factors.iter(), &mut add);
        }
        Work::Slopes { body, .. } => {
            loads(&body.exprs, &body.domain.axes, &mut add);
            factors(&body.exprs, &body.domain.axes, body.factors.iter().chain(&body.rows), &mut add);
        }
        Work::Gemm(node) => {
            let found = operands(graph, &groups.places, *node).into_iter().flatten();
            for ((base, layout), &arg) in found.zip(&graph.nodes[*node].args) {
                add(base, distinct(graph.dims(arg), &layout));
            }
        }
        Work::Sort(node) => {
            let arg = graph.nodes[*node].args[0];
            if let Some((base, layout)) = strided(graph, &groups.places, arg) {
                add(base, distinct(graph.dims(arg), &layout));
            }
        }
    }
    let own = group.roots();
    let bytes = |node: Node, n: u64| n.min(held(node)) * graph.dtype(node).bytes() as u64;
    group
        .loads()
        .into_iter()
        .filter(|n| !own.contains(n))
        .map(|node| Moved { node, bytes: bytes(node, elements.get(&node).copied().unwrap_or(0)) })
        .collect()
}

/// Elements of a strided view that differ.
fn distinct(dims: &[u64], layout: &Layout) -> u64 {
    dims.iter().zip(&layout.strides).filter(|(_, s)| **s != 0).map(|(n, _)| n).product()
}

/// The elements of factors: one per point of the axes that their places depend on.
fn factors<'a>(
    exprs: &Exprs,
    axes: &[AxisData],
    factors: impl Iterator<Item = &'a (Node, Affine)>,
    add: &mut impl FnMut(Node, u64),
) {
    for (base, at) in factors {
        let walked = exprs.followed(at);
        add(*base, (0..axes.len()).filter(|&a| walked & (1 << a) != 0).map(|a| axes[a].extent).product());
    }
}

/// The elements of each load: one per point of the axes that its place depends on.
pub fn loads(exprs: &Exprs, axes: &[AxisData], add: &mut impl FnMut(Node, u64)) {
    for data in exprs.list.values() {
        if let Expr::Load { node, at, .. } = &data.expr {
            let walked = exprs.followed(at);
            let extents = (0..axes.len()).filter(|&a| walked & (1 << a) != 0).map(|a| axes[a].extent);
            add(*node, extents.product());
        }
    }
}

/// What a group writes: those of its nodes that somebody reads.
pub fn writes(graph: &Graph, group: &Group, wanted: &FxHashSet<Node>) -> Vec<Moved> {
    let bytes = |node: Node| graph.nodes[node].len() * graph.dtype(node).bytes() as u64;
    let kept = group.roots().iter().filter(|n| wanted.contains(n));
    kept.map(|&node| Moved { node, bytes: bytes(node) }).collect()
}

/// Nodes whose buffers a group or the caller reads.
pub fn wanted(groups: &Groups) -> FxHashSet<Node> {
    let mut wanted = groups.outputs();
    for group in &groups.list {
        wanted.extend(group.loads().into_iter().filter(|n| !group.roots().contains(n)));
    }
    wanted
}

/// Bytes that a row moves when it runs alone: its operands are loaded, its result is stored.
pub fn alone(graph: &Graph, node: Node) -> u64 {
    let data = &graph.nodes[node];
    let size = |n: Node| graph.dtype(n).bytes() as u64;
    let result = data.len() * size(node);
    let read: u64 = match data.op {
        // Not the whole table: what is picked, and the indices.
        Op::Gather(..) => result + seen(graph, data.args[1]) * size(data.args[1]),
        _ => {
            let mut args = data.args.to_vec();
            args.sort_unstable();
            args.dedup();
            args.iter().map(|&a| seen(graph, a) * size(a)).sum()
        }
    };
    read + result
}

/// Elements in memory that a view shows.
fn seen(graph: &Graph, mut node: Node) -> u64 {
    let mut least = graph.nodes[node].len();
    while let Op::Move(movement) = &graph.nodes[node].op {
        node = graph.nodes[node].args[0];
        // A pad shows what it pads, and nothing else that lies in memory.
        let inner = graph.nodes[node].len();
        least = if matches!(movement, Movement::Slice(_)) { least } else { least.min(inner) };
    }
    match graph.nodes[node].op {
        Op::Constant(_) | Op::Scalar(_) | Op::Iota(_) => 0,
        _ => least.min(graph.nodes[node].len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::graph::{PadDim, SliceDim};
    use crate::op::Pointwise;

    #[test]
    fn views_show_no_more_than_lies_in_memory() {
        let mut g = Graph::new();
        let x = g.input(DType::F32, &[1, 8]);
        let wide = g.expand(x, &[100, 8]);
        let part = g.slice(x, &[SliceDim { start: 0, len: 1, step: 1 }, SliceDim { start: 2, len: 3, step: 1 }]);
        let padded = g.pad(x, &[PadDim::default(), PadDim { low: 4, high: 4, interior: 0 }], 0);
        let one = g.constant(DType::F32, 0, &[100, 8]);
        assert_eq!([wide, part, padded, one].map(|n| seen(&g, n)), [8, 3, 8, 0]);
        // Adds an expanded row to 100 rows: 800 elements written, 8 read.
        let sum = g.map(Pointwise::Add, &[wide, one]);
        assert_eq!(alone(&g, sum), 4 * (8 + 800));
        // A square loads its operand once.
        let square = g.map(Pointwise::Mul, &[x, x]);
        assert_eq!(alone(&g, square), 4 * (8 + 8));
    }
}
