//! From a graph to a plan: simplified, grouped, emitted, with a buffer for each result for as long as it is needed.

use cranelift_entity::PrimaryMap;
use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::emit::{self, Emitted, Operand, Passes};
use super::epilogue;
use super::expr::{Expr, Exprs};
use super::fuse::{Group, Groups, Work, groups};
use super::grain::Grain;
use super::group::{Body, Store};
use super::operands::operands;
use super::plan::{
    Absorbs, Arg, Buf, BufferData, Epilogue, Gemm, InputData, Layout, Matrix, Options, Output, Plan, Sort, Step, Tail,
};
use super::simplify::simplify;
use super::trace::strided;
use crate::DType;
use crate::graph::{Graph, Node, Op};
use crate::tile::Program;

/// Offsets below this fit 32 bits, and so does the end of the points of a program that begins there: it has no more than
/// there are in all.
const NARROW: u64 = 1 << 30;

/// Plans the run of a graph whose inputs lie as `inputs` say.
pub fn plan(graph: &Graph, inputs: &[InputData], options: &Options) -> Plan {
    plan_for(graph, inputs, options, &|_| false)
}

/// As [`plan()`], for a machine whose library computes products with those epilogues that it `absorbs`.
pub fn plan_for(graph: &Graph, inputs: &[InputData], options: &Options, absorbs: Absorbs<'_>) -> Plan {
    let (simple, origins) = simplify(graph, options);
    let groups = groups(simple, inputs, options);
    let (mut plan, group_of_step) = assemble(&groups, inputs, options, absorbs);
    plan.known = known(&plan, &groups, &origins, &group_of_step);
    plan
}

/// [`Plan::known`], given where the nodes of the simplified graph come from.
fn known(plan: &Plan, groups: &Groups, origins: &PrimaryMap<Node, Node>, group_of_step: &[usize]) -> Vec<u32> {
    let mut computing = group_of_step.iter();
    let steps = plan.steps.iter().scan(0, |known, step| {
        if !matches!(step, Step::Free(_))
            && let Some(&at) = computing.next()
        {
            let origins = groups.list[at].roots().iter().filter_map(|&root| origins.get(root));
            *known = origins.map(|origin| origin.as_u32() + 1).max().unwrap_or(u32::MAX);
        }
        Some(*known)
    });
    steps.collect()
}

/// The plan of finished groups, and for each of its steps that compute something the number of its group.  A tail that
/// its product absorbs has no step.
pub(super) fn assemble(
    groups: &Groups,
    inputs: &[InputData],
    options: &Options,
    absorbs: Absorbs<'_>,
) -> (Plan, Vec<usize>) {
    let mut assembler = Assembler::new(groups, inputs, options, absorbs);
    let mut group_of_step = Vec::new();
    for (at, group) in groups.list.iter().enumerate() {
        let before = assembler.steps.len();
        assembler.group(at, group);
        let computing = assembler.steps[before..].iter().filter(|s| !matches!(s, Step::Free(_)));
        group_of_step.extend(computing.map(|_| at));
    }
    (assembler.finish(), group_of_step)
}

struct Assembler<'a> {
    groups: &'a Groups,
    options: &'a Options,
    absorbs: Absorbs<'a>,
    buffers: PrimaryMap<Buf, BufferData>,
    buffer_of: FxHashMap<Node, Buf>,
    /// The last group that reads each node; those that stay are not in it.
    last_use: FxHashMap<Node, usize>,
    wanted: FxHashSet<Node>,
    programs: IndexSet<Program, FxBuildHasher>,
    steps: Vec<Step>,
    index: DType,
    /// Which inputs' buffers nobody else will read.
    donated: Vec<bool>,
    /// Buffers whose memory went to a result.
    taken: FxHashSet<Buf>,
    /// Nodes that only the product just assembled reads, which keeps them until its tail has run.
    held: Vec<Node>,
    /// The group that the product just assembled has absorbed.
    absorbed: Option<usize>,
}

impl<'a> Assembler<'a> {
    fn new(groups: &'a Groups, inputs: &[InputData], options: &'a Options, absorbs: Absorbs<'a>) -> Self {
        let graph = &groups.graph;
        let mut buffers = PrimaryMap::new();
        let mut buffer_of = FxHashMap::default();
        let mut widest = inputs.iter().map(|i| i.buffer_len).max().unwrap_or(0);
        for (node, data) in &graph.nodes {
            widest = widest.max(data.len());
            if let Op::Input(number) = data.op {
                let len = inputs[number as usize].buffer_len;
                let input = Some(number);
                buffer_of.insert(node, buffers.push(BufferData { dtype: data.dtype, len, input, takes: None }));
            }
        }
        let kept = groups.outputs();
        let mut last_use = FxHashMap::default();
        let mut wanted = kept.clone();
        for (at, group) in groups.list.iter().enumerate() {
            for node in group.loads() {
                let own = group.roots().contains(&node);
                if !own {
                    wanted.insert(node);
                }
                if !kept.contains(&node) {
                    last_use.insert(node, at);
                }
            }
        }
        let index = if widest < NARROW { DType::I32 } else { DType::I64 };
        let donated = inputs.iter().map(|i| i.donated).collect();
        let (programs, steps, taken, held) = Default::default();
        Assembler {
            groups,
            options,
            absorbs,
            buffers,
            buffer_of,
            last_use,
            wanted,
            programs,
            steps,
            index,
            donated,
            taken,
            held,
            absorbed: None,
        }
    }

