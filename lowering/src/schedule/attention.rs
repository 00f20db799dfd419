//! Finds attention by its structure: `softmax(f(q·k))·v`, where `f` is pointwise (scale, soft cap, masks, bias), whether
//! it was called as such or written out.  One kernel computes it and no score is ever written to memory (Dao:
//! "FlashAttention-2", 2023), if the factors are of a type that matrix instructions multiply.
//!
//! The weights are rounded to the type of `v` before they are multiplied, as they are where the softmax is called in that
//! type.  All else is as the rows say, in f32 inside.  What is spelled out in a narrow type is rewritten
//! so before; where its [gradients](slopes) are wanted too, the kernel also leaves what they start from.

mod body;
pub mod slopes;
mod spelled;
pub(super) mod widened;

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::matching::{binary, cast_of, expanded, unary};
use super::plan::Options;
use super::widen::unwidened;
use crate::dtype::DType;
use crate::graph::{Graph, Movement, Node, Op, Reduction};
use crate::op::Pointwise;

pub use body::{Attention, Causal, trace};
pub use slopes::{Side, Slopes};

/// Fewest queries for which a tile of them is worth it.
const QUERIES: u64 = 8;

/// Extents of a row of `q`, `k` and `v`.
const WIDTHS: std::ops::RangeInclusive<u64> = 16..=256;

/// An attention in a graph.
#[derive(Clone, Debug)]
pub struct Found {
    /// `q·k`
    product: Node,
    /// What the softmax is taken of.
    scores: Node,
    /// What is taken from them, and the sums of the exponentials of what is left.
    most: Node,
    total: Node,
    /// The weighted sum of `v`.
    sum: Node,
    /// What gradients start from: `most + log total`.
    norm: Option<Node>,
    /// The node whose value it writes: the sum, or that rounded.
    result: Node,
    /// What the sums of the weights are at least, as a bit pattern of f32.
    least: Option<u64>,
    /// Element type of the factors.
    narrow: DType,
    /// What else the kernel computes: nobody wants it.
    pub inner: FxHashSet<Node>,
}

/// A kernel of an attention.
#[derive(Clone, Debug)]
pub enum Kernel {
    /// What computes its result.
    Forward(Found),
    /// What computes gradients.
    Backward(Rc<Slopes>, Side),
}

impl Kernel {
    /// The nodes whose values it writes.
    pub fn roots(&self) -> SmallVec<[Node; 2]> {
        match self {
            Kernel::Forward(found) => [found.result].into_iter().chain(found.norm).collect(),
            Kernel::Backward(slopes, side) => slopes.roots(*side).into(),
        }
    }

    /// What else it computes.
    fn inner(&self) -> &FxHashSet<Node> {
        match self {
            Kernel::Forward(found) => &found.inner,
            Kernel::Backward(slopes, _) => &slopes.inner,
        }
    }
}

/// The attentions of a graph that become kernels, by the nodes whose values they write.
pub fn find(graph: &Graph, options: &Options) -> FxHashMap<Node, Rc<Kernel>> {
    let mut kernels: FxHashMap<Node, Rc<Kernel>> = FxHashMap::default();
    if !is_wanted(options) {
        return kernels;
    }
    let candidates: Vec<Found> = graph.nodes.keys().filter_map(|node| matches(graph, node)).collect();
    if candidates.is_empty() {
        return kernels;
    }
    let readers = readers(graph);
    for kernel in candidates.into_iter().flat_map(|found| found.kernels(graph, &readers)).map(Rc::new) {
        kernels.extend(kernel.roots().into_iter().map(|root| (root, Rc::clone(&kernel))));
    }
    kernels
}

/// Whether attentions are kernels here.  Strict numerics have one order for the terms of all products.
fn is_wanted(options: &Options) -> bool {
    options.fuse && options.grain.attention(0).is_some() && options.gemm_from.is_some()
}

/// What the kernels compute besides what they write.
pub fn inner(kernels: &FxHashMap<Node, Rc<Kernel>>) -> FxHashSet<Node> {
    kernels.values().flat_map(|kernel| kernel.inner().iter().copied()).collect()
}

