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
        // Nothing but zeros is selected a word at a time, whatever the elements.
        let zero = other.and_then(Tile::same_everywhere).filter(|&x| is_zero(x));
        let mut regs = Vec::with_capacity(offsets.regs.len());
        for r in (0..offsets.regs.len()).step_by(run as usize) {
            let mut address = self.place(param, dtype, offsets.regs[r]);
            let wanted = mask.map(|m| self.first(m.regs[r]));
            if let Some(wanted) = wanted {
                let harmless = self.emit.harmless();
                address = ir.select(wanted, address.into(), harmless.into()).into_pointer_value();
            }
            // What widens halves of words to f32 takes them as they are; nothing but zeros is selected by words too.
            let bytes = dtype.bytes() as u32 * run;
            let halves = if dtype == DType::Bf16 { 2 } else { 1 };
            let words = ir.wide(ir.context.i32_type().into(), bytes.div_ceil(4));
            let elements = ir.wide(ir.memory_type(dtype), run);
            let by_words = zero.filter(|_| bytes > 4).and(wanted);
            let ty = if halves == 2 || by_words.is_some() { words } else { elements };
            let x = ir.load(ty, address, bytes);
            self.emit.tag(ir, x.as_instruction_value(), param);
            let x = by_words.map_or(x, |wanted| ir.select(wanted, x, words.const_zero()));
            let x = if halves == 1 && ty != elements { built(ir.builder.build_bit_cast(x, elements, "")) } else { x };
            for i in 0..run {
                let x = ir.extract(x, i / halves);
                let x = match halves {
                    2 => self.half(dtype, self.emit.word(ir, x), i % 2),
                    _ => self.as_register(dtype, x),
                };
                let x = match (wanted, other) {
                    (Some(wanted), Some(other)) if by_words.is_none() => {
                        ir.select(wanted, x, self.first(other.regs[r + i as usize]))
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
        for r in (0..offsets.regs.len()).step_by(run as usize) {
            let pairs = exact.and_then(|exact| self.rounded_pairs(dtype, &exact.regs[r..][..run as usize]));
            let elements =
                || (0..run as usize).map(|i| self.as_stored(dtype, self.first(value.regs[r + i]))).collect::<Vec<_>>();
            let parts = pairs.unwrap_or_else(elements);
            let first = ir.poison(ir.wide(parts[0].get_type(), parts.len() as u32));
            let x = (0..).zip(parts).fold(first, |wide, (i, x)| ir.insert(wide, x, i));
            let address = self.place(param, dtype, offsets.regs[r]);
            let store = || {
                let inst = ir.store(address, x, dtype.bytes() as u32 * run);
                self.emit.tag(ir, Some(inst), param);
            };
            match mask {
                None => store(),
                Some(mask) => self.branch_effect(self.first(mask.regs[r]), store, || {}),
            }
        }
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
