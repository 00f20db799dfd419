//! What a library's product reads: strided operands, and those that were widened from 16 bits as they were before.

use super::plan::Layout;
use super::trace::{Places, strided};
use crate::graph::{Graph, Node, Op};
use crate::op::Pointwise;

/// The buffers that both factors of the product `node` lie in, and how; or what must get a buffer first.
///
/// Where both were widened from the same type of 16 bits, these are the narrow ones: the library widens them in the
/// cache, and nobody writes a copy of a whole weight.
pub fn operands(graph: &Graph, places: &Places, node: Node) -> Result<[(Node, Layout); 2], Node> {
    let args = [graph.nodes[node].args[0], graph.nodes[node].args[1]];
    if let [Some(a), Some(b)] = args.map(|arg| narrow(graph, places, arg))
        && graph.dtype(a) == graph.dtype(b)
    {
        return Ok([operand(graph, places, args[0])?, operand(graph, places, args[1])?]);
    }
    let [a, b] = args.map(|arg| strided(graph, places, arg).ok_or(arg));
    Ok([a?, b?])
}

/// The buffer that one factor lies in, and how, as it was before it was widened; or what must get a buffer first.
pub fn operand(graph: &Graph, places: &Places, arg: Node) -> Result<(Node, Layout), Node> {
    let arg = narrow(graph, places, arg).unwrap_or(arg);
    strided(graph, places, arg).ok_or(arg)
}

/// Whether a conversion takes a float of 16 bits to the type in which it is computed.
pub fn is_widened(graph: &Graph, cast: Node) -> bool {
    let data = &graph.nodes[cast];
    let Op::Map(Pointwise::Cast) = data.op else { return false };
    let from = graph.dtype(data.args[0]);
    from.is_float() && from.bytes() == 2 && data.dtype == from.compute()
}

/// The 16-bit value that `node`, which has no buffer, was widened from.
fn narrow(graph: &Graph, places: &Places, node: Node) -> Option<Node> {
    (!places.contains_key(&node) && is_widened(graph, node)).then(|| graph.nodes[node].args[0])
}

#[cfg(test)]
mod tests {
    use super::super::plan::{InputData, Options, Step};
    use super::super::{Layout, plan};
    use crate::DType;
    use crate::graph::Graph;
    use crate::op::Pointwise;
    use crate::schedule::Grain;

    /// `x · wᵀ + bias` in f32 from 16-bit factors: the product reads the factors, and one kernel adds and rounds.
    #[test]
    fn widened_factors_are_read_as_they_were() {
        let mut g = Graph::new();
        let x = g.input(DType::Bf16, &[32, 64]);
        let w = g.input(DType::Bf16, &[48, 64]);
        let bias = g.input(DType::Bf16, &[48]);
        let [x32, w32, bias32] = [x, w, bias].map(|n| g.cast(n, DType::F32));
        let turned = g.permute(w32, &[1, 0]);
        let y = g.contract(x32, turned);
        let y = g.map(Pointwise::Add, &[y, bias32]);
        let y = g.cast(y, DType::Bf16);
        g.outputs.push(y);
        let inputs = [[32u64, 64].as_slice(), &[48, 64], &[48]].map(|dims| InputData {
            layout: Layout::contiguous(dims),
            buffer_len: dims.iter().product(),
            donated: false,
        });
        let plan = plan(&g, &inputs, &Options::new(true, Some(1), Grain::of_vectors(4)));
        let steps: Vec<&Step> = plan.steps.iter().filter(|s| !matches!(s, Step::Free(_))).collect();
        let [Step::Gemm(gemm), Step::Launch { .. }] = steps[..] else { panic!("{steps:?}") };
        assert_eq!((gemm.from, gemm.dtype), (DType::Bf16, DType::F32));
        assert_eq!((gemm.b.row_stride, gemm.b.col_stride), (1, 64));
    }
}
