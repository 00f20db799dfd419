//! The gradients of an attention as tile programs: of the queries, each taking a tile of them and walking the keys in
//! blocks; of the keys and the values, each taking a tile of keys and walking the queries (Dao: "FlashAttention-2", 2023).
//!
//! Both compute the weights anew, from the scores and the logarithm of each query's sum, with the rows of the tile going
//! down and those of the block across.

use super::super::affine::Affine;
use super::super::attention::slopes::{Body, Side as Of};
use super::super::expr::Ex;
use super::super::grain::Grain;
use super::super::trace::{Places, address};
use super::Emitted;
use super::attention::{Row, seen};
use super::context::Emitter;
use super::order::{self, Started};
use super::point::Point;
use super::product::{Side, sides};
use super::walk::{divide, extent, full_end};
use crate::DType;
use crate::graph::{Graph, Node};
use crate::op::Pointwise;
use crate::tile::{Precision, Value};

/// Writes the kernel of a side's gradients, which lie as `places` says.
pub fn emit(graph: &Graph, places: &Places, body: &Body, grain: Grain, index: DType) -> Emitted {
    let axes = &body.domain.axes;
    let [queries, keys, width, values] = body.extents;
    let (values_axis, width_axis) = (axes.len() - 1, axes.len() - 2);
    let [rows, columns] = sides(axes, width_axis, [queries, keys]);
    let batch = 0..rows.start;
    let results: Vec<(Node, Affine)> =
        body.results.iter().map(|(node, at)| (*node, address(&places[node], at))).collect();
    let read = || body.factors.iter().chain(&body.rows);
    let used: Vec<&Affine> = read().chain(&results).map(|f| &f.1).collect();
    let mut e = Emitter::with_runs("slopes", graph, &body.exprs, (axes, grain), [0..0, 0..0], index, &used);
    read().for_each(|f| {
        e.buffer(f.0, false);
    });
    results.iter().for_each(|f| {
        e.buffer(f.0, true);
    });
    let down = Side::new(&mut e, axes, rows);
    let across = Side::new(&mut e, axes, columns);
    let [width, values] = [(width, width_axis), (values, values_axis)].map(|(n, axis)| Row::new(&mut e, n, axis));
    let Some(cut) = grain.slopes(width.padded.max(values.padded)) else { unreachable!("nobody asked for a kernel") };
    e.b.warps(cut.warps);
    let tile = cut.warps * cut.queries;
    let (own, other, length) = match body.side {
        Of::Queries => (&down, &across, queries),
        Of::Keys => (&across, &down, keys),
    };
    let tiles = length.div_ceil(tile.into());
    let last = e.argument(tiles as i64 - 1, 1);
    let members: Vec<Value> = axes[batch.clone()].iter().skip(1).map(|a| extent(&mut e, a.extent)).collect();

    let count = axes[batch.clone()].iter().map(|a| a.extent).product();
    let [q, k, v, g] = &body.factors;
    let walked = match body.side {
        Of::Queries => keys * (width.bytes(graph, k) + values.bytes(graph, v)),
        Of::Keys => queries * (width.bytes(graph, q) + values.bytes(graph, g)),
    };
    let uneven = body.causal.is_some();
    let Started { tile: id, member, grid } = order::start(&mut e, (count, tiles), walked, uneven, grain);
    // The last queries see the most keys, the first keys are seen by the most queries; they start first.
    let backwards = body.causal.is_some() && body.side == Of::Queries;
    let number = if backwards { e.op(Pointwise::Sub, last, id) } else { id };
    let mut point = Point::new(axes.len(), 2);
    divide(&mut e, member, &members, &mut point.axes[batch.clone()]);
    let size = e.int(tile.into());
    let first = e.op(Pointwise::Mul, number, size);
    let (_, inside) = own.from(&mut e, first, tile, 1, &mut point);
    let block = Block {
        body,
        tile,
        length: cut.keys,
        stages: cut.stages,
        other,
        width: &width,
        values: &values,
        point: &point,
        inside,
    };
    let kept = block.factors(&mut e, body.side, &point, Some(inside));
    let kept = (kept, (body.side == Of::Queries).then(|| block.rows(&mut e, &point, Some(inside))));

    let zero = e.b.constant(DType::F32, 0);
    let zeros = [(Of::Queries, &width), (Of::Keys, &width), (Of::Keys, &values)]
        .map(|(of, row)| (of == body.side).then(|| e.b.broadcast(zero, &[tile, row.padded])));
    let sums: Vec<Value> = zeros.into_iter().flatten().collect();
    let sums = match body.side {
        Of::Queries => block.walk_keys(&mut e, &kept, &sums, first),
        Of::Keys => block.walk_queries(&mut e, &kept, &sums, first),
    };
    let rows = [&width, &values];
    for ((node, at), (sum, row)) in results.iter().zip(sums.into_iter().zip(rows)) {
        row.store(&mut e, (*node, at), sum, &point, inside);
    }
    e.finish(grid)
}

