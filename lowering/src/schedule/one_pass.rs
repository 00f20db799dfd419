//! Statistics of long rows in one pass over memory: a softmax's maximum and sum (Milakov and Gimelshein, "Online
//! normalizer calculation for softmax", 2018), a mean and the sum of the squares of what differs from it (Chan, Golub and
//! LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
//!
//! Both are two reductions of which the second waits for the first: it sums what each term is next to a point of
//! reference, the maximum or the mean.  Each chunk of the [tree](super::simplify) takes a reference of its own, so that it
//! sums its terms while they are at hand, and the sums are moved to the reference of the row when they meet:
//!
//! * `Σ exp(x − m) = Σ_c exp(m_c − m) · Σ exp(x − m_c)`
//! * `Σ (x − m)² = Σ_c (Σ (x − m_c)² + (m_c − m) · (2 Σ (x − m_c) + n_c (m_c − m)))`, which holds for every `m_c`, rounded
//!   or not: the sums of the differences make up for what a chunk's mean was rounded by.
//!
//! Whether a row is summed so depends on its length, its type and the machine, not on how many rows there are.  Strict
//! numerics sum it in two passes.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::chunks::Chunks;
use super::matching::{binary, cast_of, expanded, unary};
use super::plan::Options;
use super::simplify::{CHUNK, accumulator, identity};
use crate::graph::{Graph, Node, NodeData, Op, Reduction, number};
use crate::op::Pointwise;

/// Two reductions over the same terms, by the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// The first one.
    first: Node,
    /// What its result became before it met the terms: as many elements.
    reference: Node,
    /// What is summed.
    terms: Terms,
}

/// Terms next to their reference `m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Terms {
    /// `exp(x − m)`, summed in the type of its own.
    Exponentials,
    /// `(x − m)²`
    Squares,
}

/// The pairs of a graph.
#[derive(Default)]
pub(super) struct Pairs {
    found: FxHashMap<Node, Pair>,
    /// First reductions, as they were made.
    made: FxHashMap<Node, First>,
}

/// The first reduction of a pair, in the new graph.
struct First {
    chunks: Chunks,
    /// Each chunk's own reference.
    own: Node,
    /// How many terms each has, where there is need of it.
    count: Option<Node>,
    /// One for each term, where the last chunk is not full of them.
    ones: Option<Node>,
}

/// Finds the pairs whose rows are worth it.
pub(super) fn find(graph: &Graph, options: &Options) -> Pairs {
    let far = |&node: &Node| {
        let Op::Reduce(_, axes) = &graph.nodes[node].op else { return false };
        let dims = graph.dims(graph.nodes[node].args[0]);
        let last = axes.iter().map(|&a| a as usize).eq(dims.len() - axes.len()..dims.len());
        last && !options.grain.keeps(axes.iter().map(|&a| dims[a as usize]).product())
    };
    // Strict numerics have no library either.
    let sums = graph.nodes.keys().filter(|_| options.gemm_from.is_some()).filter(far);
    Pairs { found: sums.filter_map(|sum| Some((sum, pair(graph, sum)?))).collect(), made: FxHashMap::default() }
}

/// The pair whose second reduction is `sum`.
fn pair(graph: &Graph, sum: Node) -> Option<Pair> {
    let data = &graph.nodes[sum];
    let Op::Reduce(Reduction::Sum, axes) = &data.op else { return None };
    let (terms, kind, difference) = match unary(graph, cast_of(graph, data.args[0]), Pointwise::Exp) {
        Some(x) => (Terms::Exponentials, Reduction::Max, x),
        None => match binary(graph, data.args[0], Pointwise::Mul)? {
            (x, y) if x == y && data.dtype == data.dtype.compute() => (Terms::Squares, Reduction::Sum, x),
            _ => return None,
        },
    };
    let (x, reference) = binary(graph, difference, Pointwise::Sub)?;
    let reference = expanded(graph, reference);
    let is_first = |node: &Node| {
        let NodeData { op, args, .. } = &graph.nodes[*node];
        matches!(op, Op::Reduce(k, a) if *k == kind && a == axes) && args[0] == x
    };
    let first = below(graph, reference).into_iter().find(is_first)?;
    (graph.dims(reference) == &data.dims && data.dtype.is_float()).then_some(Pair { first, reference, terms })
}

/// The nodes that `node` is computed from by pointwise rows alone, itself included.
fn below(graph: &Graph, node: Node) -> Vec<Node> {
    let mut seen = vec![node];
    let mut next = 0;
    while let Some(&node) = seen.get(next) {
        next += 1;
        if let Op::Map(_) = graph.nodes[node].op {
            let new: Vec<Node> = graph.nodes[node].args.iter().copied().filter(|arg| !seen.contains(arg)).collect();
            seen.extend(new);
        }
    }
    seen
}

