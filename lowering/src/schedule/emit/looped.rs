//! Kernels that walk one axis step by step, with lanes over the others: scatters and prefixes.

use super::super::affine::Affine;
use super::super::looped::{Looped, Walk};
use super::combine::{combine, neutral};
use super::context::Emitter;
use super::point::Point;
use super::walk::{self, OWN_ROW, Tiles};
use super::{Emitted, TILE, product};
use crate::DType;
use crate::graph::{Graph, Node, Reduction, Update};
use crate::op::Pointwise;
use crate::tile::{Builder, Value};

/// Writes the kernel of a looped row.
pub fn emit(graph: &Graph, node: Node, looped: &Looped, programs: u32, index: DType) -> Emitted {
    if let Walk::Product { a, b } = looped.walk {
        return product::emit(graph, node, looped, [a, b], index);
    }
    let mut looped = looped.clone();
    super::collapse::collapse(&mut looped.domain.axes, &mut looped.exprs, [&mut looped.at]);
    let axes = &looped.domain.axes;
    let name = match looped.walk {
        Walk::Scatter { .. } => "scatter",
        Walk::Product { .. } | Walk::Prefix { .. } => "prefix",
    };
    let mut places: Vec<&Affine> = vec![&looped.at];
    if let Walk::Scatter { inside, .. } = &looped.walk {
        places.push(&inside.at);
    }
    let step = axes.iter().rposition(|a| a.reduced);
    let steps = step.map_or(1, |axis| axes[axis].extent);
    let tiles = Tiles { lanes: TILE, leading: false, weight: steps * 2, programs, own_row: OWN_ROW };
    let mut e = Emitter::new(name, graph, &looped.exprs, (axes, tiles), index, &places);
    let out = e.buffer(node, true);
    let count = e.argument(steps as i64, 1);
    let dtype = graph.dtype(node);
    let point = Point::new(axes.len(), 0);
    let walk_steps = &mut |e: &mut Emitter, point: &mut Point| {
        let (zero, one) = (e.int(0), e.int(1));
        let kind = match &looped.walk {
            Walk::Prefix { kind, .. } => *kind,
            Walk::Product { .. } | Walk::Scatter { .. } => Reduction::Any,
        };
        let initial: Vec<Value> = match &looped.walk {
            Walk::Product { .. } | Walk::Scatter { .. } => Vec::new(),
            Walk::Prefix { .. } => {
                let mut neutral = neutral(&mut e.b, kind, dtype.compute(), e.index);
                if is_compensated(kind, dtype) {
                    neutral.push(e.b.constant(dtype.compute(), 0));
                }
                neutral.iter().map(|&n| e.b.broadcast(n, &[TILE])).collect()
            }
        };
        e.for_loop((zero, count, one), &initial, |e, k, sums| {
            let mut inner = e.inside(point);
            if let Some(axis) = step {
                inner.axes[axis] = Some(k);
            }
            match &looped.walk {
                Walk::Product { .. } => Vec::new(),
                Walk::Prefix { x, kind } => {
                    let x = e.value(*x, &mut inner);
                    let x = e.b.cast(x, dtype.compute());
                    let (prefix, next) = match is_compensated(*kind, dtype) {
                        true => compensated_add(&mut e.b, sums[0], sums[1], x),
                        false => {
                            let next = combine(&mut e.b, *kind, sums, &[x]);
                            (next[0], next.to_vec())
                        }
                    };
                    let stored = e.b.cast(prefix, dtype);
                    e.store(node, &looped.at, stored, false, &mut inner);
                    next
                }
                Walk::Scatter { value, update, inside } => {
                    let value = e.value(*value, &mut inner);
                    let at = e.place(&looped.at, &mut inner);
                    // An index outside is reported, and must not reach memory.
                    let mut mask = e.holds(std::slice::from_ref(inside), &mut inner);
                    if let Some(lanes) = inner.parallel_mask {
                        mask = Some(mask.map_or(lanes, |m| e.op(Pointwise::And, m, lanes)));
                    }
                    let value = match (update, mask) {
                        (Update::Assign, _) => value,
                        (_, Some(mask)) => {
                            let zero = e.b.constant(dtype, 0);
                            let old = e.b.load_masked(out, at, mask, zero);
                            meet(e, *update, old, value)
                        }
                        (_, None) => {
                            let old = e.b.load(out, at);
                            meet(e, *update, old, value)
                        }
                    };
                    e.b.store(out, at, value, mask);
                    Vec::new()
                }
            }
        });
    };
    walk::parallel(e, axes, tiles, walk_steps, &point)
}

/// Whether prefixes carry what their additions lost: else ones after a great number would count for nothing.
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

fn meet(e: &mut Emitter, update: Update, old: Value, new: Value) -> Value {
    let op = match update {
        Update::Assign => return new,
        Update::Add => Pointwise::Add,
        Update::Mul => Pointwise::Mul,
        Update::Min => Pointwise::Min,
        Update::Max => Pointwise::Max,
        Update::Or => Pointwise::Or,
    };
    e.op(op, old, new)
}
