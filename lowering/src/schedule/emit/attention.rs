//! Attention as one tile program: each takes a tile of queries, walks the keys in blocks and carries, per query, the
//! weighted sum of the values so far, the sum of the weights, and the shift under which both were computed (Milakov and
//! Gimelshein: "Online normalizer calculation for softmax", 2018; Dao: "FlashAttention-2", 2023).
//!
//! Blocks of which every key is seen by every query of the tile come first, without any mask; then those at the edge.
//! What no query of the tile sees is not visited.

use super::super::affine::Affine;
use super::super::attention::{Attention, Causal};
use super::super::expr::Ex;
use super::super::grain::Grain;
use super::super::trace::{Places, address};
use super::Emitted;
use super::context::Emitter;
use super::order::{self, Started};
use super::point::Point;
use super::product::{Side, sides};
use super::walk::{divide, extent, full_end, lanes};
use crate::DType;
use crate::graph::{Graph, Node};
use crate::op::Pointwise;
use crate::tile::{Precision, Value};
use smallvec::smallvec;

/// Writes the kernel of the attention whose result is `root`, which lies as `layout` says.
pub fn emit(
    graph: &Graph,
    (root, places): (Node, &Places),
    attention: &Attention,
    grain: Grain,
    index: DType,
) -> Emitted {
    let result_at = address(&places[&root], &attention.result);
    let axes = &attention.domain.axes;
    let [queries, keys, width, values] = attention.extents;
    let (values_axis, width_axis) = (axes.len() - 1, axes.len() - 2);
    let [rows, columns] = sides(axes, width_axis, [queries, keys]);
    let batch = 0..rows.start;
    let norm = attention.norm.as_ref().map(|(node, coords)| (*node, address(&places[node], coords)));
    let used: Vec<_> = attention.factors.iter().chain(&norm).map(|f| &f.1).chain([&result_at]).collect();
    let mut e = Emitter::with_runs("attention", graph, &attention.exprs, (axes, grain), [0..0, 0..0], index, &used);
    attention.factors.iter().for_each(|f| {
        e.buffer(f.0, false);
    });
    e.buffer(root, true);
    norm.iter().for_each(|(node, _)| {
        e.buffer(*node, true);
    });
    let down = Side::new(&mut e, axes, rows);
    let across = Side::new(&mut e, axes, columns);
    let [width, values] = [(width, width_axis), (values, values_axis)].map(|(n, axis)| Row::new(&mut e, n, axis));
    let Some(cut) = grain.attention(width.padded.max(values.padded)) else { unreachable!("nobody asked for a kernel") };
    e.b.warps(cut.warps);
    let tile = cut.warps * cut.queries;
    let tiles = queries.div_ceil(tile.into());
    let last = e.argument(tiles as i64 - 1, 1);
    let members: Vec<Value> = axes[batch.clone()].iter().skip(1).map(|a| extent(&mut e, a.extent)).collect();

    let count = axes[batch.clone()].iter().map(|a| a.extent).product();
    let shared = keys * (width.bytes(graph, &attention.factors[1]) + values.bytes(graph, &attention.factors[2]));
    let uneven = attention.causal.is_some();
    let Started { tile: number, member, grid } = order::start(&mut e, (count, tiles), shared, uneven, grain);
    // The last queries see the most keys; they start first.
    let number = if uneven { e.op(Pointwise::Sub, last, number) } else { number };
    let mut point = Point::new(axes.len(), 1);
    divide(&mut e, member, &members, &mut point.axes[batch.clone()]);
    let size = e.int(tile.into());
    let first = e.op(Pointwise::Mul, number, size);
    let (_, inside) = down.from(&mut e, first, tile, 1, &mut point);
    let block = Block {
        attention,
        tile,
        keys: cut.keys,
        across: &across,
        width: &width,
        values: &values,
        point: &point,
        inside,
    };
    let q = width.load(&mut e, (&attention.factors[0], attention.narrow), &point, Some(inside));

    let [zero, lowest] = [0.0, f32::MIN].map(|x| e.b.constant(DType::F32, x.to_bits().into()));
    let sums = e.b.broadcast(zero, &[tile, values.padded]);
    let [total, shift] = [zero, lowest].map(|x| e.b.broadcast(x, &[tile]));
    let (none, step) = (e.int(0), e.int(cut.keys.into()));
    // Every query of the tile sees the keys below `all`; none sees those from `end` on.
    let (all, end) = match attention.causal {
        None => (across.extent, across.extent),
        Some(causal) => seen(&mut e, causal, (first, tile), across.extent, &mut point.clone()),
    };
    let full = full_end(&mut e, none, all, cut.keys);
    let carried = e.for_loop_in(cut.stages, (none, full, step), &[sums, total, shift], |e, start, carried| {
        block.add(e, q, (start, false), carried)
    });
    let carried = e.for_loop_in(cut.stages, (full, end, step), &carried, |e, start, carried| {
        block.add(e, q, (start, true), carried)
    });

    let mut total = carried[1];
    if let Some(least) = attention.least {
        let least = e.b.constant(DType::F32, least);
        total = e.op(Pointwise::Max, total, least);
    }
    let total = e.b.expand_dims(total, 1);
    // Of f32, rounded once more: half a unit in the last place of a 16-bit float is 128 times as much at least.
    let one = e.b.constant(DType::F32, 1f32.to_bits().into());
    let inverse = e.op(Pointwise::Div, one, total);
    let result = e.op(Pointwise::Mul, carried[0], inverse);
    values.store(&mut e, (root, &result_at), result, &point, inside);
    if let Some((node, at)) = norm {
        let norm = norm_of(&mut e, carried[2], total);
        let offsets = e.place(&at, &mut point.clone());
        let buffer = e.buffer(node, true);
        e.b.store(buffer, offsets, norm, Some(inside));
    }
    e.finish(grid)
}

