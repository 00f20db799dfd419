//! Walks the nodes in order and puts each that gets a buffer into a group, or starts one.  Groups stay free of circles:
//! each knows all that must run before it.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use super::domain::domain_of;
use super::roots::{Kept, roots};
use super::rules::{self, Pair, REACH, Verdict};
use super::score::score;
use super::{Group, Groups, Work, order, reads_of, written};
use crate::graph::{Graph, Movement, Node, NodeData, Op};
use crate::schedule::attention::{self, Kernel};
use crate::schedule::group::{self, Domain};
use crate::schedule::implicit;
use crate::schedule::looped;
use crate::schedule::operands::operands;
use crate::schedule::plan::{InputData, Layout, Options};
use crate::schedule::trace::{Places, Stop, strided};

struct Former<'a> {
    graph: Graph,
    options: &'a Options,
    places: Places,
    groups: Vec<Group>,
    group_of: FxHashMap<Node, usize>,
    /// Groups that read each node with a buffer; united ones may still be among them.
    readers: FxHashMap<Node, Vec<usize>>,
    /// Nodes that get buffers, and why.
    kept: FxHashMap<Node, Kept>,
    /// The attentions, by the node whose value they write.
    attentions: FxHashMap<Node, Rc<Kernel>>,
    /// What else these compute.
    inside: FxHashSet<Node>,
}

