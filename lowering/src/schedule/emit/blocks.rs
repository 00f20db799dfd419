//! Products of 16-bit floats by matrix instructions: each program computes a block of the result, whose size depends on
//! the product's, and walks the terms in stages.  What a program sums up in which order is the machine's affair, as in a
//! library's product.
//!
//! Programs that run at one time should read the same rows and columns: they are numbered down a few blocks, then across
//! (Tillet, Kung and Cox: Triton, 2019).

use super::super::affine::Affine;
use super::super::expr::{Ex, Expr, Exprs};
use super::super::grain::{Blocks, Grain};
use super::super::group::AxisData;
use super::super::looped::Looped;
use super::Emitted;
use super::context::Emitter;
use super::finish;
use super::fused::named;
use super::point::Point;
use super::product::{Side, sides};
use super::walk::{self, divide, extent, indices};
use crate::DType;
use crate::graph::{Graph, Node};
use crate::op::Pointwise;
use crate::tile::{Precision, Value};

/// Blocks below each other before the next column of blocks.
const DOWN: i64 = 16;

/// Most products of a batch: programs along the second axis of a grid.
const MEMBERS: u64 = 65535;

/// How a product is computed in blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The factors before they were widened.
    factors: [Ex; 2],
    dtype: DType,
    pub(super) cut: Blocks,
}

/// Whether the machine multiplies such factors by instructions, and the product fills blocks.
pub(super) fn plan(graph: &Graph, node: Node, looped: &Looped, factors: [Ex; 2], grain: &Grain) -> Option<Plan> {
    let exprs = &looped.exprs;
    let dims = graph.dims(node);
    let [batch, sizes] = [&dims[..dims.len() - 2], &dims[dims.len() - 2..]];
    let [a, b] = factors.map(|ex| narrow(exprs, ex));
    let dtype = exprs.list[a?].dtype;
    if exprs.list[b?].dtype != dtype || graph.dtype(node).compute() != DType::F32 {
        return None;
    }
    if batch.iter().product::<u64>() > MEMBERS {
        return None;
    }
    let cut =
        grain.finished_product([sizes[0], sizes[1]], batch.iter().product(), finish::widest(graph, node, looped))?;
    Some(Plan { factors: [a?, b?], dtype, cut })
}

/// A 16-bit float that is widened to what an expression gives, or which it gives.
fn narrow(exprs: &Exprs, ex: Ex) -> Option<Ex> {
    let is_half = |ex: Ex| matches!(exprs.list[ex].dtype, DType::F16 | DType::Bf16);
    match &exprs.list[ex].expr {
        _ if is_half(ex) => Some(ex),
        Expr::Map(Pointwise::Cast, args) if exprs.list[ex].dtype == DType::F32 => Some(args[0]).filter(|&x| is_half(x)),
        _ => None,
    }
}

/// Writes the kernel.  `inplace` names results that share an operand's buffer, and that operand.
pub(super) fn emit(
    (graph, node): (&Graph, Node),
    looped: &Looped,
    plan: Plan,
    inplace: &[(Node, Node)],
    grain: Grain,
    index: DType,
) -> Emitted {
    let axes = &looped.domain.axes;
    let dims = graph.dims(node);
    let (m, n) = (dims[dims.len() - 2], dims[dims.len() - 1]);
    let parallel = axes.iter().filter(|a| !a.reduced).count();
    let [rows, columns] = sides(axes, parallel, [m, n]);
    let batch = 0..rows.start;
    let walked = parallel..axes.len();
    let length = axes[walked.clone()].iter().map(|a| a.extent).product::<u64>();
    let Blocks { rows: height, columns: width, terms, warps, stages } = plan.cut;

    let stored: Vec<&Affine> = [&looped.at].into_iter().chain(looped.tail.iter().map(|s| &s.at)).collect();
    let runs = [columns.clone(), parallel..axes.len()];
    let name = if looped.tail.is_empty() { "product".into() } else { named("product", &looped.exprs, &[]) };
    let mut e = Emitter::with_runs(&name, graph, &looped.exprs, (axes, grain), runs, index, &stored);
    let own = looped.is_stored.then_some(node);
    e.results(own.into_iter().chain(looped.tail.iter().map(|s| s.node)), inplace);
    e.b.warps(warps);
    // Pieces of a row are wanted as a whole where its length says so.
    let [whole_rows, whole_columns, whole_terms] = [m, n, length].map(|n| e.size(n as i64));
    let down = Side::sized(&mut e, axes, rows, whole_rows);
    let across = Side::sized(&mut e, axes, columns, whole_columns);
    let blocks = |extent: u64, size: u32| extent.div_ceil(size.into());
    let (tall, wide) = (blocks(m, height), blocks(n, width));
    let [tall_value, wide_value] = [tall, wide].map(|n| e.argument(n as i64, 1));
    let [batches, terms_along] = [batch.clone(), walked.clone()]
        .map(|range| axes[range].iter().skip(1).map(|a| extent(&mut e, a.extent)).collect::<Vec<Value>>());
    let whole = Whole::new(&mut e, &axes[walked.clone()], terms);

    let [id, member] = [0, 1].map(|axis| walk::program(&mut e, axis));
    let (row, column) = numbered(&mut e, id, tall_value, wide_value);
    let mut point = Point::new(axes.len(), 0);
    divide(&mut e, member, &batches, &mut point.axes[batch.clone()]);
    let (mut left, mut right, mut result) = (point.clone(), point.clone(), point);
    let (_, row_mask) = down.place(&mut e, row, height, 1, &mut left);
    let (at_columns, column_mask) = across.place(&mut e, column, width, 0, &mut right);
    left.parallel_mask = Some(row_mask);
    right.parallel_mask = Some(column_mask);
    right.parallel_run = Some(at_columns);
    for (side, from) in [(&down, &left), (&across, &right)] {
        result.axes[side.axes()].copy_from_slice(&from.axes[side.axes()]);
    }
    result.parallel_mask = Some(e.op(Pointwise::And, row_mask, column_mask));
    result.parallel_run = Some(at_columns);

    let zero = e.b.constant(DType::F32, 0);
    let zeros = e.b.broadcast(zero, &[height, width]);
    for (ex, point) in plan.factors.into_iter().zip([&mut left, &mut right]) {
        e.hoist(ex, point);
    }
    let (none, by) = (e.int(0), e.int(terms.into()));
    let sums = e.for_loop_in(stages, (none, whole_terms, by), &[zeros], |e, start, sums| {
        let factors = [(&left, [height, terms]), (&right, [terms, width])];
        let [x, y] = [0, 1].map(|side| {
            let (point, shape) = factors[side];
            let at = indices(e, start, terms, side as u8);
            let mut inner = e.inside(point);
            let own = &mut inner.axes[walked.clone()];
            match &whole {
                Some(whole) => whole.place(e, start, side as u8, &terms_along, own),
                None => divide(e, at, &terms_along, own),
            }
            inner.walked_run = Some(at);
            let end = (!length.is_multiple_of(terms.into())).then_some(whole_terms);
            factor(e, plan, side, (at, end), &mut inner, shape)
        });
        vec![e.b.dot(x, y, sums[0], Precision::Ieee)]
    });
    let value = e.b.cast(sums[0], graph.dtype(node));
    finish::emit(&mut e, (node, looped), value, ([down.axes(), across.axes()], [left, right]), result);
    let members = axes[batch].iter().map(|a| a.extent).product::<u64>();
    e.finish([(tall * wide) as u32, members as u32, 1])
}

