//! Pointwise kernels in which an operand is contiguous along another axis than the results, as in `xᵀ + y`: tiles with
//! two axes, so that each operand is read along its own axis, and the layouts' conversion turns it in registers.
//!
//! The operand's axis is called the *cross* axis; it becomes the domain's last and counts as walked, so that masks are
//! kept apart by axis and what depends on one axis alone is computed once per row of a tile.  Programs take a tile each, or
//! blocks of [`Grain::block`] × `block` points, in which lines of memory and pages are used up before others displace them.

use super::super::affine::{Affine, Axis};
use super::super::expr::{Expr, FIRST_GATHER};
use super::super::grain::Grain;
use super::super::group::Body;
use super::WINDOW;
use super::context::Emitter;
use super::point::Point;
use super::walk::{self, Tiles, divide, full_end, indices, share};
use crate::graph::Graph;
use crate::op::Pointwise;
use crate::tile::Value;

/// The axis, other than the last one, along which most bytes that vary along the last lie side by side.  Strides decide,
/// as far as the class knows them; an axis as short as a window's is not worth a side of a tile.
pub fn axis(graph: &Graph, body: &Body) -> Option<usize> {
    let axes = &body.domain.axes;
    let last = axes.len().checked_sub(2)? + 1;
    let loads = body.exprs.list.values().filter_map(|d| match &d.expr {
        Expr::Load { node, at, .. } if at.denominator == 1 => Some((graph.dtype(*node).bytes(), at)),
        _ => None,
    });
    // What the lanes would gather if they lay along the last axis.
    let gathered: Vec<(usize, &Affine)> =
        loads.filter(|(_, at)| !matches!(at.coefficient(last as Axis), -1..=1)).collect();
    let beside = |axis: usize| -> usize {
        let near = gathered.iter().filter(|(_, at)| at.coefficient(axis as Axis) == 1);
        near.map(|(bytes, _)| bytes).sum()
    };
    let long = |axis: &usize| axes[*axis].extent > WINDOW;
    (0..last).filter(long).max_by_key(|&a| beside(a)).filter(|&a| beside(a) > 0 && long(&last))
}

/// Makes `axis` the last one, and a walked one.
pub fn turn(body: &mut Body, axis: usize) {
    let axes = &mut body.domain.axes;
    let mut cross = axes.remove(axis);
    cross.reduced = true;
    axes.push(cross);
    let last = axes.len() - 1;
    let renamed = |at: &Affine| {
        at.substitute(|a| match a as usize {
            old if old == axis => Affine::axis(last as Axis),
            old if old > axis && a < FIRST_GATHER => Affine::axis(a - 1),
            _ => Affine::axis(a),
        })
    };
    body.exprs.rewrite(renamed);
    for store in &mut body.stores {
        store.at = renamed(&store.at);
        store.full = true;
    }
}

/// The tiles of a turned kernel.
pub fn tiles(graph: &Graph, body: &Body, grain: Grain) -> Tiles {
    let last = body.domain.axes.len() as Axis - 1;
    let varies = |at: &Affine| at.coefficient(last) != 0 && at.coefficient(last - 1) != 0;
    let bytes = body.exprs.list.values().map(|data| match &data.expr {
        Expr::Load { node, at, .. } if varies(at) => graph.dtype(*node).bytes(),
        _ => 0,
    });
    // What was computed is turned by way of shared memory, and may be wider than what was loaded.
    let widest = body.exprs.list.values().map(|data| data.dtype.compute().bytes()).max().unwrap_or(1);
    // No longer than either axis, in whole powers of two.
    let shorter = body.domain.axes.iter().rev().take(2).map(|axis| axis.extent.next_power_of_two()).min();
    let lanes = grain.side(bytes.sum::<usize>().max(widest / 2), shorter.unwrap_or(1));
    Tiles { lanes, leading: true, weight: 1, grain, own_row: 1 }
}

