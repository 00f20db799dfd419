//! Forms groups: decides which nodes get buffers, and which of those share a kernel.  Never looks at machines; what a
//! group becomes is decided when it is emitted.

use rustc_hash::{FxHashMap, FxHashSet};

use super::group::{self, Body, Domain, squeezed};
use super::looped::{self, Looped};
use super::plan::{InputData, Layout, Options};
use super::trace::{Places, Stop, strided};
use crate::graph::{Graph, Movement, Node, NodeData, Op};

/// A pointwise value used by two kernels is computed twice up to this cost, in additions; above, it gets a buffer.
const RECOMPUTE: u32 = 4;

/// How many groups back a row looks for company.
const REACH: usize = 32;

/// Most loads and stores that one kernel makes.
const MOST_OPERANDS: usize = 24;

/// What a group's kernel does.
#[derive(Clone, Debug)]
pub enum Work {
    /// Pointwise rows and reductions over one domain.
    Fused {
        /// Nodes with results, in order.
        roots: Vec<Node>,
        /// What it computes.
        body: Box<Body>,
    },
    /// A row that walks an axis.
    Looped {
        /// The node.
        root: Node,
        /// What it computes.
        body: Box<Looped>,
        /// What the result's buffer must hold before.
        initial: Option<Box<Body>>,
    },
    /// A matrix product by the vendor's library, on strided operands.
    Gemm(Node),
    /// A sort.
    Sort(Node),
}

/// Rows that run together.
#[derive(Clone, Debug)]
pub struct Group {
    /// What is done.
    pub work: Work,
    /// Nodes whose buffers it reads.
    pub reads: FxHashSet<Node>,
    /// Groups that must run before, directly or not.
    pub before: FxHashSet<usize>,
}

/// All groups of a graph.
#[derive(Debug)]
pub struct Groups {
    /// The graph, with copies added where a view needs them.
    pub graph: Graph,
    /// In an order in which they can run.
    pub list: Vec<Group>,
    /// Nodes with buffers.
    pub places: Places,
}

struct Former<'a> {
    graph: Graph,
    options: &'a Options,
    places: Places,
    groups: Vec<Group>,
    group_of: FxHashMap<Node, usize>,
    roots: FxHashSet<Node>,
}

/// Groups the rows of a (simplified) graph.
pub fn groups(graph: Graph, inputs: &[InputData], options: &Options) -> Groups {
    let roots = roots(&graph, options);
    let mut places = Places::default();
    for (node, data) in &graph.nodes {
        if let Op::Input(number) = data.op {
            places.insert(node, inputs[number as usize].layout.clone());
        }
    }
    let mut former = Former { graph, options, places, groups: Vec::new(), group_of: FxHashMap::default(), roots };
    let nodes: Vec<Node> = former.graph.nodes.keys().collect();
    for node in nodes {
        if former.roots.contains(&node) {
            former.place(node);
        }
    }
    for node in former.graph.outputs.clone() {
        if strided(&former.graph, &former.places, node).is_none() {
            former.place(node);
        }
    }
    former.finish()
}

/// Nodes that get buffers whatever their surroundings.
fn roots(graph: &Graph, options: &Options) -> FxHashSet<Node> {
    let mut roots: FxHashSet<Node> = FxHashSet::default();
    for (node, data) in &graph.nodes {
        let alone = !options.fuse && !data.op.is_free();
        if alone || !data.op.is_free() && !data.op.is_pointwise() && !matches!(data.op, Op::Gather(..)) {
            roots.insert(node);
        }
    }
    for &output in &graph.outputs {
        // A view shares the buffer of what it views.
        let node = viewed(graph, output);
        if !matches!(graph.nodes[node].op, Op::Input(_) | Op::Move(_) | Op::Constant(_) | Op::Scalar(_)) {
            roots.insert(node);
        }
    }
    // What several kernels would each compute anew, at a cost, gets a buffer too.
    let mut cost: FxHashMap<Node, u32> = FxHashMap::default();
    for (node, data) in &graph.nodes {
        let own = match &data.op {
            Op::Map(op) => op.row().cost,
            Op::Random(..) => 40,
            Op::Gather(..) => 3,
            _ => 0,
        };
        let args = data.args.iter().filter(|a| !roots.contains(a)).map(|a| cost[a]).sum::<u32>();
        cost.insert(node, own.saturating_add(args).min(1 << 20));
    }
    // What is costly and seen many times over is computed once.
    for data in graph.nodes.values() {
        let repeats = matches!(data.op, Op::Move(Movement::Expand | Movement::Window(_)));
        if repeats && data.len() > graph.nodes[data.args[0]].len() {
            let seen = viewed(graph, data.args[0]);
            if matches!(graph.nodes[seen].op, Op::Map(_)) && cost[&seen] >= RECOMPUTE {
                roots.insert(seen);
            }
        }
    }
    // Where each node's value ends up: up to two roots.
    let mut ends: FxHashMap<Node, Vec<Node>> = FxHashMap::default();
    for (node, data) in graph.nodes.iter().rev() {
        let reached = ends.remove(&node).unwrap_or_default();
        let computed = matches!(data.op, Op::Map(_) | Op::Random(..) | Op::Gather(..));
        if computed && reached.len() > 1 && cost[&node] >= RECOMPUTE {
            roots.insert(node);
        }
        let passed = if roots.contains(&node) { vec![node] } else { reached };
        for &arg in &data.args {
            let list = ends.entry(arg).or_default();
            for &end in &passed {
                if list.len() < 2 && !list.contains(&end) {
                    list.push(end);
                }
            }
        }
    }
    roots
}

