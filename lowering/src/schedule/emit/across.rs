//! Reductions with the lanes across the reduced axes: each lane sums a column of its own.
//!
//! The tree is that of [`super::super::simplify`]; what differs is the order in which its nodes are visited.  The sums
//! of all [`LANES`] lanes of a chunk would not fit registers, so they come one after the other: a loop of two turns for
//! each bit of the lane's number, the lowest outside.  Halving pairs `j` with `j + 32` first, which is the innermost
//! loop, and `j` with `j + 1` last.  The chunks of a long column are visited likewise.
//!
//! A tile is as wide as registers allow: rows of a matrix lie far apart, and what is read of one should fill several
//! lines of the cache.  Where there are few columns, it holds several lanes, as many rows apart as there are tiles in
//! [`LANES`], and its halving is the innermost step.  What rounds nothing needs no tree: rows come as they lie.

use super::super::simplify::{CHUNK, LANES};
use super::combine::Carried;
use super::context::Emitter;
use super::point::Point;
use super::reduce::{Across, Visit};
use super::walk;
use crate::op::Pointwise;
use crate::tile::Value;

/// Elements in a tile: eight of the widest vectors of f32, which leaves registers for as many indices.
pub const POINTS: u32 = 128;

impl Visit<'_> {
    /// All terms in one tile.
    pub(super) fn unrolled(&self, e: &mut Emitter, point: &mut Point, height: u32, width: u32) -> Vec<Value> {
        let shape = [height, width];
        let count = self.terms.fixed.unwrap_or(u64::from(height));
        let index = walk::lanes(e, height, Some(1));
        let mask = (count < u64::from(height)).then(|| e.op(Pointwise::Lt, index, self.terms.count));
        self.hoist(e, point);
        let zero = e.int(0);
        let mut inner = self.at(e, point, (zero, index), mask);
        let operands = self.operands(e, &mut inner, (index, &shape), mask);
        self.write(e, &mut inner);
        let halved = self.halve(e, &operands);
        self.results(e, &halved)
    }

    /// Chunk by chunk, `across.width` columns side by side.
    pub(super) fn across(&self, e: &mut Emitter, point: &mut Point, across: Across) -> Vec<Value> {
        self.hoist(e, point);
        if self.folds.is_empty() {
            let rows = if across.height == 1 { e.int(0) } else { walk::lanes(e, across.height, Some(1)) };
            self.write_all(e, point, rows, across.height);
            return Vec::new();
        }
        let (zero, lanes) = (e.int(0), e.int(LANES as i64));
        let one_row = [1, across.width];
        if self.is_exact() {
            // Rows as they come.
            let range = (zero, self.terms.count, e.int(across.height.into()));
            let sums = self.rows(e, point, range, 1, across);
            return self.results(e, &sums);
        }
        if self.terms.fixed == Some(CHUNK) {
            let sums = self.chunk(e, point, zero, across);
            return self.results(e, &sums);
        }
        let chunks = {
            let (less, chunk) = (e.int(CHUNK as i64 - 1), e.int(CHUNK as i64));
            let rounded = e.op(Pointwise::Add, self.terms.count, less);
            e.op(Pointwise::Div, rounded, chunk)
        };
        // Chunk c belongs to lane c mod LANES, whose chunks are joined in order.
        let sums = self.tree(e, (zero, chunks), (1, LANES), &one_row, &mut |e, lane| {
            let initial = self.initial(e, &one_row, None).concat();
            let sum = e.for_loop((lane, chunks, lanes), &initial, |e, number, sum| {
                let partial = self.chunk(e, point, number, across);
                self.join(e, &self.split(sum), &partial, &one_row).concat()
            });
            self.split(&sum)
        });
        self.results(e, &sums)
    }

    /// The sum of chunk `number`.
    fn chunk(&self, e: &mut Emitter, point: &Point, number: Value, across: Across) -> Vec<Carried> {
        let (zero, chunk, step) = (e.int(0), e.int(CHUNK as i64), e.int(LANES as i64));
        let start = e.op(Pointwise::Mul, number, chunk);
        let end = e.op(Pointwise::Add, start, chunk);
        let end = e.op(Pointwise::Min, end, self.terms.count);
        let length = e.op(Pointwise::Sub, end, start);
        let one_row = [1, across.width];
        // Lanes of one tile are as far apart as there are tiles.
        let tiles = LANES / u64::from(across.height);
        self.tree(e, (zero, length), (1, tiles), &one_row, &mut |e, lane| {
            let first = e.op(Pointwise::Add, start, lane);
            self.rows(e, point, (first, end, step), tiles, across)
        })
    }

    /// The sum of tiles of rows, the first at `first`, `step` from each to the next, rows `apart` in one.
    fn rows(
        &self,
        e: &mut Emitter,
        point: &Point,
        (first, end, step): (Value, Value, Value),
        apart: u64,
        Across { height, width, .. }: Across,
    ) -> Vec<Carried> {
        let shape = [height, width];
        if height == 1 {
            let none = e.int(0);
            let sums = self.initial(e, &shape, Some(first)).concat();
            let sums = e.for_loop((first, end, step), &sums, |e, row, sums| {
                self.accumulate(e, point, (row, none), None, sums, &shape)
            });
            return self.split(&sums);
        }
        let reach = height * apart as u32;
        let (rows, apart) = (walk::lanes(e, height, Some(1)), e.int(apart as i64));
        let rows = e.op(Pointwise::Mul, rows, apart);
        let sums = self.steps(e, point, (first, end, step), (rows, &shape), (reach, 1));
        self.halve(e, &self.split(&sums))
    }

    /// The tree over the lanes `lane`, `lane + bit`, `lane + 2·bit`, … below `most`, of `lanes` in all, halved.
    fn tree(
        &self,
        e: &mut Emitter,
        (lane, most): (Value, Value),
        (bit, lanes): (u64, u64),
        shape: &[u32],
        leaf: &mut dyn FnMut(&mut Emitter, Value) -> Vec<Carried>,
    ) -> Vec<Carried> {
        if bit == lanes {
            return leaf(e, lane);
        }
        let (step, both) = (e.int(bit as i64), e.int(2 * bit as i64));
        let end = e.op(Pointwise::Add, lane, both);
        let end = e.op(Pointwise::Min, end, most);
        let initial = self.initial(e, shape, None).concat();
        let sums = e.for_loop((lane, end, step), &initial, |e, lane, sums| {
            let half = self.tree(e, (lane, most), (2 * bit, lanes), shape, leaf);
            self.join(e, &self.split(sums), &half, shape).concat()
        });
        self.split(&sums)
    }
}
