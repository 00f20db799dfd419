//! A ring of slots in scratch memory, which the threads of a program fill and read in turn.
//!
//! Each slot has two gates, where a target has such things: one that opens when every thread's copies into the slot have
//! arrived, and one that opens when every warp has read it.  Then threads wait for what they need and no longer, and groups
//! of warps drift apart until one multiplies while the other does the rest.  Elsewhere all threads meet at every turn.

use inkwell::IntPredicate;
use inkwell::values::{InstructionOpcode as I, PointerValue};

use super::ir::{Any, Ir};
use super::lower::Lower;
use crate::dtype::DType;
use crate::spec::Spec;

/// Bytes of a gate.
const GATE: u32 = 8;

/// Who fills a slot.
#[derive(Clone, Copy)]
pub(super) struct Filled {
    /// Bytes that an engine brings, which one thread asks for.
    pub bytes: u32,
    /// Whether every thread copies something itself.
    pub by_threads: bool,
}

/// A ring while its loop is being lowered.
pub(super) struct Ring<'c> {
    /// Number of slots.
    pub slots: u32,
    pub filled: Filled,
    size: u32,
    base: PointerValue<'c>,
    /// Two for each slot, if there are any: whether it is filled, and whether it is free.
    gates: Option<PointerValue<'c>>,
    held: u32,
}

/// Which slot, and whether the ring has gone round an odd number of times.
#[derive(Clone, Copy)]
pub(super) struct Turn<'c> {
    slot: Any<'c>,
    odd: Any<'c>,
}

