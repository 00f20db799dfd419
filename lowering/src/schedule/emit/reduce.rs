//! Reductions inside a kernel, stage by stage: each stage visits the reduced axes once, feeds the reductions whose
//! operands are ready and writes what is complete.  The order of the sums is the tree of [`super::super::simplify`].

use super::super::expr::Ex;
use super::super::group::{AxisData, Body, Store};
use super::super::simplify::{CHUNK, LANES};
use super::combine::{Carried, combine, neutral};
use super::context::Emitter;
use super::point::Point;
use super::walk::{Tiles, divide, extent, full_end};
use crate::op::Pointwise;
use crate::tile::{Type, Value};

/// Where lanes lie.
#[derive(Clone, Copy, Debug)]
pub enum Lanes {
    /// Along the reduced axes: tiles of [`LANES`] terms of one row.
    Along,
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
    /// Whether one tile holds all terms.
    pub unrolled: bool,
}

/// The reduced axes as one index.
pub struct Terms {
    /// Number of terms, as a value.
    pub(super) count: Value,
    /// Where the reduced axes start among all, and where those that tiles run along do.
    first: usize,
    run: usize,
    /// Terms in a run, where that is not all of them.
    period: Option<Value>,
    /// Extents of all reduced axes but the first, from `first` and from `run` on.
    outer: Vec<Value>,
    inner: Vec<Value>,
    /// Number of terms where it is part of the class.
    fixed: Option<u64>,
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
        let fixed = matches!(lanes, Lanes::Across(Across { unrolled: true, .. })).then_some(total);
        let count = match fixed {
            Some(_) => e.int(total as i64),
            None => e.argument(total as i64, 1),
        };
        let outer = axes[first..run].iter().skip(1).map(|a| e.argument(a.extent as i64, 1)).collect();
        let inner = axes[run..].iter().skip(1).map(|a| extent(e, a.extent)).collect();
        let period = (run > first).then(|| e.argument(product(&axes[run..]) as i64, LANES as u32));
        Terms { count, first, run, period, outer, inner, fixed }
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
    for now in 0..=last {
        let folds: Vec<usize> = (0..body.folds.len()).filter(|&i| stage(body.folds[i].input) == now).collect();
        let ready = |s: &Store| s.full && stage(s.value) <= now;
        let full: Vec<usize> = (0..body.stores.len()).filter(|&i| !stored[i] && ready(&body.stores[i])).collect();
        // Stores wait for a stage that visits the terms anyway.
        if folds.is_empty() && (full.is_empty() || now < last) {
            continue;
        }
        full.iter().for_each(|&i| stored[i] = true);
        let visit = Visit { body, terms, folds, stores: full };
        let results = match lanes {
            Lanes::Across(Across { height, width, unrolled: true }) => visit.unrolled(e, point, height, width),
            Lanes::Across(across) => visit.across(e, point, across),
            Lanes::Along => visit.along(e, point),
        };
        for (&i, result) in visit.folds.iter().zip(results) {
            point.reduced[i] = Some(result);
        }
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
}

impl Visit<'_> {
    /// Operands of the reductions at a point, as tiles of `shape`; what lies outside changes nothing.
    fn operands(&self, e: &mut Emitter, point: &mut Point, index: Value, shape: &[u32]) -> Vec<Carried> {
        let folds = self.folds.iter().map(|&i| &self.body.folds[i]);
        folds
            .map(|fold| {
                let dtype = self.body.exprs.list[fold.input].dtype.compute();
                let x = e.value(fold.input, point);
                let x = e.b.cast(x, dtype);
                let mut operand: Carried = [e.b.broadcast(x, shape)].into_iter().collect();
                if fold.kind.is_arg() {
                    operand.push(e.b.broadcast(index, shape));
                }
                let Some(mask) = point.walked_mask else { return operand };
                let neutral = neutral(&mut e.b, fold.kind, dtype, e.index);
                operand.iter().zip(neutral).map(|(&x, n)| e.b.map(Pointwise::Select, &[mask, x, n])).collect()
            })
            .collect()
    }

