//! Operations that only rearrange: under the right layout of the operand, most move nothing.

use inkwell::values::InstructionOpcode as I;

use super::lower::Lower;
use super::value::{Form, Reg, Tile, lane_steps};
use crate::dtype::DType;
use crate::layout::Layout;
use crate::layout::assign::{apart, joined};
use crate::tile::Value;

impl<'c> Lower<'_, 'c> {
    /// `0, 1, 2, …`: the coordinate itself.
    pub fn arange(&mut self, layout: Layout) -> Tile<'c> {
        let int = self.ir.context.i32_type();
        let constant = |x: u32| int.const_int(u64::from(x), false).into();
        let uniform = layout.is_uniform();
        let thread = self.thread();
        let regs = (0..layout.registers() as u32).map(|r| {
            if let Some(thread) = thread {
                return self.one(self.coordinate(&layout, thread, r), uniform);
            }
            let first = constant(layout.at(r, 0));
            if uniform {
                return Reg::Uniform(first);
            }
            let runs = (0..self.emit.width()).all(|lane| layout.at(r, lane) == layout.at(r, 0) + layout.at(0, lane));
            if runs {
                return Reg::Ramp(first);
            }
            let lanes = (0..self.emit.width()).map(|lane| u64::from(layout.at(r, lane)));
            Reg::Vector(self.ir.ints(int.into(), lanes))
        });
        Tile { regs: regs.collect(), layout }
    }

    /// Repeats along axes of extent 1: registers and lanes that differ along those alone read the same element.
    pub fn broadcast(&mut self, x: Value, layout: Layout) -> Tile<'c> {
        if self.ty(x).is_scalar() {
            let x = self.scalar(x);
            return self.splat(layout, x);
        }
        let shape = self.ty(x).shape.clone();
        let narrow = layout.squeezed(&shape);
        let mut tile = self.tile(x, &narrow);
        // A ramp counts along the one axis that the lanes lie along; repeated, they may lie along several.
        if lane_steps(&narrow, self.emit.width()) != lane_steps(&layout, self.emit.width()) {
            let unramped = tile.regs.iter().map(|&reg| self.unramped(&narrow, reg)).collect();
            tile.regs = unramped;
        }
        let regs = (0..layout.registers() as u32).map(|r| {
            let squeezed = squeeze(&layout, &shape, layout.at(r, 0));
            let Some((register, lane)) = narrow.find(squeezed) else {
                panic!("bug in the lowering: no place for element {squeezed}")
            };
            debug_assert_eq!(lane, 0);
            tile.regs[register as usize]
        });
        Tile { regs: regs.collect(), layout }
    }

    /// A new axis of extent 1 has no bits.
    pub fn expand_dims(&mut self, x: Value, axis: u8, layout: Layout) -> Tile<'c> {
        let shape = self.ty(x).shape.clone();
        debug_assert_eq!(layout.shape[axis as usize], 1);
        self.reinterpret(x, layout.reshaped(&shape), layout)
    }

    /// Row-major order is the order of coordinates, so nothing moves.
    pub fn reshape(&mut self, x: Value, layout: Layout) -> Tile<'c> {
        let shape = self.ty(x).shape.clone();
        self.reinterpret(x, layout.reshaped(&shape), layout)
    }

    /// The same registers under permuted coordinates.
    pub fn trans(&mut self, x: Value, perm: &[u8], layout: Layout) -> Tile<'c> {
        let mut back = vec![0u8; perm.len()];
        for (to, &from) in perm.iter().enumerate() {
            back[from as usize] = to as u8;
        }
        self.reinterpret(x, layout.transposed(&back), layout)
    }

    /// Two tiles side by side along a new last axis: their registers take turns.
    pub fn join(&mut self, args: &[Value], layout: Layout) -> Tile<'c> {
        let half = apart(&layout).0;
        let (left, right) = (self.tile(args[0], &half), self.tile(args[1], &half));
        let regs = left.regs.into_iter().zip(right.regs).flat_map(|(x, y)| [x, y]);
        let tile = Tile { layout: joined(&half), regs: regs.map(|r| self.unramped(&half, r)).collect() };
        self.convert(&tile, &layout)
    }

    /// The two halves along the last axis.
    pub fn split(&mut self, x: Value, results: &[Value]) {
        let half = self.layouts[results[0]].clone();
        let whole = joined(&half);
        let tile = self.tile(x, &whole);
        for (i, &result) in results.iter().enumerate() {
            let regs = tile.regs.iter().skip(i).step_by(2).map(|&r| self.unramped(&whole, r)).collect();
            let home = self.layouts[result].clone();
            let part = self.convert(&Tile { layout: half.clone(), regs }, &home);
            self.tiles.insert(result, part);
        }
    }

    /// `out[… i …] = x[… index[… i …] …]` along an axis: the source goes to scratch memory, the lanes read from there.
    pub fn gather(&mut self, args: &[Value], axis: u8, layout: Layout) -> Tile<'c> {
        let (dtype, shape) = (self.ty(args[0]).dtype, self.ty(args[0]).shape.clone());
        let index_dtype = self.ty(args[1]).dtype;
        let source = self.tile(args[0], &Layout::row_major(&shape, layout.lane.bits(), layout.warp.bits()));
        let base = self.spill(&source, dtype, &|_, x| x);
        let indices = self.tile(args[1], &layout);
        let (ir, width, axis) = (self.ir, self.emit.width(), axis as usize);
        let thread = self.thread();
        let regs = (0..layout.registers() as u32).map(|r| {
            if let Some(thread) = thread {
                let at = self.coordinate(&layout, thread, r);
                let index = self.first(indices.regs[r as usize]);
                let offset = (0..shape.len()).fold(ir.int_like(index, 0), |sum, a| {
                    let bits = layout.axis_bits(a);
                    let along = ir.binary(I::LShr, at, ir.i32(bits.start));
                    let along = ir.binary(I::And, along, ir.i32(((1u64 << bits.len()) - 1) as u32));
                    let along = ir.convert(I::ZExt, along, index.get_type());
                    let along = if a == axis { index } else { along };
                    let sum = ir.binary(I::Mul, sum, ir.int_like(sum, i64::from(shape[a])));
                    ir.binary(I::Add, sum, along)
                });
                let address = self.emit.address(ir, base, dtype, offset);
                let x = ir.load(ir.memory_type(dtype), address, dtype.bytes() as u32);
                return Reg::Vector(self.as_register(dtype, x));
            }
            let index = self.vector(&layout, indices.regs[r as usize]);
            let mut x = ir.poison(ir.wide(ir.memory_type(dtype), width));
            for lane in 0..width {
                let at = layout.at(r, lane);
                let place = |a: usize| if a == axis { 0 } else { layout.along(at, a) };
                let fixed = (0..shape.len()).fold(0, |sum, a| sum * shape[a] + place(a));
                let step = shape[axis + 1..].iter().product::<u32>();
                let index = ir.extract(index, lane);
                let offset = ir.binary(I::Mul, index, ir.int_like(index, i64::from(step)));
                let offset = ir.binary(I::Add, offset, ir.int_like(offset, i64::from(fixed)));
                let address = self.emit.address(ir, base, dtype, offset);
                x = ir.insert(x, ir.load(ir.memory_type(dtype), address, dtype.bytes() as u32), lane);
            }
            Reg::Vector(self.as_register(dtype, x))
        });
        debug_assert!(matches!(index_dtype, DType::I32 | DType::I64));
        let regs = regs.collect();
        Tile { regs, layout }
    }

    /// The registers of `x` in layout `from`, which are those of the result in layout `to`.
    fn reinterpret(&mut self, x: Value, from: Layout, to: Layout) -> Tile<'c> {
        let tile = self.tile(x, &from);
        // A ramp counts along an axis of its own layout, which the result need not have.
        let same_steps = lane_steps(&from, self.emit.width()) == lane_steps(&to, self.emit.width());
        let regs = tile.regs.iter().map(|&reg| match reg {
            Reg::Ramp(_) if !same_steps => Reg::new(Form::Vector, self.vector(&from, reg)),
            reg => reg,
        });
        Tile { regs: regs.collect(), layout: to }
    }
}

/// The index in the tile of extents `shape` of the element that a coordinate of `layout` is a copy of.
fn squeeze(layout: &Layout, shape: &[u32], coordinate: u32) -> u32 {
    (0..shape.len()).fold(0, |index, axis| {
        let along = if shape[axis] == 1 { 0 } else { layout.along(coordinate, axis) };
        index * shape[axis] + along
    })
}
