//! Finds attention by its structure: `softmax(f(q·k))·v`, where `f` is pointwise (scale, soft cap, masks, bias), whether
//! it was called as such or written out.  One kernel computes it and no score is ever written to memory (Dao:
//! "FlashAttention-2", 2023), if the factors are of a type that matrix instructions multiply.
//!
//! The weights are rounded to the type of `v` before they are multiplied, as they are where the softmax is called in that
//! type.  All else is as the rows say, in f32 inside.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::affine::Affine;
use super::expr::{Ex, Expr, Exprs};
use super::group::Domain;
use super::matching::{binary, cast_of, expanded, unary};
use super::operands::operand;
use super::plan::Options;
use super::trace::{Coords, Places, Stop, Tracer, address};
use super::widen::unwidened;
use crate::dtype::DType;
use crate::graph::{Graph, Movement, Node, Op, Reduction};
use crate::op::Pointwise;

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
    /// The weighted sum of `v`.
    sum: Node,
    /// What the sums of the weights are at least, as a bit pattern of f32.
    least: Option<u64>,
    /// Element type of the factors.
    narrow: DType,
    /// What else the kernel computes: nobody wants it.
    pub inner: FxHashSet<Node>,
}

/// What the kernel of an attention computes.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Axes: those of the batch, the queries', the keys', that of a row of `q` and `k`, that of a row of `v`.
    pub domain: Domain,
    /// Extents of the last four as they are in the tensors.
    pub extents: [u64; 4],
    /// Expressions over the scores as the product gives them, which are the result of reduction 0.
    pub exprs: Exprs,
    /// What the softmax is taken of.
    pub scores: Ex,
    /// Where some keys are hidden from each query because they come later.
    pub causal: Option<Causal>,
    /// What the product is multiplied by to give the scores, if that is all that happens to it, but for keys that come later.
    pub scale: Option<f32>,
    /// Where the elements of `q`, `k` and `v` lie.
    pub factors: [(Node, Affine); 3],
    /// The place of a result in its tensor; how that lies is decided by who reads it.
    pub result: Coords,
    /// Element type of the factors.
    pub narrow: DType,
    /// Element type of `q·k`.
    pub product: DType,
    /// What the sums of the weights are at least, as a bit pattern of f32.
    pub least: Option<u64>,
}

/// `select(key > query + offset, −∞, seen)`
#[derive(Clone, Copy, Debug)]
pub struct Causal {
    /// Whether a key is hidden.
    pub hidden: Ex,
    /// The scores of keys that are not.
    pub seen: Ex,
    /// How many keys more than its own place a query sees; nothing for none.
    pub offset: Option<Ex>,
}

/// The attentions of a graph that become kernels, by the node whose value they write.
pub fn find(graph: &Graph, options: &Options) -> FxHashMap<Node, Found> {
    let mut found: FxHashMap<Node, Found> = FxHashMap::default();
    // Strict numerics have one order for the terms of all products.
    if !options.fuse || options.grain.attention(0).is_none() || options.gemm_from.is_none() {
        return found;
    }
    let candidates: Vec<Found> = graph.nodes.keys().filter_map(|node| matches(graph, node)).collect();
    if candidates.is_empty() {
        return found;
    }
    let readers = readers(graph);
    found.extend(candidates.into_iter().filter_map(|m| m.whole(graph, &readers)));
    found
}

/// Whether one of these attentions computes a node, its result or on the way there.
pub fn computes(attentions: &FxHashMap<Node, Found>, node: Node) -> bool {
    attentions.contains_key(&node) || attentions.values().any(|found| found.inner.contains(&node))
}

