//! Decides which product and which rows behind it are one kernel: each block of the product is finished while it is at hand,
//! and never written as it is unless somebody else wants it.  Where products are computed in blocks anyway, it saves all
//! that is read and written between; where the library would compute the product, [`Rates`](crate::schedule::cost::Rates)
//! tell whether it saves time.

use smallvec::SmallVec;

use super::rules::MOST_OPERANDS;
use super::{Group, Work};
use crate::graph::{Graph, Node};
use crate::schedule::choice::{Class, Way};
use crate::schedule::cost::Finished;
use crate::schedule::emit::product::blocks_of;
use crate::schedule::expr::Expr;
use crate::schedule::group::Body;
use crate::schedule::operands::operands;
use crate::schedule::plan::Options;
use crate::schedule::trace::Places;
use crate::schedule::{epilogue, implicit, looped, traffic};

/// Most results beside the product: all are computed before the first is written, in registers.
const MOST_RESULTS: usize = 2;

/// A product that may be finished where it is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    /// The product.
    pub node: Node,
    /// Whether the library computes it otherwise.
    pub by_library: bool,
}

/// The product that a group is, if its blocks may be finished by others' rows.
pub(super) fn product(graph: &Graph, work: &Work, options: &Options) -> Option<Product> {
    match work {
        _ if !options.fuse || options.gemm_from.is_none() => None,
        Work::Gemm(node) => options.grain.rates.map(|_| Product { node: *node, by_library: true }),
        Work::Looped { roots, body, .. } => {
            blocks_of(graph, roots[0], body, &options.grain).map(|_| Product { node: roots[0], by_library: false })
        }
        _ => None,
    }
}

/// The kernel of a product and of its reader's rows, if it is one; `is_wanted` tells whether others want the product, too.
/// Where the library could compute it as well, `decided` learns in which way it is.
pub(super) fn work(
    (graph, places): (&Graph, &Places),
    product: Product,
    (reader, is_wanted): (&Group, bool),
    options: &Options,
    decided: &mut Vec<(Class, Way)>,
) -> Option<Work> {
    let Work::Fused { roots, body } = &reader.work else { return None };
    let operands = reader.reads.len() + roots.len() + 2;
    if !body.folds.is_empty() || operands > MOST_OPERANDS || roots.len() > MOST_RESULTS {
        return None;
    }
    let Product { node, by_library } = product;
    let library = match by_library {
        true => Some((options.grain.rates?, pieces(graph, places, node, options)?)),
        false => None,
    };
    let may = implicit::kept(graph, node, options).is_some();
    let both = looped::trace_finished(graph, places, (node, Some((body, roots))), may).ok()?;
    let cut = blocks_of(graph, node, &both, &options.grain)?;
    if let Some((rates, turned)) = library {
        let asked = asked(graph, node, (body, roots), is_wanted);
        let class = Class::of(&asked, cut, turned);
        let modelled = || match rates.prefer_blocks(&asked, cut, options.grain.multiprocessors()) {
            true => Way::Blocks,
            false => Way::Library,
        };
        let way = options.choices.get(&class).unwrap_or_else(modelled);
        if decided.iter().all(|(known, _)| *known != class) {
            decided.push((class, way));
        }
        if way == Way::Library {
            return None;
        }
    }
    let roots: SmallVec<[Node; 2]> = [node].into_iter().chain(roots.iter().copied()).collect();
    Some(Work::Looped { roots, body: Box::new(both), initial: None })
}

/// Which of a product's factors do not have their rows along their last axis, if the widest accesses reach what it reads and
/// writes: the rates are those of such products.
fn pieces(graph: &Graph, places: &Places, node: Node, options: &Options) -> Option<[bool; 2]> {
    let aligned = |n: i64| n % i64::from(options.grain.aligned) == 0;
    let [a, b] = [0, 1].map(|i| graph.dims(graph.nodes[node].args[i]));
    let factors = operands(graph, places, node).ok()?;
    let dims = graph.dims(node);
    let reached = factors.iter().zip([a, b]).all(|((_, layout), dims)| {
        let rank = dims.len();
        let side = (rank - 2..rank).find(|&axis| layout.strides[axis] == 1);
        let others = (0..rank).filter(|&axis| Some(axis) != side && dims[axis] > 1);
        side.is_some_and(|axis| aligned(dims[axis] as i64))
            && aligned(layout.offset)
            && others.clone().all(|axis| aligned(layout.strides[axis]))
    }) && aligned(dims[dims.len() - 1] as i64);
    reached.then(|| factors.map(|(_, layout)| layout.strides.last() != Some(&1)))
}