/// What a node is a view of, elements added by pads aside.
fn viewed(graph: &Graph, mut node: Node) -> Node {
    while let Op::Move(movement) = &graph.nodes[node].op
        && !matches!(movement, Movement::Pad { .. })
    {
        node = graph.nodes[node].args[0];
    }
    node
}

impl Former<'_> {
    /// Gives `node` a buffer: joins a group, or starts one.
    fn place(&mut self, node: Node) {
        if self.places.contains_key(&node) {
            return;
        }
        while !self.graph.nodes[node].is_empty() {
            match self.try_place(node) {
                Ok(()) => break,
                Err(Stop::Materialize(source)) => self.materialize(source, node),
                Err(stop) => unreachable!("{node} cannot be followed: {stop:?}"),
            }
        }
        let dims = self.graph.nodes[node].dims.clone();
        self.places.insert(node, Layout::contiguous(&dims));
    }

    /// Gives a buffer to what `user` could not follow.
    fn materialize(&mut self, source: Node, user: Node) {
        let known = self.places.contains_key(&source);
        debug_assert!(source != user);
        if !known {
            return self.place(source);
        }
        // It has one, but a strided one that the user's views cannot address: the user reads a copy.
        let data = self.graph.nodes[source].clone();
        let rank = data.dims.len() as u8;
        let same = Op::Move(Movement::Permute((0..rank).collect()));
        let copy = self.graph.nodes.push(NodeData { op: same, args: [source].into_iter().collect(), ..data });
        for data in self.graph.nodes.values_mut() {
            if matches!(data.op, Op::Move(Movement::Reshape)) && data.args[0] == source {
                data.args[0] = copy;
            }
        }
        self.place(copy);
    }

    fn try_place(&mut self, node: Node) -> Result<(), Stop> {
        let data = &self.graph.nodes[node];
        match &data.op {
            Op::Contract => {
                let work = match self.goes_to_library(data) {
                    true => {
                        for &arg in &data.args {
                            if strided(&self.graph, &self.places, arg).is_none() {
                                return Err(Stop::Materialize(arg));
                            }
                        }
                        Work::Gemm(node)
                    }
                    false => self.looped(node)?,
                };
                self.start(node, work);
            }
            Op::Scatter(..) | Op::Scan(..) => {
                let work = self.looped(node)?;
                self.start(node, work);
            }
            Op::Sort { .. } | Op::ArgSort { .. } => {
                let arg = data.args[0];
                if strided(&self.graph, &self.places, arg).is_none() {
                    return Err(Stop::Materialize(arg));
                }
                self.start(node, Work::Sort(node));
            }
            _ => self.fuse(node)?,
        }
        Ok(())
    }

    fn looped(&self, node: Node) -> Result<Work, Stop> {
        let data = &self.graph.nodes[node];
        let initial = match data.op {
            Op::Scatter(..) => Some(Box::new(group::copy(&self.graph, &self.places, data.args[0], node)?)),
            _ => None,
        };
        Ok(Work::Looped { root: node, body: Box::new(looped::trace(&self.graph, &self.places, node)?), initial })
    }

    /// Whether a product is large enough for the vendor's library.
    fn goes_to_library(&self, data: &NodeData) -> bool {
        let k = self.graph.dims(data.args[0]).last().copied().unwrap_or(1);
        self.options.gemm_from.is_some_and(|from| data.dtype.is_float() && data.len() * k >= from)
    }

    /// Joins the group with which it has most in common, or starts one.
    fn fuse(&mut self, node: Node) -> Result<(), Stop> {
        let reads = self.reads_of(node);
        let first = self.groups.len().saturating_sub(REACH);
        let mut candidates: Vec<(u64, usize)> = Vec::new();
        if self.options.fuse {
            for at in (first..self.groups.len()).rev() {
                if let Some(saved) = self.saving(at, node, &reads) {
                    candidates.push((saved, at));
                }
            }
        }
        candidates.sort_by_key(|&(saved, at)| std::cmp::Reverse((saved, at)));
        for (_, at) in candidates {
            if self.join(at, node, &reads) {
                return Ok(());
            }
        }
        let (dims, axes) = domain_of(&self.graph, node);
        let body = group::trace(&self.graph, &self.places, Domain::new(&dims, &axes), &[node])?;
        self.start(node, Work::Fused { roots: vec![node], body: Box::new(body) });
        Ok(())
    }

    /// Nodes with buffers that the value of `node` is made of.
    fn reads_of(&self, node: Node) -> FxHashSet<Node> {
        let mut reads = FxHashSet::default();
        let mut seen = FxHashSet::default();
        let mut open = self.graph.nodes[node].args.to_vec();
        while let Some(node) = open.pop() {
            if !seen.insert(node) {
                continue;
            }
            match self.places.contains_key(&node) {
                true => {
                    reads.insert(node);
                }
                false => open.extend(self.graph.nodes[node].args.iter().copied()),
            }
        }
        reads
    }

    /// How much company a group is to `node`: operands in common, of which one per point counts for more than all that
    /// are smaller.  Sizes do not enter: a batch of another size must form the same groups.  `None` where nothing is in
    /// common or joining is not allowed.
    fn saving(&self, at: usize, node: Node, reads: &FxHashSet<Node>) -> Option<u64> {
        let group = &self.groups[at];
        let Work::Fused { roots, body } = &group.work else { return None };
        let weight = |n: &Node| match (body.domain.is_full(self.graph.dims(*n)), roots.contains(n)) {
            (true, _) => 100,
            (false, true) => 1,
            // A bias or a scale in common is no reason to share a kernel.
            (false, false) => 0,
        };
        let shared = reads.iter().filter(|n| roots.contains(n) || group.reads.contains(n));
        let saved: u64 = shared.map(weight).sum();
        let operands = group.reads.union(reads).count() + roots.len();
        let fits = join_domain(&self.graph, &body.domain, node).is_some();
        // Nothing that must run between the group and the node may depend on the group.
        let between = || {
            let needed = reads.iter().filter_map(|n| self.group_of.get(n)).filter(|&&h| h != at);
            needed.clone().any(|&h| self.groups[h].before.contains(&at))
        };
        (saved > 0 && fits && operands <= MOST_OPERANDS && !between()).then_some(saved)
    }

    fn join(&mut self, at: usize, node: Node, reads: &FxHashSet<Node>) -> bool {
        let Work::Fused { roots, body } = &self.groups[at].work else { return false };
        let Some(domain) = join_domain(&self.graph, &body.domain, node) else { return false };
        let mut roots = roots.clone();
        roots.push(node);
        let Ok(body) = group::trace(&self.graph, &self.places, domain, &roots) else { return false };
        // A node that has got a buffer since the group was formed must not become something to wait for.
        let known = |n: Node| self.groups[at].reads.contains(&n) || reads.contains(&n);
        if !body.exprs.loads().all(known) {
            return false;
        }
        self.groups[at].work = Work::Fused { roots, body: Box::new(body) };
        self.enter(at, node, reads.clone());
        true
    }

    fn start(&mut self, node: Node, work: Work) {
        let reads = self.reads_of(node);
        self.groups.push(Group { work, reads: FxHashSet::default(), before: FxHashSet::default() });
        self.enter(self.groups.len() - 1, node, reads);
    }

    fn enter(&mut self, at: usize, node: Node, reads: FxHashSet<Node>) {
        let mut before: FxHashSet<usize> = FxHashSet::default();
        for h in reads.iter().filter_map(|n| self.group_of.get(n)).filter(|&&h| h != at) {
            before.insert(*h);
            before.extend(&self.groups[*h].before);
        }
        self.group_of.insert(node, at);
        let own = |n: &Node| self.group_of.get(n) == Some(&at);
        let reads: Vec<Node> = reads.into_iter().filter(|n| !own(n)).collect();
        self.groups[at].reads.extend(reads);
        self.groups[at].before.extend(&before);
        let all = self.groups[at].before.clone();
        for group in &mut self.groups {
            if group.before.contains(&at) {
                group.before.extend(&all);
            }
        }
    }

    /// Puts the groups into an order in which they can run: each as early as its operands allow.
    fn finish(self) -> Groups {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        let mut done: FxHashSet<usize> = FxHashSet::default();
        let mut list = Vec::with_capacity(order.len());
        while !order.is_empty() {
            let ready = order.iter().position(|&at| self.groups[at].before.iter().all(|h| done.contains(h)));
            let Some(ready) = ready else { unreachable!("groups depend on each other in a circle") };
            let at = order.remove(ready);
            done.insert(at);
            list.push(self.groups[at].clone());
        }
        Groups { graph: self.graph, list, places: self.places }
    }
}

/// The extents over which a node is computed, and the axes along which it is reduced.
fn domain_of(graph: &Graph, node: Node) -> (Vec<u64>, Vec<u8>) {
    let data = &graph.nodes[node];
    match &data.op {
        Op::Reduce(_, axes) => (graph.dims(data.args[0]).to_vec(), axes.to_vec()),
        _ => (data.dims.to_vec(), Vec::new()),
    }
}

/// The domain of a group once `node` joins it, if it fits.
fn join_domain(graph: &Graph, domain: &Domain, node: Node) -> Option<Domain> {
    let (dims, axes) = domain_of(graph, node);
    if axes.is_empty() {
        let fits = domain.is_full(&dims) || domain.has_reduced() && squeezed(&dims) == domain.parallel();
        return fits.then(|| domain.clone());
    }
    let wanted = Domain::new(&dims, &axes);
    match domain.has_reduced() {
        true => (wanted.full == domain.full && wanted.reduced == domain.reduced).then(|| domain.clone()),
        false => (wanted.full == domain.full).then_some(wanted),
    }
}
