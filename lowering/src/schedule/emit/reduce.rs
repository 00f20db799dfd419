//! Reductions inside a kernel, stage by stage: each stage visits the reduced axes once, feeds the reductions whose
//! operands are ready and writes what is complete.  The order of the sums is the tree of [`super::super::simplify`].

use super::super::expr::{Checks, Ex};
use super::super::group::{AxisData, Body, Store};
use super::super::simplify::{CHUNK, LANES};
use super::combine::{Carried, append, combine, enter, is_exact, leave, neutral};
use super::context::Emitter;
use super::held::{End, Group, Held};
use super::keep::{self, Keep};
use super::point::Point;
use super::walk::{Tiles, divide, extent, full_end};
use crate::op::Pointwise;
use crate::tile::Value;

/// Where lanes lie.
#[derive(Clone, Copy, Debug)]
pub enum Lanes {
    /// Along the reduced axes: tiles of [`LANES`] terms of one row, which so many warps share.
    Along(u32),
    /// Along them, all tiles of a row at once.
    Held(Held),
    /// Across them: tiles of `height` terms of `width` rows.
    Across(Across),
}

/// Tiles across the reduced axes.
#[derive(Clone, Copy, Debug)]
pub struct Across {
    /// Terms in a tile.
    pub height: u32,
    /// Points of the other axes in a tile.
    pub width: u32,
    /// Warps that share a tile.
    pub warps: u32,
    /// Whether one tile holds all terms.
    pub unrolled: bool,
}

/// The reduced axes as one index.
pub struct Terms {
    /// Number of terms, as a value.
    pub(super) count: Value,
    /// Where the reduced axes start among all, and where those that tiles run along do.
    pub(super) first: usize,
    pub(super) run: usize,
    /// Terms in a run, where that is not all of them, as a value and as a number.
    period: Option<Value>,
    pub(super) run_length: Option<u64>,
    /// Extents of all reduced axes but the first, from `first` and from `run` on.
    outer: Vec<Value>,
    pub(super) inner: Vec<Value>,
    /// Number of terms where it is part of the class.
    pub(super) fixed: Option<u64>,
}

/// The first of the reduced axes that tiles run along: as few of the last ones as fill whole tiles, or all.
pub fn run_start(axes: &[AxisData], tiles: Tiles) -> usize {
    let first = axes.iter().position(|a| a.reduced).unwrap_or(axes.len());
    let mut length = 1;
    // Tiles across the reduced axes do not run along them.
    for at in (first..axes.len()).rev().filter(|_| tiles.lanes == 1) {
        length *= axes[at].extent;
        if length.is_multiple_of(LANES) {
            return at;
        }
    }
    first
}

impl Terms {
    /// Makes arguments of the reduced extents, or constants where they are unrolled.
    pub fn new(e: &mut Emitter, axes: &[AxisData], tiles: Tiles, lanes: Lanes) -> Terms {
        let first = axes.iter().position(|a| a.reduced).unwrap_or(axes.len());
        let run = run_start(axes, tiles);
        let product = |axes: &[AxisData]| axes.iter().map(|a| a.extent).product::<u64>();
        let total = product(&axes[first..]);
        let fixed = match lanes {
            Lanes::Across(Across { unrolled: true, .. }) | Lanes::Held(Held { end: End::Filled, .. }) => Some(total),
            // A class of its own: what long columns are taken apart into.
            Lanes::Across(Across { warps: 2.., .. }) if total == CHUNK => Some(total),
            _ => None,
        };
        let count = match fixed {
            Some(_) => e.int(total as i64),
            None => e.size(total as i64),
        };
        let outer = axes[first..run].iter().skip(1).map(|a| e.argument(a.extent as i64, 1)).collect();
        let inner = axes[run..].iter().skip(1).map(|a| extent(e, a.extent)).collect();
        let run_length = (run > first).then(|| product(&axes[run..]));
        let period = run_length.map(|length| e.argument(length as i64, LANES as u32));
        Terms { count, first, run, period, run_length, outer, inner, fixed }
    }

    /// The point at the terms `start + lanes`.
    fn at(&self, e: &mut Emitter, outer: &Point, (start, lanes): (Value, Value), mask: Option<Value>) -> Point {
        let mut point = e.inside(outer);
        point.walked_mask = mask;
        // Whole runs before this one; the tile lies inside one run.
        let (number, start) = match self.period {
            None => (None, start),
            Some(period) => {
                let number = e.op(Pointwise::Div, start, period);
                let before = e.op(Pointwise::Mul, number, period);
                (Some(number), e.op(Pointwise::Sub, start, before))
            }
        };
        if let Some(number) = number {
            divide(e, number, &self.outer, &mut point.axes[self.first..self.run]);
        }
        let index = e.op(Pointwise::Add, start, lanes);
        point.walked_run = Some(index);
        divide(e, index, &self.inner, &mut point.axes[self.run..]);
        point
    }
}

