//! Products of a matrix and the columns of windows, as convolutions are, computed without a copy of the windows: the tensor
//! is laid out with its channels last and read where the windows say (Chetlur and others: "cuDNN: Efficient Primitives for
//! Deep Learning", 2014, section 3.1).
//!
//! For this the terms change their order: those of one place in a window follow one another.  Where the machine multiplies
//! in blocks, that order is its own affair.

use smallvec::SmallVec;

use super::plan::Options;
use crate::graph::{Dims, Graph, Movement, Node, NodeData, Op, PadDim, WindowDim};
use crate::op::Pointwise;

/// What channels must be a multiple of, so that those of one place fill whole accesses.
const CHANNELS: u64 = 16;

/// A product over windows of a tensor `[N, C, …]`.
struct Columns {
    /// The tensor, its padding, the windows over its last axes.
    tensor: Node,
    pads: Option<(SmallVec<[PadDim; 6]>, u64)>,
    windows: SmallVec<[WindowDim; 3]>,
}

/// The factors as they were before both were widened.
fn before_widening(graph: &Graph, args: &[Node]) -> [Node; 2] {
    let narrow = |node: Node| match graph.nodes[node].op {
        Op::Map(Pointwise::Cast) if graph.dtype(graph.nodes[node].args[0]).bytes() == 2 => graph.nodes[node].args[0],
        _ => node,
    };
    [narrow(args[0]), narrow(args[1])]
}

/// The operand of a movement of some kind.
fn behind(graph: &Graph, node: Node) -> Option<(&Movement, Node)> {
    let data = &graph.nodes[node];
    match &data.op {
        Op::Move(movement) => Some((movement, data.args[0])),
        _ => None,
    }
}

/// The columns of windows that a factor is: `[C·K…, N·P…]` of windows `[N, C, P…, K…]`.
fn columns(graph: &Graph, factor: Node) -> Option<Columns> {
    let (Movement::Reshape, turned) = behind(graph, factor)? else { return None };
    let (Movement::Permute(perm), split) = behind(graph, turned)? else { return None };
    let (Movement::Reshape, windows) = behind(graph, split)? else { return None };
    let (Movement::Window(over), source) = behind(graph, windows)? else { return None };
    let (dims, rank) = (graph.dims(windows), over.len());
    let expected: SmallVec<[u8; 8]> =
        [1, 2].into_iter().chain(3 + rank..3 + 2 * rank).chain([0]).chain(3..3 + rank).map(|axis| axis as u8).collect();
    let one_group: Dims = dims[..1].iter().copied().chain([1]).chain(dims[1..].iter().copied()).collect();
    let axes = over.iter().zip(2..).all(|(w, axis)| w.axis == axis);
    if dims.len() != 2 + 2 * rank || *graph.dims(split) != one_group || perm[..] != expected[..] || !axes {
        return None;
    }
    let (pads, tensor) = match behind(graph, source) {
        Some((Movement::Pad { dims, fill }, tensor)) => (Some((dims.iter().copied().collect(), *fill)), tensor),
        _ => (None, source),
    };
    Some(Columns { tensor, pads, windows: over.iter().copied().collect() })
}

/// Whether products of that many rows and columns of 16-bit floats are computed in blocks.
fn is_in_blocks(graph: &Graph, factors: [Node; 2], options: &Options) -> bool {
    let [a, b] = factors.map(|node| graph.dims(node));
    let halves = factors.iter().all(|&x| graph.dtype(x).is_float() && graph.dtype(x).bytes() == 2);
    let flat = a.len() == 2 && b.len() == 2;
    halves && flat && options.fuse && options.gemm_from.is_some() && options.grain.product([a[0], b[1]], 1).is_some()
}

/// The product with its terms in the other order, channels being the last axis of what it reads.
pub(super) fn product(graph: &mut Graph, data: &NodeData, options: &Options) -> Option<Node> {
    let factors = before_widening(graph, &data.args);
    if !is_in_blocks(graph, factors, options) {
        return None;
    }
    let Columns { tensor, pads, windows } = columns(graph, factors[1])?;
    let (channels, rank) = (graph.dims(tensor)[1], windows.len());
    let kernel: SmallVec<[u64; 3]> = windows.iter().map(|w| w.size).collect();
    if !channels.is_multiple_of(CHANNELS) || kernel.iter().all(|&n| n == 1) {
        return None;
    }
    let last = |graph: &mut Graph, x: Node| {
        let perm: SmallVec<[usize; 6]> = [0].into_iter().chain(2..2 + rank).chain([1]).collect();
        graph.permute(x, &perm)
    };
    let mut x = last(graph, tensor);
    if let Some((pads, fill)) = pads {
        let pads: SmallVec<[PadDim; 6]> = pads[..1].iter().chain(&pads[2..]).chain(&pads[1..2]).copied().collect();
        x = graph.pad(x, &pads, fill);
    }
    let windows: SmallVec<[WindowDim; 3]> = windows.iter().map(|w| WindowDim { axis: w.axis - 1, ..*w }).collect();
    let seen = graph.window(x, &windows);
    // [N, P…, C, K…] to [K…·C, N·P…]
    let perm: SmallVec<[usize; 8]> = (2 + rank..2 + 2 * rank).chain([1 + rank, 0]).chain(1..1 + rank).collect();
    let turned = graph.permute(seen, &perm);
    let dims = graph.dims(factors[1]).clone();
    let columns = graph.reshape(turned, &dims);
    // [O, C·K…] to [O, K…·C]
    let rows = graph.dims(factors[0])[0];
    let to: Dims = [rows, channels].into_iter().chain(kernel).collect();
    let weights = graph.reshape(factors[0], &to);
    let weights = last(graph, weights);
    let dims = graph.dims(factors[0]).clone();
    let weights = graph.reshape(weights, &dims);
    let wide = data.args.iter().zip([weights, columns]).map(|(&arg, new)| {
        let dtype = graph.dtype(arg);
        graph.cast(new, dtype)
    });
    let args: SmallVec<[Node; 3]> = wide.collect();
    Some(graph.nodes.push(NodeData { args, ..data.clone() }))
}

/// What a product that was written so reads from memory: the weights, and the tensor with its channels last.
pub(super) fn kept(graph: &Graph, node: Node, options: &Options) -> Option<[Node; 2]> {
    let data = &graph.nodes[node];
    let Op::Contract = data.op else { return None };
    let factors = before_widening(graph, &data.args);
    if !is_in_blocks(graph, factors, options) {
        return None;
    }
    let (Movement::Reshape, turned) = behind(graph, factors[1])? else { return None };
    let (Movement::Permute(perm), windows) = behind(graph, turned)? else { return None };
    let (Movement::Window(over), source) = behind(graph, windows)? else { return None };
    let rank = over.len();
    let expected = (2 + rank..2 + 2 * rank).chain([1 + rank, 0]).chain(1..1 + rank);
    let last: SmallVec<[u8; 6]> = [0].into_iter().chain(2..2 + rank as u8).chain([1]).collect();
    let tensor = match behind(graph, source)? {
        (Movement::Pad { .. }, tensor) => tensor,
        _ => source,
    };
    let (Movement::Permute(own), _) = behind(graph, tensor)? else { return None };
    let axes = over.iter().zip(1..).all(|(w, axis)| w.axis == axis);
    let written = perm.iter().map(|&p| usize::from(p)).eq(expected) && own[..] == last[..] && axes;
    written.then_some([factors[0], tensor])
}

#[cfg(test)]
pub(crate) mod tests;
