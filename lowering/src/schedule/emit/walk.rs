//! Visits the parallel points of a domain: which programs there are, the loops inside each, and tails that do not fill
//! a tile.

use super::super::grain::Grain;
use super::super::group::AxisData;
use super::context::Emitter;
use super::point::Point;
use super::{Emitted, Share, WINDOW};
use crate::op::Pointwise;
use crate::tile::{Type, Value};

/// What [`Tiles::own_row`] is where nothing speaks for less.
pub const OWN_ROW: u64 = 48;

/// Places along the grid's y at most: what a GPU has (CUDA C++ Programming Guide, "Compute Capabilities").
pub(super) const MOST_ALONG_Y: u64 = 65_535;

/// How points are visited.
#[derive(Clone, Copy, Debug)]
pub struct Tiles {
    /// Points side by side in a tile; 1 for scalars.
    pub lanes: u32,
    /// Whether tiles have a leading axis, for the walked axes, to broadcast against.
    pub leading: bool,
    /// Work per point, in elements.
    pub weight: u64,
    /// How work is cut up.
    pub grain: Grain,
    /// A row of at least this many elements is walked by itself; shorter ones are walked together, dividing the index.
    pub own_row: u64,
}

/// Writes the visit of all points along `axes` and finishes the kernel.  `body` is written once for full tiles and once
/// for tails; it gets points whose parallel axes have indices.
pub fn parallel(
    mut e: Emitter,
    axes: &[AxisData],
    tiles: Tiles,
    body: &mut dyn FnMut(&mut Emitter, &mut Point),
    point: &Point,
) -> Emitted {
    let extents: Vec<u64> = axes.iter().filter(|a| !a.reduced).map(|a| a.extent).collect();
    let row = row_start(&extents, tiles);
    let (grid, share) = match row {
        0 => flat(&mut e, &extents, tiles, body, point),
        _ => rows(&mut e, extents.split_at(row), tiles, body, point),
    };
    Emitted { share: Some(share), ..e.finish(grid) }
}

/// The first of the axes that tiles run along: as few of the last ones as make a row worth its own loop, or all.
pub fn row_start(extents: &[u64], tiles: Tiles) -> usize {
    if tiles.lanes == 1 {
        return 0;
    }
    let mut length = 1;
    for (at, &n) in extents.iter().enumerate().rev() {
        length *= n;
        if length >= tiles.own_row {
            return at;
        }
    }
    0
}

/// Number of units each program takes, given their weight.
pub fn share(units: u64, weight: u64, grain: Grain) -> u64 {
    let least = grain.worth.div_ceil(weight.max(1)).max(1);
    let programs = u64::from(grain.programs) * u64::from(grain.waves);
    units.div_ceil(programs.max(1)).max(least)
}

/// This program's number along an axis of the grid.
pub fn program(e: &mut Emitter, axis: u8) -> Value {
    let id = e.b.program_id(axis);
    e.b.cast(id, e.index)
}

/// The numbers below `total` that this program takes: `span` of them, or what is left.
pub fn span(e: &mut Emitter, span: Value, total: Value) -> (Value, Value) {
    span_along(e, 0, span, total)
}

/// Those that it takes by its number along another axis of the grid.
pub fn span_along(e: &mut Emitter, axis: u8, span: Value, total: Value) -> (Value, Value) {
    let id = program(e, axis);
    span_of(e, id, span, total)
}

/// Those that program `id` takes.
fn span_of(e: &mut Emitter, id: Value, span: Value, total: Value) -> (Value, Value) {
    // Never below 0; said, because runs of neighbours survive a division only where that is known.
    let (low, zero) = (e.op(Pointwise::Mul, id, span), e.int(0));
    let low = e.op(Pointwise::Max, low, zero);
    let high = e.op(Pointwise::Add, low, span);
    (low, e.op(Pointwise::Min, high, total))
}

/// One index over all points, divided into the axes' indices.
fn flat(
    e: &mut Emitter,
    extents: &[u64],
    tiles: Tiles,
    body: &mut dyn FnMut(&mut Emitter, &mut Point),
    point: &Point,
) -> ([u32; 3], Share) {
    let total: u64 = extents.iter().product();
    let lanes = u64::from(tiles.lanes);
    let count = total.div_ceil(lanes);
    let each = share(count, lanes * tiles.weight, tiles.grain);
    let divisors: Vec<Value> = extents.iter().skip(1).map(|&n| extent(e, n)).collect();
    let n = e.size(total as i64);
    let span = e.argument((each * lanes) as i64, tiles.lanes);
    let (low, high) = self::span(e, span, n);
    tiled(e, (low, high), tiles, &mut |e, index, mask| {
        let mut point = point.clone();
        point.parallel_mask = mask;
        point.parallel_run = Some(index);
        divide(e, index, &divisors, &mut point.axes);
        body(e, &mut point);
    });
    ([count.div_ceil(each) as u32, 1, 1], Share { points: each * lanes, row: total, piece: total })
}

