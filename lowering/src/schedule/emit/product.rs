//! Matrix products as tile programs: each computes a tile of the result and walks `k` in blocks, both operands being
//! followed back to loads as in any kernel.
//!
//! Whatever the tile, a sum is one fused multiply-add per term in ascending order of `k`, from 0.  So the choice of
//! tiles, which depends on the sizes, never shows in a result: the same row comes out whatever batch it is in.  Where the
//! machine has matrix instructions for the factors, and may use them, blocks are computed by those instead.

use std::ops::Range;

use super::super::affine::Affine;
use super::super::expr::Ex;
use super::super::grain::{Blocks, Grain};
use super::super::group::AxisData;
use super::super::looped::{Looped, Walk};
use super::context::Emitter;
use super::point::Point;
use super::walk::{self, divide, extent, full_end, indices};
use super::{Emitted, blocks};
use crate::DType;
use crate::graph::{Graph, Node};
use crate::op::Pointwise;
use crate::tile::{Precision, Value};

/// Terms in a block.  With the sums of a tile, the block's operands fill the registers of a processor with 32 of them
/// once over; more would be written out and read again before they are laid down for the product.
const BLOCK_K: u32 = 16;

/// Columns up to this number are one tile.
const NARROW: u64 = 16;

/// How a product is cut.
#[derive(Clone, Copy)]
struct Cut {
    /// Rows of a tile.
    down: u32,
    /// Columns of a tile, which the lanes lie along.
    across: u32,
    /// Whether the rows of a tile are the columns of the result.
    swapped: bool,
}

impl Cut {
    /// Vectors are products with tiles of one row.  Of the others the tiles have as many elements as half the registers
    /// of a processor with 32 of them hold twice.
    fn new(m: u64, n: u64) -> Cut {
        match (m, n) {
            (_, 1) => Cut { down: 1, across: 64, swapped: true },
            (1, _) => Cut { down: 1, across: 64, swapped: false },
            (_, ..=NARROW) => Cut { down: 32, across: 16, swapped: false },
            _ => Cut { down: 16, across: 32, swapped: false },
        }
    }
}

/// One of the result's axes, which may be several of the domain.
pub(super) struct Side {
    axes: Range<usize>,
    pub(super) extent: Value,
    divisors: Vec<Value>,
}

impl Side {
    pub(super) fn new(e: &mut Emitter, axes: &[AxisData], range: Range<usize>) -> Side {
        let extents = axes[range.clone()].iter().map(|a| a.extent);
        let whole = e.argument(extents.product::<u64>() as i64, 1);
        Side::sized(e, axes, range, whole)
    }

    /// Likewise, its extent being an argument already.
    pub(super) fn sized(e: &mut Emitter, axes: &[AxisData], range: Range<usize>, whole: Value) -> Side {
        let divisors = axes[range.clone()].iter().skip(1).map(|a| extent(e, a.extent)).collect();
        Side { axes: range, extent: whole, divisors }
    }

    /// Its axes of the domain.
    pub(super) fn axes(&self) -> Range<usize> {
        self.axes.clone()
    }

    /// Gives the axes their indices, those of tile `number`, and says which lie inside.
    pub(super) fn place(
        &self,
        e: &mut Emitter,
        number: Value,
        size: u32,
        axis: u8,
        point: &mut Point,
    ) -> (Value, Value) {
        let width = e.int(size.into());
        let start = e.op(Pointwise::Mul, number, width);
        self.from(e, start, size, axis, point)
    }

    /// Likewise, of the tile that starts there.
    pub(super) fn from(&self, e: &mut Emitter, start: Value, size: u32, axis: u8, point: &mut Point) -> (Value, Value) {
        let index = indices(e, start, size, axis);
        divide(e, index, &self.divisors, &mut point.axes[self.axes.clone()]);
        (index, e.op(Pointwise::Lt, index, self.extent))
    }
}

/// The axes before `end` along which a product's rows and columns lie, which come last there.
pub(super) fn sides(axes: &[AxisData], end: usize, [rows, columns]: [u64; 2]) -> [Range<usize>; 2] {
    let columns = trailing(axes, end, columns);
    [trailing(axes, columns.start, rows), columns]
}

/// The last axes of `axes[..end]` that make up `extent`.
fn trailing(axes: &[AxisData], end: usize, extent: u64) -> Range<usize> {
    let (mut start, mut product) = (end, 1);
    while product < extent && start > 0 {
        start -= 1;
        product *= axes[start].extent;
    }
    debug_assert_eq!(product, extent);
    start..end
}

/// The blocks in which a looped row is computed, if it is a product and the machine has instructions for it.
pub fn blocks_of(graph: &Graph, node: Node, looped: &Looped, grain: &Grain) -> Option<Blocks> {
    let Walk::Product { a, b } = looped.walk else { return None };
    blocks::plan(graph, node, looped, [a, b], grain).map(|plan| plan.cut)
}

