//! Scatters: lanes over the axes that are not indexed, each walking the indices from front to back, so that what meets
//! at an element does so in their order.
//!
//! Where all lanes follow one list of indices, and there are few of them, programs also share out the places that indices
//! lead to.  Each looks through the whole list, tile by tile, and stops only at what is its own.

use super::super::affine::Check;
use super::super::expr::Ex;
use super::super::grain::Grain;
use super::super::looped::Looped;
use super::collapse::collapse;
use super::context::Emitter;
use super::point::Point;
use super::walk::{self, OWN_ROW, Tiles};
use super::{Emitted, TILE};
use crate::DType;
use crate::graph::{Graph, Node, Reduction, Update};
use crate::op::Pointwise;
use crate::schedule::simplify::identity;
use crate::tile::{Param, Value};

/// Indices that are looked through at once.
const LOOK: u32 = 256;

/// Fewest indices of a list for each program that it is shared among: looking for one's own should not take longer than
/// what is done with them.
const WORTH_LOOKING: u64 = 16;

/// Of so many programs that are wanted, one is worth having: all of them look through all indices.
const LOOKING: u64 = 4;

/// What is scattered, where to.
struct Scatter<'a> {
    looped: &'a Looped,
    /// What is put there, and how it meets what is there.
    value: Ex,
    update: Update,
    /// Where the index lies inside; nothing is written elsewhere.
    inside: &'a Check,
    /// The axis of the indices, if there are several.
    step: Option<usize>,
    /// The buffer that already holds the data.
    out: Param,
}

/// Writes the kernel of a scatter.
pub fn emit(
    graph: &Graph,
    node: Node,
    looped: &Looped,
    (value, update, inside): (Ex, Update, &Check),
    grain: Grain,
    index: DType,
) -> Emitted {
    let mut looped = looped.clone();
    collapse(&mut looped.domain.axes, &mut looped.exprs, [&mut looped.at]);
    let axes = &looped.domain.axes;
    let step = axes.iter().rposition(|a| a.reduced);
    let steps = step.map_or(1, |axis| axes[axis].extent);
    let points: u64 = axes.iter().filter(|a| !a.reduced).map(|a| a.extent).product();
    let wide = grain.tile(graph.dtype(node).bytes());
    let one_list = step.is_some_and(|axis| looped.exprs.followed(&inside.at) == 1 << axis);
    let shares = u64::from(grain.programs) / (points.div_ceil(wide.into()) * LOOKING).max(1);
    let shares = shares.min(steps / WORTH_LOOKING).min(inside.limit as u64);
    let shared = one_list && shares > 1;
    let lanes = if shared { wide } else { TILE };
    let tiles = Tiles { lanes, leading: false, weight: steps * 2, grain, own_row: OWN_ROW };
    let places = [&looped.at, &inside.at];
    let mut e = Emitter::new("scatter", graph, &looped.exprs, (axes, tiles), index, &places);
    let out = e.buffer(node, true);
    let count = e.argument(steps as i64, 1);
    let scatter = Scatter { looped: &looped, value, update, inside, step, out };
    let point = Point::new(axes.len(), 0);
    if !shared {
        let all = &mut |e: &mut Emitter, point: &mut Point| scatter.all(e, point, count);
        return walk::parallel(e, axes, tiles, all, &point);
    }
    let each = (inside.limit as u64).div_ceil(shares);
    let (span, limit) = (e.argument(each as i64, 1), e.argument(inside.limit, 1));
    let own = &mut |e: &mut Emitter, point: &mut Point| scatter.own(e, point, count, (span, limit));
    let emitted = walk::parallel(e, axes, tiles, own, &point);
    let [x, y, _] = emitted.grid;
    Emitted { grid: [x, y, (inside.limit as u64).div_ceil(each) as u32], ..emitted }
}

impl Scatter<'_> {
    /// All steps in order.
    fn all(&self, e: &mut Emitter, point: &mut Point, count: Value) {
        let (zero, one) = (e.int(0), e.int(1));
        e.for_loop((zero, count, one), &[], |e, k, _| {
            let mut inner = self.at(e, point, k);
            // An index outside is reported, and must not reach memory.
            let mask = e.holds(std::slice::from_ref(self.inside), &mut inner);
            self.meet(e, &mut inner, mask);
            Vec::new()
        });
    }

    /// In order, the steps whose places are this program's own.
    fn own(&self, e: &mut Emitter, point: &mut Point, count: Value, (span, limit): (Value, Value)) {
        let (low, high) = walk::span_along(e, 2, span, limit);
        let (zero, one, look) = (e.int(0), e.int(1), e.int(LOOK.into()));
        e.for_loop((zero, count, look), &[], |e, start, _| {
            let lanes = walk::lanes(e, LOOK, None);
            let steps = e.op(Pointwise::Add, start, lanes);
            let mask = e.op(Pointwise::Lt, steps, count);
            let mut tile = self.at(e, point, steps);
            tile.walked_mask = Some(mask);
            let mine = self.is_between(e, &mut tile, (low, high));
            let mine = e.op(Pointwise::And, mine, mask);
            let ends = [Reduction::Min, Reduction::Max].map(|kind| {
                let none = e.b.constant(e.index, identity(kind, e.index));
                let steps = e.b.map(Pointwise::Select, &[mine, steps, none]);
                let row = if kind == Reduction::Min { Pointwise::Min } else { Pointwise::Max };
                e.b.reduce(&[steps], 0, |b, x, y| [b.map(row, &[x[0], y[0]])].into_iter().collect())[0]
            });
            // None at all leaves the greatest number as the first one.
            let end = e.op(Pointwise::Add, ends[1], one);
            e.for_loop((ends[0], end, one), &[], |e, k, _| {
                let mut inner = self.at(e, point, k);
                // The tile's indices were checked.
                inner.checked.clone_from(&tile.checked);
                let mine = self.is_between(e, &mut inner, (low, high));
                e.if_then(mine, &[], |e| {
                    self.meet(e, &mut inner, None);
                    Vec::new()
                });
                Vec::new()
            });
            Vec::new()
        });
    }

    /// The point at some steps.
    fn at(&self, e: &Emitter, point: &Point, steps: Value) -> Point {
        let mut inner = e.inside(point);
        if let Some(axis) = self.step {
            inner.axes[axis] = Some(steps);
        }
        inner
    }

    fn is_between(&self, e: &mut Emitter, point: &mut Point, (low, high): (Value, Value)) -> Value {
        let place = e.place(&self.inside.at, point);
        let (above, below) = (e.op(Pointwise::Ge, place, low), e.op(Pointwise::Lt, place, high));
        e.op(Pointwise::And, above, below)
    }

    /// One step: what is there meets what comes, where the index lies inside.
    fn meet(&self, e: &mut Emitter, point: &mut Point, inside: Option<Value>) {
        let value = e.value(self.value, point);
        let at = e.place(&self.looped.at, point);
        let mask = e.both(inside, point.parallel_mask);
        let value = self.update.row().map_or(value, |row| {
            let dtype = e.b.ty(value).dtype;
            let old = e.read((self.out, dtype), at, mask);
            e.op(row, old, value)
        });
        e.b.store(self.out, at, value, mask);
    }
}
