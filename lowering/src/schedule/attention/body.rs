//! What the kernel of an attention computes: its scores and its operands, followed back to memory.

use smallvec::SmallVec;

use super::Found;
use crate::dtype::DType;
use crate::graph::{Graph, Node};
use crate::op::Pointwise;
use crate::schedule::affine::Affine;
use crate::schedule::expr::{Ex, Expr, Exprs};
use crate::schedule::group::Domain;
use crate::schedule::operands::operand;
use crate::schedule::trace::{Coords, Places, Stop, Tracer, address};

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
    /// What gradients start from, and its place for each query, if there are any.
    pub norm: Option<(Node, Coords)>,
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
        norm: found
            .norm
            .map(|norm| (norm, (0..=batch).map(|axis| point[axis].clone()).chain([Affine::number(0)]).collect())),
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
pub(super) fn causal(exprs: &Exprs, scores: Ex, [query, key]: [&Affine; 2]) -> Option<Causal> {
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
    let pair = |wanted: Pointwise| map(hidden, wanted).map(|args| (args[0], args[1]));
    let (later, last) = pair(Pointwise::Gt).or_else(|| pair(Pointwise::Lt).map(|(x, y)| (y, x)))?;
    if !is(later, key) {
        return None;
    }
    if is(last, query) {
        return Some(Causal { hidden, seen, offset: None });
    }
    let &[own, offset] = map(last, Pointwise::Add)? else { return None };
    (is(own, query) && fixed(offset)).then_some(Causal { hidden, seen, offset: Some(offset) })
}
