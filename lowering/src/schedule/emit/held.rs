//! Reductions with the lanes along the reduced axes whose terms all fit the registers of a program: each is loaded and
//! computed once, whatever number of reductions and results wait for it.  The order of the sums is that of
//! [`along`](super::along).

use super::super::expr::Expr;
use super::super::group::Body;
use super::super::simplify::{CHUNK, LANES};
use super::combine::Carried;
use super::context::Emitter;
use super::point::Point;
use super::reduce::Visit;
use super::walk;
use crate::op::Pointwise;
use crate::tile::Value;

/// All terms of a row, as tiles of [`LANES`].
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Number of tiles.
    pub tiles: u64,
    /// Whether the terms fill them exactly; else they fill more than half of them.
    pub exact: bool,
}

/// Most instructions that are written for a row, each for every tile.
const LONGEST: u64 = 4096;

impl Held {
    /// How a row of `terms` is held, if a program that holds `most` elements can, and it is worth it: if terms are wanted
    /// more than once.
    pub fn of(body: &Body, terms: u64, most: u64) -> Option<Held> {
        let loads = body.exprs.list.values().filter(|d| matches!(d.expr, Expr::Load { .. })).count() as u64;
        let last = body.exprs.list.values().map(|d| d.stage).max().unwrap_or(0);
        let exact = terms.is_multiple_of(LANES);
        let tiles = if exact { terms / LANES } else { terms.div_ceil(LANES).next_power_of_two() };
        let fits = tiles * LANES * loads.max(1) <= most && tiles * body.exprs.list.len() as u64 <= LONGEST;
        (last > 0 && fits).then_some(Held { tiles, exact })
    }
}

impl Visit<'_> {
    /// Visits all tiles of the row, `points` being what is known of each from earlier visits.
    pub(super) fn held(&self, e: &mut Emitter, point: &mut Point, held: Held, points: &mut Vec<Point>) -> Vec<Value> {
        let shape = [LANES as u32];
        let lanes = walk::lanes(e, LANES as u32, None);
        self.hoist(e, point);
        for number in points.len() as u64..held.tiles {
            let start = e.int((number * LANES) as i64);
            let masked = !held.exact && number >= held.tiles / 2;
            let mask = masked.then(|| {
                let index = e.op(Pointwise::Add, start, lanes);
                e.op(Pointwise::Lt, index, self.terms.count)
            });
            points.push(self.at(e, point, (start, lanes), mask));
        }
        for inner in points.iter_mut() {
            inner.reduced.clone_from(&point.reduced);
            for (&ex, &value) in &point.known {
                inner.known.entry(ex).or_insert(value);
            }
        }
        let first = e.int(0);
        let first = e.op(Pointwise::Add, first, lanes);
        let neutral = self.initial(e, &shape, Some(first)).concat();
        let chunk = if self.is_exact() { held.tiles } else { CHUNK / LANES };
        let mut partials: Vec<Vec<Carried>> = Vec::new();
        let mut start = 0;
        for tiles in points.chunks_mut(chunk as usize) {
            let mut sums = neutral.clone();
            for inner in tiles {
                let index = e.int(start);
                let index = e.op(Pointwise::Add, index, lanes);
                sums = self.feed(e, inner, index, &sums, &shape);
                start += LANES as i64;
            }
            partials.push(self.halve(e, &self.split(&sums)));
        }
        let whole = match &partials[..] {
            [one] => one.clone(),
            _ => {
                let sums = self.initial(e, &shape, None).concat();
                let joined = partials.iter().zip(0..).fold(sums, |sums: Vec<Value>, (partial, number)| {
                    let number = e.int(number);
                    self.into_lane(e, (lanes, number), &self.split(&sums), partial, &shape)
                });
                self.halve(e, &self.split(&joined))
            }
        };
        self.results(e, &whole)
    }
}