/// The parts of an attention whose weighted sum is `sum`, not yet looked at from outside.
fn matches(graph: &Graph, sum: Node) -> Option<Found> {
    let data = &graph.nodes[sum];
    let Op::Contract = data.op else { return None };
    let quotient = cast_of(graph, data.args[0]);
    let (weights, total) = binary(graph, quotient, Pointwise::Div)?;
    let total = expanded(graph, total);
    let (all, least) = at_least(graph, total);
    let summed = reduced(graph, all, Reduction::Sum)?;
    let shifted = unary(graph, weights, Pointwise::Exp)?;
    let (scores, most) = binary(graph, shifted, Pointwise::Sub)?;
    let most = expanded(graph, most);
    let largest = reduced(graph, at_least(graph, most).0, Reduction::Max)?;
    let f32s = [quotient, weights, scores, total].iter().all(|&n| graph.dtype(n) == DType::F32);
    let product = product_below(graph, scores)?;
    let [q, k] = [0, 1].map(|i| graph.nodes[product].args[i]);
    let narrow = unwidened(graph, q);
    let same = [k, data.args[1]].iter().all(|&n| unwidened(graph, n) == narrow);
    let fits = f32s && summed == weights && largest == scores && same && is_shaped(graph, product, sum);
    let halves = matches!(narrow, DType::F16 | DType::Bf16);
    let (norm, inner) = Default::default();
    let found = Found { product, scores, most, total, sum, norm, result: sum, least, narrow, inner };
    (fits && halves).then_some(found)
}

/// Whether scores and factors have extents that suit tiles.
fn is_shaped(graph: &Graph, product: Node, sum: Node) -> bool {
    let dims = |n: Node| graph.dims(n).iter().rev().take(2).copied().collect::<Vec<u64>>();
    let sizes = dims(product)[1] >= QUERIES && dims(product)[0] > 1;
    sizes && [graph.nodes[product].args[0], sum].iter().all(|&n| WIDTHS.contains(&dims(n)[0]))
}

/// The node whose value is written for a result: one that is rounded at once and read by nobody else is written rounded.
fn written(graph: &Graph, readers: &FxHashMap<Node, Vec<Node>>, sum: Node, narrow: DType) -> Node {
    let rounds = |&n: &Node| graph.dtype(n) == narrow && graph.nodes[n].op == Op::Map(Pointwise::Cast);
    match readers.get(&sum).map(Vec::as_slice) {
        Some([reader]) if rounds(reader) && !graph.outputs.contains(&sum) => *reader,
        _ => sum,
    }
}

impl Found {
    /// The kernels of the attention: those of its gradients too, if they are there, or its own, or none.
    fn kernels(self, graph: &Graph, readers: &FxHashMap<Node, Vec<Node>>) -> Vec<Kernel> {
        let inside = self.inside(graph, readers);
        let Some(slopes) = slopes::find(graph, readers, &inside) else {
            return inside.whole(graph, readers, &|_| false).map(Kernel::Forward).into_iter().collect();
        };
        let beyond = |n: Node| slopes.inner.contains(&n) || n == slopes.norm;
        let inner = inside.inner.iter().copied().chain([slopes.log]).collect();
        let norm = Some(slopes.norm);
        let Some(found) = (Found { norm, inner, ..inside }).whole(graph, readers, &beyond) else { return Vec::new() };
        let slopes = Rc::new(slopes);
        let backward = [Side::Queries, Side::Keys].map(|side| Kernel::Backward(Rc::clone(&slopes), side));
        backward.into_iter().chain([Kernel::Forward(found)]).collect()
    }

    /// With what it writes, and what lies between the product and that.
    fn inside(self, graph: &Graph, readers: &FxHashMap<Node, Vec<Node>>) -> Found {
        let result = written(graph, readers, self.sum, self.narrow);
        let before = ancestors(graph, result, self.product);
        let mut inner: FxHashSet<Node> = [self.product].into_iter().collect();
        for (node, data) in graph.nodes.iter() {
            if before.contains(&node) && data.args.iter().any(|a| inner.contains(a)) {
                inner.insert(node);
            }
        }
        Found { result, inner, ..self }
    }

