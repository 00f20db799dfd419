//! Prefixes along an axis.
//!
//! The order of the terms depends on their number alone: chunks of [`CHUNK`] terms, each in order from its first term
//! on; what a chunk starts from is the states of all chunks before, joined in order.  So a row can be walked at once, or
//! by many programs in three passes: the states of the chunks, then what each chunk starts from, then the prefixes.  Where
//! there are few chunks and a launch takes longer than to join their states, each program joins those before its own.
//!
//! Sums of floats carry along what their additions lose: else ones after a great number would count for nothing.
//!
//! Lanes lie across rows (or across chunks).  Where the terms of a row lie side by side, square tiles are read along the
//! rows and turned in registers.

mod shared;

use super::super::affine::Axis;
use super::super::expr::Ex;
use super::super::grain::Grain;
use super::super::looped::Looped;
use super::super::simplify::CHUNK;
use super::columns::{columns, columns_by_halves, side_by_side};
use super::combine::{combine, neutral};
use super::context::Emitter;
use super::point::Point;
use super::walk::{self, OWN_ROW, Tiles, full_end, indices};
use super::{Emitted, Passes, TILE, WINDOW};
use crate::DType;
use crate::graph::{Graph, Node, Reduction};
use crate::op::Pointwise;
use crate::tile::{Builder, Value};

/// Bytes of a line of the cache.
const LINE: u32 = 128;

/// A prefix to be written.
struct Prefix<'a> {
    graph: &'a Graph,
    node: Node,
    looped: &'a Looped,
    x: Ex,
    kind: Reduction,
    dtype: DType,
    grain: Grain,
    index: DType,
    /// Whether tiles are turned.
    turned: bool,
    /// Extents of such tiles: rows side by side, and terms of each.
    side: u32,
    length: u32,
}

/// Which states are carried along the terms.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carry {
    /// That of the prefix, which is stored.
    Prefix,
    /// That of the chunk alone.
    Chunk,
    /// Both.
    Both,
}

/// Writes the kernels of a scan.
pub fn emit(
    graph: &Graph,
    node: Node,
    looped: &Looped,
    (x, kind): (Ex, Reduction),
    grain: Grain,
    index: DType,
) -> Passes {
    let mut looped = looped.clone();
    super::collapse::collapse(&mut looped.domain.axes, &mut looped.exprs, [&mut looped.at]);
    let axes = &looped.domain.axes;
    let step = axes.iter().position(|a| a.reduced);
    let terms = step.map_or(1, |axis| axes[axis].extent);
    let rows: u64 = axes.iter().filter(|a| !a.reduced).map(|a| a.extent).product();
    let along = step.is_some_and(|axis| looped.at.coefficient(axis as Axis) == 1);
    let dtype = graph.dtype(node);
    // A lane holds a whole row of a tile.
    let bytes = dtype.compute().bytes().max(4);
    let side = grain.turned(bytes);
    // Where lanes load several elements at once, what is read of a row fills a line of the cache.
    let length = if grain.asks_first { (LINE / dtype.bytes() as u32).min(TILE).max(side) } else { side };
    let is_shared = terms >= grain.shared && rows.div_ceil(side.into()) * 4 <= grain.programs.into();
    let turned = along && terms > WINDOW || is_shared;
    if is_shared && let Some(axis) = step {
        shared::divide_terms(&mut looped, axis);
    }
    let prefix = Prefix { graph, node, looped: &looped, x, kind, dtype, grain, index, turned, side, length };
    match is_shared {
        true => prefix.shared(rows, terms),
        false => Passes::from(prefix.whole(step, terms)),
    }
}

