//! Loads and stores of threads that hold neighbours in registers side by side: one wide access moves a run of them.

use inkwell::values::{BasicValue, InstructionOpcode as I, PointerValue};

use super::ir::{Any, built};
use super::lower::Lower;
use super::value::{Reg, Tile};
use crate::dtype::DType;
use crate::layout::Layout;
use crate::op::Pointwise;
use crate::tile::{Op, Param, Value};

impl<'c> Lower<'_, 'c> {
    /// How many registers from an even start are neighbours in memory, aligned so that one access reaches them and wanted
    /// all or not at all; nothing where that is one, or the lanes are no threads.
    pub fn run_of_threads(&self, offsets: Value, mask: Option<&Value>, dtype: DType, layout: &Layout) -> Option<u32> {
        self.thread()?;
        let info = &self.infos[offsets];
        // The axis that the first register bit moves along.
        let first = *layout.register.bases().first()?;
        let axis = (0..layout.shape.len()).find(|&axis| layout.axis_bits(axis).start == first.trailing_zeros())?;
        let start = layout.axis_bits(axis).start;
        let packed =
            layout.register.bases().iter().zip(0..).take_while(|&(&b, i)| b == 1 << (start + i)).count() as u32;
        let packed = packed.min(layout.axis_bits(axis).len() as u32);
        let known = info.axes.get(axis)?;
        let wide = (self.spec.load_bytes / dtype.bytes() as u32).max(1);
        let equal = match mask {
            Some(&mask) if self.infos[mask].constant != Some(1) => self.infos[mask].axes.get(axis)?.constancy,
            _ => u32::MAX,
        };
        let run = (1 << packed).min(known.contiguity).min(wide).min(equal);
        let aligned = known.divisor_at(run).min(u64::from(run)) as u32;
        (aligned > 1).then_some(aligned)
    }

    /// A tile, `run` registers at a time.
    pub fn load_runs(
        &self,
        param: Param,
        dtype: DType,
        run: u32,
        offsets: &Tile<'c>,
        mask: Option<&Tile<'c>>,
        other: Option<&Tile<'c>>,
    ) -> Tile<'c> {
        let ir = self.ir;
        let runs = || (0..offsets.regs.len()).step_by(run as usize);
        // What widens halves of words to f32 takes them as they are; nothing but zeros is selected a word at a time, whatever
        // the elements.
        let halves = if dtype == DType::Bf16 { 2 } else { 1 };
        let zero = other.and_then(Tile::same_everywhere).filter(|&x| is_zero(x)).is_some();
        let bytes = dtype.bytes() as u32 * run;
        let by_words = halves == 2 || mask.is_some() && zero && bytes > 4;
        let words = ir.wide(ir.context.i32_type().into(), bytes.div_ceil(4));
        let elements = ir.wide(ir.memory_type(dtype), run);
        let ty = if by_words { words } else { elements };
        let load = |address: PointerValue<'c>| {
            let x = ir.load(ty, address, bytes);
            self.emit.tag(ir, x.as_instruction_value(), param);
            x
        };
        let place = |r: usize| self.place(param, dtype, offsets.regs[r]);
        let plain = || runs().map(|r| load(place(r))).collect();
        let asked = |mask: &Tile<'c>| {
            let one = |r: usize| {
                let (wanted, harmless) = (self.first(mask.regs[r]), self.emit.harmless().into());
                let x = load(ir.select(wanted, place(r).into(), harmless).into_pointer_value());
                if zero { ir.select(wanted, x, ty.const_zero()) } else { x }
            };
            runs().map(one).collect()
        };
        let loaded: Vec<Any<'c>> = match mask {
            None => plain(),
            // What is loaded is looked at behind the branch, so that nobody waits inside of it.
            Some(mask)
                if runs().len() > 1
                    && let Some(bit) = self.same_in_thread(mask) =>
            {
                self.branch_all(bit, plain, || runs().map(|_| ty.const_zero()).collect())
            }
            Some(mask) => asked(mask),
        };
        let mut regs = Vec::with_capacity(offsets.regs.len());
        for (r, x) in runs().zip(loaded) {
            let x = if halves == 1 && ty != elements { built(ir.builder.build_bit_cast(x, elements, "")) } else { x };
            for i in 0..run {
                let x = ir.extract(x, i / halves);
                let x = match halves {
                    2 => self.half(dtype, self.emit.word(ir, x), i % 2),
                    _ => self.as_register(dtype, x),
                };
                let x = match (mask, other) {
                    (Some(mask), Some(other)) if !zero => {
                        ir.select(self.first(mask.regs[r]), x, self.first(other.regs[r + i as usize]))
                    }
                    _ => x,
                };
                regs.push(Reg::Vector(x));
            }
        }
        Tile { regs, layout: offsets.layout.clone() }
    }

    /// The 16-bit float in the low or the high half of a word, as registers hold it.
    pub fn half(&self, dtype: DType, word: Any<'c>, which: u32) -> Any<'c> {
        let word = if which == 0 { word } else { self.ir.binary(I::LShr, word, self.ir.i32(16)) };
        let half = self.ir.convert(I::Trunc, word, self.ir.context.i16_type().into());
        let ty = self.ir.scalar_type(dtype);
        if half.get_type() == ty { half } else { self.ir.bitcast(half, ty) }
    }

    /// Registers rounded to a type of 16 bits, two to a word, if the target does that at once.
    pub fn rounded_pairs(&self, dtype: DType, exact: &[Reg<'c>]) -> Option<Vec<Any<'c>>> {
        let pair = |pair: &[Reg<'c>]| match *pair {
            [low, high] => self.emit.round_pair(self.ir, dtype, self.first(low), self.first(high)),
            _ => None,
        };
        exact.chunks(2).map(pair).collect()
    }

    /// The f32 numbers that a value is the rounding of, where they are at hand.
    pub fn before_rounding(&self, value: Value, layout: &Layout) -> Option<&Tile<'c>> {
        let data = &self.program.insts[self.layouts.definition(value)?];
        let is_cast = data.op == Op::Map(Pointwise::Cast) && self.ty(data.args[0]).dtype == DType::F32;
        self.tiles.get(data.args.first()?).filter(|tile| is_cast && tile.layout == *layout)
    }

    /// Writes a tile, `run` registers at a time; where the numbers `exact` that it is the rounding of are known, they are
    /// rounded two at once if the target does that.
    pub fn store_runs(
        &self,
        (param, dtype, run): (Param, DType, u32),
        offsets: &Tile<'c>,
        (value, exact): (&Tile<'c>, Option<&Tile<'c>>),
        mask: Option<&Tile<'c>>,
    ) {
        let ir = self.ir;
        let runs = || (0..offsets.regs.len()).step_by(run as usize);
        let store = |r: usize| {
            let pairs = exact.and_then(|exact| self.rounded_pairs(dtype, &exact.regs[r..][..run as usize]));
            let elements =
                || (0..run as usize).map(|i| self.as_stored(dtype, self.first(value.regs[r + i]))).collect::<Vec<_>>();
            let parts = pairs.unwrap_or_else(elements);
            let first = ir.poison(ir.wide(parts[0].get_type(), parts.len() as u32));
            let x = (0..).zip(parts).fold(first, |wide, (i, x)| ir.insert(wide, x, i));
            let inst = ir.store(self.place(param, dtype, offsets.regs[r]), x, dtype.bytes() as u32 * run);
            self.emit.tag(ir, Some(inst), param);
        };
        let plain = || runs().for_each(store);
        let Some(mask) = mask else { return plain() };
        let asked = |r: usize| self.branch_effect(self.first(mask.regs[r]), || store(r), || {});
        match self.same_in_thread(mask).filter(|_| runs().len() > 1) {
            Some(bit) => self.branch_effect(bit, plain, || {}),
            None => runs().for_each(asked),
        }
    }

    /// Whether the runs of a tile are wanted, where one answer holds for all that a thread has.
    fn same_in_thread(&self, mask: &Tile<'c>) -> Option<Any<'c>> {
        let first = self.first(mask.regs[0]);
        mask.regs.iter().all(|&bit| self.first(bit) == first).then_some(first)
    }

    /// Address of a register's element in a buffer.
    pub fn place(&self, param: Param, dtype: DType, offset: Reg<'c>) -> PointerValue<'c> {
        let offset: Any<'c> = self.first(offset);
        self.emit.address(self.ir, self.emit.buffer(self.ir, param), dtype, offset)
    }
}

/// Whether a scalar is known to be 0 and nothing else, −0 included.
fn is_zero(x: Any<'_>) -> bool {
    match x {
        Any::IntValue(x) => x.is_null(),
        Any::FloatValue(x) => x.is_null(),
        _ => false,
    }
}
