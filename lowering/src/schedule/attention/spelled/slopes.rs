//! The gradients of an attention as reverse mode spells them out, from that of its result `g`:
//!
//! ```text
//! values  = pᵀ·g                                          p = e / t,  e = exp(d),  d = s − max s,  t = Σ e
//! product = g·vᵀ
//! of e    = product / t + Σ (product ∘ −e / t²)
//! of d    = of e ∘ e
//! of s    = of d − Σ of d, where s is greatest            which is 0 but for rounding, and may be absent
//! of q·k  = pointwise rows of that
//! queries = of q·k · kᵀ,  keys = qᵀ · of q·k
//! ```

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::constant;
use super::{Spelled, chosen, is_number};
use crate::graph::{Graph, Index, Movement, Node, Op, Reduction, Update};
use crate::op::Pointwise as P;
use crate::schedule::attention::reduced;
use crate::schedule::matching::{binary, cast_of, either, expanded, unary};
use crate::schedule::operands::is_widened;

/// The gradients of an attention.
#[derive(Clone, Debug)]
pub(in super::super) struct Slopes {
    /// The gradient of the result.
    pub given: Node,
    /// That of the weights: `given·vᵀ`.
    pub product: Node,
    /// That of the scores.
    pub scores: Node,
    /// That of `q·k`.
    pub inward: Node,
    /// Those of the factors; that of `k` as `k` is in the product.
    pub queries: Node,
    pub keys: Node,
    pub values: Node,
}

/// The gradients of an attention, if they are there.
pub(super) fn find(
    graph: &Graph,
    readers: &FxHashMap<Node, Vec<Node>>,
    products: &[Node],
    found: &Spelled,
) -> Option<Slopes> {
    let factor = |node: Node, side: usize| graph.nodes[node].args[side];
    let (q, k, v) = (factor(found.product, 0), factor(found.product, 1), factor(found.sum, 1));
    let same_size = |n: &Node| graph.dims(*n) == graph.dims(found.product);
    let product = products.iter().copied().filter(same_size).find(|&n| turned(graph, factor(n, 1), v))?;
    let given = factor(product, 0);
    let matcher = Matcher { graph, readers, found, product };
    let scores = matcher.scores()?;
    let with = |other: Node, side: usize, inward: &dyn Fn(Node) -> bool| {
        let fits = |&&n: &&Node| turned(graph, factor(n, side), other) && inward(factor(n, 1 - side));
        products.iter().find(fits).copied()
    };
    let queries = with(k, 1, &|n| graph.dims(n) == graph.dims(found.product) && reaches(graph, n, scores))?;
    let inward = factor(queries, 0);
    let keys = with(q, 0, &|n| n == inward)?;
    let values = with(found.quotient, 0, &|n| n == given)?;
    Some(Slopes { given, product, scores, inward, queries, keys, values })
}

impl Slopes {
    /// The gradients of the factors.
    pub(super) fn roots(&self) -> [Node; 3] {
        [self.queries, self.keys, self.values]
    }

    /// Whether the rows from the scores inwards are pointwise, and read nothing of what lies inside but the scores and
    /// the product, nor anything that waits for a gradient.
    pub(super) fn is_closed(&self, graph: &Graph, product: Node, inner: &FxHashSet<Node>) -> bool {
        let (mut open, mut seen) = (vec![self.inward], FxHashSet::default());
        while let Some(node) = open.pop() {
            if node == self.scores || node == product || !seen.insert(node) {
                continue;
            }
            match (inner.contains(&node), &graph.nodes[node].op) {
                (true, Op::Map(_)) => open.extend(&graph.nodes[node].args),
                (true, _) => return false,
                (false, _) if self.waits(graph, node) => return false,
                (false, _) => {}
            }
        }
        true
    }

    /// Whether a node is computed from one of the gradients.
    fn waits(&self, graph: &Graph, node: Node) -> bool {
        let roots = self.roots();
        let (mut open, mut seen) = (vec![node], FxHashSet::default());
        while let Some(node) = open.pop() {
            if roots.contains(&node) {
                return true;
            }
            let later = |arg: &Node| roots.iter().any(|root| arg >= root) && seen.insert(*arg);
            open.extend(graph.nodes[node].args.iter().copied().filter(later));
        }
        false
    }
}

/// What is looked for between the gradient of the weights and that of the scores.
struct Matcher<'a> {
    graph: &'a Graph,
    readers: &'a FxHashMap<Node, Vec<Node>>,
    found: &'a Spelled,
    /// The gradient of the weights.
    product: Node,
}