    fn buffer(&mut self, node: Node) -> Buf {
        let data = &self.groups.graph.nodes[node];
        let fresh = BufferData { dtype: data.dtype, len: data.len(), input: None, takes: None };
        *self.buffer_of.entry(node).or_insert_with(|| self.buffers.push(fresh))
    }

    fn group(&mut self, at: usize, group: &Group) {
        let graph = &self.groups.graph;
        let (options, index) = (self.options, self.index);
        match &group.work {
            Work::Fused { .. } if self.absorbed == Some(at) => {}
            Work::Fused { roots, body } => {
                let mut body = body.as_ref().clone();
                body.stores.retain(|s| self.wanted.contains(&s.node));
                let product = if group.is_tail { at.checked_sub(1) } else { None };
                let stores: &[Store] = if body.folds.is_empty() { &body.stores } else { &[] };
                let inplace = self.inplace(at, (&body.exprs, stores), product);
                let pointwise = body.folds.is_empty();
                let grain = product.filter(|_| pointwise).map_or(options.grain, |product| self.cut(product));
                let emitted = emit::fused::emit(graph, &body, &inplace, grain, index);
                let share = emitted.share;
                self.launch(emitted, self.rows(roots));
                if let (Some(share), Some(product)) = (share, product) {
                    self.finish_product(product, &body, share);
                }
            }
            Work::Looped { roots, body, initial } => {
                if let Some(initial) = initial {
                    self.launch(emit::fused::emit(graph, initial, &[], options.grain, index), vec!["copy"]);
                }
                // Strict numerics have one order for the terms of all products.
                let in_order = options.gemm_from.is_none();
                let grain = if in_order { options.grain.in_order() } else { options.grain };
                let mut body = body.as_ref().clone();
                if !body.tail.is_empty() {
                    body.is_stored = self.wanted.contains(&roots[0]);
                    body.tail.retain(|s| self.wanted.contains(&s.node));
                }
                let inplace = self.inplace(at, (&body.exprs, &body.tail), None);
                let passes = emit::looped::emit(graph, roots[0], &body, &inplace, grain, index);
                self.passes(passes, &self.rows(roots));
            }
            Work::Attention { roots, body } => {
                let result = (roots[0], &self.groups.places);
                // Scores are nowhere: they have no places that could be too far.
                let index = self.index_for(group.loads().into_iter().chain(roots.iter().copied()));
                self.launch(emit::attention::emit(graph, result, body, options.grain, index), self.rows(roots));
            }
            Work::Slopes { roots, body } => {
                let places = &self.groups.places;
                let index = self.index_for(group.loads().into_iter().chain(roots.iter().copied()));
                self.launch(emit::slopes::emit(graph, places, body, options.grain, index), self.rows(roots));
            }
            Work::Gemm(node) => {
                let gemm = self.gemm(at, *node);
                self.steps.push(Step::Gemm(gemm));
            }
            Work::Sort(node) => {
                let sort = self.sort(*node);
                self.steps.push(Step::Sort(sort));
            }
            Work::United => {}
        }
        let mut dead = std::mem::take(&mut self.held);
        dead.extend(group.loads().into_iter().filter(|n| self.last_use.get(n) == Some(&at)));
        if self.groups.list.get(at + 1).is_some_and(|next| next.is_tail) {
            self.held = dead;
            return;
        }
        for node in dead {
            let free = self.buffer(node);
            if !self.taken.contains(&free) {
                self.steps.push(Step::Free(free));
            }
            self.last_use.remove(&node);
        }
    }

    /// The type of index arithmetic in the buffers of some nodes alone.
    fn index_for(&self, mut nodes: impl Iterator<Item = Node>) -> DType {
        let length = |node: Node| {
            let buffer = self.buffer_of.get(&node).map_or(0, |&buffer| self.buffers[buffer].len);
            buffer.max(self.groups.graph.nodes[node].len())
        };
        if nodes.all(|node| length(node) < NARROW) { DType::I32 } else { self.index }
    }

