//! Rows of prefixes that several programs share, chunk by chunk.

use super::super::context::Emitter;
use super::super::point::Point;
use super::super::walk::{self, OWN_ROW, Tiles, divide, share};
use super::super::{Emitted, Passes};
use super::{Carry, Prefix, is_compensated};
use crate::op::Pointwise;
use crate::schedule::affine::{Affine, Axis};
use crate::schedule::expr::Exprs;
use crate::schedule::group::AxisData;
use crate::schedule::looped::Looped;
use crate::schedule::simplify::CHUNK;
use crate::tile::{Param, Value};

/// Most chunks of a row whose states are joined once more for each chunk.
const FEW: u64 = 16;

/// Divides the walked axis, the last one, into chunks and the terms of a chunk.
pub(super) fn divide_terms(looped: &mut Looped, axis: usize) {
    let axes = &mut looped.domain.axes;
    let chunks = axes[axis].extent.div_ceil(CHUNK);
    axes.insert(axis, AxisData { extent: chunks, reduced: false });
    axes[axis + 1].extent = CHUNK;
    let at = axis as Axis;
    let divided = |e: &Affine| {
        e.substitute(|a| match a == at {
            true => Affine::axis(at).scale(CHUNK as i64).plus(&Affine::axis(at + 1)),
            false => Affine::axis(a),
        })
    };
    looped.exprs.rewrite(divided);
    looped.at = divided(&looped.at);
}