    fn write(&self, e: &mut Emitter, point: &mut Point) {
        for &i in &self.stores {
            let s = &self.body.stores[i];
            let value = e.value(s.value, point);
            e.store(s.node, &s.at, value, true, point);
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

    pub(super) fn results(&self, e: &mut Emitter, carried: &[Carried]) -> Vec<Value> {
        let folds = self.folds.iter().map(|&i| &self.body.folds[i]);
        folds
            .zip(carried)
            .map(|(fold, c)| {
                let value = c[c.len() - 1];
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

    /// All terms in one tile.
    fn unrolled(&self, e: &mut Emitter, point: &mut Point, height: u32, width: u32) -> Vec<Value> {
        let shape = [height, width];
        let count = self.terms.fixed.unwrap_or(u64::from(height));
        let index = terms_in_tile(e, height, true);
        let mask = (count < u64::from(height)).then(|| e.op(Pointwise::Lt, index, self.terms.count));
        self.hoist(e, point);
        let zero = e.int(0);
        let mut inner = self.terms.at(e, point, (zero, index), mask);
        let operands = self.operands(e, &mut inner, index, &shape);
        self.write(e, &mut inner);
        let halved = self.halve(e, &operands);
        self.results(e, &halved)
    }

    /// Chunk by chunk, each by [`LANES`] lanes side by side in a tile.
    fn along(&self, e: &mut Emitter, point: &mut Point) -> Vec<Value> {
        let shape = [LANES as u32];
        let lanes = terms_in_tile(e, LANES as u32, false);
        let (zero, step, chunk) = (e.int(0), e.int(LANES as i64), e.int(CHUNK as i64));
        self.hoist(e, point);
        if self.folds.is_empty() {
            self.write_all(e, point, lanes, LANES as u32);
            return Vec::new();
        }
        let initial = self.initial(e, &shape);
        let count = self.terms.count;
        let flat = e.for_loop((zero, count, chunk), &initial.concat(), |e, low, sums| {
            let high = e.op(Pointwise::Add, low, chunk);
            let high = e.op(Pointwise::Min, high, count);
            let lanes_sum = self.steps(e, point, (low, high, step), (lanes, &shape), LANES as u32);
            let partial = self.halve(e, &self.split(&lanes_sum));
            // Chunk number c is term number c of the next level: its lane is c mod LANES.
            let number = e.op(Pointwise::Div, low, chunk);
            let lane_mask = e.int(LANES as i64 - 1);
            let lane = e.op(Pointwise::And, number, lane_mask);
            let here = e.op(Pointwise::Eq, lanes, lane);
            let sums = self.split(sums);
            let joined = self.join(e, &sums, &partial, &shape);
            self.place(e, here, &joined, &sums, &shape)
        });
        let halved = self.halve(e, &self.split(&flat));
        self.results(e, &halved)
    }

    /// Feeds the terms `low..high` in steps, each step a tile of `size` terms: full tiles, then what is left.
    pub(super) fn steps(
        &self,
        e: &mut Emitter,
        point: &Point,
        (low, high, step): (Value, Value, Value),
        (lanes, shape): (Value, &[u32]),
        reach: u32,
    ) -> Vec<Value> {
        let full = full_end(e, low, high, reach);
        let initial = self.initial(e, shape);
        let sums = e.for_loop((low, full, step), &initial.concat(), |e, start, sums| {
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
        let full = full_end(e, zero, count, size);
        e.for_loop((zero, full, step), &[], |e, start, _| {
            let mut inner = self.terms.at(e, point, (start, lanes), None);
            self.write(e, &mut inner);
            Vec::new()
        });
        let rest = e.op(Pointwise::Lt, full, count);
        e.if_then(rest, &[], |e| {
            let index = e.op(Pointwise::Add, full, lanes);
            let mask = e.op(Pointwise::Lt, index, count);
            let mut inner = self.terms.at(e, point, (full, lanes), Some(mask));
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
        let mut inner = self.terms.at(e, outer, (start, lanes), mask);
        let index = e.op(Pointwise::Add, start, lanes);
        let operands = self.operands(e, &mut inner, index, shape);
        self.write(e, &mut inner);
        let folds = self.folds.iter().map(|&i| self.body.folds[i].kind);
        let sums = self.split(sums);
        folds.zip(sums.iter().zip(&operands)).flat_map(|(kind, (s, x))| combine(&mut e.b, kind, s, x)).collect()
    }

    pub(super) fn initial(&self, e: &mut Emitter, shape: &[u32]) -> Vec<Vec<Value>> {
        let folds = self.folds.iter().map(|&i| &self.body.folds[i]);
        folds
            .map(|fold| {
                let dtype = self.body.exprs.list[fold.input].dtype.compute();
                let neutral = neutral(&mut e.b, fold.kind, dtype, e.index);
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

/// `0 … n−1` as index values, in a trailing or, across rows, a leading axis.
pub(super) fn terms_in_tile(e: &mut Emitter, n: u32, across: bool) -> Value {
    let terms = e.b.arange(n);
    let terms = e.b.cast(terms, e.index);
    debug_assert!(e.b.ty(terms) == &Type::tile(e.index, &[n]));
    if across { e.b.expand_dims(terms, 1) } else { terms }
}