/// What the two ways to compute a product and its tail depend on.
fn asked(graph: &Graph, node: Node, (body, roots): (&Body, &[Node]), is_wanted: bool) -> Finished {
    let data = &graph.nodes[node];
    let [batch, sides] = [&data.dims[..data.dims.len() - 2], &data.dims[data.dims.len() - 2..]];
    let k = graph.dims(data.args[0]).last().copied().unwrap_or(1);
    let bytes = |node: Node| graph.dtype(node).bytes() as u64;
    let mut reads = 0;
    traffic::loads(&body.exprs, &body.domain.axes, &mut |from, n| {
        reads += if from == node { 0 } else { n * bytes(from) }
    });
    let cost = |expr: &Expr| if let Expr::Map(op, _) = expr { u64::from(op.row().cost) } else { 0 };
    let rows: u64 = body.exprs.list.values().map(|data| cost(&data.expr)).sum();
    let from = super::super::widen::unwidened(graph, data.args[0]);
    Finished {
        sizes: [sides[0], sides[1], k],
        members: batch.iter().product(),
        bytes: [from.bytes() as u64, bytes(node)],
        is_wanted,
        reads,
        writes: roots.iter().map(|&root| graph.nodes[root].len() * bytes(root)).sum(),
        additions: rows * data.len(),
        // What is clamped to 0 the library does in other numerics than ours.
        is_epilogue: epilogue::form(graph, body, (node, from)).is_some_and(|form| !form.relu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::graph::{Op, Reduction, SliceDim};
    use crate::op::Pointwise as P;
    use crate::schedule::Choices;
    use crate::schedule::fuse::Reason;
    use crate::schedule::plan::{InputData, Layout, Step};
    use crate::schedule::{Grain, explain, plan};

    /// As on an H200.
    fn options(gemm_from: Option<u64>) -> Options {
        Options::new(true, gemm_from, Grain::of_threads(132 * 64).together())
    }

    /// `x · w + bias`, and `whole` operands as large as the result.
    fn layer([m, k, n]: [u64; 3], dtype: DType, whole: usize) -> Graph {
        let mut g = Graph::new();
        let (x, w) = (g.input(dtype, &[m, k]), g.input(dtype, &[k, n]));
        let mut y = g.contract(x, w);
        let bias = g.input(dtype, &[1, n]);
        let bias = g.expand(bias, &[m, n]);
        y = g.map(P::Add, &[y, bias]);
        for _ in 0..whole {
            let other = g.input(dtype, &[m, n]);
            y = g.map(P::Add, &[other, y]);
        }
        g.outputs.push(y);
        g
    }

    fn inputs(g: &Graph) -> Vec<InputData> {
        let inputs = g.nodes.values().filter(|d| matches!(d.op, Op::Input(_)));
        let data = |data: &crate::graph::NodeData| InputData {
            layout: Layout::contiguous(&data.dims),
            buffer_len: data.len(),
            donated: false,
        };
        inputs.map(data).collect()
    }

    /// The steps that compute, each by its rows.
    fn steps(g: &Graph, options: &Options) -> Vec<String> {
        let rows = |step: &Step| match step {
            Step::Launch { rows, .. } => Some(rows.join(" ")),
            Step::Gemm(_) => Some("gemm".into()),
            _ => None,
        };
        plan(g, &inputs(g), options).steps.iter().filter_map(rows).collect()
    }

    /// What was measured goes before what the model says, both ways, and the plan tells what there was to decide.
    #[test]
    fn measured_choices_go_first() {
        let graph = layer([8192, 768, 768], DType::Bf16, 1);
        let with = |choices| plan(&graph, &inputs(&graph), &Options { choices, ..options(Some(1)) });
        let [(class, Way::Blocks)] = with(Choices::NONE).decided[..] else { panic!("one product in blocks") };
        for way in Way::ALL {
            let plan = with(Choices::NONE.with(class, way));
            let by_library = plan.steps.iter().any(|step| matches!(step, Step::Gemm(_)));
            assert_eq!((by_library, &plan.decided[..]), (way == Way::Library, &[(class, way)][..]), "{plan}");
        }
    }

    #[test]
    fn short_products_with_wide_tails_are_one_kernel() {
        let g = layer([8192, 768, 768], DType::Bf16, 1);
        assert_eq!(steps(&g, &options(Some(1))), ["contract add add"]);
        let told = explain(&g, &inputs(&g), &options(Some(1)), &|_| false);
        let [step] = &told.steps[..] else { panic!("{told:?}") };
        assert_eq!(step.rows.iter().map(|row| row.name).collect::<Vec<_>>(), ["contract", "add", "add"]);
        assert_eq!((step.tail, told.edges), (None, vec![]));
        // The factors, the bias, the residual; the result alone.
        let [reads, writes] = [&step.reads, &step.writes].map(|list| list.iter().map(|v| v.bytes).collect::<Vec<_>>());
        assert_eq!(reads, [2 * 8192 * 768, 2 * 768 * 768, 2 * 768, 2 * 8192 * 768]);
        assert_eq!(writes, [2 * 8192 * 768]);
    }

    #[test]
    fn others_are_the_library_s() {
        let by_library = ["gemm", "add"];
        assert_eq!(steps(&layer([8192, 8192, 8192], DType::Bf16, 0), &options(Some(1))), by_library);
        // What no wide access reaches, and what no instruction multiplies.
        assert_eq!(steps(&layer([8192, 768, 2300], DType::Bf16, 0), &options(Some(1))), by_library);
        assert_eq!(steps(&layer([8192, 768, 2304], DType::F32, 0), &options(Some(1))), by_library);
        // A machine whose rates nobody knows.
        let unknown = Options { grain: Grain::of_threads(132 * 64), ..options(Some(1)) };
        assert_eq!(steps(&layer([8192, 768, 768], DType::Bf16, 1), &unknown), ["gemm", "add add"]);
        assert_eq!(steps(&layer([8192, 768, 768], DType::Bf16, 1), &options(Some(1))), ["contract add add"]);
        // A bias alone is an epilogue of its own.
        assert_eq!(steps(&layer([8192, 768, 2304], DType::Bf16, 0), &options(Some(1))), by_library);
    }

    /// What reads a part of a product leaves the rest to nobody; more products than a grid has programs are no blocks.
    #[test]
    fn tails_of_a_part_and_long_batches_stay_apart() {
        let mut g = Graph::new();
        let (x, w) = (g.input(DType::Bf16, &[8192, 768]), g.input(DType::Bf16, &[768, 768]));
        let y = g.contract(x, w);
        let whole = |len| SliceDim { start: 0, len, step: 1 };
        let part = g.slice(y, &[whole(4096), whole(768)]);
        let other = g.input(DType::Bf16, &[4096, 768]);
        let sum = g.map(P::Add, &[part, other]);
        g.outputs.push(sum);
        assert_eq!(steps(&g, &options(Some(1))), ["gemm", "add"]);
        assert_eq!(steps(&g, &options(Some(u64::MAX))), ["contract", "add"]);

        let mut g = Graph::new();
        let [x, y, z] = [0; 3].map(|_| g.input(DType::Bf16, &[65_536, 64, 64]));
        let product = g.contract(x, y);
        let sum = g.map(P::Add, &[product, z]);
        g.outputs.push(sum);
        assert_eq!(steps(&g, &options(Some(1))), ["gemm", "add"]);
    }

    #[test]
    fn without_a_library_all_are_finished() {
        let g = layer([8192, 8192, 8192], DType::F16, 0);
        assert_eq!(steps(&g, &options(Some(u64::MAX))), ["contract add"]);
        // Strict numerics add all terms one by one, and others' rows may stand alone.
        assert_eq!(steps(&g, &options(None)), ["contract", "add"]);
        assert_eq!(steps(&g, &Options { fuse: false, ..options(Some(u64::MAX)) }), ["contract", "add"]);
    }

    /// Sums of a large block leave no room for what has four bytes beside each.
    #[test]
    fn wide_operands_are_met_in_smaller_blocks() {
        let grid = |dtype: DType| {
            let mut g = Graph::new();
            let (x, w) = (g.input(DType::F16, &[8192, 768]), g.input(DType::F16, &[768, 768]));
            let y = g.contract(x, w);
            let (y, other) = (g.cast(y, dtype), g.input(dtype, &[8192, 768]));
            let y = g.map(P::Add, &[y, other]);
            g.outputs.push(y);
            let plan = plan(&g, &inputs(&g), &options(Some(u64::MAX)));
            let Step::Launch { grid, .. } = plan.steps[0] else { panic!("{plan}") };
            grid[0]
        };
        assert_eq!([DType::F16, DType::F32].map(grid), [64 * 3, 64 * 6]);
    }

    /// A norm needs whole rows: it stays a kernel of its own, and reports say why.
    #[test]
    fn what_needs_whole_rows_is_told_apart() {
        let mut g = layer([64, 64, 64], DType::F16, 0);
        let y = g.reduce(Reduction::Max, g.outputs[0], &[1], DType::F16);
        g.outputs = vec![y];
        let options = options(Some(u64::MAX));
        assert_eq!(steps(&g, &options), ["contract", "add max"]);
        let reasons: Vec<Reason> =
            explain(&g, &inputs(&g), &options, &|_| false).edges.iter().map(|edge| edge.reason).collect();
        assert_eq!(reasons, [Reason::FromBlocks]);
    }
}
