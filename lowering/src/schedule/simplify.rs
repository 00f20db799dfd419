//! Rewrites a graph before it is scheduled: drops what computes nothing, and writes long reductions as the tree that
//! they are defined to be, so that several programs can share one.
//!
//! The tree of a sum over `n` terms depends on `n` alone: chunks of [`CHUNK`] terms are summed by [`LANES`] lanes
//! (lane `j` adds the terms `j, j + LANES, …` in order, then the lanes halve), and the chunks' sums are summed likewise.

use cranelift_entity::PrimaryMap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::attention;
use super::chosen::chosen;
use super::chunks::Chunks;
use super::implicit;
use super::matching::{binary, expanded};
use super::one_pass;
use super::parts;
use super::plan::Options;
use super::vectors::{self, vector};
use super::widen::{each_widened_last, widened_last};
use crate::dtype::{Class, DType};
use crate::graph::{Dims, Graph, Index, Node, NodeData, Op, Reduction};
use crate::op::Pointwise;

/// Terms that one tree of lanes takes.
pub const CHUNK: u64 = 1024;

/// Lanes of a tree.
pub const LANES: u64 = 64;

/// Longest reduction that one program does: as many chunks as a tree takes.
const LONGEST: u64 = CHUNK * CHUNK;

/// Reductions of this many terms, of one row or of the columns that one program takes, are shared by several programs
/// where there are fewer rows or sets of columns than programs.
const WORTH_SHARING: u64 = 64 * CHUNK;

/// Columns that lie side by side and are reduced by one program.
const COLUMNS: u64 = 128;

/// The element that changes nothing, as a bit pattern of `dtype`.
pub fn identity(kind: Reduction, dtype: DType) -> u64 {
    let float = |value: f64| match dtype {
        DType::F64 => value.to_bits(),
        DType::F16 => half::f16::from_f64(value).to_bits().into(),
        DType::Bf16 => half::bf16::from_f64(value).to_bits().into(),
        _ => (value as f32).to_bits().into(),
    };
    let mask = u64::MAX >> (64 - dtype.bits());
    let lowest = match dtype.class() {
        Class::Float => float(f64::NEG_INFINITY),
        Class::Signed => 1 << (dtype.bits() - 1),
        Class::Bool | Class::Unsigned => 0,
    };
    let highest = match dtype.class() {
        Class::Float => float(f64::INFINITY),
        Class::Signed => mask >> 1,
        Class::Bool => 1,
        Class::Unsigned => mask,
    };
    match kind {
        // x + −0 is x for every x, −0 included.
        Reduction::Sum if dtype.is_float() => float(-0.0),
        Reduction::Sum | Reduction::Any => 0,
        Reduction::Prod if dtype.is_float() => float(1.0),
        Reduction::Prod | Reduction::All => 1,
        Reduction::Max | Reduction::ArgMax => lowest,
        Reduction::Min | Reduction::ArgMin => highest,
    }
}

/// The graph rewritten for a machine, and the node of `graph` that each new one stands for.
pub fn simplify(graph: &Graph, options: &Options) -> (Graph, PrimaryMap<Node, Node>) {
    let Some((widened, before)) = attention::widened::widened(graph, options) else {
        return simplified(graph, options);
    };
    let (simple, mut origins) = simplified(&widened, options);
    origins.values_mut().for_each(|node| *node = before[*node]);
    (simple, origins)
}

