//! Read-modify-write of elements in memory, lane by lane, each atomic and none ordered with any other.

use inkwell::AtomicOrdering::Monotonic;
use inkwell::AtomicRMWBinOp as Rmw;
use inkwell::values::{InstructionOpcode, PointerValue};

use super::emit::Thread;
use super::ir::{Any, built};
use super::lower::Lower;
use super::value::{Reg, Tile};
use crate::dtype::DType;
use crate::layout::Layout;
use crate::op::Pointwise;
use crate::tile::{Atomic, Param, Value};

impl<'c> Lower<'_, 'c> {
    /// Operands: offsets, value \[, mask\].  Gives the old elements, 0 where the mask is false.
    pub fn atomic(&mut self, param: Param, op: Atomic, args: &[Value], layout: Layout) -> Tile<'c> {
        let dtype = self.ty(args[1]).dtype;
        let (ir, width) = (self.ir, self.emit.width());
        let offsets = self.tile(args[0], &layout);
        let value = self.tile(args[1], &layout);
        let mask = args.get(2).map(|&m| self.tile(m, &layout));
        let lanes = layout.distinct_lane_bits().map_or(width, |bits| width.min(1 << bits));
        if let Some(thread) = self.thread() {
            return self.atomic_threads(thread, (param, op, dtype), &layout, &offsets, &value, mask.as_ref());
        }
        let regs = (0..layout.registers()).map(|r| {
            let lane = |reg: Reg<'c>, i: u32| match reg {
                Reg::Uniform(x) => x,
                reg => ir.extract(self.vector(&layout, reg), i),
            };
            let mut old = None;
            for i in 0..lanes {
                let offset = lane(offsets.regs[r], i);
                let address = self.emit.address(ir, self.emit.buffer(ir, param), dtype, offset);
                let x = lane(value.regs[r], i);
                let update = || self.update(op, dtype, address, x);
                let element = match &mask {
                    None => update(),
                    Some(mask) => self.branch(lane(mask.regs[r], i), update, || ir.constant(dtype, 0)),
                };
                let sofar = old.unwrap_or_else(|| ir.poison(ir.wide(element.get_type(), lanes)));
                old = Some(if lanes == 1 { element } else { ir.insert(sofar, element, i) });
            }
            match old {
                Some(x) if lanes == 1 => Reg::Uniform(x),
                Some(x) => Reg::Vector(self.replicate(x, lanes)),
                None => panic!("bug in the lowering: a register without lanes"),
            }
        });
        let regs = regs.collect();
        Tile { layout, regs }
    }

    /// Each thread updates its own elements; of the threads that hold copies of one, the first does and tells the
    /// others.
    fn atomic_threads(
        &self,
        thread: Thread<'c>,
        (param, op, dtype): (Param, Atomic, DType),
        layout: &Layout,
        offsets: &Tile<'c>,
        value: &Tile<'c>,
        mask: Option<&Tile<'c>>,
    ) -> Tile<'c> {
        let ir = self.ir;
        let first = self.is_first_copy(thread, layout);
        let regs = (0..layout.registers()).map(|r| {
            let update = || {
                let address = self.emit.address(ir, self.emit.buffer(ir, param), dtype, self.first(offsets.regs[r]));
                self.update(op, dtype, address, self.first(value.regs[r]))
            };
            let mask = mask.map(|m| self.first(m.regs[r]));
            let wanted = match (mask, first) {
                (Some(mask), Some(first)) => Some(ir.binary(InstructionOpcode::And, mask, first)),
                (mask, first) => mask.or(first),
            };
            let old = match wanted {
                None => update(),
                Some(wanted) => self.branch(wanted, update, || ir.constant(dtype, 0)),
            };
            self.one(old, false)
        });
        let mine = Tile { regs: regs.collect(), layout: layout.clone() };
        match first {
            None => mine,
            Some(_) => self.through_scratch(thread, &mine, layout),
        }
    }

    /// Updates one element and gives what it was.
    fn update(&self, op: Atomic, dtype: DType, address: PointerValue<'c>, x: Any<'c>) -> Any<'c> {
        let rmw = match (op, dtype.is_float(), dtype.is_signed()) {
            (Atomic::Exchange, ..) => Some(Rmw::Xchg),
            (Atomic::Or, ..) => Some(Rmw::Or),
            (Atomic::Add, false, _) => Some(Rmw::Add),
            (Atomic::Max, false, true) => Some(Rmw::Max),
            (Atomic::Max, false, false) => Some(Rmw::UMax),
            (Atomic::Min, false, true) => Some(Rmw::Min),
            (Atomic::Min, false, false) => Some(Rmw::UMin),
            _ => None,
        };
        let (float, bits) = (self.ir.scalar_type(dtype), self.ir.scalar_type(dtype.signed_bits()));
        match rmw {
            Some(rmw) => {
                let x = self.ir.bitcast(x, bits).into_int_value();
                let old = built(self.ir.builder.build_atomicrmw(rmw, address, x, Monotonic));
                self.ir.bitcast(old.into(), float)
            }
            None => {
                let row = match op {
                    Atomic::Add => Pointwise::Add,
                    Atomic::Max => Pointwise::Max,
                    _ => Pointwise::Min,
                };
                self.exchange_until(dtype, address, |old| self.row(row, dtype, dtype, &[old, x]))
            }
        }
    }

    /// Replaces an element by a function of it, again and again until nobody else has been there in between.
    fn exchange_until(&self, dtype: DType, address: PointerValue<'c>, f: impl Fn(Any<'c>) -> Any<'c>) -> Any<'c> {
        let (ir, builder) = (self.ir, &self.ir.builder);
        let (float, bits) = (ir.scalar_type(dtype), ir.scalar_type(dtype.signed_bits()));
        let first = ir.load(bits, address, dtype.bytes() as u32);
        let (before, again, after) = (self.here(), self.new_block("again"), self.new_block("exchanged"));
        built(builder.build_unconditional_branch(again));
        builder.position_at_end(again);
        let old = built(builder.build_phi(bits, ""));
        let new = ir.bitcast(f(ir.bitcast(old.as_basic_value(), float)), bits);
        let expected = old.as_basic_value().into_int_value();
        let pair = built(builder.build_cmpxchg(address, expected, new.into_int_value(), Monotonic, Monotonic));
        let seen = built(builder.build_extract_value(pair, 0, ""));
        let won = built(builder.build_extract_value(pair, 1, ""));
        old.add_incoming(&[(&first, before), (&seen, self.here())]);
        self.jump_if(won, after, again);
        builder.position_at_end(after);
        ir.bitcast(old.as_basic_value(), float)
    }
}
