//! Matrix products.  Those that no matrix instruction fits: `acc[i, j] = fma(a[i, k], b[k, j], acc[i, j])`, k ascending.
//!
//! Both operands are laid down in scratch memory.  The accumulators are taken in blocks that fit the register file; for
//! each block a loop over k reads a row of `b` as vectors and an element of `a` per row, which it repeats over the
//! lanes.

use inkwell::IntPredicate;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{InstructionOpcode as I, PhiValue, PointerValue};

use super::cast::cast;
use super::emit::Thread;
use super::ir::{Any, built};
use super::lower::Lower;
use super::value::{Reg, Tile};
use crate::dtype::DType;
use crate::layout::Layout;
use crate::tile::{Precision, Value};

/// The row or the column of a place.
type Part = fn(&(u32, u32)) -> u32;

/// An operand in scratch memory: row-major, elements of the type that is multiplied.
struct Laid<'c> {
    base: PointerValue<'c>,
    columns: u32,
}

impl<'c> Lower<'_, 'c> {
    /// `a·b + acc`
    pub fn dot(&mut self, result: Value, args: &[Value], layout: Layout, precision: Precision) -> Tile<'c> {
        if let Some((matrix, tiling)) = self.layouts.product(result).cloned() {
            let product = self.matrix_product(result, args, (matrix, &tiling), precision);
            return self.convert(&product, &layout);
        }
        let (from, dtype) = (self.ty(args[0]).dtype, self.ty(args[2]).dtype);
        let inner = self.ty(args[0]).shape[1];
        // Lanes along the columns: then one row of `b` serves a whole register.
        let work = Layout::row_major(&layout.shape, layout.lane.bits(), layout.warp.bits());
        let mut acc = self.tile(args[2], &work);
        let tf32 = dtype == DType::F32 && precision != Precision::Ieee;
        let head = |l: &Self, x: Any<'c>| if tf32 { l.tf32(x) } else { x };
        let tail = |l: &Self, x: Any<'c>| l.tf32_tail(x);
        let [ah, bh] = [args[0], args[1]].map(|x| self.lay(x, from, dtype, &head));
        if precision == Precision::Tf32x3 && tf32 {
            let [at, bt] = [args[0], args[1]].map(|x| self.lay(x, from, dtype, &tail));
            self.product(&at, &bh, inner, dtype, &mut acc);
            self.product(&ah, &bt, inner, dtype, &mut acc);
        }
        self.product(&ah, &bh, inner, dtype, &mut acc);
        self.convert(&acc, &layout)
    }

    /// Writes an operand to scratch memory.
    fn lay(&mut self, x: Value, from: DType, to: DType, prepare: &dyn Fn(&Self, Any<'c>) -> Any<'c>) -> Laid<'c> {
        let shape = self.ty(x).shape.clone();
        let home = &self.layouts[x];
        let layout = Layout::row_major(&shape, home.lane.bits(), home.warp.bits());
        let tile = self.tile(x, &layout);
        let convert = |l: &Self, v: Any<'c>| prepare(l, if from == to { v } else { widened(l, v, from, to) });
        let base = self.spill(&tile, to, &convert);
        Laid { base, columns: shape[1] }
    }

    /// Writes a tile to scratch memory in row-major order; its layout has the lanes in that order.
    pub fn spill(
        &self,
        tile: &Tile<'c>,
        dtype: DType,
        convert: &dyn Fn(&Self, Any<'c>) -> Any<'c>,
    ) -> PointerValue<'c> {
        if let Some(thread) = self.thread() {
            return self.share(thread, tile, 0, dtype, convert);
        }
        let (ir, width) = (self.ir, self.emit.width());
        let lanes = tile.layout.distinct_lane_bits().map_or(width, |bits| width.min(1 << bits));
        let bytes = dtype.bytes() as u32 * tile.layout.shape.iter().product::<u32>().max(width);
        let base = self.emit.scratch(ir, bytes);
        for (r, &reg) in tile.regs.iter().enumerate() {
            let x = self.lanes_of(&tile.layout, reg, lanes);
            let x = self.as_stored(dtype, convert(self, x));
            let address = self.emit.address(ir, base, dtype, ir.i32(tile.layout.at(r as u32, 0)));
            ir.store(address, x, dtype.bytes() as u32);
        }
        self.emit.barrier(ir);
        base
    }

    fn product(&self, a: &Laid<'c>, b: &Laid<'c>, inner: u32, dtype: DType, acc: &mut Tile<'c>) {
        if let Some(thread) = self.thread() {
            return self.product_of_threads(thread, a, b, inner, dtype, acc);
        }
        let layout = acc.layout.clone();
        let width = self.emit.width();
        if layout.shape[1] < width {
            return self.narrow_product(a, b, inner, dtype, acc);
        }
        let (rows, across) = (layout.shape[0], layout.shape[1] / width);
        let register =
            |row: u32, column: u32| layout.find(row * layout.shape[1] + column * width).map_or(0, |(r, _)| r as usize);
        // Two thirds of the register file for sums; the rest for a row of `b` and an element of `a`.
        let most = if self.spec.lanes >= 16 { 20 } else { 10 };
        let high_across = across.min(4);
        let high_rows = (most / high_across).max(1).min(rows);
        let high_rows = 1 << high_rows.ilog2();
        for row in (0..rows).step_by(high_rows as usize) {
            for column in (0..across).step_by(high_across as usize) {
                let places: Vec<(u32, u32)> =
                    (row..row + high_rows).flat_map(|r| (column..column + high_across).map(move |c| (r, c))).collect();
                let first: Vec<Any<'c>> =
                    places.iter().map(|&(r, c)| self.vector(&layout, acc.regs[register(r, c)])).collect();
                let sums = self.terms(inner, first, |k, sums| {
                    let element = self.ir.scalar_type(dtype);
                    let row_of_b = self.at(b, dtype, k, 0);
                    let bs = (0..high_across).map(|c| {
                        let address = self.emit.address(self.ir, row_of_b, dtype, self.ir.i32((column + c) * width));
                        self.ir.load(self.ir.wide(element, width), address, dtype.bytes() as u32)
                    });
                    let bs: Vec<Any<'c>> = bs.collect();
                    let mut next = Vec::with_capacity(sums.len());
                    for r in 0..high_rows {
                        let x = self.ir.load(element, self.at_column(a, dtype, row + r, k), dtype.bytes() as u32);
                        let x = self.ir.splat(x, width);
                        for (c, &y) in bs.iter().enumerate() {
                            next.push(self.term(dtype, x, y, sums[r as usize * bs.len() + c]));
                        }
                    }
                    next
                });
                for (&(r, c), sum) in places.iter().zip(sums) {
                    acc.regs[register(r, c)] = Reg::Vector(sum);
                }
            }
        }
    }

    /// Each thread adds up its own elements of the result.
    fn product_of_threads(
        &self,
        thread: Thread<'c>,
        a: &Laid<'c>,
        b: &Laid<'c>,
        inner: u32,
        dtype: DType,
        acc: &mut Tile<'c>,
    ) {
        let ir = self.ir;
        let layout = acc.layout.clone();
        let (element, bytes) = (ir.scalar_type(dtype), dtype.bytes() as u32);
        // Registers in the same row, or column, share an element of `a`, or `b`: by the constant parts of their places.
        let parts: Vec<(u32, u32)> = (0..acc.regs.len() as u32)
            .map(|r| (layout.along(layout.at(r, 0), 0), layout.along(layout.at(r, 0), 1)))
            .collect();
        let axis = |at: Any<'c>, axis: usize| {
            let bits = layout.axis_bits(axis);
            let along = ir.binary(I::LShr, at, ir.i32(bits.start));
            ir.binary(I::And, along, ir.i32(((1u64 << bits.len()) - 1) as u32))
        };
        let place = |part: u32, of: Part, along: usize| {
            let r = parts.iter().position(|p| of(p) == part).unwrap_or(0) as u32;
            axis(self.coordinate(&layout, thread, r), along)
        };
        let distinct = |of: Part| {
            let mut all: Vec<u32> = parts.iter().map(of).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let (row_of, column_of): (Part, Part) = (|p| p.0, |p| p.1);
        let (rows, columns) = (distinct(row_of), distinct(column_of));
        let starts: Vec<Any<'c>> =
            rows.iter().map(|&row| ir.binary(I::Mul, place(row, row_of, 0), ir.i32(a.columns))).collect();
        let across: Vec<Any<'c>> = columns.iter().map(|&column| place(column, column_of, 1)).collect();
        let first: Vec<Any<'c>> = acc.regs.iter().map(|&reg| self.first(reg)).collect();
        let sums = self.terms(inner, first, |k, sums| {
            let load =
                |laid: &Laid<'c>, offset| ir.load(element, self.emit.address(ir, laid.base, dtype, offset), bytes);
            let xs: Vec<Any<'c>> = starts.iter().map(|&start| load(a, ir.binary(I::Add, start, k))).collect();
            let row_of_b = ir.binary(I::Mul, k, ir.i32(b.columns));
            let ys: Vec<Any<'c>> = across.iter().map(|&c| load(b, ir.binary(I::Add, row_of_b, c))).collect();
            let at = |all: &[u32], part: u32| all.iter().position(|&p| p == part).unwrap_or(0);
            let terms = parts
                .iter()
                .zip(sums)
                .map(|(&(row, column), &sum)| self.term(dtype, xs[at(&rows, row)], ys[at(&columns, column)], sum));
            terms.collect()
        });
        acc.regs = sums.into_iter().map(Reg::Vector).collect();
    }

    /// Where a row of the result is shorter than a vector, lanes hold several rows, and both operands are gathered lane
    /// by lane.
    fn narrow_product(&self, a: &Laid<'c>, b: &Laid<'c>, inner: u32, dtype: DType, acc: &mut Tile<'c>) {
        let layout = acc.layout.clone();
        let (ir, width) = (self.ir, self.emit.width());
        let element = ir.scalar_type(dtype);
        for r in 0..acc.regs.len() {
            let first = vec![self.vector(&layout, acc.regs[r])];
            let sums = self.terms(inner, first, |k, sums| {
                let row_of_b = self.at(b, dtype, k, 0);
                let (mut x, mut y) = (ir.poison(ir.wide(element, width)), ir.poison(ir.wide(element, width)));
                for lane in 0..width {
                    let at = layout.at(r as u32, lane);
                    let address = self.emit.address(ir, row_of_b, dtype, ir.i32(layout.along(at, 1)));
                    y = ir.insert(y, ir.load(element, address, dtype.bytes() as u32), lane);
                    let address = self.at_column(a, dtype, layout.along(at, 0), k);
                    x = ir.insert(x, ir.load(element, address, dtype.bytes() as u32), lane);
                }
                vec![self.term(dtype, x, y, sums[0])]
            });
            acc.regs[r] = Reg::Vector(sums[0]);
        }
    }

    /// A loop over k that carries sums.
    fn terms(
        &self,
        inner: u32,
        first: Vec<Any<'c>>,
        step: impl Fn(Any<'c>, &[Any<'c>]) -> Vec<Any<'c>>,
    ) -> Vec<Any<'c>> {
        let (ir, builder) = (self.ir, &self.ir.builder);
        let (before, inside, after) = (self.here(), self.new_block("terms"), self.new_block("summed"));
        built(builder.build_unconditional_branch(inside));
        builder.position_at_end(inside);
        let k = built(builder.build_phi(ir.context.i32_type(), ""));
        let phis: Vec<PhiValue<'c>> = first.iter().map(|x| built(builder.build_phi(x.get_type(), ""))).collect();
        let sums: Vec<Any<'c>> = phis.iter().map(|phi| phi.as_basic_value()).collect();
        let next = step(k.as_basic_value(), &sums);
        let next_k = ir.binary(I::Add, k.as_basic_value(), ir.i32(1));
        let end = self.here();
        k.add_incoming(&[(&ir.i32(0), before), (&next_k, end)]);
        for ((phi, first), next) in phis.iter().zip(&first).zip(&next) {
            phi.add_incoming(&[(first, before), (next, end)]);
        }
        self.jump_if(ir.icmp(IntPredicate::ULT, next_k, ir.i32(inner)), inside, after);
        builder.position_at_end(after);
        next
    }

    fn term(&self, dtype: DType, x: Any<'c>, y: Any<'c>, sum: Any<'c>) -> Any<'c> {
        if dtype.is_float() {
            return self.ir.intrinsic("llvm.fma", &[x.get_type()], &[x, y, sum]);
        }
        self.ir.binary(I::Add, self.ir.binary(I::Mul, x, y), sum)
    }

    /// Address of an element whose row is known when the program runs.
    fn at(&self, x: &Laid<'c>, dtype: DType, row: Any<'c>, column: u32) -> PointerValue<'c> {
        let ir = self.ir;
        let offset = ir.binary(I::Mul, row, ir.i32(x.columns));
        self.emit.address(ir, x.base, dtype, ir.binary(I::Add, offset, ir.i32(column)))
    }

    /// Address of an element whose column is known when the program runs.
    fn at_column(&self, x: &Laid<'c>, dtype: DType, row: u32, column: Any<'c>) -> PointerValue<'c> {
        let ir = self.ir;
        self.emit.address(ir, x.base, dtype, ir.binary(I::Add, ir.i32(row * x.columns), column))
    }

    /// What the nearest tf32 leaves, itself rounded to tf32.
    pub fn tf32_tail(&self, x: Any<'c>) -> Any<'c> {
        self.tf32(self.ir.binary(I::FSub, x, self.tf32(x)))
    }

    /// The nearest tf32, ten stored bits of mantissa, ties to even; infinities and NaN as they are.
    pub fn tf32(&self, x: Any<'c>) -> Any<'c> {
        let ir = self.ir;
        let bits = ir.bitcast(x, ir.context.i32_type().into());
        let int = |value| ir.int_like(bits, value);
        let odd = ir.binary(I::And, ir.binary(I::LShr, bits, int(13)), int(1));
        let rounded = ir.binary(I::Add, ir.binary(I::Add, bits, int(0xfff)), odd);
        let rounded = ir.binary(I::And, rounded, int(!0x1fff));
        let exponent = ir.binary(I::And, bits, int(0x7f80_0000));
        let infinite = ir.icmp(IntPredicate::EQ, exponent, int(0x7f80_0000));
        let element: BasicTypeEnum<'c> = ir.context.f32_type().into();
        ir.bitcast(ir.select(infinite, bits, rounded), element)
    }
}

/// An operand as the type that is multiplied.  A bfloat16 is the upper half of an f32.
fn widened<'c>(l: &Lower<'_, 'c>, x: Any<'c>, from: DType, to: DType) -> Any<'c> {
    if from != DType::Bf16 {
        return cast(l.ir, l.emit, x, from, to);
    }
    let wide = l.ir.convert(I::ZExt, x, l.ir.context.i32_type().into());
    let bits = l.ir.binary(I::Shl, wide, l.ir.int_like(wide, 16));
    l.ir.bitcast(bits, l.ir.context.f32_type().into())
}