fn simplified(graph: &Graph, options: &Options) -> (Graph, PrimaryMap<Node, Node>) {
    let programs = options.grain.programs;
    // Under strict numerics there is no library, and products have one order of terms.
    let by_lanes = options.grain.sums_products && options.gemm_from.is_some();
    let mut origins: PrimaryMap<Node, Node> = PrimaryMap::new();
    let mut out = Graph { slots: graph.slots.clone(), inputs: graph.inputs, ..Graph::default() };
    let mut new: FxHashMap<Node, Node> = FxHashMap::default();
    let live = live(graph);
    // Attentions keep their shape, by which they are found again.
    let attentions = attention::find(graph, options);
    let inside = attention::inner(&attentions);
    let computed = |node: Node| inside.contains(&node) || attentions.contains_key(&node);
    let mut pairs = one_pass::find(graph, options);
    for (node, data) in &graph.nodes {
        if !live.contains(&node) {
            continue;
        }
        let data = NodeData { args: data.args.iter().map(|a| new[a]).collect(), ..data.clone() };
        let made = match &data.op {
            Op::Contract if computed(node) => {
                let args = each_widened_last(&mut out, &data.args);
                out.nodes.push(NodeData { args, ..data })
            }
            _ if computed(node) => out.nodes.push(data),
            Op::Map(Pointwise::Exp) if is_next_to_maximum(graph, graph.nodes[node].args[0]) => {
                out.nodes.push(NodeData { op: Op::Map(Pointwise::ExpBelow), ..data })
            }
            Op::Reduce(..) if let Some(made) = pairs.made(&mut out, (node, &data), &new, programs) => made,
            Op::Reduce(kind, axes) => reduction(&mut out, *kind, data.args[0], axes, data.dtype, programs),
            Op::Contract if out.dims(data.args[0]).last() == Some(&0) => out.constant(data.dtype, 0, &data.dims),
            Op::Contract if let Some(vector) = vector(&out, data.args[0], data.args[1]).filter(|_| by_lanes) => {
                let (terms, axis) = vectors::terms(&mut out, data.args[0], data.args[1], vector);
                let wide = out.dtype(terms);
                let sums = reduction(&mut out, Reduction::Sum, terms, &[axis], wide, programs);
                vectors::result(&mut out, sums, &data.dims, data.dtype)
            }
            Op::Contract if let Some(wide) = parts::wide_factor(&out, &data.args).filter(|_| by_lanes) => {
                parts::product(&mut out, &data.args, wide)
            }
            Op::Contract => {
                let args = widened_last(&mut out, &data.args).unwrap_or_else(|| data.args.clone());
                let data = NodeData { args, ..data };
                match implicit::product(&mut out, &data, options) {
                    Some(made) => made,
                    None => out.nodes.push(data),
                }
            }
            Op::Scatter(..) if out.nodes[data.args[2]].is_empty() => data.args[0],
            Op::Scatter(..) if let Some(chosen) = chosen(&mut out, &data) => chosen,
            _ => out.nodes.push(data),
        };
        new.insert(node, made);
        while origins.len() < out.nodes.len() {
            origins.push(node);
        }
    }
    out.outputs = graph.outputs.iter().map(|n| new[n]).collect();
    (out, origins)
}

/// Whether a node is a number less the greatest of those that it is one of, or a NaN.
fn is_next_to_maximum(graph: &Graph, node: Node) -> bool {
    let Some((x, most)) = binary(graph, node, Pointwise::Sub) else { return false };
    let NodeData { op, args, .. } = &graph.nodes[expanded(graph, most)];
    matches!(op, Op::Reduce(Reduction::Max, _)) && args[0] == x
}

/// Nodes that an output depends on.
fn live(graph: &Graph) -> rustc_hash::FxHashSet<Node> {
    let mut live: rustc_hash::FxHashSet<Node> = graph.outputs.iter().copied().collect();
    for (node, data) in graph.nodes.iter().rev() {
        if live.contains(&node) {
            live.extend(data.args.iter().copied());
        }
    }
    live
}