/// Rows of two factors, and of queries what is theirs: the negative logarithm of the sum as a power of two, and what is
/// taken from each of their products with the values.
type Kept = ([Value; 2], Option<[Value; 2]>);

/// What is added for each block of the other side.
struct Block<'a> {
    body: &'a Body,
    tile: u32,
    /// How many rows of the other side that are.
    length: u32,
    /// Blocks that are under way at one time.
    stages: u8,
    other: &'a Side,
    width: &'a Row,
    values: &'a Row,
    /// The rows of the tile, and which of them there are.
    point: &'a Point,
    inside: Value,
}

impl Block<'_> {
    /// Rows of `q` and the result's gradient, or of `k` and `v`.
    fn factors(&self, e: &mut Emitter, of: Of, point: &Point, inside: Option<Value>) -> [Value; 2] {
        let [q, k, v, g] = &self.body.factors;
        let narrow = self.body.narrow;
        let (first, second) = if of == Of::Queries { (q, g) } else { (k, v) };
        [self.width.load(e, (first, narrow), point, inside), self.values.load(e, (second, narrow), point, inside)]
    }

    /// What belongs to each query of a point.
    fn rows(&self, e: &mut Emitter, point: &Point, inside: Option<Value>) -> [Value; 2] {
        let [norm, common] = [0, 1].map(|i| {
            let (node, at) = &self.body.rows[i];
            let offsets = e.place(at, &mut point.clone());
            let (buffer, dtype) = (e.buffer(*node, false), e.dtype(*node));
            e.read((buffer, dtype), offsets, inside)
        });
        let rate = e.b.constant(DType::F32, (-std::f32::consts::LOG2_E).to_bits().into());
        [e.op(Pointwise::Mul, norm, rate), common]
    }

    /// Blocks of which every key is seen by every query of the tile, then those at the edge.
    fn walk_keys(&self, e: &mut Emitter, kept: &Kept, sums: &[Value], first: Value) -> Vec<Value> {
        let keys = self.other.extent;
        let (all, end) = match self.body.causal {
            None => (keys, keys),
            Some(causal) => seen(e, causal, (first, self.tile), keys, &mut self.point.clone()),
        };
        let (none, step) = (e.int(0), e.int(self.length.into()));
        let full = full_end(e, none, all, self.length);
        let sums = e.for_loop_in(self.stages, (none, full, step), sums, |e, start, sums| {
            self.add(e, kept, (start, false), sums)
        });
        e.for_loop_in(self.stages, (full, end, step), &sums, |e, start, sums| self.add(e, kept, (start, true), sums))
    }

    /// Blocks of queries of which some see some keys of the tile only, and the last one if it is not full; then those of
    /// which every query sees every key.
    fn walk_queries(&self, e: &mut Emitter, kept: &Kept, sums: &[Value], first: Value) -> Vec<Value> {
        let (none, one, step) = (e.int(0), e.int(1), e.int(self.length.into()));
        let whole = full_end(e, none, self.other.extent, self.length);
        let (begin, middle) = self.seeing(e, first, whole);
        let edge = e.op(Pointwise::Sub, middle, begin);
        let edge = e.op(Pointwise::Div, edge, step);
        let rest = e.op(Pointwise::Lt, whole, self.other.extent);
        let rest = e.b.map(Pointwise::Select, &[rest, one, none]);
        let count = e.op(Pointwise::Add, edge, rest);
        let sums = e.for_loop_in(self.stages, (none, count, one), sums, |e, number, sums| {
            let before = e.op(Pointwise::Mul, number, step);
            let start = e.op(Pointwise::Add, begin, before);
            let is_edge = e.op(Pointwise::Lt, number, edge);
            let start = e.b.map(Pointwise::Select, &[is_edge, start, whole]);
            self.add(e, kept, (start, true), sums)
        });
        e.for_loop_in(self.stages, (middle, whole, step), &sums, |e, start, sums| {
            self.add(e, kept, (start, false), sums)
        })
    }

    /// From which block of queries on some see a key of the tile, and from which on every query sees all of them.
    fn seeing(&self, e: &mut Emitter, first: Value, whole: Value) -> (Value, Value) {
        let none = e.int(0);
        let Some(causal) = self.body.causal else { return (none, none) };
        let offset = causal.offset.map(|ex| {
            let offset = e.value(ex, &mut self.point.clone());
            e.b.cast(offset, e.index)
        });
        let begin = offset.map_or(first, |offset| e.op(Pointwise::Sub, first, offset));
        let more = e.int(i64::from(self.tile + self.length) - 2);
        let middle = e.op(Pointwise::Add, begin, more);
        let mask = e.int(-i64::from(self.length));
        let [begin, middle] = [begin, middle].map(|x| {
            let x = e.op(Pointwise::Max, x, none);
            let x = e.op(Pointwise::And, x, mask);
            e.op(Pointwise::Min, x, whole)
        });
        (begin, middle)
    }

    /// The sums with the rows of the other side from `start` on; at the edge some are hidden or are none.
    fn add(&self, e: &mut Emitter, kept: &Kept, (start, edge): (Value, bool), sums: &[Value]) -> Vec<Value> {
        let body = self.body;
        let shape = [self.tile, self.length];
        // What goes across in the scores goes down in the factors.
        let mut of_factors = self.point.clone();
        let (_, rows) = self.other.from(e, start, self.length, 1, &mut of_factors);
        let mut point = self.point.clone();
        let (_, columns) = self.other.from(e, start, self.length, 0, &mut point);
        let from = if body.side == Of::Queries { Of::Keys } else { Of::Queries };
        let others = self.factors(e, from, &of_factors, edge.then_some(rows));
        let [shift, common] = match kept.1 {
            Some(own) => own,
            None => self.rows(e, &point, edge.then_some(columns)),
        };

        let zero = e.b.constant(DType::F32, 0);
        let zeros = e.b.broadcast(zero, &shape);
        let [product, of_weights] = [0, 1].map(|i| {
            let across = e.b.trans(others[i], &[1, 0]);
            e.b.dot(kept.0[i], across, zeros, Precision::Ieee)
        });
        point.reduced[0] = Some(product);
        point.parallel_mask = Some(if edge { e.op(Pointwise::And, self.inside, columns) } else { self.inside });
        let scores = e.value(self.scores(edge), &mut point);
        let mut scores = e.b.broadcast(scores, &shape);
        if edge {
            let nothing = e.b.constant(DType::F32, f32::NEG_INFINITY.to_bits().into());
            scores = e.b.map(Pointwise::Select, &[columns, scores, nothing]);
        }
        let rate = e.b.constant(DType::F32, std::f32::consts::LOG2_E.to_bits().into());
        let exponent = e.b.map(Pointwise::Fma, &[scores, rate, shift]);
        let weights = e.b.exp2_approx(exponent);
        let less = e.op(Pointwise::Sub, of_weights, common);
        point.reduced[1] = Some(e.op(Pointwise::Mul, weights, less));
        let inward = e.value(body.inward, &mut point);
        let inward = e.b.broadcast(inward, &shape);

        let [inward, weights] = [inward, weights].map(|x| e.b.cast(x, body.narrow));
        let next = [(inward, others[0]), (weights, others[1])].into_iter().zip(sums);
        next.map(|((left, right), &sum)| e.b.dot(left, right, sum, Precision::Ieee)).collect()
    }

    /// What the softmax is taken of; away from the edge no key is hidden.
    fn scores(&self, edge: bool) -> Ex {
        match self.body.causal {
            Some(causal) if !edge => causal.seen,
            _ => self.body.scores,
        }
    }
}
