//! Lanes that are threads: where a thread stands is known when the program runs, so tables over lanes become arithmetic
//! on the lane's number.
//!
//! All tables that layouts give are affine over XOR, and cost a few operations; any other is put together bit by bit,
//! each bit of all lanes' entries one constant.

use inkwell::IntPredicate;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{InstructionOpcode as I, PointerValue};

use super::emit::Thread;
use super::ir::Any;
use super::lower::Lower;
use super::value::{Reg, Tile};
use crate::dtype::DType;
use crate::layout::{Layout, Linear};

impl<'c> Lower<'_, 'c> {
    /// The running thread's place, where lanes are threads.
    pub fn thread(&self) -> Option<Thread<'c>> {
        self.emit.thread(self.ir)
    }

    /// The coordinate that register `r` of the running thread holds.
    pub fn coordinate(&self, layout: &Layout, thread: Thread<'c>, r: u32) -> Any<'c> {
        let parts = [(thread.lane, &layout.lane), (thread.warp, &layout.warp)];
        let images = parts.into_iter().map(|(x, map)| (self.image(x, map), bits_in(map)));
        let fixed = layout.register.apply(r);
        let whole = images.fold((self.ir.i32(fixed), fixed), |(sum, used), (image, bits)| match image {
            Some(image) => (self.xor(sum, used, image, bits), used | bits),
            None => (sum, used),
        });
        whole.0
    }

    /// The image of an i32 under a linear map; nothing where that is 0 throughout.
    fn image(&self, x: Any<'c>, map: &Linear) -> Option<Any<'c>> {
        let ir = self.ir;
        let bases = map.bases();
        let (mut sum, mut used, mut i) = (None, 0, 0);
        while i < bases.len() {
            let base = bases[i];
            // Bits that move together move at once.
            let together = |&j: &usize| base.is_power_of_two() && u64::from(bases[j]) == u64::from(base) << (j - i);
            let run = 1 + (i + 1..bases.len()).take_while(together).count();
            if base != 0 {
                let field = ir.binary(I::LShr, x, ir.i32(i as u32));
                let field = ir.binary(I::And, field, ir.i32(((1u64 << run) - 1) as u32));
                let field = match base.is_power_of_two() {
                    true => ir.binary(I::Shl, field, ir.i32(base.trailing_zeros())),
                    false => ir.binary(I::Mul, field, ir.i32(base)),
                };
                let bits = bases[i..i + run].iter().fold(0, |bits, b| bits | b);
                sum = Some(sum.map_or(field, |sum| self.xor(sum, used, field, bits)));
                used |= bits;
            }
            i += run;
        }
        sum
    }

    /// `x ⊕ y`, of numbers whose set bits lie in the masks.
    fn xor(&self, x: Any<'c>, in_x: u32, y: Any<'c>, in_y: u32) -> Any<'c> {
        self.ir.binary(if in_x & in_y == 0 { I::Or } else { I::Xor }, x, y)
    }

    /// What lane `from[i]` has, in lane `i`; any element where `from[i]` is none.
    pub fn of_lanes(&self, thread: Thread<'c>, x: Any<'c>, from: &[Option<u32>]) -> Any<'c> {
        let ir = self.ir;
        let known = || from.iter().zip(0u32..).filter_map(|(&f, lane)| f.map(|f| (lane, f)));
        let Some((lane, first)) = known().next() else { return x };
        let flip = lane ^ first;
        if known().all(|(lane, f)| f == lane ^ flip) {
            return if flip == 0 { x } else { self.words(x, |word| self.emit.word_across(ir, word, flip)) };
        }
        let index = self.index_of(thread, from);
        self.words(x, |word| self.emit.word_of_lane(ir, word, index))
    }

    /// The entry of the running lane in a table.
    fn index_of(&self, thread: Thread<'c>, from: &[Option<u32>]) -> Any<'c> {
        let ir = self.ir;
        let known = || from.iter().zip(0u32..).filter_map(|(&f, lane)| f.map(|f| (lane, f)));
        let lanes = from.len() as u32;
        if let Some((lane, first)) = known().next() {
            let step = first.wrapping_sub(lane);
            if known().all(|(lane, f)| f == lane.wrapping_add(step)) {
                return ir.binary(I::Add, thread.lane, ir.i32(step));
            }
        }
        if let (Some(zero), true) = (from[0], from.iter().all(Option::is_some)) {
            let entry = |lane: u32| from[lane as usize].unwrap_or(zero);
            let map = Linear::new((0..lanes.trailing_zeros()).map(|bit| entry(1 << bit) ^ zero));
            if (0..lanes).all(|lane| entry(lane) == map.apply(lane) ^ zero) {
                let image = self.image(thread.lane, &map).unwrap_or_else(|| ir.i32(0));
                return self.xor(image, bits_in(&map), ir.i32(zero), zero);
            }
        }
        let bits = (0..lanes.trailing_zeros()).map(|bit| {
            let set = known().filter(|&(_, f)| f >> bit & 1 == 1).fold(0u64, |set, (lane, _)| set | 1 << lane);
            ir.binary(I::Shl, self.bit_of_lane(thread, set), ir.i32(bit))
        });
        bits.reduce(|x, y| ir.binary(I::Or, x, y)).unwrap_or_else(|| ir.i32(0))
    }

    /// 1 in the lanes of a set, as i32.
    fn bit_of_lane(&self, thread: Thread<'c>, set: u64) -> Any<'c> {
        let ir = self.ir;
        let long = ir.context.i64_type();
        let lane = ir.convert(I::ZExt, thread.lane, long.into());
        let bit = ir.binary(I::LShr, long.const_int(set, false).into(), lane);
        let bit = ir.convert(I::Trunc, bit, ir.context.i32_type().into());
        ir.binary(I::And, bit, ir.i32(1))
    }

    /// Whether the running lane is in a set, as i1.
    pub fn is_lane_in(&self, thread: Thread<'c>, set: u64, lanes: u32) -> Any<'c> {
        if set == u64::MAX >> (64 - lanes) {
            return self.ir.bit(true);
        }
        self.ir.icmp(IntPredicate::NE, self.bit_of_lane(thread, set), self.ir.i32(0))
    }

    /// Whether the running thread is the first of those that hold copies of its elements; nothing where there are no
    /// copies.
    pub fn is_first_copy(&self, thread: Thread<'c>, layout: &Layout) -> Option<Any<'c>> {
        let ir = self.ir;
        let free = |x: Any<'c>, map: &Linear, before: &Linear| {
            let free = before.beside(map).free_bits() >> before.bits();
            (free != 0).then(|| {
                let copies = ir.binary(I::And, x, ir.i32(free));
                ir.icmp(IntPredicate::EQ, copies, ir.i32(0))
            })
        };
        let lane = free(thread.lane, &layout.lane, &Linear::default());
        let warp = free(thread.warp, &layout.warp, &layout.lane);
        match (lane, warp) {
            (Some(x), Some(y)) => Some(ir.binary(I::And, x, y)),
            (x, y) => x.or(y),
        }
    }

    /// A register of one element, the same in every lane or not.
    pub fn one(&self, x: Any<'c>, same: bool) -> Reg<'c> {
        if same { Reg::Uniform(x) } else { Reg::Vector(x) }
    }

    /// Moves a scalar as words of 32 bits.
    pub fn words(&self, x: Any<'c>, f: impl Fn(Any<'c>) -> Any<'c>) -> Any<'c> {
        let ir = self.ir;
        let c = ir.context;
        let (word, ty) = (c.i32_type(), x.get_type());
        let as_int = match ty {
            BasicTypeEnum::FloatType(t) if t == c.f16_type() => ir.bitcast(x, c.i16_type().into()),
            BasicTypeEnum::FloatType(t) if t == c.f32_type() => ir.bitcast(x, word.into()),
            BasicTypeEnum::FloatType(_) => ir.bitcast(x, c.i64_type().into()),
            _ => x,
        };
        let bits = as_int.get_type().into_int_type().get_bit_width();
        let moved = match bits {
            32 => f(as_int),
            64 => {
                let long = c.i64_type().into();
                let high = ir.binary(I::LShr, as_int, ir.int_like(as_int, 32));
                let [low, high] = [as_int, high].map(|half| f(ir.convert(I::Trunc, half, word.into())));
                let high = ir.convert(I::ZExt, high, long);
                let high = ir.binary(I::Shl, high, ir.int_like(high, 32));
                ir.binary(I::Or, high, ir.convert(I::ZExt, low, long))
            }
            _ => ir.convert(I::Trunc, f(ir.convert(I::ZExt, as_int, word.into())), as_int.get_type()),
        };
        if moved.get_type() == ty { moved } else { ir.bitcast(moved, ty) }
    }

    /// Registers that differ in bit `register` exchange what lanes that differ in bit `lane` hold.
    pub fn exchange_threads(&self, thread: Thread<'c>, regs: &[Reg<'c>], register: u32, lane: u32) -> Vec<Reg<'c>> {
        let ir = self.ir;
        let set = ir.binary(I::And, thread.lane, ir.i32(1 << lane));
        let set = ir.icmp(IntPredicate::NE, set, ir.i32(0));
        let mut result = regs.to_vec();
        for r in (0..regs.len()).filter(|r| r >> register & 1 == 0) {
            let pair = r | 1 << register;
            let (x, y) = (self.first(regs[r]), self.first(regs[pair]));
            let sent = ir.select(set, x, y);
            let got = self.words(sent, |word| self.emit.word_across(ir, word, 1 << lane));
            result[r] = Reg::Vector(ir.select(set, got, x));
            result[pair] = Reg::Vector(ir.select(set, y, got));
        }
        result
    }

    /// A register whose lanes come from any lanes of any registers, where `from` says so.
    pub fn pick_threads(&self, thread: Thread<'c>, regs: &[Reg<'c>], from: &[Option<(u32, u32)>]) -> Reg<'c> {
        let mut sources: Vec<u32> = from.iter().flatten().map(|&(r, _)| r).collect();
        sources.sort_unstable();
        sources.dedup();
        let mut whole: Option<Any<'c>> = None;
        for &r in &sources {
            let table: Vec<Option<u32>> =
                from.iter().map(|f| f.filter(|&(source, _)| source == r).map(|(_, lane)| lane)).collect();
            let x = match regs[r as usize] {
                Reg::Uniform(x) => x,
                reg => self.of_lanes(thread, self.first(reg), &table),
            };
            let set = table.iter().zip(0..).filter(|(f, _)| f.is_some()).fold(0u64, |set, (_, lane)| set | 1 << lane);
            let lanes = from.len() as u32;
            whole = Some(whole.map_or(x, |sofar| self.ir.select(self.is_lane_in(thread, set, lanes), x, sofar)));
        }
        match whole {
            Some(x) => Reg::Vector(x),
            None => panic!("bug in the lowering: a register without lanes"),
        }
    }

    /// What the warps with bit `bit` of their number clear, and those with it set, hold of a register: in every warp both,
    /// its own and that of its partner.
    pub fn halves_of_warps(&self, thread: Thread<'c>, layout: &Layout, x: Reg<'c>, bit: u32) -> (Reg<'c>, Reg<'c>) {
        let ir = self.ir;
        let x = self.first(x);
        let dtype = same_bits(x.get_type());
        let (lanes, warps) = (1u32 << layout.lane.bits(), 1u32 << layout.warp.bits());
        let base = self.emit.scratch(ir, dtype.bytes() as u32 * lanes * warps);
        let place = |warp: Any<'c>| {
            let before = ir.binary(I::Mul, warp, ir.i32(lanes));
            self.emit.address(ir, base, dtype, ir.binary(I::Or, before, thread.lane))
        };
        self.emit.barrier(ir);
        ir.store(place(thread.warp), self.as_stored(dtype, x), dtype.bytes() as u32);
        self.emit.barrier(ir);
        let partner = ir.binary(I::Xor, thread.warp, ir.i32(1 << bit));
        let other = ir.load(ir.memory_type(dtype), place(partner), dtype.bytes() as u32);
        let other = self.as_register(dtype, other);
        let set = ir.binary(I::And, thread.warp, ir.i32(1 << bit));
        let set = ir.icmp(IntPredicate::NE, set, ir.i32(0));
        (Reg::Vector(ir.select(set, other, x)), Reg::Vector(ir.select(set, x, other)))
    }

    /// Where a register's element lies in scratch memory, rows being `gap` elements apart from each other.
    pub(super) fn in_scratch(&self, layout: &Layout, thread: Thread<'c>, r: u32, gap: u32) -> Any<'c> {
        let ir = self.ir;
        let columns = layout.shape.last().map_or(0, |n| n.trailing_zeros());
        let fixed = layout.register.apply(r);
        let varied = bits_in(&layout.lane) | bits_in(&layout.warp);
        let spread = |at: Any<'c>| {
            let row = ir.binary(I::LShr, at, ir.i32(columns));
            ir.binary(I::Add, at, ir.binary(I::Mul, row, ir.i32(gap)))
        };
        if fixed & varied != 0 {
            return spread(self.coordinate(layout, thread, r));
        }
        // The thread's part once, the register's part a constant.
        let start = spread(self.coordinate(layout, thread, 0));
        ir.binary(I::Add, start, ir.i32(fixed + (fixed >> columns) * gap))
    }

    /// Writes a tile to scratch memory in row-major order, rows being `gap` elements apart from each other; all threads of
    /// the program see it.
    pub fn share(
        &self,
        thread: Thread<'c>,
        tile: &Tile<'c>,
        gap: u32,
        dtype: DType,
        convert: &dyn Fn(&Self, Any<'c>) -> Any<'c>,
    ) -> PointerValue<'c> {
        let ir = self.ir;
        let rows: u32 = tile.layout.shape.iter().rev().skip(1).product();
        let elements = tile.layout.shape.iter().product::<u32>() + rows * gap;
        self.handed_over(thread, &tile.layout, dtype.bytes() as u32 * elements, |base| {
            for (r, &reg) in tile.regs.iter().enumerate() {
                let x = self.as_stored(dtype, convert(self, self.first(reg)));
                let at = self.in_scratch(&tile.layout, thread, r as u32, gap);
                ir.store(self.emit.address(ir, base, dtype, at), x, dtype.bytes() as u32);
            }
        })
    }

    /// Scratch memory that `write` fills with a tile of that layout, once for each of its elements; all threads of the
    /// program see it.
    pub(super) fn handed_over(
        &self,
        thread: Thread<'c>,
        layout: &Layout,
        bytes: u32,
        write: impl FnOnce(PointerValue<'c>),
    ) -> PointerValue<'c> {
        let base = self.emit.scratch(self.ir, bytes);
        // Another instruction's elements may still be read there.
        self.emit.barrier(self.ir);
        self.on_first_copies(thread, layout, || write(base));
        self.emit.barrier(self.ir);
        base
    }

    /// Does something on the threads that are the first to hold their elements.
    pub(super) fn on_first_copies(&self, thread: Thread<'c>, layout: &Layout, what: impl FnOnce()) {
        match self.is_first_copy(thread, layout) {
            None => what(),
            Some(first) => self.branch_effect(first, what, || {}),
        }
    }
}

/// A type whose elements are held like these.
pub(super) fn same_bits(ty: BasicTypeEnum) -> DType {
    match ty {
        BasicTypeEnum::IntType(t) => match t.get_bit_width() {
            1 => DType::Bool,
            8 => DType::U8,
            16 => DType::U16,
            32 => DType::U32,
            _ => DType::U64,
        },
        BasicTypeEnum::FloatType(t) if t == t.get_context().f16_type() => DType::F16,
        BasicTypeEnum::FloatType(t) if t == t.get_context().f32_type() => DType::F32,
        _ => DType::F64,
    }
}

/// Bits that images of a map may have.
pub(super) fn bits_in(map: &Linear) -> u32 {
    map.bases().iter().fold(0, |bits, b| bits | b)
}