/// Writes all stages at a point of the parallel axes.
pub fn emit(e: &mut Emitter, body: &Body, terms: &Terms, lanes: Lanes, point: &mut Point) {
    let stage = |ex: Ex| body.exprs.list[ex].stage;
    let last = body.stores.iter().map(|s| stage(s.value)).max().unwrap_or(0);
    let mut stored = vec![false; body.stores.len()];
    let mut kept: Vec<Keep> = Vec::new();
    let mut held: Vec<Group> = Vec::new();
    for now in 0..=last {
        let folds: Vec<usize> = (0..body.folds.len()).filter(|&i| stage(body.folds[i].input) == now).collect();
        let ready = |s: &Store| s.full && stage(s.value) <= now;
        let full: Vec<usize> = (0..body.stores.len()).filter(|&i| !stored[i] && ready(&body.stores[i])).collect();
        // Stores wait for a stage that visits the terms anyway.
        if folds.is_empty() && (full.is_empty() || now < last) {
            continue;
        }
        full.iter().for_each(|&i| stored[i] = true);
        let later: Vec<usize> = (0..stored.len()).filter(|&i| body.stores[i].full && !stored[i]).collect();
        let keeps = match lanes {
            // What is in registers need not be left in memory.
            Lanes::Held(_) => Vec::new(),
            _ => keep::choose(e, body, &folds, &later, &kept),
        };
        let wanted = folds.iter().map(|&i| body.folds[i].input).chain(full.iter().map(|&i| body.stores[i].value));
        let wanted = body.exprs.needed(wanted);
        let found = kept.iter().copied().filter(|k| wanted.contains(&k.ex)).collect();
        let visit = Visit { body, terms, folds, stores: full, keeps, found };
        let results = match lanes {
            Lanes::Across(Across { height, width, unrolled: true, .. }) => visit.unrolled(e, point, height, width),
            Lanes::Across(across) => visit.across(e, point, across),
            Lanes::Along(warps) => visit.along(e, point, warps),
            Lanes::Held(row) => visit.held(e, point, row, &mut held),
        };
        for (&i, result) in visit.folds.iter().zip(results) {
            point.reduced[i] = Some(result);
        }
        kept.extend(visit.keeps);
        kept.retain(|k| !stored[k.store]);
    }
    for s in body.stores.iter().filter(|s| !s.full) {
        let value = e.value(s.value, point);
        e.store(s.node, &s.at, value, false, point);
    }
}

/// One pass over the terms.
pub(super) struct Visit<'a> {
    pub(super) body: &'a Body,
    pub(super) terms: &'a Terms,
    pub(super) folds: Vec<usize>,
    pub(super) stores: Vec<usize>,
    /// What it leaves in the places of later results.
    pub(super) keeps: Vec<Keep>,
    /// What earlier passes left for it.
    found: Vec<Keep>,
}

