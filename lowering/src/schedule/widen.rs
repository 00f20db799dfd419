//! Factors of products that were widened from 16 bits and moved then: moved first and widened last.  A library reads them
//! as they were before, and where a movement takes a copy, as the windows of a convolution do, that is half as large.

use smallvec::{SmallVec, smallvec};

use super::operands::is_widened;
use crate::dtype::DType;
use crate::graph::{Graph, Movement, Node, NodeData, Op};

/// The 16-bit value that `node` is a view of, if all it lacks is being widened; what pads add must be 0, which any type
/// writes alike.
fn narrow(graph: &Graph, node: Node) -> Option<Node> {
    let data = &graph.nodes[node];
    match &data.op {
        Op::Move(Movement::Pad { fill, .. }) if *fill != 0 => None,
        Op::Move(_) => narrow(graph, data.args[0]),
        Op::Map(_) if is_widened(graph, node) => Some(data.args[0]),
        _ => None,
    }
}

/// The element type of a value before it was widened.
pub(super) fn unwidened(graph: &Graph, node: Node) -> DType {
    graph.dtype(narrow(graph, node).unwrap_or(node))
}

/// A product's factors, if both were widened from one type of 16 bits, with no movement behind the widening.
pub(super) fn widened_last(graph: &mut Graph, factors: &[Node]) -> Option<SmallVec<[Node; 3]>> {
    let [a, b] = [0, 1].map(|i| narrow(graph, factors[i]));
    let same = graph.dtype(a?) == graph.dtype(b?);
    same.then(|| each_widened_last(graph, factors))
}

/// A product's factors, those that were widened with no movement behind the widening.
pub(super) fn each_widened_last(graph: &mut Graph, factors: &[Node]) -> SmallVec<[Node; 3]> {
    factors.iter().map(|&x| if narrow(graph, x).is_some() { last(graph, x) } else { x }).collect()
}

/// A widened view as a widening of that view.
fn last(graph: &mut Graph, node: Node) -> Node {
    if !matches!(graph.nodes[node].op, Op::Move(_)) {
        return node;
    }
    let wide = graph.dtype(node);
    let view = before(graph, node);
    graph.cast(view, wide)
}

/// The view before the widening.
fn before(graph: &mut Graph, node: Node) -> Node {
    let data = graph.nodes[node].clone();
    if !matches!(data.op, Op::Move(_)) {
        return data.args[0];
    }
    let x = before(graph, data.args[0]);
    let dtype = graph.dtype(x);
    graph.nodes.push(NodeData { args: smallvec![x], dtype, ..data })
}

#[cfg(test)]
mod tests {
    use super::super::plan::{InputData, Options, Step};
    use super::super::{Grain, Layout, plan};
    use crate::DType;
    use crate::graph::{Graph, PadDim, WindowDim};

    /// A convolution whose sums stay in f32: its windows are copied, and multiplied, in 16 bits.
    #[test]
    fn windows_are_copied_before_they_are_widened() {
        let mut g = Graph::new();
        let x = g.input(DType::Bf16, &[16, 30]);
        let w = g.input(DType::Bf16, &[8, 48]);
        let [x32, w32] = [x, w].map(|n| g.cast(n, DType::F32));
        let side = PadDim { low: 1, high: 1, interior: 0 };
        let padded = g.pad(x32, &[PadDim::default(), side], 0);
        let windows = g.window(padded, &[WindowDim { axis: 1, count: 30, size: 3, step: 1, dilation: 1 }]);
        let turned = g.permute(windows, &[0, 2, 1]);
        let columns = g.reshape(turned, &[48, 30]);
        let y = g.contract(w32, columns);
        g.outputs.push(y);
        let inputs = [[16u64, 30], [8, 48]].map(|dims| InputData {
            layout: Layout::contiguous(&dims),
            buffer_len: dims.iter().product(),
            donated: false,
        });
        let plan = plan(&g, &inputs, &Options::new(true, Some(1), Grain::of_vectors(4)));
        let steps: Vec<&Step> = plan.steps.iter().filter(|s| !matches!(s, Step::Free(_))).collect();
        let [Step::Launch { .. }, Step::Gemm(gemm)] = steps[..] else { panic!("{steps:?}") };
        assert_eq!((gemm.from, gemm.dtype), (DType::Bf16, DType::F32));
    }
}