/// Writes the kernel of the product of `a` and `b`, expressions of a looped row's operands.  `inplace` names results that
/// share an operand's buffer, and that operand.
pub fn emit(
    (graph, node): (&Graph, Node),
    looped: &Looped,
    [a, b]: [Ex; 2],
    inplace: &[(Node, Node)],
    grain: Grain,
    index: DType,
) -> Emitted {
    if let Some(plan) = blocks::plan(graph, node, looped, [a, b], &grain) {
        return blocks::emit((graph, node), looped, plan, inplace, grain, index);
    }
    debug_assert!(looped.tail.is_empty(), "only blocks are finished");
    let axes = &looped.domain.axes;
    let dims = graph.dims(node);
    let (m, n) = (dims[dims.len() - 2], dims[dims.len() - 1]);
    let parallel = axes.iter().filter(|a| !a.reduced).count();
    let [rows, columns] = sides(axes, parallel, [m, n]);
    let batch = 0..rows.start;
    let cut = Cut::new(m, n);
    let (down_axes, across_axes) = if cut.swapped { (columns, rows) } else { (rows, columns) };
    let (down_expr, across_expr) = if cut.swapped { (b, a) } else { (a, b) };
    let step = axes.iter().position(|a| a.reduced);

    let stored: [&Affine; 1] = [&looped.at];
    let runs = [across_axes.clone(), parallel..axes.len()];
    let mut e = Emitter::with_runs("product", graph, &looped.exprs, (axes, grain), runs, index, &stored);
    e.buffer(node, true);
    let down = Side::new(&mut e, axes, down_axes);
    let across = Side::new(&mut e, axes, across_axes);
    let tiles = |extent: u64, size: u32| extent.div_ceil(size.into());
    let (down_len, across_len) = if cut.swapped { (n, m) } else { (m, n) };
    let (tiles_down, tiles_across) = (tiles(down_len, cut.down), tiles(across_len, cut.across));
    let below = e.argument(tiles_down as i64, 1);
    let terms = e.argument(step.map_or(1, |axis| axes[axis].extent) as i64, 1);
    let batches: Vec<Value> = axes[batch.clone()].iter().skip(1).map(|a| e.argument(a.extent as i64, 1)).collect();

    // Tiles below each other first: they read the same columns.
    let [id, member] = [0, 1].map(|axis| walk::program(&mut e, axis));
    let column = e.op(Pointwise::Div, id, below);
    let before = e.op(Pointwise::Mul, column, below);
    let row = e.op(Pointwise::Sub, id, before);
    let mut point = Point::new(axes.len(), 0);
    divide(&mut e, member, &batches, &mut point.axes[batch.clone()]);
    let (mut left, mut right, mut result) = (point.clone(), point.clone(), point);
    let (_, row_mask) = down.place(&mut e, row, cut.down, 1, &mut left);
    let (columns, column_mask) = across.place(&mut e, column, cut.across, 0, &mut right);
    left.parallel_mask = Some(row_mask);
    right.parallel_mask = Some(column_mask);
    right.parallel_run = Some(columns);
    result.axes[down.axes.clone()].copy_from_slice(&left.axes[down.axes.clone()]);
    result.axes[across.axes.clone()].copy_from_slice(&right.axes[across.axes.clone()]);
    result.parallel_mask = Some(e.op(Pointwise::And, row_mask, column_mask));
    result.parallel_run = Some(columns);

    let dtype = graph.dtype(node);
    let zero = e.b.constant(dtype.compute(), 0);
    let zeros = e.b.broadcast(zero, &[cut.down, cut.across]);
    e.hoist(down_expr, &mut left);
    e.hoist(across_expr, &mut right);
    let block = Block { exprs: [down_expr, across_expr], cut, step, terms, zero, dtype: dtype.compute() };
    let (none, by) = (e.int(0), e.int(BLOCK_K.into()));
    let full = full_end(&mut e, none, terms, BLOCK_K);
    let sums =
        e.for_loop((none, full, by), &[zeros], |e, k, sums| vec![block.add(e, k, false, [&left, &right], sums[0])]);
    let rest = e.op(Pointwise::Lt, full, terms);
    let sums = e.if_then(rest, &sums, |e| vec![block.add(e, full, true, [&left, &right], sums[0])]);
    let value = e.b.cast(sums[0], dtype);
    e.store(node, &looped.at, value, false, &mut result);
    let members = axes[batch].iter().map(|a| a.extent).product::<u64>();
    e.finish([(tiles_down * tiles_across) as u32, members as u32, 1])
}

/// What is added for each block of terms.
struct Block {
    exprs: [Ex; 2],
    cut: Cut,
    step: Option<usize>,
    terms: Value,
    zero: Value,
    dtype: DType,
}

impl Block {
    /// The sums with the terms from `start` on; `tail` if there are fewer than fill the block.
    fn add(&self, e: &mut Emitter, start: Value, tail: bool, points: [&Point; 2], sums: Value) -> Value {
        let shapes = [[self.cut.down, BLOCK_K], [BLOCK_K, self.cut.across]];
        let [x, y] = [0, 1].map(|side| {
            let terms = indices(e, start, BLOCK_K, side as u8);
            let mut inner = e.inside(points[side]);
            if let Some(axis) = self.step {
                inner.axes[axis] = Some(terms);
                inner.walked_run = Some(terms);
            }
            inner.walked_mask = tail.then(|| e.op(Pointwise::Lt, terms, self.terms));
            let x = e.value(self.exprs[side], &mut inner);
            let x = e.b.cast(x, self.dtype);
            let x = match inner.walked_mask {
                Some(mask) => e.b.map(Pointwise::Select, &[mask, x, self.zero]),
                None => x,
            };
            e.b.broadcast(x, &shapes[side])
        });
        e.b.dot(x, y, sums, Precision::Ieee)
    }
}
