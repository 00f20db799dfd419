//! Reductions with the lanes across the reduced axes: each lane sums a column of its own.
//!
//! The tree is that of [`super::super::simplify`]; what differs is the order in which its nodes are visited.  The sums
//! of all [`LANES`] lanes of a chunk would not fit registers, so lane `j = low + 8·high` is taken apart: for each `low`
//! the eight lanes `high` are summed and halved at once, and the eight results are halved at the end.  Halving pairs
//! `j` with `j + 32`, `j + 16`, `j + 8` first, which are the three steps over `high`, so nothing but the order changes.
//! The chunks of a long column are visited likewise.

use super::super::simplify::{CHUNK, LANES};
use super::combine::Carried;
use super::context::Emitter;
use super::point::Point;
use super::reduce::{Across, Visit, terms_in_tile};
use crate::op::Pointwise;
use crate::tile::Value;

/// Terms in a tile: lanes that are summed at once.
pub const ROWS: u32 = 8;

/// Steps until the same lanes come again.
const LOWS: u32 = LANES as u32 / ROWS;

impl Visit<'_> {
    /// Chunk by chunk, `across.width` columns side by side.
    pub(super) fn across(&self, e: &mut Emitter, point: &mut Point, across: Across) -> Vec<Value> {
        let shape = [ROWS, across.width];
        let one_row = [1, across.width];
        let rows = terms_in_tile(e, ROWS, true);
        self.hoist(e, point);
        if self.folds.is_empty() {
            self.write_all(e, point, rows, ROWS);
            return Vec::new();
        }
        let (zero, one, lows) = (e.int(0), e.int(1), e.int(LOWS.into()));
        let lanes = e.int(LANES as i64);
        let chunks = {
            let (less, chunk) = (e.int(CHUNK as i64 - 1), e.int(CHUNK as i64));
            let rounded = e.op(Pointwise::Add, self.terms.count, less);
            e.op(Pointwise::Div, rounded, chunk)
        };
        let most_lows = e.op(Pointwise::Min, chunks, lows);
        let most_lanes = e.op(Pointwise::Min, chunks, lanes);
        let initial = self.initial(e, &shape).concat();
        // Over the chunks: chunk c belongs to lane c mod LANES, whose chunks are joined in order.
        let sums = e.for_loop((zero, most_lows, one), &initial, |e, low, by_low| {
            let initial = self.initial(e, &shape).concat();
            let by_high = e.for_loop((low, most_lanes, lows), &initial, |e, lane, by_high| {
                let initial = self.initial(e, &one_row).concat();
                let sum = e.for_loop((lane, chunks, lanes), &initial, |e, number, sum| {
                    let partial = self.chunk(e, point, number, rows, &shape);
                    self.join(e, &self.split(sum), &partial, &one_row).concat()
                });
                let high = e.op(Pointwise::Div, lane, lows);
                let here = e.op(Pointwise::Eq, rows, high);
                self.place(e, here, &self.split(&sum), &self.split(by_high), &shape)
            });
            let halved = self.halve(e, &self.split(&by_high));
            let here = e.op(Pointwise::Eq, rows, low);
            self.place(e, here, &halved, &self.split(by_low), &shape)
        });
        let halved = self.halve(e, &self.split(&sums));
        self.results(e, &halved)
    }

    /// The sum of chunk `number`.
    fn chunk(&self, e: &mut Emitter, point: &Point, number: Value, rows: Value, shape: &[u32]) -> Vec<Carried> {
        let (zero, one, chunk) = (e.int(0), e.int(1), e.int(CHUNK as i64));
        let (step, lows) = (e.int(LANES as i64), e.int(LOWS.into()));
        let start = e.op(Pointwise::Mul, number, chunk);
        let end = e.op(Pointwise::Add, start, chunk);
        let end = e.op(Pointwise::Min, end, self.terms.count);
        let length = e.op(Pointwise::Sub, end, start);
        let most = e.op(Pointwise::Min, length, lows);
        // Lanes low, low + 8, low + 16, …
        let lanes = e.op(Pointwise::Mul, rows, lows);
        let initial = self.initial(e, shape).concat();
        let sums = e.for_loop((zero, most, one), &initial, |e, low, by_low| {
            let first = e.op(Pointwise::Add, start, low);
            let sums = self.steps(e, point, (first, end, step), (lanes, shape), LANES as u32);
            let halved = self.halve(e, &self.split(&sums));
            let here = e.op(Pointwise::Eq, rows, low);
            self.place(e, here, &halved, &self.split(by_low), shape)
        });
        self.halve(e, &self.split(&sums))
    }
}