/// The parts of an attention whose weighted sum is `sum`, not yet looked at from outside.
fn matches(graph: &Graph, sum: Node) -> Option<Found> {
    let data = &graph.nodes[sum];
    let Op::Contract = data.op else { return None };
    let quotient = cast_of(graph, data.args[0]);
    let (weights, total) = binary(graph, quotient, Pointwise::Div)?;
    let (total, least) = at_least(graph, expanded(graph, total));
    let summed = reduced(graph, total, Reduction::Sum)?;
    let shifted = unary(graph, weights, Pointwise::Exp)?;
    let (scores, most) = binary(graph, shifted, Pointwise::Sub)?;
    let (most, _) = at_least(graph, expanded(graph, most));
    let largest = reduced(graph, most, Reduction::Max)?;
    let f32s = [quotient, weights, scores, total].iter().all(|&n| graph.dtype(n) == DType::F32);
    let product = product_below(graph, scores)?;
    let [q, k] = [0, 1].map(|i| graph.nodes[product].args[i]);
    let narrow = unwidened(graph, q);
    let same = [k, data.args[1]].iter().all(|&n| unwidened(graph, n) == narrow);
    let dims = |n: Node| graph.dims(n).iter().rev().take(2).copied().collect::<Vec<u64>>();
    let sizes = dims(product)[1] >= QUERIES && dims(product)[0] > 1;
    let widths = [dims(q)[0], dims(sum)[0]].iter().all(|n| WIDTHS.contains(n));
    let fits = f32s && summed == weights && largest == scores && same && sizes && widths;
    let halves = matches!(narrow, DType::F16 | DType::Bf16);
    (fits && halves).then(|| Found { product, scores, sum, least, narrow, inner: FxHashSet::default() })
}