/// Several axes of terms, the last of which has whole blocks of them: inside of one, the others stand still.
struct Whole {
    terms: u32,
    /// `⌈2¹⁶/n⌉`, where the last axis has `n` blocks.
    inverse: Value,
}

impl Whole {
    const BITS: u32 = 16;

    /// Nothing where blocks are not whole, or too many for numbers of 32 bits.
    fn new(e: &mut Emitter, axes: &[AxisData], terms: u32) -> Option<Whole> {
        let (last, others) = axes.split_last().filter(|(_, others)| !others.is_empty())?;
        let blocks = last.extent / u64::from(terms);
        let all = others.iter().map(|a| a.extent).product::<u64>() * blocks;
        let fits = (1..1 << (Whole::BITS - 1)).contains(&(all * blocks));
        let inverse = || e.argument((1u64 << Whole::BITS).div_ceil(blocks) as i64, 1);
        (last.extent.is_multiple_of(terms.into()) && fits).then(inverse).map(|inverse| Whole { terms, inverse })
    }

    /// The axes' indices in the block that starts there.
    ///
    /// With `b` blocks before it, `⌊b/n⌋ = ⌊b·⌈2¹⁶/n⌉/2¹⁶⌋` as long as `b·n < 2¹⁶`: what is added is less than `1/n`.
    fn place(&self, e: &mut Emitter, start: Value, side: u8, extents: &[Value], into: &mut [Option<Value>]) {
        let (Some((&extent, outer)), Some((last, others))) = (extents.split_last(), into.split_last_mut()) else {
            return;
        };
        let [by, bits] = [self.terms.ilog2(), Whole::BITS].map(|n| e.int(n.into()));
        let before = e.op(Pointwise::Shr, start, by);
        let scaled = e.op(Pointwise::Mul, before, self.inverse);
        let quotient = e.op(Pointwise::Shr, scaled, bits);
        let above = e.op(Pointwise::Mul, quotient, extent);
        let rest = e.op(Pointwise::Sub, start, above);
        *last = Some(indices(e, rest, self.terms, side));
        divide(e, quotient, outer, others);
    }
}

/// The terms at `at` of a factor; 0 from `end` on, if they do not fill the last block.
fn factor(
    e: &mut Emitter,
    plan: Plan,
    side: usize,
    (at, end): (Value, Option<Value>),
    point: &mut Point,
    shape: [u32; 2],
) -> Value {
    let ex = plan.factors[side];
    let inside = end.map(|end| e.op(Pointwise::Lt, at, end));
    point.walked_mask = inside;
    let x = e.value(ex, point);
    // What is loaded is 0 where nothing is, unless it is loaded once for all terms.
    let x = match (&e.exprs.list[ex].expr, inside) {
        (_, None) => x,
        (Expr::Load { .. }, _) if e.varies_walked(ex) => x,
        (_, Some(inside)) => {
            let zero = e.b.constant(plan.dtype, 0);
            e.b.map(Pointwise::Select, &[inside, x, zero])
        }
    };
    e.b.broadcast(x, &shape)
}

/// The row and the column of blocks that program `id` computes, of so many: [`DOWN`] rows at a time, or what is left.
fn numbered(e: &mut Emitter, id: Value, rows: Value, columns: Value) -> (Value, Value) {
    let height = e.int(DOWN);
    let together = e.op(Pointwise::Mul, height, columns);
    let number = e.op(Pointwise::Div, id, together);
    let first = e.op(Pointwise::Mul, number, height);
    let left = e.op(Pointwise::Sub, rows, first);
    let height = e.op(Pointwise::Min, left, height);
    let before = e.op(Pointwise::Mul, number, together);
    let inside = e.op(Pointwise::Sub, id, before);
    let column = e.op(Pointwise::Div, inside, height);
    let above = e.op(Pointwise::Mul, column, height);
    let row = e.op(Pointwise::Sub, inside, above);
    (e.op(Pointwise::Add, first, row), column)
}
