//! Kernels that walk one axis step by step: products and prefixes have files of their own, scatters are here, with lanes
//! over the other axes.

use super::super::affine::Check;
use super::super::expr::Ex;
use super::super::grain::Grain;
use super::super::looped::{Looped, Walk};
use super::context::Emitter;
use super::point::Point;
use super::walk::{self, OWN_ROW, Tiles};
use super::{Emitted, Passes, TILE, prefix, product};
use crate::DType;
use crate::graph::{Graph, Node, Update};
use crate::op::Pointwise;
use crate::tile::Value;

/// Writes the kernels of a looped row.
pub fn emit(graph: &Graph, node: Node, looped: &Looped, grain: Grain, index: DType) -> Passes {
    match &looped.walk {
        Walk::Product { a, b } => Passes::from(product::emit(graph, node, looped, [*a, *b], grain, index)),
        Walk::Prefix { x, kind } => prefix::emit(graph, node, looped, (*x, *kind), grain, index),
        Walk::Scatter { value, update, inside } => {
            Passes::from(scatter(graph, node, looped, (*value, *update, inside), grain, index))
        }
    }
}

fn scatter(
    graph: &Graph,
    node: Node,
    looped: &Looped,
    (value, update, inside): (Ex, Update, &Check),
    grain: Grain,
    index: DType,
) -> Emitted {
    let mut looped = looped.clone();
    super::collapse::collapse(&mut looped.domain.axes, &mut looped.exprs, [&mut looped.at]);
    let axes = &looped.domain.axes;
    let step = axes.iter().rposition(|a| a.reduced);
    let steps = step.map_or(1, |axis| axes[axis].extent);
    let tiles = Tiles { lanes: TILE, leading: false, weight: steps * 2, grain, own_row: OWN_ROW };
    let places = [&looped.at, &inside.at];
    let mut e = Emitter::new("scatter", graph, &looped.exprs, (axes, tiles), index, &places);
    let out = e.buffer(node, true);
    let count = e.argument(steps as i64, 1);
    let dtype = graph.dtype(node);
    let walk_steps = &mut |e: &mut Emitter, point: &mut Point| {
        let (zero, one) = (e.int(0), e.int(1));
        e.for_loop((zero, count, one), &[], |e, k, _| {
            let mut inner = e.inside(point);
            if let Some(axis) = step {
                inner.axes[axis] = Some(k);
            }
            let value = e.value(value, &mut inner);
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
                    meet(e, update, old, value)
                }
                (_, None) => {
                    let old = e.b.load(out, at);
                    meet(e, update, old, value)
                }
            };
            e.b.store(out, at, value, mask);
            Vec::new()
        });
    };
    walk::parallel(e, axes, tiles, walk_steps, &Point::new(axes.len(), 0))
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
