//! What became of a graph: for each step the rows it computes and the bytes it moves, for each boundary its reason.
//! Planning is done anew for it, so that those who do not ask pay nothing.

use cranelift_entity::PrimaryMap;
use rustc_hash::FxHashSet;

use super::assemble::assemble;
use super::fuse::{self, Boundary, Groups, Kept, Reason};
use super::plan::{Absorbs, Arg, InputData, Options, Plan, Step};
use super::simplify::simplify;
use super::traffic::{self, Moved};
use crate::dtype::DType;
use crate::graph::{Dims, Graph, Node, Op};

/// A row that a step computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// The node of the recorded graph that it stands for.
    pub origin: Node,
    /// Extents of its result.
    pub dims: Dims,
    /// Element type of its result.
    pub dtype: DType,
}

/// A value in memory, as a step sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its name in the scheduled graph.
    pub node: Node,
    /// Extents.
    pub dims: Dims,
    /// Element type.
    pub dtype: DType,
    /// Bytes that are read or written of it, each counted once.
    pub bytes: u64,
    /// The step that computes it; `None` for what the graph was given.
    pub from: Option<usize>,
    /// Whether it outlives the graph.
    pub wanted: bool,
}

/// One step of the plan that computes something; a product and what follows it there count as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Its number among the plan's steps; of a product with a tail, the product's.
    pub step: usize,
    /// The number of its tail, if it is a product that has one; what the library computes with the product has none.
    pub tail: Option<usize>,
    /// Rows, the earliest first.
    pub rows: Vec<Row>,
    /// What it loads.
    pub reads: Vec<Value>,
    /// What it stores.
    pub writes: Vec<Value>,
    /// Bytes that its rows would move if each ran alone, without those that an earlier step computes too.
    pub alone: u64,
}

/// A value that one step stores and another one loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The step that computes it.
    pub from: usize,
    /// The step that reads it.
    pub to: usize,
    /// The value.
    pub node: Node,
    /// Why the two are not one.
    pub reason: Reason,
    /// Why the value is in memory.
    pub kept: Kept,
}

/// What became of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Steps that compute, in order.
    pub steps: Vec<Explained>,
    /// Boundaries, by reader.
    pub edges: Vec<Edge>,
}

impl Explanation {
    /// Bytes that all rows would move if each ran alone.
    pub fn alone(&self) -> u64 {
        self.steps.iter().map(|s| s.alone).sum()
    }

    /// Bytes that the steps move.
    pub fn bytes(&self) -> u64 {
        self.steps.iter().flat_map(|s| s.reads.iter().chain(&s.writes)).map(|v| v.bytes).sum()
    }
}

/// Explains the plan of a graph; step numbers are those of [`plan_for`](super::plan_for()).
pub fn explain(graph: &Graph, inputs: &[InputData], options: &Options, absorbs: Absorbs<'_>) -> Explanation {
    let (simple, origins) = simplify(graph, options);
    let groups = fuse::groups(simple, inputs, options);
    let (plan, group_of_step) = assemble(&groups, inputs, options, absorbs);
    let mut steps = last_steps(&plan, &group_of_step, groups.list.len());
    let follows = |at: usize| match groups.list[at].is_tail {
        true if steps[at] == steps[at - 1] => Some(Follows::Absorbed),
        true if has_tail(&plan, steps[at - 1]) => Some(Follows::Tail(steps[at])),
        _ => None,
    };
    let follows: Vec<Option<Follows>> = (0..groups.list.len()).map(follows).collect();
    (0..steps.len()).filter(|&at| follows[at].is_some()).for_each(|at| steps[at] = steps[at - 1]);
    let (outputs, wanted) = (groups.outputs(), traffic::wanted(&groups));
    let explainer = Explainer { groups: &groups, inputs, origins, steps, outputs, wanted };
    let mut counted: FxHashSet<Node> = FxHashSet::default();
    let mut explanation = Explanation::default();
    for (at, &follows) in follows.iter().enumerate() {
        let (mut step, nodes) = explainer.step(at);
        let new = nodes.into_iter().filter(|&n| counted.insert(n));
        step.alone = new.map(|n| traffic::alone(&groups.graph, n)).sum();
        match (follows, explanation.steps.last_mut()) {
            (Some(Follows::Absorbed), Some(product)) => product.take(step, None, false),
            (Some(Follows::Tail(tail)), Some(product)) => {
                let to_memory = explainer.is_read_elsewhere(at - 1) || !in_place(&plan, product.step, tail);
                product.take(step, Some(tail), to_memory);
            }
            _ => explanation.steps.push(step),
        }
    }
    // A tail that was written so that its programs do not keep to runs of the product.
    let apart = (0..follows.len()).filter(|&at| groups.list[at].is_tail && follows[at].is_none());
    let apart = apart.map(|to| {
        let node = groups.list[to - 1].roots()[0];
        Boundary { from: to - 1, to, node, reason: Reason::OtherOrder, kept: Kept::Made }
    });
    explanation.edges = fuse::boundaries(&groups, options)
        .into_iter()
        .chain(apart)
        .map(|b| Edge {
            from: explainer.steps[b.from],
            to: explainer.steps[b.to],
            node: b.node,
            reason: b.reason,
            kept: b.kept,
        })
        .collect();
    explanation.edges.sort_by_key(|edge| (edge.to, edge.node));
    explanation
}