impl Matcher<'_> {
    /// The gradient of the scores.
    fn scores(&self) -> Option<Node> {
        let users = |n: Node| self.readers.get(&n).map_or(&[][..], Vec::as_slice).iter().copied();
        // The exponentials may have been computed anew.
        let weights: Vec<Node> = users(self.found.shifted).filter(|&n| self.is_weight(n)).collect();
        let mut products = weights.iter().flat_map(|&n| users(n));
        let shifted = products.find(|&n| {
            either(self.graph, n, P::Mul)
                .is_some_and(|ways| ways.into_iter().any(|(a, b)| self.is_weight(b) && self.is_of_weights(a)))
        })?;
        let whole = users(shifted).find(|&n| {
            either(self.graph, n, P::Add)
                .is_some_and(|ways| ways.into_iter().any(|(a, b)| a == shifted && self.is_of_most(b, shifted)))
        });
        Some(whole.unwrap_or(shifted))
    }

    /// `exp(s − max s)`
    fn is_weight(&self, node: Node) -> bool {
        unary(self.graph, node, P::Exp) == Some(self.found.shifted)
    }

    /// The gradient of the exponentials.
    fn is_of_weights(&self, node: Node) -> bool {
        let ways = either(self.graph, node, P::Add);
        ways.is_some_and(|ways| ways.into_iter().any(|(a, b)| self.is_quotient(a) && self.is_of_total(b)))
    }

    /// `product / t`
    fn is_quotient(&self, node: Node) -> bool {
        let (graph, total) = (self.graph, self.found.total);
        let divided =
            binary(graph, node, P::Div).is_some_and(|(a, b)| a == self.product && expanded(graph, b) == total);
        let is_inverse = |n: Node| unary(graph, expanded(graph, n), P::Recip) == Some(total);
        let ways = either(graph, node, P::Mul);
        divided || ways.is_some_and(|ways| ways.into_iter().any(|(a, b)| a == self.product && is_inverse(b)))
    }

    /// `Σ (product ∘ −e / t²)` beside each weight.
    fn is_of_total(&self, node: Node) -> bool {
        let graph = self.graph;
        let ones = either(graph, node, P::Mul).and_then(|ways| ways.into_iter().find(|w| is_number(graph, w.0, 1.0)));
        let sum = self.let_through(expanded(graph, ones.map_or(node, |w| w.1)), self.found.total);
        let Some(terms) = reduced(graph, sum, Reduction::Sum) else { return false };
        let is_rate = |n: Node| {
            binary(graph, n, P::Div).is_some_and(|(a, b)| {
                unary(graph, a, P::Neg).is_some_and(|a| self.is_weight(a)) && self.is_square(expanded(graph, b))
            })
        };
        let ways = either(graph, terms, P::Mul);
        ways.is_some_and(|ways| ways.into_iter().any(|(a, b)| a == self.product && is_rate(b)))
    }

    /// `t²`
    fn is_square(&self, node: Node) -> bool {
        let graph = self.graph;
        let factors = binary(graph, cast_of(graph, node), P::Mul);
        factors.is_some_and(|(a, b)| [a, b].iter().all(|&n| cast_of(graph, n) == self.found.total))
    }

    /// `− Σ shifted` where the scores are greatest, 0 elsewhere.
    fn is_of_most(&self, node: Node, shifted: Node) -> bool {
        let graph = self.graph;
        let data = &graph.nodes[node];
        let last = data.dims.len() as u8 - 1;
        if data.op != Op::Scatter(Index::Elements, last, Update::Add) || !is_number(graph, data.args[0], 0.0) {
            return false;
        }
        let is_place = reduced(graph, data.args[1], Reduction::ArgMax) == Some(self.found.scores);
        let sum = self.let_through(data.args[2], self.found.most);
        let terms = reduced(graph, sum, Reduction::Sum);
        is_place && terms.is_some_and(|terms| unary(graph, terms, P::Neg) == Some(shifted))
    }

    /// What reaches a value through its being at least a constant, `clamped` being that: 0 where it was below.
    fn let_through(&self, node: Node, clamped: Node) -> Node {
        let graph = self.graph;
        let is_one = |n: Node| graph.dims(n).last() == Some(&1);
        // A sum over one term.
        let node = reduced(graph, node, Reduction::Sum).filter(|&x| is_one(x)).unwrap_or(node);
        match (chosen(graph, node), chosen(graph, clamped)) {
            (Some((x, below, _)), Some((_, same, _))) if below == same && is_number_of(graph, node) => x,
            _ => node,
        }
    }
}

/// Whether 0 is chosen where the condition holds.
fn is_number_of(graph: &Graph, node: Node) -> bool {
    constant(graph, graph.nodes[node].args[1]) == Some(0)
}

/// Whether `node` is made of `ends` by pointwise rows and what else they read.
fn reaches(graph: &Graph, node: Node, end: Node) -> bool {
    let (mut open, mut seen) = (vec![node], FxHashSet::default());
    while let Some(node) = open.pop() {
        if node == end {
            return true;
        }
        if let Op::Map(_) = graph.nodes[node].op {
            open.extend(graph.nodes[node].args.iter().copied().filter(|&arg| arg >= end && seen.insert(arg)));
        }
    }
    false
}

/// Whether one node is the other one with its last two axes exchanged, but for being widened.
pub(in super::super) fn turned(graph: &Graph, node: Node, other: Node) -> bool {
    let ((base, mut own), (same, axes)) = (viewed(graph, node), viewed(graph, other));
    let rank = own.len();
    own.swap(rank - 2, rank - 1);
    base == same && own == axes
}

/// Whether two nodes are the same, but for being widened.
pub(in super::super) fn same(graph: &Graph, node: Node, other: Node) -> bool {
    viewed(graph, node) == viewed(graph, other)
}

/// What a node permutes and widens, and the axes that its own are of that.
fn viewed(graph: &Graph, mut node: Node) -> (Node, Vec<u8>) {
    let mut axes: Vec<u8> = (0..graph.dims(node).len() as u8).collect();
    loop {
        match &graph.nodes[node].op {
            Op::Move(Movement::Permute(perm)) => axes.iter_mut().for_each(|axis| *axis = perm[*axis as usize]),
            _ if is_widened(graph, node) => {}
            _ => return (node, axes),
        }
        node = graph.nodes[node].args[0];
    }
}
