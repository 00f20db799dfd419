//! Kernels of pointwise rows and reductions over one domain.

use super::super::affine::{Affine, Axis};
use super::super::expr::{Expr, Exprs};
use super::super::grain::Grain;
use super::super::group::{Body, Fold};
use super::across;
use super::along;
use super::collapse::collapse;
use super::context::Emitter;
use super::crossed;
use super::held::Held;
use super::inside;
use super::point::Point;
use super::reduce::{self, Across, Lanes};
use super::walk::{self, OWN_ROW, Tiles};
use super::{Emitted, TILE, UNROLLED, WINDOW};
use crate::DType;
use crate::graph::{Graph, Node};
use crate::tile::Value;

/// Columns up to this many are summed several rows at a time.
const NARROW: u64 = 32;

/// Writes a group's kernel.  `inplace` names results that share an operand's buffer, and that operand.
pub fn emit(graph: &Graph, body: &Body, inplace: &[(Node, Node)], grain: Grain, index: DType) -> Emitted {
    let mut body = body.clone();
    collapse(&mut body.domain.axes, &mut body.exprs, body.stores.iter_mut().map(|s| &mut s.at));
    let cross = if body.folds.is_empty() { crossed::axis(graph, &body) } else { None };
    if let Some(cross) = cross {
        crossed::turn(&mut body, cross);
    }
    let axes = &body.domain.axes;
    let places: Vec<&Affine> = body.stores.iter().map(|s| &s.at).collect();
    let name = named(if body.folds.is_empty() { "map" } else { "reduce" }, &body.exprs, &body.folds);
    let terms: u64 = axes.iter().filter(|a| a.reduced).map(|a| a.extent).product();
    let lanes = match lanes(graph, &body, terms, grain) {
        Lanes::Along(_) => {
            Held::of(&body, terms, grain).map_or_else(|| Lanes::Along(along::warps(&body, terms, grain)), Lanes::Held)
        }
        across => across,
    };
    let row = Tiles { lanes: 1, leading: false, weight: terms, grain, own_row: OWN_ROW };
    let (tiles, warps) = match (body.folds.is_empty(), lanes) {
        (true, _) if cross.is_some() => {
            let tiles = crossed::tiles(graph, &body, grain);
            (tiles, grain.side_warps(tiles.lanes))
        }
        (true, _) => {
            let points = axes.iter().map(|axis| axis.extent).product();
            walk::pointwise(grain, points, widest(graph, &body))
        }
        (_, Lanes::Along(warps) | Lanes::Held(Held { warps, .. })) => (row, warps),
        (_, Lanes::Across(Across { width, warps, .. })) => (Tiles { lanes: width, leading: true, ..row }, warps),
    };
    let mut e = Emitter::new(&name, graph, &body.exprs, (axes, tiles), index, &places);
    e.b.warps(warps);
    if let Lanes::Held(Held { absent, .. }) = lanes {
        e.b.absent(absent);
    }
    e.results(body.stores.iter().map(|s| s.node), inplace);
    let point = Point::new(axes.len(), body.folds.len());
    if cross.is_some() {
        return crossed::emit(e, &body, tiles, &point);
    }
    if body.folds.is_empty() {
        return walk::parallel(
            e,
            axes,
            tiles,
            &mut |e, point| {
                // All operands are read before the first result takes the place of one.
                e.ask(body.stores.iter().map(|s| s.value), point);
                let values: Vec<Value> = body.stores.iter().map(|s| e.value(s.value, point)).collect();
                for (s, value) in body.stores.iter().zip(values) {
                    e.store(s.node, &s.at, value, false, point);
                }
            },
            &point,
        );
    }
    let terms = reduce::Terms::new(&mut e, axes, tiles, lanes);
    // Checks take more than half of the instructions that several warps need for a tile.
    let emit =
        if matches!(lanes, Lanes::Across(Across { warps: 2.., .. })) { inside::emit_checked } else { reduce::emit };
    walk::parallel(e, axes, tiles, &mut |e, point| emit(e, &body, &terms, lanes, point), &point)
}

/// Bytes of the widest elements that are read or written.
fn widest(graph: &Graph, body: &Body) -> usize {
    let loads = body.exprs.list.values().filter_map(|d| match &d.expr {
        Expr::Load { node, .. } => Some(*node),
        _ => None,
    });
    let nodes = loads.chain(body.stores.iter().map(|s| s.node));
    nodes.map(|node| graph.dtype(node).bytes()).max().unwrap_or(4)
}

/// Whether the lanes follow the reduced axes, or lie across them.
fn lanes(graph: &Graph, body: &Body, terms: u64, grain: Grain) -> Lanes {
    // A single axis may be a sequence, which is another one longer; several are a window.
    let single = body.domain.axes.iter().filter(|a| a.reduced).count() == 1;
    if terms <= if single { WINDOW } else { UNROLLED } {
        let height = terms.next_power_of_two() as u32;
        return Lanes::Across(Across { height, width: (256 / height).clamp(16, TILE), warps: 1, unrolled: true });
    }
    let axes = &body.domain.axes;
    let last = |reduced: bool| axes.iter().rposition(|a| a.reduced == reduced).map(|i| i as Axis);
    let (along, across) = (last(true), last(false));
    // What is read once for all terms does not count.
    let reduced = axes.iter().enumerate().filter(|(_, a)| a.reduced).fold(0, |set, (i, _)| set | 1u128 << i);
    // Bytes per point that lie side by side along an axis.
    let beside = |axis: Option<Axis>| -> u64 {
        let Some(axis) = axis else { return 0 };
        let loads = body.exprs.list.values().filter_map(|d| match &d.expr {
            Expr::Load { node, at, .. } if body.exprs.followed(at) & reduced != 0 => Some((*node, at)),
            _ => None,
        });
        let stores = body.stores.iter().filter(|s| s.full).map(|s| (s.node, &s.at));
        let near = loads.chain(stores).filter(|(_, at)| at.coefficient(axis).abs() == 1);
        near.map(|(node, _)| graph.dtype(node).bytes() as u64).sum()
    };
    match beside(across) > beside(along) {
        true => {
            let inner = across.map_or(1, |axis| axes[axis as usize].extent);
            let width = if inner <= NARROW { NARROW as u32 } else { across::POINTS };
            let sums = body.folds.iter().map(|f| if f.kind.is_arg() { 2 } else { 1 }).sum();
            let ([height, width], warps) = grain.across(inner, sums).unwrap_or(([across::POINTS / width, width], 1));
            Lanes::Across(Across { height, width, warps, unrolled: false })
        }
        false => Lanes::Along(1),
    }
}

/// A readable name of a kernel of some kind, from what it does.
pub(super) fn named(kind: &str, exprs: &Exprs, folds: &[Fold]) -> String {
    let mut words: Vec<&str> = Vec::new();
    for data in exprs.list.values() {
        if let Expr::Map(op, _) = &data.expr
            && op.row().cost > 1
            && !words.contains(&op.row().name)
        {
            words.push(op.row().name);
        }
    }
    for fold in folds {
        words.push(fold.kind.name());
    }
    let words = words.into_iter().take(4).map(|w| format!("_{w}")).collect::<String>();
    format!("{kind}{words}")
}