/// A reduction, as a tree of several where one program would take too long.
pub(super) fn reduction(graph: &mut Graph, kind: Reduction, x: Node, axes: &[u8], dtype: DType, programs: u32) -> Node {
    let dims = graph.dims(x).clone();
    let terms: u64 = axes.iter().map(|&a| dims[a as usize]).product();
    let axes: SmallVec<[usize; 6]> = axes.iter().map(|&a| a as usize).collect();
    let kept: Dims = dims.iter().enumerate().map(|(i, &n)| if axes.contains(&i) { 1 } else { n }).collect();
    if terms == 0 || kept.contains(&0) {
        let fill = if kind == Reduction::Sum { 0 } else { identity(kind, dtype) };
        return graph.constant(dtype, fill, &kept);
    }
    if terms == 1 {
        return match kind.is_arg() {
            true => graph.constant(dtype, 0, &kept),
            false => x,
        };
    }
    let rows: u64 = kept.iter().product();
    let long = terms > LONGEST && matches!(kind, Reduction::Sum | Reduction::Prod);
    // Whether the rows are columns: their terms do not lie side by side.
    let last = (0..dims.len()).rfind(|&i| dims[i] != 1);
    let side_by_side = if last.is_some_and(|i| !axes.contains(&i)) { rows.min(COLUMNS) } else { 1 };
    let worth = terms >= 4 * CHUNK && terms * side_by_side >= WORTH_SHARING;
    // Columns keep a program busy for longer, and sharing them costs a second kernel over tiles of many rows.
    let few = if side_by_side > 1 { 4 } else { 2 };
    let shared = worth && rows.div_ceil(side_by_side) * few <= u64::from(programs);
    if !long && !shared {
        return graph.reduce(kind, x, &axes, dtype);
    }
    if kind.is_arg() {
        return indexed(graph, kind, x, (&axes, side_by_side > 1), &kept, dtype, programs);
    }
    // 16-bit floats keep their f32 sums between the levels.
    let wide = graph.cast(x, accumulator(kind, dtype));
    let chunks = Chunks::of(graph, kind, wide, (&axes, side_by_side > 1), &kept);
    let partial = chunks.reduce(graph, kind, chunks.x);
    let sum = chunks.join(graph, kind, partial, &kept, programs);
    graph.cast(sum, dtype)
}

/// The type in which a reduction of `dtype` accumulates.
pub fn accumulator(kind: Reduction, dtype: DType) -> DType {
    match kind {
        Reduction::Sum | Reduction::Prod => dtype.compute(),
        _ => dtype,
    }
}