/// `log Σ exp(s)` of each query, whose sums were computed under a shift of powers of two.
fn norm_of(e: &mut Emitter, shift: Value, total: Value) -> Value {
    let rate = e.b.constant(DType::F32, std::f32::consts::LN_2.to_bits().into());
    let shift = e.b.expand_dims(shift, 1);
    let all = e.b.map(Pointwise::Log, &[total]);
    e.b.map(Pointwise::Fma, &[shift, rate, all])
}

/// Below which key every query from `first` on sees all, and from which on none of the tile sees any.
pub(super) fn seen(
    e: &mut Emitter,
    causal: Causal,
    (first, tile): (Value, u32),
    extent: Value,
    point: &mut Point,
) -> (Value, Value) {
    let offset = causal.offset.map(|ex| {
        let offset = e.value(ex, point);
        e.b.cast(offset, e.index)
    });
    let one = e.int(1);
    let next = offset.map_or(one, |offset| e.op(Pointwise::Add, offset, one));
    let all = e.op(Pointwise::Add, first, next);
    let others = e.int(i64::from(tile) - 1);
    let end = e.op(Pointwise::Add, all, others);
    let zero = e.int(0);
    let [all, end] = [all, end].map(|x| {
        let x = e.op(Pointwise::Min, x, extent);
        e.op(Pointwise::Max, x, zero)
    });
    (all, end)
}

/// A row of a factor: one tile along it, filled up to a power of two.
pub(super) struct Row {
    axis: usize,
    pub(super) padded: u32,
    /// Its extent, if that is none.
    limit: Option<Value>,
}

impl Row {
    pub(super) fn new(e: &mut Emitter, extent: u64, axis: usize) -> Row {
        let padded = extent.next_power_of_two() as u32;
        let limit = (u64::from(padded) != extent).then(|| e.argument(extent as i64, 1));
        Row { axis, padded, limit }
    }

    /// Bytes of a row of a factor.
    pub(super) fn bytes(&self, graph: &Graph, factor: &(Node, Affine)) -> u64 {
        u64::from(self.padded) * graph.dtype(factor.0).bytes() as u64
    }

    /// Places along it, across a tile.
    pub(super) fn places(&self, e: &mut Emitter) -> Value {
        lanes(e, self.padded, Some(0))
    }

    pub(super) fn mask(&self, e: &mut Emitter) -> Option<Value> {
        let limit = self.limit?;
        let places = self.places(e);
        Some(e.op(Pointwise::Lt, places, limit))
    }

    /// The rows of a factor at a point, those that `inside` says; 0 elsewhere.
    pub(super) fn load(
        &self,
        e: &mut Emitter,
        ((node, at), narrow): (&(Node, Affine), DType),
        point: &Point,
        inside: Option<Value>,
    ) -> Value {
        let mut point = point.clone();
        point.axes[self.axis] = Some(self.places(e));
        let offsets = e.place(at, &mut point);
        let own = self.mask(e);
        let mask = e.both(inside, own);
        let (buffer, dtype) = (e.buffer(*node, false), e.dtype(*node));
        let x = e.read((buffer, dtype), offsets, mask);
        e.b.cast(x, narrow)
    }

    /// Writes rows to the tensor of a node at a point, those that are inside.
    pub(super) fn store(
        &self,
        e: &mut Emitter,
        (node, at): (Node, &Affine),
        rows: Value,
        point: &Point,
        inside: Value,
    ) {
        let rows = e.b.cast(rows, e.dtype(node));
        let mut point = point.clone();
        point.axes[self.axis] = Some(self.places(e));
        let offsets = e.place(at, &mut point);
        let own = self.mask(e);
        let mask = e.both(Some(inside), own);
        let buffer = e.buffer(node, true);
        e.b.store(buffer, offsets, rows, mask);
    }
}

