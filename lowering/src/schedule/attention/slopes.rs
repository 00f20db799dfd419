//! Finds the gradients of an attention behind it, in the form in which they are written: two kernels,
//! each of which computes the weights anew, and no tensor of the size of the scores is ever written.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::body::{Causal, causal};
use super::spelled::{same, turned};
use super::{Found, written};
use crate::dtype::DType;
use crate::graph::{Graph, Movement, Node, Op};
use crate::op::Pointwise;
use crate::schedule::affine::Affine;
use crate::schedule::expr::{Ex, Expr, Exprs};
use crate::schedule::group::Domain;
use crate::schedule::matching::{binary, either, expanded, unary};
use crate::schedule::operands::operand;
use crate::schedule::trace::{Coords, Places, Stop, Tracer, address};

/// Which gradients a kernel gives: it goes along with these, and walks the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// That of `q`.
    Queries,
    /// Those of `k` and `v`.
    Keys,
}

/// The gradients of an attention in a graph.
#[derive(Clone, Debug)]
pub struct Slopes {
    /// `q·k`, and what the softmax is taken of.
    product: Node,
    scores: Node,
    /// `max s + log Σ exp(s − max s)` of each query.
    pub norm: Node,
    /// The logarithm in that.
    pub log: Node,
    /// What is taken from each row of `g·vᵀ`.
    common: Node,
    /// `g·vᵀ`
    of_weights: Node,
    of_scores: Node,
    /// The gradient of `q·k`.
    inward: Node,
    /// The gradients of `q`, `k` and `v`, as they are written.
    results: [Node; 3],
    /// Element type of the factors.
    narrow: DType,
    /// What else the kernels compute.
    pub inner: FxHashSet<Node>,
}

/// What the kernel of a gradient computes.
#[derive(Clone, Debug)]
pub struct Body {
    /// Which gradients.
    pub side: Side,
    /// Axes, as those of the attention.
    pub domain: Domain,
    /// Extents of the last four as they are in the tensors.
    pub extents: [u64; 4],
    /// Expressions over the scores as the product gives them, the result of reduction 0, and over the gradient of what
    /// the softmax is taken of, that of reduction 1.
    pub exprs: Exprs,
    /// What the softmax is taken of.
    pub scores: Ex,
    /// The gradient of the product.
    pub inward: Ex,
    /// Where some keys are hidden from each query because they come later.
    pub causal: Option<Causal>,
    /// Where the elements of `q`, `k`, `v` and the gradient of the result lie.
    pub factors: [(Node, Affine); 4],
    /// Where each query's logarithm of its sum lies, and what is taken from its row.
    pub rows: [(Node, Affine); 2],
    /// The place of each result in its tensor.
    pub results: SmallVec<[(Node, Coords); 2]>,
    /// Element type of the factors.
    pub narrow: DType,
}

/// The gradients of an attention, if they are there.
pub(super) fn find(graph: &Graph, readers: &FxHashMap<Node, Vec<Node>>, attention: &Found) -> Option<Slopes> {
    let users = |n: Node| readers.get(&n).map_or(&[][..], Vec::as_slice).iter().copied();
    let Found { product, scores, narrow, .. } = *attention;
    let (norm, log) = users(attention.most).find_map(|n| {
        let ways = either(graph, n, Pointwise::Add)?;
        let log = ways.into_iter().find(|w| w.0 == attention.most)?.1;
        (unary(graph, log, Pointwise::Log) == Some(attention.total)).then_some((n, log))
    })?;
    let less = users(scores)
        .find(|&n| binary(graph, n, Pointwise::Sub).is_some_and(|(a, b)| a == scores && expanded(graph, b) == norm))?;
    let weights = users(less).find(|&n| unary(graph, n, Pointwise::Exp).is_some())?;
    let (of_scores, of_weights, common) = users(weights).find_map(|n| {
        let ways = either(graph, n, Pointwise::Mul)?;
        let (of_weights, common) = binary(graph, ways.into_iter().find(|w| w.0 == weights)?.1, Pointwise::Sub)?;
        Some((n, of_weights, expanded(graph, common)))
    })?;
    let factor = |n: Node, side: usize| graph.nodes[n].args[side];
    let is_product = |n: Node| graph.nodes[n].op == Op::Contract;
    let of = |left: Node, fits: &dyn Fn(Node) -> bool| {
        users(left).find(|&n| is_product(n) && factor(n, 0) == left && fits(factor(n, 1)))
    };
    let (k, v) = (factor(product, 1), factor(attention.sum, 1));
    if !is_product(of_weights) || !turned(graph, factor(of_weights, 1), v) {
        return None;
    }
    // From the gradient of the scores inwards, row by row.
    let (mut open, mut found) = (vec![of_scores], None);
    while let Some(node) = open.pop().filter(|_| found.is_none()) {
        found = of(node, &|n| turned(graph, n, k)).map(|queries| (node, queries));
        open.extend(users(node).filter(|&n| matches!(graph.nodes[n].op, Op::Map(_)) && n > node));
    }
    let (inward, queries) = found?;
    let down = |left: Node, right: Node| {
        let turns = |n: &Node| matches!(graph.nodes[*n].op, Op::Move(Movement::Permute(_))) && turned(graph, *n, left);
        users(left).filter(turns).find_map(|turn| of(turn, &|n| same(graph, n, right)))
    };
    let keys = down(inward, factor(product, 0))?;
    let values = down(weights, factor(of_weights, 0))?;
    let results = [queries, keys, values].map(|n| written(graph, readers, n, narrow));
    let inner = FxHashSet::default();
    let slopes = Slopes { product, scores, norm, log, common, of_weights, of_scores, inward, results, narrow, inner };
    slopes.whole(graph, readers, attention)
}