/// One index over rows, and one inside the row, each divided into the axes' indices.
fn rows(
    e: &mut Emitter,
    (outer, row): (&[u64], &[u64]),
    tiles: Tiles,
    body: &mut dyn FnMut(&mut Emitter, &mut Point),
    point: &Point,
) -> ([u32; 3], Share) {
    let lanes = u64::from(tiles.lanes);
    let (total, inner): (u64, u64) = (outer.iter().product(), row.iter().product());
    let wanted = u64::from(tiles.grain.programs);
    let each = share(total, inner * tiles.weight, tiles.grain);
    let programs = total.div_ceil(each);
    // Few long rows are divided too.
    let pieces = inner.div_ceil(lanes);
    let each_piece = match programs * 2 <= wanted {
        true => share(pieces, lanes * tiles.weight * each, tiles.grain.with_programs((wanted / programs) as u32)),
        false => pieces,
    };
    let each_piece = each_piece.min(pieces.div_ceil(tiles.grain.pieces.into())).max(pieces.div_ceil(MOST_ALONG_Y));
    let divisors: Vec<Value> = outer.iter().skip(1).map(|&n| e.argument(n as i64, 1)).collect();
    let inside: Vec<Value> = row.iter().skip(1).map(|&n| extent(e, n)).collect();
    let (n, width) = (e.argument(total as i64, 1), e.size(inner as i64));
    let (span, piece) = (e.argument(each as i64, 1), e.argument((each_piece * lanes) as i64, tiles.lanes));
    let [row_id, piece_id] = [0, 1].map(|axis| program(e, axis));
    let (low, high) = span_of(e, row_id, span, n);
    let (left, right) = span_of(e, piece_id, piece, width);
    let one = e.int(1);
    e.for_loop((low, high, one), &[], |e, number, _| {
        let mut at_row = point.clone();
        divide(e, number, &divisors, &mut at_row.axes[..outer.len()]);
        tiled(e, (left, right), tiles, &mut |e, index, mask| {
            let mut point = at_row.clone();
            point.parallel_mask = mask;
            point.parallel_run = Some(index);
            divide(e, index, &inside, &mut point.axes[outer.len()..outer.len() + row.len()]);
            body(e, &mut point);
        });
        Vec::new()
    });
    let grid = [programs as u32, pieces.div_ceil(each_piece) as u32, 1];
    (grid, Share { points: each * inner, row: inner, piece: each_piece * lanes })
}

/// An extent that indices are divided by: an argument, or a part of the class where it is as small as a window's.
///
/// Runs of neighbours end where the extent does, so its divisor decides how wide the loads can be: 16 elements are the
/// widest vector, 8 the next.  Other powers of two would only make more classes, and a sequence one token longer
/// must not be one of its own.
pub fn extent(e: &mut Emitter, n: u64) -> Value {
    match n <= WINDOW {
        true => e.int(n as i64),
        false => e.argument(n as i64, [16, 8].into_iter().find(|&d| n.is_multiple_of(d.into())).unwrap_or(1)),
    }
}

/// Gives the leading axes in `into` their indices: `index` divided by all extents but the first, from the last.
pub fn divide(e: &mut Emitter, index: Value, extents: &[Value], into: &mut [Option<Value>]) {
    let mut rest = index;
    for (at, &extent) in extents.iter().enumerate().rev() {
        let quotient = e.op(Pointwise::Div, rest, extent);
        let whole = e.op(Pointwise::Mul, quotient, extent);
        into[at + 1] = Some(e.op(Pointwise::Sub, rest, whole));
        rest = quotient;
    }
    if let Some(first) = into.first_mut() {
        *first = Some(rest);
    }
}

/// Full tiles of a range, without masks, then what is left, with one.
pub fn tiled(
    e: &mut Emitter,
    (low, high): (Value, Value),
    tiles: Tiles,
    body: &mut dyn FnMut(&mut Emitter, Value, Option<Value>),
) {
    if tiles.lanes == 1 {
        let one = e.int(1);
        e.for_loop((low, high, one), &[], |e, index, _| {
            body(e, index, None);
            Vec::new()
        });
        return;
    }
    let lanes = lanes(e, tiles.lanes, tiles.leading.then_some(0));
    let step = e.int(tiles.lanes.into());
    let full = full_end(e, low, high, tiles.lanes);
    e.for_loop((low, full, step), &[], |e, start, _| {
        let index = e.op(Pointwise::Add, start, lanes);
        body(e, index, None);
        Vec::new()
    });
    let rest = e.op(Pointwise::Lt, full, high);
    e.if_then(rest, &[], |e| {
        let index = e.op(Pointwise::Add, full, lanes);
        let mask = e.op(Pointwise::Lt, index, high);
        body(e, index, Some(mask));
        Vec::new()
    });
}

/// `0 … n−1` as index values, with an axis of extent 1 put in at `beside` if wanted.
pub fn lanes(e: &mut Emitter, n: u32, beside: Option<u8>) -> Value {
    let lanes = e.b.arange(n);
    let lanes = e.b.cast(lanes, e.index);
    debug_assert!(e.b.ty(lanes) == &Type::tile(e.index, &[n]));
    beside.map_or(lanes, |axis| e.b.expand_dims(lanes, axis))
}

/// `start … start + n − 1` along one axis of a tile with two, `beside` being the other one.
pub fn indices(e: &mut Emitter, start: Value, n: u32, beside: u8) -> Value {
    let lanes = lanes(e, n, Some(beside));
    e.op(Pointwise::Add, start, lanes)
}

/// Where the full tiles of `n` in `low..high` end.
pub fn full_end(e: &mut Emitter, low: Value, high: Value, n: u32) -> Value {
    let length = e.op(Pointwise::Sub, high, low);
    let zero = e.int(0);
    let length = e.op(Pointwise::Max, length, zero);
    let mask = e.int(-i64::from(n));
    let full = e.op(Pointwise::And, length, mask);
    e.op(Pointwise::Add, low, full)
}

/// The tiles of a plain pointwise kernel of so many points whose widest elements have that many bytes, and the warps that
/// share each.
pub fn pointwise(grain: Grain, points: u64, bytes: usize) -> (Tiles, u32) {
    let (lanes, warps, grain) = grain.points(points, bytes);
    (Tiles { lanes, leading: false, weight: 1, grain, own_row: OWN_ROW.max(lanes.into()) }, warps)
}