/// What is added for each block of keys.
struct Block<'a> {
    attention: &'a Attention,
    tile: u32,
    /// How many keys that are.
    keys: u32,
    across: &'a Side,
    width: &'a Row,
    values: &'a Row,
    /// The queries, and which of them there are.
    point: &'a Point,
    inside: Value,
}

impl Block<'_> {
    /// The carried values after the keys from `start` on; at the edge some are hidden or are none.
    fn add(&self, e: &mut Emitter, q: Value, (start, edge): (Value, bool), carried: &[Value]) -> Vec<Value> {
        let attention = self.attention;
        // Keys are rows of the factors, and columns of the scores.
        let mut of_factors = self.point.clone();
        let (_, rows) = self.across.from(e, start, self.keys, 1, &mut of_factors);
        let mut point = self.point.clone();
        let (_, columns) = self.across.from(e, start, self.keys, 0, &mut point);
        let some = edge.then_some(rows);
        let [_, k, v] = &attention.factors;
        let k = self.width.load(e, (k, attention.narrow), &of_factors, some);
        let v = self.values.load(e, (v, attention.narrow), &of_factors, some);

        let k = e.b.trans(k, &[1, 0]);
        let zero = e.b.constant(DType::F32, 0);
        let zeros = e.b.broadcast(zero, &[self.tile, self.keys]);
        let product = e.b.dot(q, k, zeros, Precision::Ieee);
        point.reduced[0] = Some(e.b.cast(product, attention.product));
        point.parallel_mask = Some(if edge { e.op(Pointwise::And, self.inside, columns) } else { self.inside });
        let (scores, scale) = match attention.scale {
            // The product itself stands for the scores, and is scaled with the exponent.
            Some(scale) => (self.unscaled(e, product, edge, &mut point), scale),
            None => (self.scores(e, edge, &mut point), 1.0),
        };
        let scores = match edge {
            false => scores,
            true => {
                let nothing = e.b.constant(DType::F32, f32::NEG_INFINITY.to_bits().into());
                e.b.map(Pointwise::Select, &[columns, scores, nothing])
            }
        };

        let [sums, total, shift] = carried else { unreachable!("three values are carried") };
        let rate = e.b.constant(DType::F32, (scale * std::f32::consts::LOG2_E).to_bits().into());
        let most = e.b.reduce(&[scores], 1, |b, x, y| smallvec![b.map(Pointwise::Max, &[x[0], y[0]])])[0];
        let most = e.op(Pointwise::Mul, most, rate);
        let next = e.op(Pointwise::Max, *shift, most);
        let back = e.b.map(Pointwise::Neg, &[next]);
        let down = e.b.expand_dims(back, 1);
        let exponent = e.b.map(Pointwise::Fma, &[scores, rate, down]);
        let weights = e.b.exp2_approx(exponent);
        let change = e.op(Pointwise::Sub, *shift, next);
        let change = e.b.exp2_approx(change);
        let sum = e.b.reduce(&[weights], 1, |b, x, y| smallvec![b.map(Pointwise::Add, &[x[0], y[0]])])[0];
        let total = e.b.map(Pointwise::Fma, &[*total, change, sum]);
        let change = e.b.expand_dims(change, 1);
        let sums = e.op(Pointwise::Mul, *sums, change);
        let weights = e.b.cast(weights, attention.narrow);
        let sums = e.b.dot(weights, v, sums, Precision::Ieee);
        vec![sums, total, next]
    }

    /// The product where it stands for scores that are a multiple of it.
    fn unscaled(&self, e: &mut Emitter, product: Value, edge: bool, point: &mut Point) -> Value {
        let Some(causal) = self.attention.causal.filter(|_| edge) else { return product };
        let hidden = e.value(causal.hidden, point);
        let hidden = e.b.broadcast(hidden, &[self.tile, self.keys]);
        let nothing = e.b.constant(DType::F32, f32::NEG_INFINITY.to_bits().into());
        e.b.map(Pointwise::Select, &[hidden, nothing, product])
    }

    /// What the softmax is taken of; away from the edge no key is hidden.
    fn scores(&self, e: &mut Emitter, edge: bool, point: &mut Point) -> Value {
        let ex: Ex = match self.attention.causal {
            Some(causal) if !edge => causal.seen,
            _ => self.attention.scores,
        };
        let scores = e.value(ex, point);
        e.b.broadcast(scores, &[self.tile, self.keys])
    }
}