impl Found {
    /// The attention with the node that it writes, if nobody looks inside.
    fn whole(self, graph: &Graph, readers: &FxHashMap<Node, Vec<Node>>) -> Option<(Node, Found)> {
        let Found { product, sum, narrow, .. } = self;
        // A result that is rounded at once and read by nobody else is written rounded.
        let rounds = |&n: &Node| graph.dtype(n) == narrow && graph.nodes[n].op == Op::Map(Pointwise::Cast);
        let root = match readers.get(&sum).map(Vec::as_slice) {
            Some([reader]) if rounds(reader) && !graph.outputs.contains(&sum) => *reader,
            _ => sum,
        };
        // Between the product and the result lies what the kernel computes.
        let before = ancestors(graph, root, product);
        let mut inner: FxHashSet<Node> = [product].into_iter().collect();
        for (node, data) in graph.nodes.iter() {
            if before.contains(&node) && data.args.iter().any(|a| inner.contains(a)) {
                inner.insert(node);
            }
        }
        let hidden = |n: &Node| {
            let users = readers.get(n).map_or(&[][..], Vec::as_slice);
            !graph.outputs.contains(n) && users.iter().all(|u| *u == root || inner.contains(u))
        };
        let kernels = inner.iter().filter(|n| matches!(graph.nodes[**n].op, Op::Reduce(..) | Op::Contract)).count();
        let own = 3 + usize::from(root != sum);
        let pointwise = |n: &Node| {
            let op = &graph.nodes[*n].op;
            matches!(op, Op::Map(_) | Op::Move(Movement::Expand) | Op::Reduce(..) | Op::Contract)
        };
        let whole = kernels == own && inner.iter().all(hidden) && inner.iter().all(pointwise);
        whole.then_some((root, Found { inner, ..self }))
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

/// Follows an attention's scores and its operands, which must lie in memory.
pub fn trace(graph: &Graph, places: &Places, found: &Found) -> Result<Attention, Stop> {
    let (q, v) = (graph.nodes[found.product].args[0], graph.nodes[found.sum].args[1]);
    let (rank, width) = (graph.dims(q).len(), *graph.dims(q).last().unwrap_or(&1));
    let dims: SmallVec<[u64; 8]> =
        graph.dims(found.product).iter().copied().chain([width, graph.dims(v)[rank - 1]]).collect();
    let mut domain = Domain::new(&dims, &[]);
    loop {
        match trace_once(graph, places, &domain, &dims, found) {
            Err(Stop::SplitAxis(axis, inner)) => domain.split(axis, inner),
            other => return other,
        }
    }
}

fn trace_once(graph: &Graph, places: &Places, domain: &Domain, dims: &[u64], found: &Found) -> Result<Attention, Stop> {
    let extents: Vec<u64> = domain.axes.iter().map(|a| a.extent).collect();
    let point = domain.point(dims, true);
    let batch = dims.len() - 4;
    let at = |last: [usize; 2]| -> Coords {
        (0..batch).chain(last.map(|axis| batch + axis)).map(|axis| point[axis].clone()).collect()
    };
    let (queries, keys, width, values) = (0, 1, 2, 3);
    let factor = |node: Node, last: [usize; 2]| -> Result<(Node, Affine), Stop> {
        let (base, layout) = operand(graph, places, node).map_err(Stop::Materialize)?;
        Ok((base, address(&layout, &at(last))))
    };
    let [q, k] = [0, 1].map(|i| graph.nodes[found.product].args[i]);
    let v = graph.nodes[found.sum].args[1];
    let factors = [factor(q, [queries, width])?, factor(k, [width, keys])?, factor(v, [keys, values])?];

    let mut tracer = Tracer::new(graph, places, &extents);
    let product = tracer.exprs.add(Expr::Constant(0), DType::F32);
    let given = tracer.exprs.add_reduced(product, graph.dtype(found.product));
    tracer.own.insert(found.product, (at([queries, keys]), given));
    let scores = tracer.value(found.scores, &at([queries, keys]), &SmallVec::new())?;
    let causal = causal(&tracer.exprs, scores, [&point[batch + queries], &point[batch + keys]]);
    let scale = scale(&tracer.exprs, causal.map_or(scores, |causal| causal.seen), given);
    Ok(Attention {
        domain: domain.clone(),
        extents: [dims[batch], dims[batch + 1], dims[batch + 2], dims[batch + 3]],
        exprs: tracer.exprs,
        scores,
        causal,
        scale,
        factors,
        result: at([queries, values]),
        narrow: found.narrow,
        product: graph.dtype(found.product),
        least: found.least,
    })
}

/// The positive number that `product` is multiplied by to give some scores, if that is all: then the largest score is that
/// of the largest product.
fn scale(exprs: &Exprs, scores: Ex, product: Ex) -> Option<f32> {
    let data = &exprs.list[scores];
    let Expr::Map(Pointwise::Mul, args) = &data.expr else { return None };
    let number = match args[..] {
        [x, y] if x == product => y,
        [x, y] if y == product => x,
        _ => return None,
    };
    let Expr::Constant(bits) = exprs.list[number].expr else { return None };
    let scale = f32::from_bits(bits as u32);
    (data.dtype == DType::F32 && scale.is_normal() && scale > 0.0).then_some(scale)
}

/// Whether the outermost row of the scores hides later keys.
fn causal(exprs: &Exprs, scores: Ex, [query, key]: [&Affine; 2]) -> Option<Causal> {
    let map = |ex: Ex, wanted: Pointwise| match &exprs.list[ex].expr {
        Expr::Map(op, args) if *op == wanted => Some(args.as_slice()),
        _ => None,
    };
    // What is the same at every point may come after.
    let is = |ex: Ex, at: &Affine| matches!(&exprs.list[ex].expr, Expr::Index(own) if own == at);
    let fixed = |ex: Ex| matches!(exprs.list[ex].expr, Expr::Constant(_) | Expr::Slot(_));
    let &[hidden, nothing, seen] = map(scores, Pointwise::Select)? else { return None };
    let Expr::Constant(bits) = exprs.list[nothing].expr else { return None };
    if bits != u64::from(f32::NEG_INFINITY.to_bits()) || exprs.list[nothing].dtype != DType::F32 {
        return None;
    }
    let &[later, last] = map(hidden, Pointwise::Gt)? else { return None };
    if !is(later, key) {
        return None;
    }
    if is(last, query) {
        return Some(Causal { hidden, seen, offset: None });
    }
    let &[own, offset] = map(last, Pointwise::Add)? else { return None };
    (is(own, query) && fixed(offset)).then_some(Causal { hidden, seen, offset: Some(offset) })
}

#[cfg(test)]
pub(crate) mod tests;