/// How a group follows the product before it.
#[derive(Clone, Copy)]
enum Follows {
    /// In the same step.
    Absorbed,
    /// As the next step, of this number.
    Tail(usize),
}

/// Whether the next step is the tail of the product that this one is.
fn has_tail(plan: &Plan, step: usize) -> bool {
    matches!(&plan.steps[step], Step::Gemm(gemm) if gemm.tail.is_some())
}

/// Whether the tail of a product writes over it.
fn in_place(plan: &Plan, product: usize, tail: usize) -> bool {
    let (Step::Gemm(gemm), Step::Launch { args, .. }) = (&plan.steps[product], &plan.steps[tail]) else { return false };
    args.iter().any(|arg| matches!(arg, Arg::Buffer(buf) if plan.buffers[*buf].takes == Some(gemm.c.buffer)))
}

impl Explained {
    /// Makes one step of a product and what follows it, which finds the product in registers or caches.  `to_memory` tells whether the
    /// product itself is written, too.
    fn take(&mut self, tail: Explained, step: Option<usize>, to_memory: bool) {
        let product: Vec<Node> = self.writes.iter().map(|v| v.node).collect();
        if !to_memory {
            self.writes.clear();
        }
        for value in tail.reads.into_iter().filter(|v| !product.contains(&v.node)) {
            match self.reads.iter_mut().find(|v| v.node == value.node) {
                Some(same) => same.bytes = same.bytes.max(value.bytes),
                None => self.reads.push(value),
            }
        }
        self.rows.extend(tail.rows);
        self.writes.extend(tail.writes);
        self.alone += tail.alone;
        self.tail = step;
    }
}

/// The last step of each group, which stores its results; that of the group before where it has none of its own.
fn last_steps(plan: &Plan, group_of_step: &[usize], groups: usize) -> Vec<usize> {
    let mut own: Vec<Option<usize>> = vec![None; groups];
    let computing = plan.steps.iter().enumerate().filter(|(_, s)| !matches!(s, Step::Free(_)));
    computing.zip(group_of_step).for_each(|((number, _), &group)| own[group] = Some(number));
    let mut last = 0;
    let step = |own: Option<usize>| {
        last = own.unwrap_or(last);
        last
    };
    own.into_iter().map(step).collect()
}

struct Explainer<'a> {
    groups: &'a Groups,
    inputs: &'a [InputData],
    /// The recorded node of each scheduled one.
    origins: PrimaryMap<Node, Node>,
    /// The step of each group.
    steps: Vec<usize>,
    outputs: FxHashSet<Node>,
    wanted: FxHashSet<Node>,
}