impl Pairs {
    /// What becomes of a reduction that belongs to a pair.  `data` has its operands in the new graph already, and `new`
    /// says what the nodes before it became.
    pub(super) fn made(
        &mut self,
        graph: &mut Graph,
        (node, data): (Node, &NodeData),
        new: &FxHashMap<Node, Node>,
        programs: u32,
    ) -> Option<Node> {
        let Op::Reduce(kind, axes) = &data.op else { return None };
        if let Some(pair) = self.found.get(&node) {
            let (first, reference) = (self.made.get(&pair.first)?, new[&pair.reference]);
            return Some(match pair.terms {
                Terms::Exponentials => first.exponentials(graph, reference, data, programs),
                Terms::Squares => first.squares(graph, reference, data, programs),
            });
        }
        if !self.found.values().any(|pair| pair.first == node) {
            return None;
        }
        let axes: SmallVec<[usize; 6]> = axes.iter().map(|&a| a as usize).collect();
        let chunks = Chunks::of(graph, *kind, data.args[0], (&axes, false), &data.dims);
        let each = chunks.reduce(graph, *kind, chunks.x);
        let first = match kind {
            Reduction::Max => First::maxima(graph, chunks, each),
            _ => First::means(graph, chunks, each),
        };
        let whole = first.chunks.join(graph, *kind, each, &data.dims, programs);
        self.made.insert(node, first);
        Some(whole)
    }
}

impl First {
    /// Chunks next to their maxima `each`.
    fn maxima(graph: &mut Graph, chunks: Chunks, each: Node) -> First {
        let (dtype, dims) = (graph.dtype(each), graph.dims(each).clone());
        // Next to the lowest number, the exponentials of a chunk of −∞ are 0, as they are next to that of the row.
        let lowest = graph.constant(dtype, identity(Reduction::Max, dtype) - 1, &dims);
        let own = graph.map(Pointwise::Max, &[each, lowest]);
        First { chunks, own, count: None, ones: None }
    }

    /// Chunks next to their means, `each` being their sums.
    fn means(graph: &mut Graph, chunks: Chunks, each: Node) -> First {
        let (dtype, dims) = (graph.dtype(each), graph.dims(each).clone());
        let ones = chunks.ones(graph, dtype);
        let count = match ones {
            Some(ones) => chunks.reduce(graph, Reduction::Sum, ones),
            None => graph.constant(dtype, number::from_f64(dtype, CHUNK as f64), &dims),
        };
        let own = graph.map(Pointwise::Div, &[each, count]);
        First { chunks, own, count: Some(count), ones }
    }

    /// `Σ exp(x − reference)`
    fn exponentials(&self, graph: &mut Graph, reference: Node, sum: &NodeData, programs: u32) -> Node {
        let wide = accumulator(Reduction::Sum, sum.dtype);
        let less = self.chunks.less(graph, self.own);
        let terms = graph.map(Pointwise::ExpBelow, &[less]);
        let terms = graph.cast(terms, sum.dtype);
        let terms = graph.cast(terms, wide);
        let sums = self.chunks.reduce(graph, Reduction::Sum, terms);
        let reference = self.chunks.of_rows(graph, reference);
        let [own, reference] = [self.own, reference].map(|x| graph.cast(x, wide));
        let away = graph.map(Pointwise::Sub, &[own, reference]);
        let factor = graph.map(Pointwise::Exp, &[away]);
        let moved = graph.map(Pointwise::Mul, &[sums, factor]);
        let whole = self.chunks.join(graph, Reduction::Sum, moved, &sum.dims, programs);
        graph.cast(whole, sum.dtype)
    }

    /// `Σ (x − reference)²`
    fn squares(&self, graph: &mut Graph, reference: Node, sum: &NodeData, programs: u32) -> Node {
        let Some(count) = self.count else { unreachable!("squares are of what differs from a mean") };
        let less = self.chunks.less(graph, self.own);
        let less = self.ones.map_or(less, |ones| graph.map(Pointwise::Mul, &[less, ones]));
        let square = graph.map(Pointwise::Mul, &[less, less]);
        let [rest, squares] = [less, square].map(|x| self.chunks.reduce(graph, Reduction::Sum, x));
        let reference = self.chunks.of_rows(graph, reference);
        let away = graph.map(Pointwise::Sub, &[self.own, reference]);
        let twice = graph.map(Pointwise::Add, &[rest, rest]);
        let far = graph.map(Pointwise::Mul, &[count, away]);
        let linear = graph.map(Pointwise::Add, &[twice, far]);
        let moved = graph.map(Pointwise::Mul, &[away, linear]);
        let moved = graph.map(Pointwise::Add, &[squares, moved]);
        // A sum of squares, however it was rounded.
        let zero = graph.constant(sum.dtype, 0, &graph.dims(moved).clone());
        let moved = graph.map(Pointwise::Max, &[moved, zero]);
        self.chunks.join(graph, Reduction::Sum, moved, &sum.dims, programs)
    }
}

#[cfg(test)]
mod tests;
