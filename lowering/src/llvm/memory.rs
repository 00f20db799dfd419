//! Loads and stores: how the lanes of a register lie in memory decides which instructions reach them.
//!
//! Lanes that hold copies of one element (free bits of the layout) take no part: an access moves the `n` lanes that
//! hold different elements, and the rest of a loaded register is filled by a shuffle.

use inkwell::IntPredicate;
use inkwell::values::{BasicValue, InstructionOpcode, PointerValue};

use super::ir::{Any, built};
use super::lower::Lower;
use super::value::{Reg, Tile, lane_steps};
use crate::dtype::DType;
use crate::layout::Layout;
use crate::tile::{Cache, Param, Value};

/// What one access of one register touches.
struct Access<'c> {
    param: Param,
    dtype: DType,
    /// Lanes that hold different elements: the first `lanes` ones.
    lanes: u32,
    offsets: Reg<'c>,
    /// Whether the offsets count up by one from lane to lane.
    consecutive: bool,
    mask: Option<Reg<'c>>,
    /// What is to become of what is stored.
    cache: Cache,
    /// How many bytes behind what is loaded lies what a later iteration loads; 0 where nothing is asked for ahead.
    ahead: u32,
}

impl<'c> Lower<'_, 'c> {
    /// Operands: offsets \[, mask, other\].
    pub fn load(&mut self, param: Param, args: &[Value], layout: Layout, dtype: DType) -> Tile<'c> {
        let offsets = self.tile(args[0], &layout);
        let mask = self.mask(args.get(1), &layout);
        let other = args.get(2).map(|&other| self.tile(other, &layout)).filter(|_| mask.is_some());
        if let Some(run) = self.run_of_threads(args[0], args.get(1), dtype, &layout) {
            return self.load_runs(param, dtype, run, &offsets, mask.as_ref(), other.as_ref());
        }
        if let (Some(mask), Some(other)) = (&mask, &other)
            && let Some(condition) = mask.same_everywhere()
            && offsets.same_everywhere().is_none()
        {
            return self.load_where(condition, (param, dtype), &offsets, other);
        }
        let ahead = u32::from(self.stages - 1) * layout.shape.iter().product::<u32>() * dtype.bytes() as u32;
        let regs = (0..layout.registers()).map(|r| {
            let mask = mask.as_ref().map(|m| m.regs[r]);
            let access = Access { ahead, ..self.access(param, dtype, &layout, offsets.regs[r], mask) };
            self.load_register(&access, &layout, other.as_ref().map(|o| o.regs[r]))
        });
        Tile { regs: regs.collect(), layout }
    }

    /// All registers, or none: a tile outside of its buffer is not looked at, for processors are slow to find out that
    /// no lane of an access to no memory is wanted.
    fn load_where(
        &self,
        condition: Any<'c>,
        (param, dtype): (Param, DType),
        offsets: &Tile<'c>,
        other: &Tile<'c>,
    ) -> Tile<'c> {
        let layout = &offsets.layout;
        let load = |&offsets: &Reg<'c>| {
            let access = self.access(param, dtype, layout, offsets, None);
            self.vector(layout, self.load_register(&access, layout, None))
        };
        let vectors = self.branch_all(
            condition,
            || offsets.regs.iter().map(load).collect(),
            || other.regs.iter().map(|&reg| self.vector(layout, reg)).collect(),
        );
        Tile { regs: vectors.into_iter().map(Reg::Vector).collect(), layout: layout.clone() }
    }

    /// Operands: offsets, value \[, mask\].
    pub fn store(&mut self, (param, cache): (Param, Cache), args: &[Value]) {
        let layout = self.layouts.written(self.program, args[1], args[0]);
        let dtype = self.ty(args[1]).dtype;
        let offsets = self.tile(args[0], &layout);
        let value = self.tile(args[1], &layout);
        let mask = self.mask(args.get(2), &layout);
        if let Some(run) = self.run_of_threads(args[0], args.get(2), dtype, &layout) {
            let exact = self.before_rounding(args[1], &layout);
            return self.store_runs((param, dtype, run), &offsets, (&value, exact), mask.as_ref());
        }
        for r in 0..layout.registers() {
            let mask = mask.as_ref().map(|m| m.regs[r]);
            let access = Access { cache, ..self.access(param, dtype, &layout, offsets.regs[r], mask) };
            self.store_register(&access, &layout, value.regs[r]);
        }
    }

    /// The mask, unless it is known to hold everywhere.
    pub fn mask(&mut self, mask: Option<&Value>, layout: &Layout) -> Option<Tile<'c>> {
        let &mask = mask?;
        (self.infos[mask].constant != Some(1)).then(|| self.tile(mask, layout))
    }

    fn access(
        &self,
        param: Param,
        dtype: DType,
        layout: &Layout,
        offsets: Reg<'c>,
        mask: Option<Reg<'c>>,
    ) -> Access<'c> {
        let width = self.emit.width();
        let lanes = layout.distinct_lane_bits().map_or(width, |bits| width.min(1 << bits));
        let consecutive = matches!(offsets, Reg::Ramp(_))
            && lane_steps(layout, width).is_some_and(|s| s[..lanes as usize].iter().zip(0..).all(|(&a, b)| a == b));
        Access { param, dtype, lanes, offsets, consecutive, mask, cache: Cache::Keep, ahead: 0 }
    }

    fn load_register(&self, access: &Access<'c>, layout: &Layout, other: Option<Reg<'c>>) -> Reg<'c> {
        let lanes = access.lanes;
        let uniform = |reg: Reg<'c>| lanes == 1 || matches!(reg, Reg::Uniform(_));
        // A thread holds one lane, which says nothing about the others.
        let equal = |reg: Reg<'c>| matches!(reg, Reg::Uniform(_));
        let same = self.thread().is_none()
            || equal(access.offsets) && access.mask.is_none_or(equal) && other.is_none_or(equal);
        if uniform(access.offsets) && access.mask.is_none_or(uniform) {
            let mask = access.mask.map(|m| self.first(m));
            let x = self.as_register(access.dtype, self.load_element(access, self.first(access.offsets), mask));
            return match (mask, other) {
                (Some(mask), Some(other)) if uniform(other) => {
                    self.one(self.ir.select(mask, x, self.first(other)), same)
                }
                (Some(mask), Some(other)) => {
                    let x = self.vector(layout, Reg::Uniform(x));
                    Reg::Vector(self.ir.select(mask, x, self.vector(layout, other)))
                }
                _ => self.one(x, same),
            };
        }
        let mask = access.mask.map(|m| self.lanes_of(layout, m, lanes));
        let other = other.map(|o| self.as_stored(access.dtype, self.lanes_of(layout, o, lanes)));
        let x = if access.consecutive {
            self.load_consecutive(access, mask, other)
        } else {
            self.load_scattered(access, self.lanes_of(layout, access.offsets, lanes), mask, other)
        };
        Reg::Vector(self.replicate(self.as_register(access.dtype, x), lanes))
    }

    /// One element.  Where the mask is false some harmless place is read instead, which is cheaper than a branch.
    fn load_element(&self, access: &Access<'c>, offset: Any<'c>, mask: Option<Any<'c>>) -> Any<'c> {
        let ir = self.ir;
        let mut address = self.address(access, offset);
        if let Some(mask) = mask {
            address = ir.select(mask, address.into(), self.emit.harmless().into()).into_pointer_value();
        }
        let x = ir.load(ir.memory_type(access.dtype), address, access.dtype.bytes() as u32);
        self.emit.tag(ir, x.as_instruction_value(), access.param);
        x
    }

    fn load_scattered(
        &self,
        access: &Access<'c>,
        offsets: Any<'c>,
        mask: Option<Any<'c>>,
        other: Option<Any<'c>>,
    ) -> Any<'c> {
        let (ir, lanes) = (self.ir, access.lanes);
        let ty = ir.wide(ir.memory_type(access.dtype), lanes);
        if self.emit.has_gather(access.dtype) {
            let base = self.emit.buffer(ir, access.param);
            let addresses = self.emit.addresses(ir, base, access.dtype, offsets);
            let mask = mask.unwrap_or_else(|| ir.splat(ir.bit(true), lanes));
            let other = other.unwrap_or_else(|| ir.poison(ty));
            let x = ir.intrinsic("llvm.masked.gather", &[ty, addresses.get_type()], &[addresses, mask, other]);
            self.emit.tag(ir, x.as_instruction_value(), access.param);
            return x;
        }
        let x = (0..lanes).fold(ir.poison(ty), |x, lane| {
            let mask = mask.map(|m| ir.extract(m, lane));
            ir.insert(x, self.load_element(access, ir.extract(offsets, lane), mask), lane)
        });
        match (mask, other) {
            (Some(mask), Some(other)) => ir.select(mask, x, other),
            _ => x,
        }
    }

    fn load_consecutive(&self, access: &Access<'c>, mask: Option<Any<'c>>, other: Option<Any<'c>>) -> Any<'c> {
        let ir = self.ir;
        let base = self.address(access, self.first(access.offsets));
        let ty = ir.wide(ir.memory_type(access.dtype), access.lanes);
        let align = access.dtype.bytes() as u32;
        let plain = || {
            if access.ahead > 0 {
                let ahead = self.emit.address(ir, base, DType::U8, ir.i32(access.ahead));
                self.emit.prefetch(ir, ahead);
            }
            let x = ir.load(ty, base, align);
            self.emit.tag(ir, x.as_instruction_value(), access.param);
            x
        };
        let Some(mask) = mask else { return plain() };
        let masked = || {
            let other = other.unwrap_or_else(|| ir.poison(ty));
            let x = ir.intrinsic("llvm.masked.load", &[ty, base.get_type().into()], &[base.into(), mask, other]);
            self.emit.tag(ir, x.as_instruction_value(), access.param);
            x
        };
        if self.emit.has_masked_access(access.dtype) {
            return masked();
        }
        let full = self.all(mask);
        self.branch(full, plain, masked)
    }

    fn store_register(&self, access: &Access<'c>, layout: &Layout, value: Reg<'c>) {
        let (ir, lanes) = (self.ir, access.lanes);
        let align = access.dtype.bytes() as u32;
        if lanes == 1 {
            let x = self.as_stored(access.dtype, self.first(value));
            let address = self.address(access, self.first(access.offsets));
            return self.store_element(access, address, x, access.mask.map(|m| self.first(m)));
        }
        let value = self.as_stored(access.dtype, self.lanes_of(layout, value, lanes));
        let mask = access.mask.map(|m| self.lanes_of(layout, m, lanes));
        if access.consecutive {
            let base = self.address(access, self.first(access.offsets));
            let plain = || self.emit.tag(ir, Some(ir.store(base, value, align)), access.param);
            let Some(mask) = mask else {
                return if access.cache == Cache::Stream { self.stream(access, base, value) } else { plain() };
            };
            let masked = || {
                let types = [value.get_type(), base.get_type().into()];
                let call = ir.call("llvm.masked.store", &types, &[value, base.into(), mask]);
                self.emit.tag(ir, call.instruction(), access.param);
            };
            if self.emit.has_masked_access(access.dtype) {
                return masked();
            }
            return self.branch_effect(self.all(mask), plain, masked);
        }
        let offsets = self.lanes_of(layout, access.offsets, lanes);
        if self.emit.has_scatter(access.dtype) {
            let base = self.emit.buffer(ir, access.param);
            let addresses = self.emit.addresses(ir, base, access.dtype, offsets);
            let mask = mask.unwrap_or_else(|| ir.splat(ir.bit(true), lanes));
            let types = [value.get_type(), addresses.get_type()];
            let call = ir.call("llvm.masked.scatter", &types, &[value, addresses, mask]);
            self.emit.tag(ir, call.instruction(), access.param);
            return;
        }
        for lane in 0..lanes {
            let address = self.address(access, ir.extract(offsets, lane));
            let mask = mask.map(|m| ir.extract(m, lane));
            self.store_element(access, address, ir.extract(value, lane), mask);
        }
    }

    /// Writes past the caches, where the machine can write there.
    fn stream(&self, access: &Access<'c>, base: PointerValue<'c>, value: Any<'c>) {
        let (ir, bytes) = (self.ir, access.lanes * access.dtype.bytes() as u32);
        let plain = || self.emit.tag(ir, Some(ir.store(base, value, access.dtype.bytes() as u32)), access.param);
        if !self.emit.streams(bytes) {
            return plain();
        }
        let place = built(ir.builder.build_ptr_to_int(base, ir.context.i64_type(), "")).into();
        let odd = ir.binary(InstructionOpcode::And, place, ir.int_like(place, i64::from(bytes) - 1));
        let aligned = ir.icmp(IntPredicate::EQ, odd, ir.int_like(odd, 0));
        self.branch_effect(
            aligned,
            || self.emit.tag(ir, Some(ir.store_streaming(base, value, bytes)), access.param),
            plain,
        );
    }

    fn store_element(&self, access: &Access<'c>, address: PointerValue<'c>, x: Any<'c>, mask: Option<Any<'c>>) {
        let store = || {
            let inst = self.ir.store(address, x, access.dtype.bytes() as u32);
            self.emit.tag(self.ir, Some(inst), access.param);
        };
        match mask {
            None => store(),
            Some(mask) => self.branch_effect(mask, store, || {}),
        }
    }

    fn address(&self, access: &Access<'c>, offset: Any<'c>) -> PointerValue<'c> {
        self.emit.address(self.ir, self.emit.buffer(self.ir, access.param), access.dtype, offset)
    }

    /// The first `lanes` lanes of a register.
    pub fn lanes_of(&self, layout: &Layout, reg: Reg<'c>, lanes: u32) -> Any<'c> {
        match reg {
            Reg::Uniform(x) => self.ir.splat(x, lanes),
            reg => self.ir.shuffle(self.vector(layout, reg), &(0..lanes).collect::<Vec<_>>()),
        }
    }

    /// A register whose lanes repeat the given ones.
    pub fn replicate(&self, x: Any<'c>, lanes: u32) -> Any<'c> {
        self.ir.shuffle(x, &(0..self.emit.width()).map(|lane| lane % lanes).collect::<Vec<_>>())
    }

    /// Elements as they are in registers, from what they are in memory.
    pub fn as_register(&self, dtype: DType, x: Any<'c>) -> Any<'c> {
        if dtype != DType::Bool {
            return x;
        }
        self.ir.icmp(IntPredicate::NE, x, self.ir.int_like(x, 0))
    }

    /// Elements as they are in memory.
    pub fn as_stored(&self, dtype: DType, x: Any<'c>) -> Any<'c> {
        if dtype != DType::Bool {
            return x;
        }
        self.ir.convert(InstructionOpcode::ZExt, x, self.ir.context.i8_type().into())
    }

    /// Whether all elements of an i1 vector hold.
    pub fn all(&self, mask: Any<'c>) -> Any<'c> {
        match mask {
            Any::VectorValue(v) => self.ir.intrinsic("llvm.vector.reduce.and", &[v.get_type().into()], &[mask]),
            bit => bit,
        }
    }

    /// Two ways to one value.
    pub fn branch(
        &self,
        condition: Any<'c>,
        then: impl FnOnce() -> Any<'c>,
        other: impl FnOnce() -> Any<'c>,
    ) -> Any<'c> {
        self.branch_all(condition, || vec![then()], || vec![other()])[0]
    }

    pub fn branch_effect(&self, condition: Any<'c>, then: impl FnOnce(), other: impl FnOnce()) {
        self.branch_blocks(condition, then, other);
    }
}