    /// The attention, if nobody looks inside but who may.
    fn whole(self, graph: &Graph, readers: &FxHashMap<Node, Vec<Node>>, may: &dyn Fn(Node) -> bool) -> Option<Found> {
        let Found { inner, result, .. } = &self;
        let hidden = |n: &Node| {
            let users = readers.get(n).map_or(&[][..], Vec::as_slice);
            !graph.outputs.contains(n) && users.iter().all(|u| u == result || inner.contains(u) || may(*u))
        };
        let kernels = inner.iter().filter(|n| matches!(graph.nodes[**n].op, Op::Reduce(..) | Op::Contract)).count();
        let own = 3 + usize::from(*result != self.sum);
        let pointwise = |n: &Node| {
            let op = &graph.nodes[*n].op;
            matches!(op, Op::Map(_) | Op::Move(Movement::Expand) | Op::Reduce(..) | Op::Contract)
        };
        let whole = kernels == own && inner.iter().all(hidden) && inner.iter().all(pointwise);
        whole.then_some(self)
    }
}

/// Who reads each node, of those whose values are wanted.
fn readers(graph: &Graph) -> FxHashMap<Node, Vec<Node>> {
    let mut readers: FxHashMap<Node, Vec<Node>> = FxHashMap::default();
    let outputs: FxHashSet<Node> = graph.outputs.iter().copied().collect();
    for (node, data) in graph.nodes.iter().rev() {
        if outputs.contains(&node) || readers.contains_key(&node) {
            data.args.iter().for_each(|&arg| readers.entry(arg).or_default().push(node));
        }
    }
    readers.values_mut().for_each(|list| {
        list.sort_unstable();
        list.dedup();
    });
    readers
}

/// The nodes behind `first` that `last` is computed from.
fn ancestors(graph: &Graph, last: Node, first: Node) -> FxHashSet<Node> {
    let mut seen = FxHashSet::default();
    let mut open = vec![last];
    while let Some(node) = open.pop() {
        open.extend(graph.nodes[node].args.iter().copied().filter(|&arg| arg > first && seen.insert(arg)));
    }
    seen
}

/// The one product among the pointwise rows that `node` is computed by.
fn product_below(graph: &Graph, node: Node) -> Option<Node> {
    let mut products = Vec::new();
    let mut open = vec![node];
    let mut seen: FxHashSet<Node> = FxHashSet::default();
    while let Some(node) = open.pop() {
        let data = &graph.nodes[node];
        match data.op {
            Op::Contract => products.push(node),
            Op::Map(_) => open.extend(data.args.iter().copied().filter(|&arg| seen.insert(arg))),
            _ => {}
        }
    }
    products.retain(|&p| graph.dims(p) == graph.dims(node));
    match products[..] {
        [product] => Some(product),
        _ => None,
    }
}

/// `x` of `max(x, constant)`, and the constant.
fn at_least(graph: &Graph, node: Node) -> (Node, Option<u64>) {
    let Some((x, y)) = binary(graph, node, Pointwise::Max) else { return (node, None) };
    match (constant(graph, x), constant(graph, y)) {
        (None, Some(bits)) => (x, Some(bits)),
        (Some(bits), None) => (y, Some(bits)),
        _ => (node, None),
    }
}

fn constant(graph: &Graph, node: Node) -> Option<u64> {
    match graph.nodes[expanded(graph, node)].op {
        Op::Constant(bits) => Some(bits),
        _ => None,
    }
}

/// What a reduction along the last axis takes.
fn reduced(graph: &Graph, node: Node, kind: Reduction) -> Option<Node> {
    let data = &graph.nodes[node];
    match &data.op {
        Op::Reduce(own, axes) if *own == kind && axes[..] == [data.dims.len() as u8 - 1] => Some(data.args[0]),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests;
