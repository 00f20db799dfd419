//! Reductions with the lanes along the reduced axes: tiles of [`LANES`] terms of one row, chunk by chunk.  What rounds
//! nothing needs no chunks.

use super::super::expr::Expr;
use super::super::simplify::{CHUNK, LANES};
use super::context::Emitter;
use super::point::Point;
use super::reduce::Visit;
use super::walk;
use crate::op::Pointwise;
use crate::tile::Value;

/// Iterations that a processor asks for memory ahead, and one: 4 KB of f32, a page, at whose end its own prefetching stops.
const STAGES: u8 = 17;

/// Most values of a term of which those of a whole chunk fit the registers of a lane.
const FEW: usize = 2;

impl Visit<'_> {
    /// Whether all tiles of a chunk are asked for together: a lane should have some loads under way, and adding up waits for
    /// other lanes.
    fn asks_for_chunks(&self, e: &Emitter) -> bool {
        let whole = self.terms.run_length.is_none_or(|terms| terms.is_multiple_of(CHUNK));
        e.asks_first && whole && self.loads() <= FEW && self.stores.is_empty()
    }

    /// Number of values that a term takes from memory.
    fn loads(&self) -> usize {
        let exprs = &self.body.exprs;
        let wanted = exprs.needed(self.folds.iter().map(|&i| self.body.folds[i].input));
        wanted.iter().filter(|&&ex| matches!(exprs.list[ex].expr, Expr::Load { .. })).count()
    }

    /// Chunk by chunk, each by [`LANES`] lanes side by side in a tile.
    pub(super) fn along(&self, e: &mut Emitter, point: &mut Point) -> Vec<Value> {
        let shape = [LANES as u32];
        let lanes = walk::lanes(e, LANES as u32, None);
        let (zero, step, chunk) = (e.int(0), e.int(LANES as i64), e.int(CHUNK as i64));
        self.hoist(e, point);
        if self.folds.is_empty() {
            self.write_all(e, point, lanes, LANES as u32);
            return Vec::new();
        }
        let count = self.terms.count;
        if self.is_exact() {
            let sums = self.steps(e, point, (zero, count, step), (lanes, &shape), (LANES as u32, STAGES));
            let halved = self.halve(e, &self.split(&sums));
            return self.results(e, &halved);
        }
        // The sums of the chunks in their lanes, and the last one by itself.
        let mut carried = self.initial(e, &shape, None).concat();
        let tiles = carried.len();
        carried.extend(self.initial(e, &[], None).concat());
        let add = |e: &mut Emitter, (low, is_whole): (Value, bool), carried: &[Value]| {
            let lanes_sum = if is_whole {
                self.whole_chunk(e, point, low)
            } else {
                let high = e.op(Pointwise::Add, low, chunk);
                let high = e.op(Pointwise::Min, high, count);
                self.steps(e, point, (low, high, step), (lanes, &shape), (LANES as u32, STAGES))
            };
            let partial = self.halve(e, &self.split(&lanes_sum));
            // Chunk number c is term number c of the next level: its lane is c mod LANES.
            let number = e.op(Pointwise::Div, low, chunk);
            let lane_mask = e.int(LANES as i64 - 1);
            let lane = e.op(Pointwise::And, number, lane_mask);
            let mut next = self.joined_in_lane(e, (lanes, lane), &self.split(&carried[..tiles]), &partial, &shape);
            next.extend(partial.iter().flatten());
            next
        };
        let carried = if self.asks_for_chunks(e) {
            let full = walk::full_end(e, zero, count, CHUNK as u32);
            let carried = e.for_loop((zero, full, chunk), &carried, |e, low, carried| add(e, (low, true), carried));
            let rest = e.op(Pointwise::Lt, full, count);
            e.if_then(rest, &carried, |e| add(e, (full, false), &carried))
        } else {
            e.for_loop((zero, count, chunk), &carried, |e, low, carried| add(e, (low, false), carried))
        };
        // One chunk is its own sum: the other lanes add nothing.
        let (sums, alone) = carried.split_at(tiles);
        let several = e.op(Pointwise::Lt, chunk, count);
        let whole = e.if_then(several, alone, |e| {
            let halved = self.halve(e, &self.split(sums));
            halved.into_iter().flatten().collect()
        });
        self.results(e, &self.split(&whole))
    }
}
