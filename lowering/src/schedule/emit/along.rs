//! Reductions with the lanes along the reduced axes: tiles of [`LANES`] terms of one row, chunk by chunk, or by several warps
//! as many chunks at a time.  What rounds nothing needs no chunks.

use super::super::expr::Expr;
use super::super::grain::Grain;
use super::super::group::Body;
use super::super::simplify::{CHUNK, LANES};
use super::combine::Carried;
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

/// Chunks of a row for each warp that shares it, at least.
const EACH: u64 = 2;

/// Tiles of [`LANES`] terms that a warp takes at once where several share a row whose terms may come in any order.
const TOGETHER: u32 = 8;

/// How many warps share a row: several, where there are some chunks for each, all that is done is to reduce it, and there
/// are not as many rows as keep the machine busy.
pub fn warps(body: &Body, terms: u64, grain: Grain) -> u32 {
    let warps = u64::from(grain.row_warps);
    let axes = &body.domain.axes;
    let rows: u64 = axes.iter().filter(|axis| !axis.reduced).map(|axis| axis.extent).product();
    let few = rows * warps <= grain.programs.into() && terms >= EACH * CHUNK * warps;
    let single = axes.iter().filter(|axis| axis.reduced).count() == 1;
    let first = body.folds.iter().all(|fold| body.exprs.list[fold.input].stage == 0);
    let reduces = first && body.stores.iter().all(|store| !store.full);
    let loads = body.exprs.list.values().filter(|data| matches!(data.expr, Expr::Load { .. })).count();
    if few && single && reduces && loads <= FEW { grain.row_warps } else { 1 }
}

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
    pub(super) fn along(&self, e: &mut Emitter, point: &mut Point, warps: u32) -> Vec<Value> {
        self.hoist(e, point);
        if warps > 1 && !self.is_exact() {
            return self.along_together(e, point, warps);
        }
        let width = if warps > 1 { LANES as u32 * TOGETHER * warps } else { LANES as u32 };
        let shape = [width];
        let lanes = walk::lanes(e, width, None);
        let (zero, step, chunk) = (e.int(0), e.int(width.into()), e.int(CHUNK as i64));
        if self.folds.is_empty() {
            self.write_all(e, point, lanes, width);
            return Vec::new();
        }
        let count = self.terms.count;
        if self.is_exact() {
            let sums = self.steps(e, point, (zero, count, step), (lanes, &shape), (width, STAGES));
            let halved = self.halve(e, &self.split(&sums));
            return self.results(e, &halved);
        }
        // The sums of the chunks in their lanes, and the last one by itself.
        let mut carried = self.initial(e, &shape, None).concat();
        let tiles = carried.len();
        carried.extend(self.initial(e, &[], None).concat());
        let add = |e: &mut Emitter, (low, is_whole): (Value, bool), carried: &[Value]| {
            let lanes_sum = if is_whole {
                self.chunks(e, point, (low, None), false)
            } else {
                let high = e.op(Pointwise::Add, low, chunk);
                let high = e.op(Pointwise::Min, high, count);
                self.steps(e, point, (low, high, step), (lanes, &shape), (LANES as u32, STAGES))
            };
            let partial = self.halve(e, &self.split(&lanes_sum));
            let lane = lane_of_chunk(e, low, None);
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

    /// As many chunks at a time as there are warps, each of which sums one.
    fn along_together(&self, e: &mut Emitter, point: &Point, warps: u32) -> Vec<Value> {
        let shape = [warps, LANES as u32];
        let (lanes, beside) = (walk::lanes(e, LANES as u32, Some(0)), walk::lanes(e, warps, Some(1)));
        let size = warps * CHUNK as u32;
        let (zero, step, count) = (e.int(0), e.int(size.into()), self.terms.count);
        let add = |e: &mut Emitter, low: Value, masked: bool, carried: &[Value]| {
            let sums = self.chunks(e, point, (low, Some(warps)), masked);
            let partial = self.halve_along(e, 1, &self.split(&sums));
            let partial: Vec<Carried> =
                partial.iter().map(|each| each.iter().map(|&x| e.b.expand_dims(x, 1)).collect()).collect();
            let lane = lane_of_chunk(e, low, Some(beside));
            self.joined_in_lane(e, (lanes, lane), &self.split(carried), &partial, &shape)
        };
        let none = self.initial(e, &shape, None).concat();
        let full = walk::full_end(e, zero, count, size);
        let carried = e.for_loop((zero, full, step), &none, |e, low, carried| add(e, low, false, carried));
        let rest = e.op(Pointwise::Lt, full, count);
        let carried = e.if_then(rest, &carried, |e| add(e, full, true, &carried));
        // The chunks of a lane are all of one warp: the others have nothing there.
        let sums = self.halve_along(e, 0, &self.split(&carried));
        let whole = self.halve_along(e, 0, &sums);
        self.results(e, &whole)
    }
}

/// Chunk number c is term number c of the next level: its lane is c mod [`LANES`].  That of the chunk at `low`, or of those
/// `beside` it.
fn lane_of_chunk(e: &mut Emitter, low: Value, beside: Option<Value>) -> Value {
    let (chunk, most) = (e.int(CHUNK as i64), e.int(LANES as i64 - 1));
    let number = e.op(Pointwise::Div, low, chunk);
    let number = beside.map_or(number, |beside| e.op(Pointwise::Add, number, beside));
    e.op(Pointwise::And, number, most)
}
