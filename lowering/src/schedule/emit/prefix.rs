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

use super::super::affine::{Affine, Axis};
use super::super::expr::{Ex, Exprs};
use super::super::grain::Grain;
use super::super::group::AxisData;
use super::super::looped::Looped;
use super::super::simplify::CHUNK;
use super::columns::{columns, columns_by_halves, side_by_side};
use super::combine::{combine, neutral};
use super::context::Emitter;
use super::point::Point;
use super::walk::{self, OWN_ROW, Tiles, divide, full_end, indices, share};
use super::{Emitted, Passes, TILE, WINDOW};
use crate::DType;
use crate::graph::{Graph, Node, Reduction};
use crate::op::Pointwise;
use crate::tile::{Builder, Param, Value};

/// Bytes of a line of the cache.
const LINE: u32 = 128;

/// Most chunks of a row whose states are joined once more for each chunk.
const FEW: u64 = 16;

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
    let shared = terms >= grain.shared && rows.div_ceil(side.into()) * 4 <= grain.programs.into();
    let turned = along && terms > WINDOW || shared;
    if shared && let Some(axis) = step {
        divide_terms(&mut looped, axis);
    }
    let prefix = Prefix { graph, node, looped: &looped, x, kind, dtype, grain, index, turned, side, length };
    match shared {
        true => prefix.shared(rows, terms),
        false => Passes::from(prefix.whole(step, terms)),
    }
}

/// Divides the walked axis, the last one, into chunks and the terms of a chunk.
fn divide_terms(looped: &mut Looped, axis: usize) {
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

    /// Chunks side by side, in three passes; the last chunks of the rows, where they are not full, in a pass of their own.
    fn shared(&self, rows: u64, terms: u64) -> Passes {
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
            (before, self.load_state(e, scratch, place, mask))
        };
        let states = self.start(e, &[self.side]);
        let (_, first) = load(e, zero);
        let last = e.op(Pointwise::Sub, chunks, one);
        let carried: Vec<Value> = states.iter().copied().chain(first).collect();
        let carried = e.for_loop((zero, last, one), &carried, |e, number, carried| {
            let (states, own) = carried.split_at(states.len());
            let next = e.op(Pointwise::Add, number, one);
            let (_, next) = load(e, next);
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