/// Writes the visit of all points and finishes the kernel.
pub fn emit(mut e: Emitter, body: &Body, tiles: Tiles, point: &Point) -> super::Emitted {
    let Tiles { lanes, grain, .. } = tiles;
    let block = grain.block.unwrap_or(lanes.into());
    let extents: Vec<u64> = body.domain.axes.iter().map(|a| a.extent).collect();
    let (outer, square) = extents.split_at(extents.len() - 2);
    let blocks: Vec<u64> = outer.iter().copied().chain(square.iter().map(|n| n.div_ceil(block))).collect();
    let total: u64 = blocks.iter().product();
    let each = if grain.block.is_some() { share(total, block * block, grain) } else { 1 };
    let divisors: Vec<Value> = blocks.iter().skip(1).map(|&n| e.argument(n as i64, 1)).collect();
    let ends = [square[0], square[1]].map(|n| e.size(n as i64));
    let (n, span) = (e.argument(total as i64, 1), e.argument(each as i64, 1));
    let (low, high) = walk::span(&mut e, span, n);
    let one = e.int(1);
    e.for_loop((low, high, one), &[], |e, number, _| {
        let mut numbers = vec![None; blocks.len()];
        divide(e, number, &divisors, &mut numbers);
        let mut point = point.clone();
        point.axes[..outer.len()].copy_from_slice(&numbers[..outer.len()]);
        let (size, side) = (e.int(block as i64), e.int(lanes.into()));
        let range = |e: &mut Emitter, i: usize| {
            let number = numbers[outer.len() + i].unwrap_or_else(|| unreachable!("blocks have two numbers"));
            let low = e.op(Pointwise::Mul, number, size);
            let high = e.op(Pointwise::Add, low, size);
            let high = e.op(Pointwise::Min, high, ends[i]);
            (low, full_end(e, low, high, lanes), high)
        };
        let (row, cross) = (range(e, 0), range(e, 1));
        // Full tiles first, then what is left on either side.
        e.for_loop((row.0, row.1, side), &[], |e, at, _| {
            let mut beside = along_row(e, &point, (at, lanes), None);
            body.stores.iter().for_each(|s| e.hoist(s.value, &mut beside));
            e.for_loop((cross.0, cross.1, side), &[], |e, at, _| {
                tile(e, body, &beside, (at, lanes), None);
                Vec::new()
            });
            Vec::new()
        });
        e.for_loop((cross.0, cross.2, side), &[], |e, at_cross, _| {
            let is_full = e.op(Pointwise::Lt, at_cross, cross.1);
            let start = e.b.map(Pointwise::Select, &[is_full, row.1, row.0]);
            e.for_loop((start, row.2, side), &[], |e, at, _| {
                let beside = along_row(e, &point, (at, lanes), Some(row.2));
                tile(e, body, &beside, (at_cross, lanes), Some(cross.2));
                Vec::new()
            });
            Vec::new()
        });
        Vec::new()
    });
    e.finish([total.div_ceil(each) as u32, 1, 1])
}

/// The point with indices along the last parallel axis, cut off at `end`.
fn along_row(e: &mut Emitter, outer: &Point, (at, side): (Value, u32), end: Option<Value>) -> Point {
    let mut point = outer.clone();
    let index = indices(e, at, side, 0);
    point.parallel_mask = end.map(|end| e.op(Pointwise::Lt, index, end));
    let last = point.axes.len() - 2;
    point.axes[last] = Some(index);
    point.parallel_run = Some(index);
    point
}

/// One tile: all operands are read before the first result takes the place of one.
fn tile(e: &mut Emitter, body: &Body, beside: &Point, (at, side): (Value, u32), end: Option<Value>) {
    let mut point = e.inside(beside);
    let index = indices(e, at, side, 1);
    point.walked_mask = end.map(|end| e.op(Pointwise::Lt, index, end));
    let last = point.axes.len() - 1;
    point.axes[last] = Some(index);
    point.walked_run = Some(index);
    let values: Vec<Value> = body.stores.iter().map(|s| e.value(s.value, &mut point)).collect();
    for (s, value) in body.stores.iter().zip(values) {
        e.store(s.node, &s.at, value, true, &mut point);
    }
}