impl<'c> Turn<'c> {
    /// The first slot, the first time.
    pub fn first(ir: &Ir<'c>) -> Turn<'c> {
        Turn { slot: ir.i32(0), odd: ir.i32(0) }
    }

    /// The turn as numbers that a loop carries.
    pub fn parts(self) -> [Any<'c>; 2] {
        [self.slot, self.odd]
    }

    /// The turn of these numbers.
    pub fn of([slot, odd]: [Any<'c>; 2]) -> Turn<'c> {
        Turn { slot, odd }
    }

    /// The turn so many after this one, of fewer than there are slots.
    pub fn after(self, ir: &Ir<'c>, slots: u32, count: u32) -> Turn<'c> {
        let next = ir.binary(I::Add, self.slot, ir.i32(count));
        let around = ir.icmp(IntPredicate::UGE, next, ir.i32(slots));
        let slot = ir.select(around, ir.binary(I::Sub, next, ir.i32(slots)), next);
        let odd = ir.select(around, ir.binary(I::Xor, self.odd, ir.i32(1)), self.odd);
        Turn { slot, odd }
    }
}

impl<'c> Ring<'c> {
    /// Bytes of scratch memory that slots may take.
    pub fn room(spec: &Spec) -> u32 {
        // Whatever is asked for begins at a multiple of 1024.
        spec.shared_bytes.saturating_sub(1024)
    }

    /// What lies so many bytes from the start of a slot.
    pub fn place(&self, lower: &Lower<'_, 'c>, turn: Turn<'c>, bytes: u32) -> PointerValue<'c> {
        let ir = lower.ir;
        let offset = ir.binary(I::Mul, turn.slot, ir.i32(self.size));
        lower.emit.address(ir, self.base, DType::U8, ir.binary(I::Add, offset, ir.i32(bytes)))
    }

    /// The gate that opens when a slot is filled, or free, if there is one.
    fn gate(&self, lower: &Lower<'_, 'c>, turn: Turn<'c>, free: bool) -> Option<PointerValue<'c>> {
        let ir = lower.ir;
        let offset = ir.binary(I::Mul, turn.slot, ir.i32(GATE));
        let first = if free { self.slots * GATE } else { 0 };
        Some(lower.emit.address(ir, self.gates?, DType::U8, ir.binary(I::Add, offset, ir.i32(first))))
    }

    /// All gates, and how many pass each.
    fn all_gates(&self, lower: &Lower<'_, 'c>) -> Vec<(PointerValue<'c>, u32)> {
        let (ir, spec) = (lower.ir, lower.spec);
        let turns = (0..self.slots).map(|slot| Turn { slot: ir.i32(slot), odd: ir.i32(0) });
        let both = turns.flat_map(|turn| {
            let threads = if self.filled.by_threads { spec.lanes * spec.warps } else { 0 };
            let passing = [(false, threads + u32::from(self.filled.bytes > 0)), (true, spec.warps)];
            passing.map(|(free, count)| self.gate(lower, turn, free).map(|gate| (gate, count)))
        });
        both.flatten().collect()
    }
}

impl<'c> Lower<'_, 'c> {
    /// A ring of slots of so many bytes.  Groups of warps wait for each other at gates; of one group each thread waits for its
    /// own copies, unless it is an engine that copies.
    pub fn open_ring(&self, (slots, size): (u32, u32), filled: Filled) -> Ring<'c> {
        let ir = self.ir;
        let base = self.emit.scratch(ir, slots * size);
        let wanted = self.spec.warps > self.spec.group || filled.bytes > 0;
        let gates = (wanted && self.emit.has_gates()).then(|| self.emit.scratch(ir, 2 * slots * GATE));
        let ring = Ring { slots, filled, size, base, gates, held: self.emit.hold() };
        // Another instruction's elements may still be read there.
        self.emit.barrier(ir);
        for (gate, count) in ring.all_gates(self) {
            self.emit.make_gate(ir, gate, count);
        }
        if ring.gates.is_some() {
            // An engine sees the gates, and writes where others have written.
            if filled.bytes > 0 {
                self.emit.publish(ir);
            }
            self.emit.barrier(ir);
        }
        ring
    }

    /// Ends a ring: nothing is under way, and its memory is another's.
    pub fn close_ring(&self, ring: &Ring<'c>) {
        let ir = self.ir;
        self.emit.await_copies(ir, 0);
        if ring.gates.is_some() {
            self.emit.barrier(ir);
        }
        for (gate, _) in ring.all_gates(self) {
            self.emit.end_gate(ir, gate);
        }
        self.emit.let_go(ring.held);
    }

    /// Waits until a slot is filled, so many groups of copies having been started since, that one's included.
    pub fn await_filled(&self, ring: &Ring<'c>, turn: Turn<'c>, groups: u32) {
        // What was copied needs no more than that to be seen by products, as compilers for these machines have it.
        match ring.gate(self, turn, false) {
            Some(gate) => self.emit.await_gate(self.ir, gate, turn.odd),
            None => {
                self.emit.await_copies(self.ir, groups - 1);
                self.emit.barrier(self.ir);
            }
        }
    }

    /// Says on one thread that an engine fills a slot; gives the gate that is to hear of it.
    pub fn boxes_fill(&self, ring: &Ring<'c>, turn: Turn<'c>) -> Option<PointerValue<'c>> {
        let gate = ring.gate(self, turn, false)?;
        self.emit.pass_when_arrived(self.ir, gate, ring.filled.bytes);
        Some(gate)
    }

    /// Says that all of this thread's copies into a slot were started.
    pub fn slot_filled(&self, ring: &Ring<'c>, turn: Turn<'c>) {
        if let Some(gate) = ring.gate(self, turn, false).filter(|_| ring.filled.by_threads) {
            self.emit.pass_when_copied(self.ir, gate);
        }
    }

    /// Waits until a slot is free.  At first it is.
    pub fn await_free(&self, ring: &Ring<'c>, turn: Turn<'c>) {
        if let Some(gate) = ring.gate(self, turn, true) {
            let other = self.ir.binary(I::Xor, turn.odd, self.ir.i32(1));
            self.emit.await_gate(self.ir, gate, other);
        }
    }

    /// Says that this warp has read a slot, where that is so.
    pub fn free_slot(&self, ring: &Ring<'c>, turn: Turn<'c>, has: Any<'c>) {
        if let Some(gate) = ring.gate(self, turn, true) {
            self.emit.pass_as_warp(self.ir, gate, has);
        }
    }
}