    /// How a product's pointwise tail is cut.  Libraries divide the longer side of a product among threads; where those
    /// are the columns, programs keep to bands of them.
    fn cut(&self, product: usize) -> Grain {
        let dims = &self.groups.graph.nodes[self.groups.list[product].roots()[0]].dims;
        match dims[dims.len() - 1] > dims[dims.len() - 2] {
            true => self.options.grain.in_bands(),
            false => self.options.grain,
        }
    }

    /// Makes the launch just assembled the tail of the product before it, if its programs keep to runs of whole rows, or
    /// of columns of them.
    fn finish_product(&mut self, product: usize, body: &Body, share: emit::Share) {
        let product = self.groups.list[product].roots()[0];
        let columns = self.groups.graph.dims(product).last().copied().unwrap_or(1);
        let terms: u64 = body.domain.axes.iter().filter(|a| a.reduced).map(|a| a.extent).product();
        let [.., Step::Gemm(gemm), Step::Launch { grid, .. }] = &mut self.steps[..] else { return };
        let is_divided = grid[1] > 1;
        if !is_divided || terms == 1 && share.row == columns {
            let columns = if is_divided { share.piece } else { columns };
            gemm.tail = Some(Tail { span: share.points * terms, columns });
        }
    }

    /// Results that may take the place of an operand: pairs of stored and loaded nodes.  The operand is read here for
    /// the last time, nowhere but at the place of the result, and in a kernel that visits each point once.  A tail runs
    /// while its product does: it takes the product's own place rather than another's, and never that of a factor.
    fn inplace(&mut self, at: usize, (exprs, stores): (&Exprs, &[Store]), product: Option<usize>) -> Vec<(Node, Node)> {
        let mut pairs: Vec<(Node, Node)> = Vec::new();
        for store in stores {
            let fits = |this: &Self, node: Node| {
                let (from, to) = (&this.buffers[this.buffer_of[&node]], &this.groups.graph.nodes[store.node]);
                let free = from.input.is_none_or(|number| this.donated[number as usize]);
                free && from.dtype == to.dtype && from.len == to.len() && this.last_use.get(&node) == Some(&at)
            };
            let same_place = |node: Node| {
                exprs.list.values().all(|d| match &d.expr {
                    Expr::Load { node: n, at, checks } => *n != node || *at == store.at && checks.is_empty(),
                    _ => true,
                })
            };
            let product = product.map(|product| &self.groups.list[product]);
            let is_result = |n: &Node| product.is_some_and(|p| p.roots().contains(n));
            let is_factor = |n: &Node| product.is_some_and(|p| p.reads.contains(n));
            let loads = || exprs.loads().filter(|n| self.buffer_of.contains_key(n) && !is_factor(n));
            let mut operands = loads().filter(is_result).chain(loads());
            let found = operands.find(|&n| fits(self, n) && same_place(n) && !pairs.iter().any(|p| p.1 == n));
            if let Some(node) = found
                && !self.buffer_of.contains_key(&store.node)
            {
                let (taken, buffer) = (self.buffer_of[&node], self.buffer(store.node));
                self.buffers[buffer].takes = Some(taken);
                self.taken.insert(taken);
                pairs.push((store.node, node));
            }
        }
        pairs
    }