/// The index of an extreme term: of the first chunk whose extreme it is, then inside that chunk.
fn indexed(
    graph: &mut Graph,
    kind: Reduction,
    x: Node,
    terms_of: (&[usize], bool),
    kept: &Dims,
    dtype: DType,
    programs: u32,
) -> Node {
    let extreme = if kind == Reduction::ArgMax { Reduction::Max } else { Reduction::Min };
    let chunks = Chunks::of(graph, kind, x, terms_of, kept);
    let partial = chunks.reduce(graph, extreme, chunks.x);
    let chunk = reduction(graph, kind, partial, &[chunks.axis as u8], DType::I64, programs);
    let all = graph.reshape(chunk, &chunks.with(&[1, 1]));
    let all = graph.expand(all, &chunks.with(&[1, CHUNK]));
    let inside = graph.gather(Index::Elements, chunks.x, chunks.axis, all);
    let term = graph.reduce(kind, inside, &[chunks.axis + 1], DType::I64);
    let [chunk, term] = [chunk, term].map(|node| graph.reshape(node, kept));
    let size = graph.constant(DType::I64, CHUNK, kept);
    let before = graph.map(Pointwise::Mul, &[chunk, size]);
    let index = graph.map(Pointwise::Add, &[before, term]);
    graph.cast(index, dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Grain;

    fn options(programs: u32) -> Options {
        Options::new(true, None, Grain::of_vectors(programs))
    }

    /// A library is asked for products of matrices alone where rows are summed faster.
    #[test]
    fn a_product_with_a_vector_is_a_sum() {
        for (a, b) in [([3, 1, 500], [3, 500, 70]), ([1, 70, 500], [1, 500, 1])] {
            let mut g = Graph::new();
            let [a, b] = [a, b].map(|dims| g.input(DType::Bf16, &dims));
            let y = g.contract(a, b);
            g.outputs.push(y);
            let contracts = |options: &Options| {
                let s = simplify(&g, options).0;
                assert_eq!((s.dims(s.outputs[0]), s.dtype(s.outputs[0])), (g.dims(y), DType::Bf16));
                s.nodes.values().filter(|d| d.op == Op::Contract).count()
            };
            let threads = Options { grain: Grain::of_threads(8000), gemm_from: Some(1), ..options(8) };
            assert_eq!(contracts(&threads), 0);
            assert_eq!(contracts(&Options { gemm_from: None, ..threads.clone() }), 1);
            assert_eq!(contracts(&Options { gemm_from: Some(1), ..options(8) }), 1);
        }
    }

    #[test]
    fn a_long_sum_becomes_levels_of_chunks() {
        let mut g = Graph::new();
        let x = g.input(DType::F16, &[3_000_000]);
        let sum = g.reduce(Reduction::Sum, x, &[0], DType::F16);
        g.outputs.push(sum);
        let s = simplify(&g, &options(8)).0;
        let reduced: Vec<u64> =
            s.nodes.values().filter(|d| matches!(d.op, Op::Reduce(..))).map(|d| s.nodes[d.args[0]].len()).collect();
        assert_eq!(reduced, [2930 * 1024, 2930]);
        assert_eq!(s.dtype(s.outputs[0]), DType::F16);
    }

    /// Chunks of columns lie whole in memory, one after the other.
    #[test]
    fn a_tall_sum_of_few_columns_becomes_chunks_of_rows() {
        let mut g = Graph::new();
        let x = g.input(DType::F32, &[10_000, 64]);
        let sum = g.reduce(Reduction::Sum, x, &[0], DType::F32);
        g.outputs.push(sum);
        let reduced = |programs| -> Vec<Vec<u64>> {
            let s = simplify(&g, &options(programs)).0;
            let reductions = s.nodes.values().filter(|d| matches!(d.op, Op::Reduce(..)));
            reductions.map(|d| s.dims(d.args[0]).to_vec()).collect()
        };
        assert_eq!(reduced(8), [vec![10, 1024, 64], vec![10, 64]]);
        assert_eq!(reduced(1), [vec![10_000, 64]]);
    }

    /// Chunks are compared by their extremes, and the one that wins is gone through again.
    #[test]
    fn the_greatest_of_a_tall_column_is_looked_for_in_its_chunk() {
        let mut g = Graph::new();
        let x = g.input(DType::F32, &[10_000, 64]);
        let first = g.reduce(Reduction::ArgMax, x, &[0], DType::I32);
        g.outputs.push(first);
        let s = simplify(&g, &options(8)).0;
        let reduced = s.nodes.values().filter_map(|d| match d.op {
            Op::Reduce(kind, _) => Some((kind, s.dims(d.args[0]).to_vec())),
            _ => None,
        });
        let wanted = [
            (Reduction::Max, vec![10, 1024, 64]),
            (Reduction::ArgMax, vec![10, 64]),
            (Reduction::ArgMax, vec![1, 1024, 64]),
        ];
        assert_eq!(reduced.collect::<Vec<_>>(), wanted);
        assert_eq!((s.dtype(s.outputs[0]), s.dims(s.outputs[0]).as_slice()), (DType::I32, &[1, 64][..]));
    }

    #[test]
    fn empty_and_single_reductions_are_constants_and_copies() {
        let mut g = Graph::new();
        let x = g.input(DType::F32, &[3, 0]);
        let sum = g.reduce(Reduction::Sum, x, &[1], DType::F32);
        let y = g.input(DType::F32, &[3, 1]);
        let max = g.reduce(Reduction::Max, y, &[1], DType::F32);
        g.outputs = vec![sum, max];
        let s = simplify(&g, &options(8)).0;
        assert!(matches!(s.nodes[s.outputs[0]].op, Op::Constant(0)));
        assert!(matches!(s.nodes[s.outputs[1]].op, Op::Input(1)));
    }
}