impl Explainer<'_> {
    fn step(&self, at: usize) -> (Explained, Vec<Node>) {
        let (graph, group) = (&self.groups.graph, &self.groups.list[at]);
        let nodes = self.groups.rows(group.roots());
        let rows = nodes.iter().map(|&n| self.row(n)).collect();
        let reads = traffic::reads(self.groups, group, |n| self.held(n));
        let writes = traffic::writes(graph, group, &self.wanted);
        let explained = Explained {
            step: self.steps[at],
            tail: None,
            rows,
            reads: reads.into_iter().map(|m| self.value(m)).collect(),
            writes: writes.into_iter().map(|m| self.value(m)).collect(),
            alone: 0,
        };
        (explained, nodes)
    }

    /// Whether anybody but the next group reads what this one computes.
    fn is_read_elsewhere(&self, at: usize) -> bool {
        let roots = self.groups.list[at].roots();
        let others = self.groups.list.iter().skip(at + 2);
        let mut readers = others.filter(|g| roots.iter().any(|n| g.reads.contains(n)));
        readers.next().is_some() || roots.iter().any(|n| self.outputs.contains(n))
    }

    fn row(&self, node: Node) -> Row {
        let graph = &self.groups.graph;
        let data = &graph.nodes[node];
        // A copy that scheduling added stands for what it copies.
        let origin = self.origins.get(node).or_else(|| self.origins.get(*data.args.first()?)).copied();
        let name = super::assemble::row_name(graph, node);
        Row { name, origin: origin.unwrap_or(node), dims: data.dims.clone(), dtype: data.dtype }
    }

    fn value(&self, moved: Moved) -> Value {
        let data = &self.groups.graph.nodes[moved.node];
        let from = self.groups.list.iter().position(|g| g.roots().contains(&moved.node)).map(|g| self.steps[g]);
        let (node, bytes, wanted) = (moved.node, moved.bytes, self.outputs.contains(&moved.node));
        Value { node, dims: data.dims.clone(), dtype: data.dtype, bytes, from, wanted }
    }

    /// Elements of the buffer that holds a node.
    fn held(&self, node: Node) -> u64 {
        match self.groups.graph.nodes[node].op {
            Op::Input(number) => self.inputs[number as usize].buffer_len,
            _ => self.groups.graph.nodes[node].len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Reduction;
    use crate::op::Pointwise as P;
    use crate::schedule::{self, Grain, Layout};

    /// A linear layer, its activation, and a softmax of it.
    fn layer() -> (Graph, Vec<InputData>, Options) {
        let mut g = Graph::new();
        let (x, w, b) = (g.input(DType::F32, &[8, 32]), g.input(DType::F32, &[32, 16]), g.input(DType::F32, &[16]));
        let y = g.contract(x, w);
        let y = g.map(P::Add, &[y, b]);
        let most = g.reduce(Reduction::Max, y, &[1], DType::F32);
        let y = g.map(P::Sub, &[y, most]);
        let y = g.map(P::Exp, &[y]);
        let sum = g.reduce(Reduction::Sum, y, &[1], DType::F32);
        let y = g.map(P::Div, &[y, sum]);
        g.outputs.push(y);
        let input = |dims: &[u64]| InputData {
            layout: Layout::contiguous(dims),
            buffer_len: dims.iter().product(),
            donated: false,
        };
        let inputs = vec![input(&[8, 32]), input(&[32, 16]), input(&[16])];
        (g, inputs, Options::new(true, Some(1), Grain::of_vectors(4)))
    }

    #[test]
    fn steps_are_those_of_the_plan() {
        let (g, inputs, options) = layer();
        let plan = schedule::plan(&g, &inputs, &options);
        let told = explain(&g, &inputs, &options, &|_| false);
        for step in &told.steps {
            let names: Vec<&str> = step.rows.iter().map(|r| r.name).collect();
            let mut wanted = Vec::new();
            for step in [step.step].into_iter().chain(step.tail) {
                match &plan.steps[step] {
                    Step::Launch { rows, .. } => wanted.extend_from_slice(rows),
                    Step::Gemm(_) => wanted.push("contract"),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(names, wanted);
            // Each row is one of the recorded graph's.
            for row in &step.rows {
                assert_eq!((&g.nodes[row.origin].dims, g.nodes[row.origin].dtype), (&row.dims, row.dtype));
            }
        }
    }

    #[test]
    fn bytes_are_counted_once() {
        let (g, inputs, options) = layer();
        let told = explain(&g, &inputs, &options, &|_| false);
        let moved: Vec<(Vec<u64>, Vec<u64>)> = told
            .steps
            .iter()
            .map(|s| (s.reads.iter().map(|v| v.bytes).collect(), s.writes.iter().map(|v| v.bytes).collect()))
            .collect();
        // The softmax is the product's tail, finds it in the cache and leaves a result of its own.
        assert_eq!(moved, [(vec![1024, 2048, 64], vec![512, 512])]);
        let row = |reads: u64, writes: u64| 4 * (reads + writes);
        let alone = [
            row(768, 128),
            row(128 + 16, 128),
            row(128, 8),
            row(128 + 8, 128),
            row(128, 128),
            row(128, 8),
            row(128 + 8, 128),
        ];
        assert_eq!(told.alone(), alone.iter().sum::<u64>());
        assert_eq!(told.edges, []);
    }

    #[test]
    fn a_gather_reads_what_it_picks() {
        let mut g = Graph::new();
        let (table, tokens) = (g.input(DType::F32, &[1000, 16]), g.input(DType::I64, &[7]));
        let rows = g.gather(crate::graph::Index::Positions, table, 0, tokens);
        g.outputs.push(rows);
        let input = |dims: &[u64]| InputData {
            layout: Layout::contiguous(dims),
            buffer_len: dims.iter().product(),
            donated: false,
        };
        let options = Options::new(true, Some(1), Grain::of_vectors(4));
        let told = explain(&g, &[input(&[1000, 16]), input(&[7])], &options, &|_| false);
        let reads: Vec<u64> = told.steps[0].reads.iter().map(|v| v.bytes).collect();
        assert_eq!(reads, [7 * 16 * 4, 7 * 8]);
    }
}