    /// Kernels that run one after the other, with buffers of their own between them.
    fn passes(&mut self, passes: Passes, rows: &[&'static str]) {
        let fresh = |&(dtype, len): &(DType, u64)| BufferData { dtype, len, input: None, takes: None };
        let scratch: Vec<Buf> = passes.scratch.iter().map(|s| self.buffers.push(fresh(s))).collect();
        for emitted in passes.list {
            self.launch_between(emitted, rows.to_vec(), &scratch);
        }
        self.steps.extend(scratch.into_iter().map(Step::Free));
    }

    fn launch(&mut self, emitted: Emitted, rows: Vec<&'static str>) {
        self.launch_between(emitted, rows, &[]);
    }

    fn launch_between(&mut self, emitted: Emitted, rows: Vec<&'static str>, scratch: &[Buf]) {
        let args = emitted.args.iter().map(|arg| match arg {
            Operand::Node(node) => Arg::Buffer(self.buffer(*node)),
            Operand::Scalar(arg) => *arg,
            Operand::Scratch(number) => Arg::Buffer(scratch[*number]),
        });
        let args = args.collect();
        let (program, _) = self.programs.insert_full(emitted.program);
        self.steps.push(Step::Launch { program, grid: emitted.grid, args, checks: emitted.checks, rows });
    }

    /// The product that group `at` is, with its tail where the library computes both and nobody else reads the product.
    fn gemm(&mut self, at: usize, node: Node) -> Gemm {
        let product = self.product(node);
        let tail = self.groups.list.get(at + 1).filter(|tail| tail.is_tail);
        let sole = self.last_use.get(&node) == Some(&(at + 1));
        let Some(Work::Fused { body, .. }) = tail.filter(|_| sole).map(|tail| &tail.work) else { return product };
        let mut body = body.as_ref().clone();
        body.stores.retain(|s| self.wanted.contains(&s.node));
        let graph = &self.groups.graph;
        let Some(form) = epilogue::form(graph, &body, (node, product.from)) else { return product };
        let bias = form.bias.map(|(node, first)| (self.buffer(node), first));
        let epilogue = Some(Epilogue { bias, relu: form.relu });
        let whole = Gemm { dtype: graph.dtype(form.result), epilogue, ..product.clone() };
        if self.buffer_of.contains_key(&form.result) || !(self.absorbs)(&whole) {
            return product;
        }
        // The product itself is never in memory: the result has its buffer.
        self.last_use.remove(&node);
        self.buffer_of.remove(&node);
        self.buffer_of.insert(form.result, whole.c.buffer);
        self.buffers[whole.c.buffer].dtype = whole.dtype;
        self.absorbed = Some(at + 1);
        whole
    }

    fn product(&mut self, node: Node) -> Gemm {
        let graph = &self.groups.graph;
        let data = &graph.nodes[node];
        let rank = data.dims.len();
        let k = graph.dims(data.args[0])[rank - 1];
        let places = &self.groups.places;
        let mut matrix = |base: Node, layout: Layout| Matrix {
            buffer: self.buffer(base),
            offset: layout.offset,
            row_stride: layout.strides[rank - 2],
            col_stride: layout.strides[rank - 1],
            batch_strides: SmallVec::from_slice(&layout.strides[..rank - 2]),
        };
        let [a, b] = match operands(graph, places, node) {
            Ok(both) => both,
            Err(arg) => unreachable!("{arg} is no strided operand"),
        };
        let from = graph.dtype(a.0);
        let [a, b] = [a, b].map(|(base, layout)| matrix(base, layout));
        let c = matrix(node, places[&node].clone());
        let (dtype, batch) = (data.dtype, SmallVec::from_slice(&data.dims[..rank - 2]));
        let [m, n] = [data.dims[rank - 2], data.dims[rank - 1]];
        Gemm { dtype, from, m, n, k, batch, a, b, c, epilogue: None, tail: None }
    }

    fn sort(&mut self, node: Node) -> Sort {
        let graph = &self.groups.graph;
        let data = &graph.nodes[node];
        let (axis, descending, indices) = match data.op {
            Op::Sort { axis, descending } => (axis, descending, None),
            Op::ArgSort { axis, descending } => (axis, descending, Some(data.dtype)),
            _ => unreachable!("{node} is no sort"),
        };
        let arg = data.args[0];
        let Some((base, layout)) = strided(graph, &self.groups.places, arg) else {
            unreachable!("{arg} is no strided operand")
        };
        let (input, output) = (self.buffer(base), self.buffer(node));
        let (dtype, dims, len) = (graph.dtype(arg), data.dims.clone(), graph.dims(arg)[axis as usize]);
        Sort { dtype, dims, axis, len, descending, indices, input, layout, output }
    }

    /// Names of the rows that these nodes bring into a kernel, first the earliest.
    fn rows(&self, roots: &[Node]) -> Vec<&'static str> {
        self.groups.rows(roots).into_iter().map(|n| row_name(&self.groups.graph, n)).collect()
    }

    fn finish(mut self) -> Plan {
        let graph = &self.groups.graph;
        let outputs = graph.outputs.iter().map(|&node| match strided(graph, &self.groups.places, node) {
            Some((base, layout)) => Output { buffer: self.buffer(base), layout },
            None => unreachable!("{node} is wanted and has no buffer"),
        });
        let outputs = outputs.collect();
        let programs = self.programs.into_iter().collect();
        let decided = self.groups.decided.clone();
        Plan { programs, buffers: self.buffers, steps: self.steps, known: Vec::new(), outputs, decided }
    }
}

/// What reports call a row.
pub(super) fn row_name(graph: &Graph, node: Node) -> &'static str {
    match &graph.nodes[node].op {
        Op::Map(op) => op.row().name,
        Op::Reduce(kind, _) | Op::Scan(kind, _) => kind.name(),
        Op::Contract => "contract",
        Op::Gather(..) => "gather",
        Op::Scatter(..) => "scatter",
        Op::Random(..) => "random",
        Op::Sort { .. } => "sort",
        Op::ArgSort { .. } => "argsort",
        Op::Iota(_) => "iota",
        Op::Move(_) => "copy",
        Op::Input(_) | Op::Constant(_) | Op::Scalar(_) => "fill",
    }
}