impl Prefix<'_> {
    /// Chunks side by side, in three passes; the last chunks of the rows, where they are not full, in a pass of their own.
    pub(super) fn shared(&self, rows: u64, terms: u64) -> Passes {
        let chunks = terms.div_ceil(CHUNK);
        let pass = |number, count, terms, carry| self.pass((rows, chunks), (number, count), terms, carry);
        let mut list = vec![pass(0, chunks - 1, CHUNK, Carry::Chunk)];
        if !self.joins(chunks) {
            list.push(self.starts(rows, chunks));
        }
        list.push(pass(0, terms / CHUNK, CHUNK, Carry::Prefix));
        if !terms.is_multiple_of(CHUNK) {
            list.push(pass(chunks - 1, 1, terms % CHUNK, Carry::Prefix));
        }
        Passes { list, scratch: vec![(self.dtype.compute(), rows * chunks); self.states()] }
    }

    /// Whether each chunk finds by itself what it starts from.
    fn joins(&self, chunks: u64) -> bool {
        self.grain.asks_first && chunks <= FEW
    }

    /// Numbers that a state consists of.
    fn states(&self) -> usize {
        if is_compensated(self.kind, self.dtype) { 2 } else { 1 }
    }

    fn scratch(&self, e: &mut Emitter, written: bool) -> Vec<Param> {
        (0..self.states()).map(|number| e.scratch(number, self.dtype.compute(), written)).collect()
    }

    /// `terms` terms of the chunks `first … first + count − 1` of each row.
    fn pass(&self, (rows, chunks): (u64, u64), (first, count): (u64, u64), terms: u64, carry: Carry) -> Emitted {
        let axes = &self.looped.domain.axes;
        let tiles = Tiles { lanes: self.side, leading: true, weight: 1, grain: self.grain, own_row: 1 };
        let mut e = self.emitter(if carry == Carry::Chunk { "chunks" } else { "prefix" }, tiles);
        if carry == Carry::Prefix {
            e.buffer(self.node, true);
        }
        let scratch = self.scratch(&mut e, carry == Carry::Chunk);
        let units = (rows * count).div_ceil(self.side.into());
        let each = share(units, u64::from(self.side) * terms * 2, self.grain);
        let joins = self.joins(chunks);
        let outer = axes.len() - 2;
        let divisors: Vec<Value> = axes[..outer].iter().skip(1).map(|a| e.argument(a.extent as i64, 1)).collect();
        let [first, count, chunks, terms, total] =
            [first, count, chunks, terms, rows * count].map(|n| e.argument(n as i64, 1));
        let span = e.argument((each * u64::from(self.side)) as i64, self.side);
        let (low, high) = walk::span(&mut e, span, total);
        let mut body = |e: &mut Emitter, number: Value, mask: Option<Value>| {
            let mut point = Point::new(axes.len(), 0);
            point.parallel_mask = mask;
            let row = e.op(Pointwise::Div, number, count);
            let whole = e.op(Pointwise::Mul, row, count);
            let chunk = e.op(Pointwise::Sub, number, whole);
            let chunk = e.op(Pointwise::Add, chunk, first);
            divide(e, row, &divisors, &mut point.axes[..outer]);
            point.axes[outer] = Some(chunk);
            point.parallel_run = Some(chunk);
            let begin = e.op(Pointwise::Mul, row, chunks);
            let place = e.op(Pointwise::Add, begin, chunk);
            let zero = e.int(0);
            let start: Vec<Value> = match carry {
                Carry::Prefix if joins => self.joined(e, &scratch, (begin, chunk), chunks, mask),
                Carry::Prefix => self.load_state(e, &scratch, place, mask),
                _ => self.start(e, &[self.side]),
            };
            let end = self.walk(e, &point, Some(outer + 1), (zero, terms), &start, carry);
            if carry == Carry::Chunk {
                for (&param, &state) in scratch.iter().zip(&end) {
                    let state = e.b.expand_dims(state, 0);
                    e.b.store(param, place, state, mask);
                }
            }
        };
        walk::tiled(&mut e, (low, high), tiles, &mut body);
        e.finish([units.div_ceil(each) as u32, 1, 1])
    }

    fn load_state(&self, e: &mut Emitter, scratch: &[Param], place: Value, mask: Option<Value>) -> Vec<Value> {
        let load = |&param: &Param| {
            let state = match mask {
                None => e.b.load(param, place),
                Some(mask) => {
                    let zero = e.b.constant(self.dtype.compute(), 0);
                    e.b.load_masked(param, place, mask, zero)
                }
            };
            e.b.reshape(state, &[self.side])
        };
        scratch.iter().map(load).collect()
    }

    /// What chunks start from whose rows' states begin at `begin`: the states of those before, joined in order.  That of the
    /// next one is asked for while one is joined.
    fn joined(
        &self,
        e: &mut Emitter,
        scratch: &[Param],
        (begin, chunk): (Value, Value),
        chunks: Value,
        mask: Option<Value>,
    ) -> Vec<Value> {
        let (zero, one) = (e.int(0), e.int(1));
        let load = |e: &mut Emitter, number: Value| {
            let before = e.op(Pointwise::Lt, number, chunk);
            let place = e.op(Pointwise::Add, begin, number);
            let mask = e.both(Some(before), mask);
            self.load_state(e, scratch, place, mask)
        };
        let states = self.start(e, &[self.side]);
        let first = load(e, zero);
        let last = e.op(Pointwise::Sub, chunks, one);
        let carried: Vec<Value> = states.iter().copied().chain(first).collect();
        let carried = e.for_loop((zero, last, one), &carried, |e, number, carried| {
            let (states, own) = carried.split_at(states.len());
            let next = e.op(Pointwise::Add, number, one);
            let next = load(e, next);
            let before = e.op(Pointwise::Lt, number, chunk);
            let before = e.b.reshape(before, &[self.side]);
            let joined = self.join(&mut e.b, states, own);
            let chosen = joined.iter().zip(states).map(|(&new, &old)| e.b.map(Pointwise::Select, &[before, new, old]));
            chosen.chain(next).collect()
        });
        carried[..states.len()].to_vec()
    }

    /// Replaces the states of the chunks by what each chunk starts from.
    fn starts(&self, rows: u64, chunks: u64) -> Emitted {
        let tiles = Tiles { lanes: 1, leading: false, weight: chunks, grain: self.grain, own_row: OWN_ROW };
        let exprs = Exprs::default();
        let mut e = Emitter::new("starts", self.graph, &exprs, (&[], tiles), self.index, &[]);
        let scratch = self.scratch(&mut e, true);
        let each = share(rows, chunks, self.grain);
        let [chunks, total, span] = [chunks, rows, each].map(|n| e.argument(n as i64, 1));
        let (low, high) = walk::span(&mut e, span, total);
        let one = e.int(1);
        e.for_loop((low, high, one), &[], |e, row, _| {
            let first = e.op(Pointwise::Mul, row, chunks);
            let last = e.op(Pointwise::Add, first, chunks);
            let end = e.op(Pointwise::Sub, last, one);
            let before = self.start(e, &[]);
            let all = e.for_loop((first, end, one), &before, |e, place, before| {
                let own: Vec<Value> = scratch.iter().map(|&p| e.b.load(p, place)).collect();
                scratch.iter().zip(before).for_each(|(&p, &state)| e.b.store(p, place, state, None));
                self.join(&mut e.b, before, &own)
            });
            scratch.iter().zip(&all).for_each(|(&p, &state)| e.b.store(p, end, state, None));
            Vec::new()
        });
        e.finish([rows.div_ceil(each) as u32, 1, 1])
    }
}
