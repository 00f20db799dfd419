//! Pointwise rows that finish a product's tile where it was summed up: each reads the product, rounded to its type as if it
//! had been stored, and what is written are their results.

use std::ops::Range;

use super::super::expr::Expr;
use super::super::looped::Looped;
use super::context::Emitter;
use super::point::Point;
use super::product::sides;
use crate::graph::{Graph, Node};
use crate::tile::Value;

/// The product's rows and columns: their axes of the domain, and a point of either side.
pub(super) type Sides = ([Range<usize>; 2], [Point; 2]);

/// Writes what is wanted of the product `value` and of what is computed from it at the points `at`.
pub(super) fn emit(e: &mut Emitter, (node, looped): (Node, &Looped), value: Value, sides: Sides, mut at: Point) {
    at.reduced = vec![Some(value)];
    let (axes, points) = sides;
    let bits = axes.map(bits);
    one_sided(e, looped, (bits, points), &mut at);
    let wanted = || looped.tail.iter().map(|s| s.value);
    // Beside the sums there is room for one operand, which is used before the next one comes.
    if whole(looped, &bits).count() == 1 {
        e.ask(wanted(), &mut at);
    }
    // All operands are read before the first result takes the place of one.
    let values: Vec<Value> = wanted().map(|ex| e.value(ex, &mut at)).collect();
    if looped.is_stored {
        e.store(node, &looped.at, value, false, &mut at);
    }
    for (store, value) in looped.tail.iter().zip(values) {
        e.store(store.node, &store.at, value, false, &mut at);
    }
}

/// Computes what is the same for all rows once for each column, and the other way round: a bias, a scale.
fn one_sided(e: &mut Emitter, looped: &Looped, (sides, mut points): ([u128; 2], [Point; 2]), at: &mut Point) {
    let exprs = &looped.exprs;
    let needed = exprs.needed(looped.tail.iter().map(|s| s.value));
    for ex in exprs.list.keys().filter(|ex| needed.contains(ex) && exprs.list[*ex].stage == 0) {
        let varied = exprs.varied(ex);
        let met = sides.map(|side| varied & side != 0);
        let side = match met {
            [true, false] => 0,
            [false, true] => 1,
            _ => continue,
        };
        let value = e.value(ex, &mut points[side]);
        at.known.insert(ex, value);
    }
}

/// Axes as a set of bits.
fn bits(axes: Range<usize>) -> u128 {
    axes.fold(0, |set, axis| set | 1 << axis)
}

/// What is loaded for each element of a product to finish it.
fn whole<'a>(looped: &'a Looped, sides: &'a [u128; 2]) -> impl Iterator<Item = Node> + 'a {
    let needed = looped.exprs.needed(looped.tail.iter().map(|s| s.value));
    looped.exprs.list.iter().filter_map(move |(ex, data)| match &data.expr {
        Expr::Load { node, .. } if needed.contains(&ex) => {
            let varied = looped.exprs.varied(ex);
            sides.iter().all(|side| varied & side != 0).then_some(*node)
        }
        _ => None,
    })
}

/// Bytes of the widest elements that are loaded for each of a product's to finish it; 0 where there are none.
pub(super) fn widest(graph: &Graph, node: Node, looped: &Looped) -> u32 {
    let dims = graph.dims(node);
    let axes = &looped.domain.axes;
    let parallel = axes.iter().filter(|a| !a.reduced).count();
    let sides = sides(axes, parallel, [dims[dims.len() - 2], dims[dims.len() - 1]]).map(bits);
    whole(looped, &sides).map(|node| graph.dtype(node).bytes() as u32).max().unwrap_or(0)
}