impl Slopes {
    /// What the kernel of a side writes.
    pub fn roots(&self, side: Side) -> &[Node] {
        match side {
            Side::Queries => &self.results[..1],
            Side::Keys => &self.results[1..],
        }
    }

    /// The gradients, if nobody looks inside but the attention itself.
    fn whole(self, graph: &Graph, readers: &FxHashMap<Node, Vec<Node>>, attention: &Found) -> Option<Slopes> {
        let starts = [self.product, self.of_weights];
        // The gradient of the result is computed from the result.
        let ends = [self.norm, self.common, attention.result];
        let mut behind: FxHashSet<Node> = FxHashSet::default();
        let mut open = self.results.to_vec();
        while let Some(node) = open.pop() {
            if starts.contains(&node) || ends.contains(&node) {
                continue;
            }
            let new = graph.nodes[node].args.iter().copied().filter(|&arg| arg >= starts[0] && behind.insert(arg));
            open.extend(new);
        }
        let mut inner: FxHashSet<Node> = starts.into_iter().collect();
        for (node, data) in graph.nodes.iter().skip(starts[0].as_u32() as usize) {
            let is_end = ends.contains(&node) || self.results.contains(&node);
            if behind.contains(&node) && !is_end && data.args.iter().any(|a| inner.contains(a)) {
                inner.insert(node);
            }
        }
        let own = |n: &Node| inner.contains(n) || self.results.contains(n) || attention.inner.contains(n);
        let hidden = |n: &Node| !graph.outputs.contains(n) && readers.get(n).is_none_or(|users| users.iter().all(own));
        let follows = |n: &Node| {
            let op = &graph.nodes[*n].op;
            matches!(op, Op::Map(_) | Op::Move(Movement::Expand | Movement::Permute(_)) | Op::Contract)
        };
        let products = inner.iter().filter(|n| graph.nodes[**n].op == Op::Contract).count();
        let rounded = self.results.iter().filter(|n| graph.nodes[**n].op != Op::Contract).count();
        let whole = products == 2 + rounded && inner.iter().all(hidden) && inner.iter().all(follows);
        whole.then_some(Slopes { inner, ..self })
    }

    /// Follows what the kernel of a side reads, which must lie in memory.
    pub fn trace(&self, graph: &Graph, places: &Places, side: Side) -> Result<Body, Stop> {
        let [q, v] =
            [self.product, self.of_weights].map(|n| graph.nodes[n].args[if n == self.product { 0 } else { 1 }]);
        let (width, values) = (*graph.dims(q).last().unwrap_or(&1), graph.dims(v)[graph.dims(v).len() - 2]);
        let dims: SmallVec<[u64; 8]> = graph.dims(self.product).iter().copied().chain([width, values]).collect();
        let mut domain = Domain::new(&dims, &[]);
        loop {
            match self.trace_once(graph, places, &domain, (&dims, side)) {
                Err(Stop::SplitAxis(axis, inner)) => domain.split(axis, inner),
                other => return other,
            }
        }
    }

    fn trace_once(
        &self,
        graph: &Graph,
        places: &Places,
        domain: &Domain,
        (dims, side): (&[u64], Side),
    ) -> Result<Body, Stop> {
        let extents: Vec<u64> = domain.axes.iter().map(|a| a.extent).collect();
        let point = domain.point(dims, true);
        let batch = dims.len() - 4;
        let (queries, keys, width, values) = (0, 1, 2, 3);
        let at = |last: [usize; 2]| -> Coords {
            (0..batch).chain(last.map(|axis| batch + axis)).map(|axis| point[axis].clone()).collect()
        };
        let of_query: Coords = (0..=batch).map(|axis| point[axis].clone()).chain([Affine::number(0)]).collect();
        let factor = |node: Node, at: &[Affine]| -> Result<(Node, Affine), Stop> {
            let (base, layout) = operand(graph, places, node).map_err(Stop::Materialize)?;
            Ok((base, address(&layout, at)))
        };
        let args = |node: Node| [graph.nodes[node].args[0], graph.nodes[node].args[1]];
        let ([q, k], [g, v]) = (args(self.product), args(self.of_weights));
        let factors = [
            factor(q, &at([queries, width]))?,
            factor(k, &at([width, keys]))?,
            factor(v, &at([values, keys]))?,
            factor(g, &at([queries, values]))?,
        ];
        let rows = [factor(self.norm, &of_query)?, factor(self.common, &of_query)?];

        let mut tracer = Tracer::new(graph, places, &extents);
        let nothing = tracer.exprs.add(Expr::Constant(0), DType::F32);
        for node in [self.product, self.of_scores] {
            let given = tracer.exprs.add_reduced(nothing, graph.dtype(node));
            tracer.own.insert(node, (at([queries, keys]), given));
        }
        let scores = tracer.value(self.scores, &at([queries, keys]), &SmallVec::new())?;
        let inward = tracer.value(self.inward, &at([queries, keys]), &SmallVec::new())?;
        let causal = causal(&tracer.exprs, scores, [&point[batch + queries], &point[batch + keys]]);
        let places = [at([queries, width]), at([keys, width]), at([keys, values])];
        let results = self.results.iter().copied().zip(places);
        let results: SmallVec<[_; 2]> = results.filter(|(node, _)| self.roots(side).contains(node)).collect();
        Ok(Body {
            side,
            domain: domain.clone(),
            extents: [dims[batch], dims[batch + 1], dims[batch + 2], dims[batch + 3]],
            exprs: tracer.exprs,
            scores,
            inward,
            causal,
            factors,
            rows,
            results,
            narrow: self.narrow,
        })
    }
}
