//! Finds attentions that are spelled out in a type of 16 bits, each row rounding to it, as automatic differentiation
//! records them.  What they compute is computed with f32 inside and rounded once ([`widened`](super::widened)): with fewer
//! roundings, and as the [kernels](super) do it.

mod slopes;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{at_least, constant, is_shaped, product_below, readers, reduced};
use crate::dtype::DType;
use crate::graph::{Graph, Node, Op, Reduction, number};
use crate::op::Pointwise;
use crate::schedule::matching::{binary, expanded, unary};

pub(super) use slopes::{Slopes, same, turned};

/// An attention `softmax(f(q·k))·v` whose rows are of one type of 16 bits.
#[derive(Clone, Debug)]
pub(super) struct Spelled {
    /// The type.
    pub narrow: DType,
    /// `q·k`
    pub product: Node,
    /// What the softmax is taken of.
    pub scores: Node,
    /// What was taken from them, and what that is at least, as a bit pattern.
    most: Node,
    pub least_most: Option<u64>,
    /// What that left.
    shifted: Node,
    /// The sums of the exponentials, and what they are at least, as a bit pattern.
    total: Node,
    pub least_total: Option<u64>,
    /// The weights.
    quotient: Node,
    /// The weighted sum of `v`.
    pub sum: Node,
    /// Its gradients, where they are computed from the same weights.
    pub slopes: Option<Slopes>,
    /// What lies between the products and the results: nobody else wants it.
    pub inner: FxHashSet<Node>,
}

/// The attentions of a graph.
pub(super) fn find(graph: &Graph) -> Vec<Spelled> {
    let candidates: Vec<Spelled> = graph.nodes.keys().filter_map(|node| matches(graph, node)).collect();
    if candidates.is_empty() {
        return candidates;
    }
    let readers = readers(graph);
    let wanted = |node: &Node| readers.contains_key(node) || graph.outputs.contains(node);
    let is_product = |node: &Node| graph.nodes[*node].op == Op::Contract && wanted(node);
    let products: Vec<Node> = graph.nodes.keys().filter(is_product).collect();
    let whole = |found: Spelled| {
        let slopes = slopes::find(graph, &readers, &products, &found);
        [slopes, None].into_iter().find_map(|slopes| found.clone().whole(graph, &readers, slopes))
    };
    candidates.into_iter().filter_map(whole).collect()
}

/// The attention whose weighted sum is `sum`, not yet looked at from outside.
fn matches(graph: &Graph, sum: Node) -> Option<Spelled> {
    let data = &graph.nodes[sum];
    let Op::Contract = data.op else { return None };
    let quotient = data.args[0];
    let (weights, total) = binary(graph, quotient, Pointwise::Div)?;
    let total = expanded(graph, total);
    let (least_total, all) = clamped(graph, total);
    let summed = reduced(graph, all, Reduction::Sum)?;
    let shifted = unary(graph, weights, Pointwise::Exp)?;
    let (scores, most) = binary(graph, shifted, Pointwise::Sub)?;
    let most = expanded(graph, most);
    let (least_most, first) = clamped(graph, most);
    let largest = reduced(graph, first, Reduction::Max)?;
    let product = product_below(graph, scores)?;
    let narrow = data.dtype;
    let factors = graph.nodes[product].args.iter().chain(&data.args);
    let rows = [product, scores, weights, total, most, quotient];
    let same = factors.chain(&rows).all(|&n| graph.dtype(n) == narrow);
    let halves = matches!(narrow, DType::F16 | DType::Bf16);
    let fits = halves && same && summed == weights && largest == scores && is_shaped(graph, product, sum);
    let (slopes, inner) = Default::default();
    let found = Spelled {
        narrow,
        product,
        scores,
        most,
        least_most,
        shifted,
        total,
        least_total,
        quotient,
        sum,
        slopes,
        inner,
    };
    fits.then_some(found)
}

impl Spelled {
    /// The nodes whose values are wanted.
    pub fn roots(&self) -> impl Iterator<Item = Node> {
        [self.sum].into_iter().chain(self.slopes.iter().flat_map(Slopes::roots))
    }

    /// The attention with these gradients, if nobody looks inside.
    fn whole(self, graph: &Graph, readers: &FxHashMap<Node, Vec<Node>>, slopes: Option<Slopes>) -> Option<Spelled> {
        let mut found = Spelled { slopes, ..self };
        let roots: FxHashSet<Node> = found.roots().collect();
        let starts = [Some(found.product), found.slopes.as_ref().map(|s| s.product)];
        let starts: Vec<Node> = starts.into_iter().flatten().collect();
        let first = starts.iter().copied().min()?;
        // What the results are computed from, and of that what is computed from a product.
        let mut behind: FxHashSet<Node> = FxHashSet::default();
        let mut open: Vec<Node> = roots.iter().copied().collect();
        while let Some(node) = open.pop() {
            open.extend(graph.nodes[node].args.iter().copied().filter(|&arg| arg >= first && behind.insert(arg)));
        }
        let mut inner: FxHashSet<Node> = starts.into_iter().collect();
        for (node, data) in graph.nodes.iter().skip(first.as_u32() as usize) {
            if behind.contains(&node) && data.args.iter().any(|a| inner.contains(a)) && !roots.contains(&node) {
                inner.insert(node);
            }
        }
        let hidden = |n: &Node| {
            let users = readers.get(n).map_or(&[][..], Vec::as_slice);
            !graph.outputs.contains(n) && users.iter().all(|u| roots.contains(u) || inner.contains(u))
        };
        let closed = found.slopes.iter().all(|s| s.is_closed(graph, found.product, &inner));
        let whole = closed && inner.iter().all(hidden);
        found.inner = inner;
        whole.then_some(found)
    }
}

/// `x` of `max(x, constant)`, which may be a choice between the two, and the constant.
fn clamped(graph: &Graph, node: Node) -> (Option<u64>, Node) {
    if let Some((x, below, least)) = chosen(graph, node)
        && binary(graph, below, Pointwise::Lt).is_some_and(|(a, b)| a == x && constant(graph, b) == Some(least))
    {
        return (Some(least), x);
    }
    let (x, least) = at_least(graph, node);
    (least, x)
}

/// `x`, the condition and the constant of `select(condition, constant, x)`.
fn chosen(graph: &Graph, node: Node) -> Option<(Node, Node, u64)> {
    let data = &graph.nodes[node];
    let Op::Map(Pointwise::Select) = data.op else { return None };
    Some((data.args[2], data.args[0], constant(graph, data.args[1])?))
}

/// Whether a node is this number everywhere.
pub(super) fn is_number(graph: &Graph, node: Node, wanted: f64) -> bool {
    constant(graph, node).is_some_and(|bits| number::to_f64(graph.dtype(node), bits) == wanted)
}