impl Visit<'_> {
    /// The point at the terms `start + lanes`, where what earlier passes left is known.
    pub(super) fn at(&self, e: &mut Emitter, outer: &Point, place: (Value, Value), mask: Option<Value>) -> Point {
        let mut point = self.terms.at(e, outer, place, mask);
        for keep in &self.found {
            let store = &self.body.stores[keep.store];
            let dtype = self.body.exprs.list[keep.ex].dtype;
            let value = e.load(store.node, &store.at, &Checks::new(), dtype, &mut point);
            point.known.insert(keep.ex, value);
        }
        point
    }

    /// Whether its terms may come in any order.
    pub(super) fn is_exact(&self) -> bool {
        let dtype = |ex: Ex| self.body.exprs.list[ex].dtype.compute();
        self.folds.iter().map(|&i| &self.body.folds[i]).all(|f| is_exact(f.kind, dtype(f.input)))
    }

    /// Operands of the reductions at a point, as tiles of `shape`; what lies outside of the mask changes nothing.
    pub(super) fn operands(
        &self,
        e: &mut Emitter,
        point: &mut Point,
        (index, shape): (Value, &[u32]),
        mask: Option<Value>,
    ) -> Vec<Carried> {
        let folds = self.folds.iter().map(|&i| &self.body.folds[i]);
        folds
            .map(|fold| {
                let dtype = self.body.exprs.list[fold.input].dtype.compute();
                let x = e.value(fold.input, point);
                let x = e.b.cast(x, dtype);
                let carried = e.carried(fold.kind, dtype);
                let x = enter(&mut e.b, fold.kind, x, carried);
                let mut operand: Carried = [e.b.broadcast(x, shape)].into_iter().collect();
                if fold.kind.is_arg() {
                    operand.push(e.b.broadcast(index, shape));
                }
                let Some(mask) = mask else { return operand };
                let neutral = neutral(&mut e.b, fold.kind, carried, e.index);
                operand.iter().zip(neutral).map(|(&x, n)| e.b.map(Pointwise::Select, &[mask, x, n])).collect()
            })
            .collect()
    }

    pub(super) fn write(&self, e: &mut Emitter, point: &mut Point) {
        for s in self.stores.iter().map(|&i| &self.body.stores[i]) {
            let value = e.value(s.value, point);
            e.store(s.node, &s.at, value, true, point);
        }
        for keep in &self.keeps {
            let s = &self.body.stores[keep.store];
            let value = e.value(keep.ex, point);
            e.leave(s.node, &s.at, value, point);
        }
    }

    /// Halves the lanes of carried tiles until one is left, for each reduction.
    pub(super) fn halve(&self, e: &mut Emitter, carried: &[Carried]) -> Vec<Carried> {
        let folds = self.folds.iter().map(|&i| &self.body.folds[i]);
        folds
            .zip(carried)
            .map(|(fold, c)| {
                let kind = fold.kind;
                let reduced = e.b.reduce(c, 0, |b, x, y| combine(b, kind, x, y));
                // Rows side by side stay tiles that broadcast over the terms.
                reduced.iter().map(|&r| if e.b.ty(r).is_scalar() { r } else { e.b.expand_dims(r, 0) }).collect()
            })
            .collect()
    }

    /// Halves the lanes along an axis until one is left, for each reduction, and keeps the other axes.
    pub(super) fn halve_along(&self, e: &mut Emitter, axis: u8, carried: &[Carried]) -> Vec<Carried> {
        let kinds = self.folds.iter().map(|&i| self.body.folds[i].kind);
        let halved = kinds
            .zip(carried)
            .map(|(kind, c)| e.b.reduce(c, axis, |b, x, y| combine(b, kind, x, y)).iter().copied().collect());
        halved.collect()
    }

    pub(super) fn results(&self, e: &mut Emitter, carried: &[Carried]) -> Vec<Value> {
        let folds = self.folds.iter().map(|&i| &self.body.folds[i]);
        folds
            .zip(carried)
            .map(|(fold, c)| {
                if fold.kind.is_arg() {
                    return e.b.cast(c[1], fold.dtype);
                }
                let value = leave(&mut e.b, c[0], self.body.exprs.list[fold.input].dtype.compute());
                e.b.cast(value, fold.dtype)
            })
            .collect()
    }

    pub(super) fn hoist(&self, e: &mut Emitter, point: &mut Point) {
        let folds = self.folds.iter().map(|&i| self.body.folds[i].input);
        for ex in folds.chain(self.stores.iter().map(|&i| self.body.stores[i].value)) {
            e.hoist(ex, point);
        }
    }

    /// Feeds the terms `low..high` in steps, each step a tile of `size` terms: full tiles, in a loop of so many stages, then
    /// what is left.
    pub(super) fn steps(
        &self,
        e: &mut Emitter,
        point: &Point,
        (low, high, step): (Value, Value, Value),
        (lanes, shape): (Value, &[u32]),
        (reach, stages): (u32, u8),
    ) -> Vec<Value> {
        let full = full_end(e, low, high, reach);
        let first = e.op(Pointwise::Add, low, lanes);
        let initial = self.initial(e, shape, Some(first));
        let sums = e.for_loop_in(stages, (low, full, step), &initial.concat(), |e, start, sums| {
            self.accumulate(e, point, (start, lanes), None, sums, shape)
        });
        let rest = e.op(Pointwise::Lt, full, high);
        e.if_then(rest, &sums, |e| {
            let index = e.op(Pointwise::Add, full, lanes);
            let mask = e.op(Pointwise::Lt, index, high);
            self.accumulate(e, point, (full, lanes), Some(mask), &sums, shape)
        })
    }

    /// Writes what is complete, visiting all terms in tiles of `size`.
    pub(super) fn write_all(&self, e: &mut Emitter, point: &Point, lanes: Value, size: u32) {
        let (zero, step, count) = (e.int(0), e.int(size.into()), self.terms.count);
        let full = if size == 1 { count } else { full_end(e, zero, count, size) };
        e.for_loop((zero, full, step), &[], |e, start, _| {
            let mut inner = self.at(e, point, (start, lanes), None);
            self.write(e, &mut inner);
            Vec::new()
        });
        if size == 1 {
            return;
        }
        let rest = e.op(Pointwise::Lt, full, count);
        e.if_then(rest, &[], |e| {
            let index = e.op(Pointwise::Add, full, lanes);
            let mask = e.op(Pointwise::Lt, index, count);
            let mut inner = self.at(e, point, (full, lanes), Some(mask));
            self.write(e, &mut inner);
            Vec::new()
        });
    }

    /// `left ∘ right`, with `right` repeated to `shape`.
    pub(super) fn join(&self, e: &mut Emitter, left: &[Carried], right: &[Carried], shape: &[u32]) -> Vec<Carried> {
        let kinds = self.folds.iter().map(|&i| self.body.folds[i].kind);
        let joined = kinds.zip(left.iter().zip(right)).map(|(kind, (l, r))| {
            let wide: Carried = r.iter().map(|&p| e.b.broadcast(p, shape)).collect();
            combine(&mut e.b, kind, l, &wide)
        });
        joined.collect()
    }

    /// Sums in whose lane `lane` a partial sum has joined.
    pub(super) fn joined_in_lane(
        &self,
        e: &mut Emitter,
        (lanes, lane): (Value, Value),
        sums: &[Carried],
        partial: &[Carried],
        shape: &[u32],
    ) -> Vec<Value> {
        let here = e.op(Pointwise::Eq, lanes, lane);
        let joined = self.join(e, sums, partial, shape);
        self.place(e, here, &joined, sums, shape)
    }

    /// `values` where `here` holds, elsewhere `others`.
    pub(super) fn place(
        &self,
        e: &mut Emitter,
        here: Value,
        values: &[Carried],
        others: &[Carried],
        shape: &[u32],
    ) -> Vec<Value> {
        let pairs = values.iter().flatten().zip(others.iter().flatten());
        let placed = pairs.map(|(&v, &other)| {
            let v = e.b.broadcast(v, shape);
            e.b.map(Pointwise::Select, &[here, v, other])
        });
        placed.collect()
    }

    pub(super) fn accumulate(
        &self,
        e: &mut Emitter,
        outer: &Point,
        (start, lanes): (Value, Value),
        mask: Option<Value>,
        sums: &[Value],
        shape: &[u32],
    ) -> Vec<Value> {
        let mut inner = self.at(e, outer, (start, lanes), mask);
        let index = e.op(Pointwise::Add, start, lanes);
        self.ask(e, &mut inner);
        let operands = self.operands(e, &mut inner, (index, shape), mask);
        self.write(e, &mut inner);
        let folds = self.folds.iter().map(|&i| self.body.folds[i].kind);
        let sums = self.split(sums);
        folds.zip(sums.iter().zip(&operands)).flat_map(|(kind, (s, x))| append(&mut e.b, kind, s, x)).collect()
    }

    /// What changes nothing, as tiles of `shape`.  Where lanes visit their terms in order, `first` is each one's first:
    /// an index that equals do not displace.
    pub(super) fn initial(&self, e: &mut Emitter, shape: &[u32], first: Option<Value>) -> Vec<Vec<Value>> {
        let folds = self.folds.iter().map(|&i| &self.body.folds[i]);
        folds
            .map(|fold| {
                let dtype = self.body.exprs.list[fold.input].dtype.compute();
                let carried = e.carried(fold.kind, dtype);
                let mut neutral = neutral(&mut e.b, fold.kind, carried, e.index);
                if let (true, Some(first)) = (fold.kind.is_arg(), first) {
                    neutral[1] = first;
                }
                neutral.iter().map(|&n| e.b.broadcast(n, shape)).collect()
            })
            .collect()
    }

    /// Carried values, one or two per reduction.
    pub(super) fn split(&self, flat: &[Value]) -> Vec<Carried> {
        let mut rest = flat.iter().copied();
        let folds = self.folds.iter().map(|&i| &self.body.folds[i]);
        folds.map(|fold| rest.by_ref().take(if fold.kind.is_arg() { 2 } else { 1 }).collect()).collect()
    }
}