/// Groups the rows of a (simplified) graph.
pub fn groups(graph: Graph, inputs: &[InputData], options: &Options) -> Groups {
    let attentions = attention::find(&graph, options);
    let kept = roots(&graph, &attentions, options);
    let mut places = Places::default();
    for (node, data) in &graph.nodes {
        if let Op::Input(number) = data.op {
            places.insert(node, inputs[number as usize].layout.clone());
        }
    }
    let (groups, group_of, readers) = Default::default();
    let inside = attention::inner(&attentions);
    let mut former = Former { graph, options, places, groups, group_of, readers, kept, attentions, inside };
    let nodes: Vec<Node> = former.graph.nodes.keys().collect();
    for node in nodes {
        if former.kept.contains_key(&node) {
            former.place(node);
        }
    }
    for node in former.graph.outputs.clone() {
        if strided(&former.graph, &former.places, node).is_none() {
            former.kept.entry(node).or_insert(Kept::Wanted);
            former.place(node);
        }
    }
    former.finish()
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
        self.kept.entry(node).or_insert(Kept::Viewed);
        let layout = self.layout(node);
        self.places.insert(node, layout);
    }

    /// How the elements of a result lie.
    fn layout(&self, node: Node) -> Layout {
        let is_product =
            |at: &usize| matches!(self.groups[*at].work, Work::Gemm(_) | Work::Attention { .. } | Work::Slopes { .. });
        if !self.options.fuse || !self.group_of.get(&node).is_some_and(is_product) {
            return Layout::contiguous(&self.graph.nodes[node].dims);
        }
        written::layout(&self.graph, node, |n| self.needs_strides(n))
    }

    /// Whether a row's operands must lie in memory, addressed by strides.
    fn needs_strides(&self, node: Node) -> bool {
        let data = &self.graph.nodes[node];
        if self.attentions.contains_key(&node) {
            return true;
        }
        match data.op {
            Op::Contract => self.goes_to_library(node) || self.inside.contains(&node),
            Op::Sort { .. } | Op::ArgSort { .. } => true,
            _ => false,
        }
    }

    /// Gives a buffer to what `user` could not follow.
    fn materialize(&mut self, source: Node, user: Node) {
        debug_assert!(source != user);
        if !self.places.contains_key(&source) {
            return self.place(self.seen_by(source, user));
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

    /// What to write to memory for a user that wants `view` addressed by strides: the value that it is a view of, in
    /// the order in which it is computed, where that suffices; else the view itself.
    fn seen_by(&self, view: Node, user: Node) -> Node {
        let mut base = view;
        while let Op::Move(Movement::Permute(_) | Movement::Reshape) = &self.graph.nodes[base].op {
            base = self.graph.nodes[base].args[0];
        }
        let computed = matches!(self.graph.nodes[base].op, Op::Map(_));
        if base == view || !computed || self.places.contains_key(&base) || !self.needs_strides(user) {
            return view;
        }
        let dims = &self.graph.nodes[base].dims;
        let places: Places = [(base, Layout::contiguous(dims))].into_iter().collect();
        if strided(&self.graph, &places, view).is_some() { base } else { view }
    }

    fn try_place(&mut self, node: Node) -> Result<(), Stop> {
        let data = &self.graph.nodes[node];
        if let Some(kernel) = self.attentions.get(&node).cloned() {
            return self.attention(node, &kernel);
        }
        match &data.op {
            Op::Contract => {
                let work = match self.goes_to_library(node) {
                    true => {
                        operands(&self.graph, &self.places, node).map_err(Stop::Materialize)?;
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

    /// Starts the group of an attention's kernel, unless it was for another of its results.
    fn attention(&mut self, node: Node, kernel: &Kernel) -> Result<(), Stop> {
        if self.group_of.contains_key(&node) {
            return Ok(());
        }
        let (graph, places, roots) = (&self.graph, &self.places, kernel.roots());
        let others: Vec<Node> = roots.iter().copied().filter(|root| *root != node).collect();
        let work = match kernel {
            Kernel::Forward(found) => {
                Work::Attention { roots, body: Box::new(attention::trace(graph, places, found)?) }
            }
            Kernel::Backward(slopes, side) => {
                Work::Slopes { roots, body: Box::new(slopes.trace(graph, places, *side)?) }
            }
        };
        let at = self.groups.len();
        self.start(node, work);
        for other in others {
            let reads = reads_of(&self.graph, &self.places, other);
            self.enter(at, other, reads);
        }
        Ok(())
    }

    fn looped(&self, node: Node) -> Result<Work, Stop> {
        let data = &self.graph.nodes[node];
        let initial = match data.op {
            Op::Scatter(..) => Some(Box::new(group::copy(&self.graph, &self.places, data.args[0], node)?)),
            _ => None,
        };
        let walks = implicit::kept(&self.graph, node, self.options).is_some();
        let body = looped::trace(&self.graph, &self.places, node, walks)?;
        Ok(Work::Looped { roots: smallvec![node], body: Box::new(body), initial })
    }

    /// Whether a product is large enough for the vendor's library.  One with a single row or column waits for memory
    /// alone; 16-bit operands are then read once and not widened into blocks before (4096² by a vector: 2.0 ms, by the
    /// library 4.3 in f16 and 3.0 in bf16).
    fn goes_to_library(&self, node: Node) -> bool {
        let data = &self.graph.nodes[node];
        let (rank, k) = (data.dims.len(), self.graph.dims(data.args[0]).last().copied().unwrap_or(1));
        let is_vector = data.dims[rank - 2..].contains(&1);
        let is_narrow = || {
            let operands = operands(&self.graph, &self.places, node);
            operands.is_ok_and(|o| o.iter().all(|(base, _)| self.graph.dtype(*base).bytes() == 2))
        };
        let suits = data.dtype.is_float() && !(is_vector && is_narrow());
        let large = self.options.gemm_from.is_some_and(|from| suits && data.len() * k >= from);
        large && implicit::kept(&self.graph, node, self.options).is_none()
    }

    /// Joins the group with which it has most in common, or starts one.
    fn fuse(&mut self, node: Node) -> Result<(), Stop> {
        let reads = reads_of(&self.graph, &self.places, node);
        let mut candidates: Vec<(u64, usize)> = Vec::new();
        if self.options.fuse {
            for at in self.company(&reads) {
                let Some(pair) = self.pair(at, node, &reads) else { continue };
                if rules::judge(&pair) == Verdict::Join {
                    candidates.push((score(&pair), at));
                }
            }
        }
        candidates.sort_by_key(|&(saved, at)| std::cmp::Reverse((saved, at)));
        let mut candidates = candidates.into_iter().map(|(_, at)| at);
        if let Some(at) = candidates.by_ref().find(|&at| self.join(at, node, &reads)) {
            // What could have taken the node in, too, has something in common with it: the two may become one.
            candidates.for_each(|other| self.unite(at, other));
            return Ok(());
        }
        let (dims, axes) = domain_of(&self.graph, node);
        let body = group::trace(&self.graph, &self.places, Domain::new(&dims, &axes), &[node])?;
        self.start(node, Work::Fused { roots: vec![node], body: Box::new(body) });
        Ok(())
    }

    /// Groups not too far back that compute or read something of `reads`, the latest first.
    fn company(&self, reads: &FxHashSet<Node>) -> Vec<usize> {
        let first = self.groups.len().saturating_sub(REACH);
        let readers = reads.iter().filter_map(|n| self.readers.get(n)).flatten();
        let makers = reads.iter().filter_map(|n| self.group_of.get(n));
        let mut company: Vec<usize> = makers.chain(readers).copied().filter(|&at| at >= first).collect();
        company.sort_unstable_by_key(|&at| std::cmp::Reverse(at));
        company.dedup();
        company
    }

    /// `node` beside a group of pointwise rows and reductions.
    fn pair<'a>(&'a self, at: usize, node: Node, reads: &'a FxHashSet<Node>) -> Option<Pair<'a>> {
        let Work::Fused { roots, body } = &self.groups[at].work else { return None };
        let (graph, places, groups, group_of) = (&self.graph, &self.places, &self.groups, &self.group_of);
        Some(Pair { graph, places, groups, group_of, at, roots, body, node, reads })
    }

    /// Enters `node` into a group that the rules allow, if one kernel can follow both.
    fn join(&mut self, at: usize, node: Node, reads: &FxHashSet<Node>) -> bool {
        let Some(Ok(body)) = self.pair(at, node, reads).map(|pair| rules::merge(&pair)) else { return false };
        let mut roots = self.groups[at].roots().to_vec();
        roots.push(node);
        self.groups[at].work = Work::Fused { roots, body: Box::new(body) };
        self.enter(at, node, reads.clone());
        true
    }

    /// Makes one group of two where the rules allow it.
    fn unite(&mut self, at: usize, other: usize) {
        let Some((body, roots)) = rules::unite(&self.graph, &self.places, &self.groups, at, other) else { return };
        let gone = std::mem::replace(&mut self.groups[other].work, Work::United);
        debug_assert!(matches!(gone, Work::Fused { .. }));
        self.group_of.extend(roots.iter().map(|&root| (root, at)));
        let (reads, before) = (self.groups[other].reads.clone(), self.groups[other].before.clone());
        self.note(at, &reads);
        let group = &mut self.groups[at];
        group.reads.extend(reads);
        group.reads.retain(|n| !roots.contains(n));
        group.before.extend(before);
        group.before.retain(|&h| h != at && h != other);
        group.work = Work::Fused { roots, body: Box::new(body) };
        for group in &mut self.groups {
            if group.before.remove(&other) {
                group.before.insert(at);
            }
        }
        self.hand_on(at);
    }

    /// What must run before a group must run before all that it comes before.
    fn hand_on(&mut self, at: usize) {
        let all = self.groups[at].before.clone();
        for group in &mut self.groups {
            if group.before.contains(&at) {
                group.before.extend(&all);
            }
        }
    }

    fn start(&mut self, node: Node, work: Work) {
        let reads = reads_of(&self.graph, &self.places, node);
        let formed = self.groups.len();
        self.groups.push(Group {
            work,
            reads: FxHashSet::default(),
            before: FxHashSet::default(),
            formed,
            is_tail: false,
        });
        self.enter(formed, node, reads);
    }

    /// Enters a group among the readers of these nodes.
    fn note(&mut self, at: usize, reads: &FxHashSet<Node>) {
        reads.iter().for_each(|&node| self.readers.entry(node).or_default().push(at));
    }

    fn enter(&mut self, at: usize, node: Node, reads: FxHashSet<Node>) {
        let mut before: FxHashSet<usize> = FxHashSet::default();
        for h in reads.iter().filter_map(|n| self.group_of.get(n)).filter(|&&h| h != at) {
            before.insert(*h);
            before.extend(&self.groups[*h].before);
        }
        self.group_of.insert(node, at);
        let own = |n: &Node| self.group_of.get(n) == Some(&at);
        let reads: FxHashSet<Node> = reads.into_iter().filter(|n| !own(n)).collect();
        self.note(at, &reads);
        self.groups[at].reads.extend(reads);
        self.groups[at].before.extend(&before);
        self.hand_on(at);
    }

    fn finish(self) -> Groups {
        let (list, decided) = order::ordered((&self.graph, &self.places), &self.groups, self.options);
        Groups { graph: self.graph, list, places: self.places, kept: self.kept, decided }
    }
}
