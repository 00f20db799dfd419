//! Products of f32 by what was widened from bf16, taken apart into products of bf16: matrix instructions multiply those
//! many times as fast, exactly, and add them up in f32 as they would the whole.
//!
//! A number of f32 is the sum of three of bf16, without error: its highest eight bits, the highest eight of what is left,
//! and what is left then (Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For
//! Higher-Precision Computations", 2019).  The products of the parts are exact in f32; their sums are added the smallest
//! first.

use crate::dtype::DType;
use crate::graph::{Graph, Node, Op};
use crate::op::Pointwise;

/// Fewest rows, columns and terms for which it is worth it.
const WORTH: u64 = 64;

/// Whether a product of f32 has one factor that was widened from bf16 and one that was not, and which is the latter.
pub(super) fn wide_factor(graph: &Graph, args: &[Node]) -> Option<usize> {
    let is_f32 = args.iter().all(|&x| graph.dtype(x) == DType::F32);
    let large = args.iter().all(|&x| graph.dims(x).iter().rev().take(2).all(|&n| n >= WORTH));
    match [0, 1].map(|i| was_bf16(graph, args[i])) {
        [false, true] if is_f32 && large => Some(0),
        [true, false] if is_f32 && large => Some(1),
        _ => None,
    }
}

fn was_bf16(graph: &Graph, node: Node) -> bool {
    let data = &graph.nodes[node];
    match &data.op {
        Op::Move(_) => was_bf16(graph, data.args[0]),
        Op::Map(Pointwise::Cast) => graph.dtype(data.args[0]) == DType::Bf16,
        _ => false,
    }
}

/// The product, by the parts of its factor number `wide`.
pub(super) fn product(graph: &mut Graph, args: &[Node], wide: usize) -> Node {
    let by = |graph: &mut Graph, part: Node| {
        let narrow = graph.cast(part, DType::Bf16);
        let mut factors = [args[0], args[1]];
        factors[wide] = graph.cast(narrow, DType::F32);
        graph.contract(factors[0], factors[1])
    };
    let whole = args[wide];
    let high = highest(graph, whole);
    let by_high = by(graph, high);
    let rest = without(graph, whole, high);
    let middle = highest(graph, rest);
    let by_middle = by(graph, middle);
    let low = without(graph, rest, middle);
    let by_low = by(graph, low);
    let sum = graph.map(Pointwise::Add, &[by_low, by_middle]);
    graph.map(Pointwise::Add, &[sum, by_high])
}

/// The number that the highest sixteen bits are, which bf16 has too.
fn highest(graph: &mut Graph, x: Node) -> Node {
    let dims = graph.dims(x).clone();
    let bits = graph.convert(Pointwise::Bitcast, x, DType::U32);
    let mask = graph.constant(DType::U32, 0xffff_0000, &dims);
    let bits = graph.map(Pointwise::And, &[bits, mask]);
    graph.convert(Pointwise::Bitcast, bits, DType::F32)
}

/// `x − part`; nothing where they are equal, as infinities are.
fn without(graph: &mut Graph, x: Node, part: Node) -> Node {
    let dims = graph.dims(x).clone();
    let equal = graph.map(Pointwise::Eq, &[x, part]);
    let rest = graph.map(Pointwise::Sub, &[x, part]);
    let nothing = graph.constant(DType::F32, 0, &dims);
    graph.map(Pointwise::Select, &[equal, nothing, rest])
}