impl Prefix<'_> {
    fn emitter(&self, name: &str, tiles: Tiles) -> Emitter<'_> {
        let Looped { exprs, domain, at, .. } = self.looped;
        Emitter::new(name, self.graph, exprs, (&domain.axes, tiles), self.index, &[at])
    }

    /// Each row from front to back.
    fn whole(&self, step: Option<usize>, terms: u64) -> Emitted {
        let axes = &self.looped.domain.axes;
        let tiles = match self.turned {
            true => Tiles { lanes: self.side, leading: true, weight: terms * 2, grain: self.grain, own_row: u64::MAX },
            false => Tiles { lanes: TILE, leading: false, weight: terms * 2, grain: self.grain, own_row: OWN_ROW },
        };
        let mut e = self.emitter("prefix", tiles);
        e.buffer(self.node, true);
        let count = e.argument(terms as i64, 1);
        let shape = [tiles.lanes];
        let body = &mut |e: &mut Emitter, point: &mut Point| {
            let zero = e.int(0);
            let before = self.start(e, &shape);
            if terms <= CHUNK {
                self.walk(e, point, step, (zero, count), &before, Carry::Prefix);
                return;
            }
            let chunk = e.int(CHUNK as i64);
            e.for_loop((zero, count, chunk), &before, |e, low, before| {
                let high = e.op(Pointwise::Add, low, chunk);
                let high = e.op(Pointwise::Min, high, count);
                let both: Vec<Value> = before.iter().copied().chain(self.start(e, &shape)).collect();
                let both = self.walk(e, point, step, (low, high), &both, Carry::Both);
                self.join(&mut e.b, before, &both[before.len()..])
            });
        };
        walk::parallel(e, axes, tiles, body, &Point::new(axes.len(), 0))
    }

    /// Walks the terms `low … high − 1` at a point of the other axes, from some states to the next.
    fn walk(
        &self,
        e: &mut Emitter,
        point: &Point,
        step: Option<usize>,
        (low, high): (Value, Value),
        states: &[Value],
        carry: Carry,
    ) -> Vec<Value> {
        let one = e.int(1);
        if !self.turned {
            return e.for_loop((low, high, one), states, |e, k, states| {
                let mut inner = e.inside(point);
                if let Some(axis) = step {
                    inner.axes[axis] = Some(k);
                }
                let x = e.value(self.x, &mut inner);
                let (prefix, next) = self.term(&mut e.b, x, states, carry);
                self.store(e, prefix, &mut inner);
                next
            });
        }
        let Some(axis) = step else { unreachable!("turned tiles have two axes") };
        let length = e.int(self.length.into());
        let full = full_end(e, low, high, self.length);
        let states = e.for_loop((low, full, length), states, |e, at, states| {
            let mut inner = e.inside(point);
            let index = indices(e, at, self.length, 1);
            inner.axes[axis] = Some(index);
            inner.walked_run = Some(index);
            let x = e.value(self.x, &mut inner);
            let x = e.b.cast(x, self.dtype.compute());
            let x = e.b.broadcast(x, &[self.length, self.side]);
            let x = e.b.trans(x, &[1, 0]);
            let mut states = states.to_vec();
            let mut prefixes = Vec::new();
            let columns = if self.grain.asks_first { columns_by_halves } else { columns };
            for x in columns(&mut e.b, x) {
                let (prefix, next) = self.term(&mut e.b, x, &states, carry);
                prefixes.extend(prefix);
                states = next;
            }
            if !prefixes.is_empty() {
                let tile = side_by_side(&mut e.b, &prefixes);
                let tile = e.b.trans(tile, &[1, 0]);
                self.store(e, Some(tile), &mut inner);
            }
            states
        });
        e.for_loop((full, high, one), &states, |e, k, states| {
            let mut inner = e.inside(point);
            inner.axes[axis] = Some(k);
            inner.walked_run = Some(k);
            let x = e.value(self.x, &mut inner);
            let x = e.b.broadcast(x, &[1, self.side]);
            let x = e.b.reshape(x, &[self.side]);
            let (prefix, next) = self.term(&mut e.b, x, states, carry);
            let prefix = prefix.map(|p| e.b.expand_dims(p, 0));
            self.store(e, prefix, &mut inner);
            next
        })
    }

    fn store(&self, e: &mut Emitter, prefix: Option<Value>, point: &mut Point) {
        if let Some(prefix) = prefix {
            let value = e.b.cast(prefix, self.dtype);
            e.store(self.node, &self.looped.at, value, true, point);
        }
    }

    /// The state before the first term.
    fn start(&self, e: &mut Emitter, shape: &[u32]) -> Vec<Value> {
        let mut state = neutral(&mut e.b, self.kind, self.dtype.compute(), self.index);
        if is_compensated(self.kind, self.dtype) {
            state.push(e.b.constant(self.dtype.compute(), 0));
        }
        state.iter().map(|&n| e.b.broadcast(n, shape)).collect()
    }

    /// One term more: the prefix that ends with it, and the states.
    fn term(&self, b: &mut Builder, x: Value, states: &[Value], carry: Carry) -> (Option<Value>, Vec<Value>) {
        let x = b.cast(x, self.dtype.compute());
        let number = if carry == Carry::Both { states.len() / 2 } else { states.len() };
        let mut prefix = None;
        let mut next = Vec::new();
        for (i, state) in states.chunks(number).enumerate() {
            let (sum, state) = match is_compensated(self.kind, self.dtype) {
                true => compensated_add(b, state[0], state[1], x),
                false => {
                    let sum = combine(b, self.kind, state, &[x]);
                    (sum[0], sum.to_vec())
                }
            };
            if i == 0 && carry != Carry::Chunk {
                prefix = Some(sum);
            }
            next.extend(state);
        }
        (prefix, next)
    }

    /// The state of two runs of terms, one after the other.
    fn join(&self, b: &mut Builder, before: &[Value], own: &[Value]) -> Vec<Value> {
        match is_compensated(self.kind, self.dtype) {
            true => {
                let (_, sum) = compensated_add(b, before[0], before[1], own[0]);
                vec![sum[0], b.add(sum[1], own[1])]
            }
            false => combine(b, self.kind, before, own).to_vec(),
        }
    }
}

/// Whether prefixes carry what their additions lost.
fn is_compensated(kind: Reduction, dtype: DType) -> bool {
    kind == Reduction::Sum && dtype.is_float()
}

/// A prefix one term longer, and the total and error to carry on: `s = t + x` is off by
/// `(t − (s − z)) + (x − z)` with `z = s − t`, exactly (Knuth, The Art of Computer Programming 2, §4.2.2).
fn compensated_add(b: &mut Builder, total: Value, lost: Value, x: Value) -> (Value, Vec<Value>) {
    let sum = b.add(total, x);
    let of_x = b.map(Pointwise::Sub, &[sum, total]);
    let of_total = b.map(Pointwise::Sub, &[sum, of_x]);
    let off_total = b.map(Pointwise::Sub, &[total, of_total]);
    let off_x = b.map(Pointwise::Sub, &[x, of_x]);
    let off = b.add(off_total, off_x);
    let off_so_far = b.add(lost, off);
    let prefix = b.add(sum, off_so_far);
    // Infinite and NaN sums have no error.
    let is_finite = b.map(Pointwise::Eq, &[off, off]);
    let prefix = b.map(Pointwise::Select, &[is_finite, prefix, sum]);
    let lost = b.map(Pointwise::Select, &[is_finite, off_so_far, lost]);
    (prefix, vec![sum, lost])
}
