//! Factors of products that a loop with stages copies to scratch memory some iterations before it multiplies them, where
//! warps multiply together: the way from memory is hidden behind the products before.
//!
//! Scratch memory holds a ring of slots, one for each stage ([`super::ring`]).  At the top of an iteration every thread
//! waits until the iteration's slot is filled.  Once the first product has begun, a slot that nobody reads any longer is
//! filled for the last of the iterations that are under way: that of the iteration before, or where several groups of
//! warps should get on without each other, of the one before that.
//!
//! A sum that a loop only carries from product to product is not waited for in each iteration: the next product begins
//! while the one before is under way.

use std::rc::Rc;

use inkwell::IntPredicate;
use inkwell::values::{InstructionOpcode as I, PointerValue};
use rustc_hash::{FxHashMap, FxHashSet};

use super::boxes::Boxes;
use super::factors::Factor;
use super::ir::{Any, built};
use super::lower::Lower;
use super::ring::{Filled, Ring, Turn};
use super::turns::Turns;
use crate::tile::{Block, Inst, Op, Value};

/// Pieces that a thread copies for an iteration, from which on it pays to keep where each lies in a register of its own.
const MANY: usize = 12;

/// Where the pieces of a factor lie that all move by one distance: for the first register of each, in elements from the
/// start of the buffer, at the first index; and the distance for an index that is one greater.
struct Moving<'c> {
    at: FxHashMap<u32, Any<'c>>,
    by: Any<'c>,
}

/// How a factor comes to its part of a slot.
enum Way<'c> {
    /// As boxes, by an engine that one thread asks.
    Boxes(Boxes),
    /// Piece by piece, each thread its own, from where they were the time before.
    Moving(Moving<'c>),
    /// Piece by piece from places that are computed each time.
    Computed,
}

impl Way<'_> {
    fn is_boxes(&self) -> bool {
        matches!(self, Way::Boxes(_))
    }
}

/// The copies of a loop that is being lowered.
pub(super) struct Copies<'c> {
    factors: Vec<(Factor, Way<'c>)>,
    /// What the body computes to know where they lie, in order.
    places: Vec<Inst>,
    /// The loop's index, and its bounds.
    index: Value,
    low: Any<'c>,
    high: Any<'c>,
    step: Any<'c>,
    ring: Ring<'c>,
    /// How many iterations before its own something is copied.
    ahead: u32,
    /// Whether groups of warps take turns, and when.
    turns: Option<Turns>,
}

/// Copies that an iteration has yet to start.
struct Due<'c> {
    index: Any<'c>,
    turn: Turn<'c>,
    wanted: Any<'c>,
}

/// What lies in scratch memory while a loop is being lowered.
#[derive(Default)]
pub(super) struct Laid<'c> {
    /// Operands of products, and where they begin.
    operands: FxHashMap<Value, PointerValue<'c>>,
    /// Instructions that have nothing to do: the loads of such operands.
    done: FxHashSet<Inst>,
    /// Products that are not waited for where they are computed.
    flying: FxHashSet<Value>,
    /// The innermost loop's copies, and those to start behind the next product.
    due: Option<(Rc<Copies<'c>>, Due<'c>)>,
    /// The slot that is read, and the loop's index.
    read: Option<(Rc<Copies<'c>>, Turn<'c>, Any<'c>)>,
}

impl<'c> Laid<'c> {
    /// Where an operand's panels begin, if it was copied ahead.
    pub fn at(&self, operand: Value) -> Option<PointerValue<'c>> {
        self.operands.get(&operand).copied()
    }

    /// Says where an operand's panels begin.
    pub fn bind(&mut self, operand: Value, at: PointerValue<'c>) {
        self.operands.insert(operand, at);
    }

    /// Says that an operand is in scratch memory no more.
    pub fn unbind(&mut self, operand: Value) {
        self.operands.remove(&operand);
    }

    /// The turns of the loop that is being lowered.
    pub fn turns(&self) -> Option<Turns> {
        self.read.as_ref()?.0.turns
    }

    /// Whether an instruction loads what was copied.
    pub fn has_done(&self, inst: Inst) -> bool {
        self.done.contains(&inst)
    }

    /// Whether a value is a sum that is under way wherever it is.
    pub fn is_flying(&self, value: Value) -> bool {
        self.flying.contains(&value)
    }
}

impl<'c> Lower<'_, 'c> {
    /// Begins the copies of a loop over `low..high`: those of the first iterations are under way behind this.  Nothing where
    /// the loop has no stages, multiplies nothing that can be copied, or has loops or branches inside, which would begin
    /// turns of their own or leave out what is due.
    pub fn begin_copies(
        &mut self,
        body: Block,
        (low, high, step): (Any<'c>, Any<'c>, Any<'c>),
    ) -> Option<Rc<Copies<'c>>> {
        if self.stages < 2 || self.thread().is_none() || !self.is_straight(body) {
            return None;
        }
        let kept = self.reserve(body);
        let copies = self.start_copies(body, (low, high, step));
        // What was loaded ahead of the loop arrives while the first copies are under way.
        self.lay_kept(&kept);
        self.begin_turns(copies.as_ref().and_then(|copies| copies.turns));
        copies
    }

    fn start_copies(&mut self, body: Block, (low, high, step): (Any<'c>, Any<'c>, Any<'c>)) -> Option<Rc<Copies<'c>>> {
        let factors = self.factors(body);
        let size = factors.iter().map(|f| f.lie.size()).sum::<u32>();
        let room = Ring::room(self.spec).saturating_sub(self.kept_bytes());
        let slots = u32::from(self.stages).min(room.checked_div(size)?);
        if slots < 2 {
            return None;
        }
        let flying = if slots > 2 { self.flying(body, &factors) } else { Vec::new() };
        // A group that is ahead of the other has to wait for no slot that this one still reads.
        let turns = self.turns(body).filter(|_| slots > 2 && flying.is_empty());
        let groups = self.spec.warps > self.spec.group;
        let ahead = if slots > 2 && (groups || !flying.is_empty()) { slots - 2 } else { slots - 1 };
        self.laid.flying.extend(flying);
        self.laid.done.extend(factors.iter().flat_map(|f| f.way.iter().copied()));
        let index = self.program.blocks[body].params[0];
        let way = |factor: &Factor| self.boxes(factor).map_or(Way::Computed, Way::Boxes);
        let ways: Vec<Way<'c>> = factors.iter().map(way).collect();
        let mut factors: Vec<(Factor, Way<'c>)> = factors.into_iter().zip(ways).collect();
        let places = self.places(body, &factors);
        let (boxed, others): (Vec<_>, Vec<_>) = factors.iter().partition(|(_, way)| way.is_boxes());
        let filled = Filled { bytes: boxed.iter().map(|(f, _)| f.lie.size()).sum(), by_threads: !others.is_empty() };
        let pieces: usize = others.iter().map(|(f, _)| f.lie.pieces().count()).sum();
        let ring = self.open_ring((slots, size), filled);
        if pieces >= MANY {
            self.at_index((index, &places), low, |lower| {
                for (factor, way) in factors.iter_mut().filter(|(_, way)| !way.is_boxes()) {
                    *way = lower.moving(index, factor).map_or(Way::Computed, Way::Moving);
                }
            });
        }
        let copies = Copies { factors, places, index, low, high, step, ring, ahead, turns };
        let some = self.ir.icmp(IntPredicate::SLT, low, high);
        let mut next = (low, some, self.ir.binary(I::Sub, high, low));
        let mut turn = Turn::first(self.ir);
        for _ in 0..ahead {
            self.copy(&copies, &Due { index: next.0, turn, wanted: next.1 });
            next = self.following(&copies, next);
            turn = turn.after(self.ir, slots, 1);
        }
        Some(Rc::new(copies))
    }

    /// Ends the copies of a loop.
    pub fn end_copies(&mut self, copies: &Copies<'c>) {
        self.end_turns(copies.turns);
        self.close_ring(&copies.ring);
        for operand in copies.factors.iter().flat_map(|(factor, _)| &factor.operands) {
            self.laid.operands.remove(operand);
        }
    }

    /// Begins an iteration: binds its factors, which lie in the slot whose turn it is, and has the copies of the last
    /// iteration that is under way started behind its first product.  Gives the next turn.
    pub fn turn(&mut self, copies: &Rc<Copies<'c>>, turn: Turn<'c>, index: Any<'c>) -> Turn<'c> {
        let ir = self.ir;
        self.await_filled(&copies.ring, turn, copies.ahead);
        for (factor, _) in &copies.factors {
            let at = copies.ring.place(self, turn, factor.before);
            self.laid.operands.extend(factor.operands.iter().map(|&operand| (operand, at)));
        }
        let mut next = (index, ir.bit(true), ir.binary(I::Sub, copies.high, index));
        for _ in 0..copies.ahead {
            next = self.following(copies, next);
        }
        let due = Due { index: next.0, turn: turn.after(ir, copies.ring.slots, copies.ahead), wanted: next.1 };
        self.laid.due = Some((Rc::clone(copies), due));
        self.laid.read = Some((Rc::clone(copies), turn, index));
        turn.after(ir, copies.ring.slots, 1)
    }

    /// The sums of a product that has just begun: complete, unless they only fly by.
    pub fn sums_of(&mut self, result: Value, sums: Vec<Any<'c>>) -> Vec<Any<'c>> {
        if !self.laid.is_flying(result) {
            return self.emit.await_products(self.ir, 0, &sums);
        }
        // The product before this one, if there was one, is complete, and its slot free.
        self.emit.await_products(self.ir, 1, &[]);
        if let Some((copies, turn, index)) = self.laid.read.take() {
            let before = turn.after(self.ir, copies.ring.slots, copies.ring.slots - 1);
            let has = self.ir.icmp(IntPredicate::NE, index, copies.low);
            self.free_slot(&copies.ring, before, has);
        }
        sums
    }

    /// Ends an iteration: what is due is started, and what was read is free.
    pub fn end_turn(&mut self) {
        self.copy_due();
        if let Some((copies, turn, _)) = self.laid.read.take() {
            self.free_slot(&copies.ring, turn, self.ir.bit(true));
        }
    }

    /// Starts the copies that are due.
    pub fn copy_due(&mut self) {
        if let Some((copies, due)) = self.laid.due.take() {
            self.copy(&copies, &due);
        }
    }

    /// The index after an iteration's, whether there is one, and what is left from there on.
    fn following(
        &self,
        copies: &Copies<'c>,
        (index, is, left): (Any<'c>, Any<'c>, Any<'c>),
    ) -> (Any<'c>, Any<'c>, Any<'c>) {
        let ir = self.ir;
        let more = ir.icmp(IntPredicate::UGT, left, copies.step);
        let [index, left] = [(I::Add, index), (I::Sub, left)].map(|(op, x)| ir.binary(op, x, copies.step));
        (index, ir.binary(I::And, is, more), left)
    }

    /// What a body computes to know where factors lie, in order: of one in boxes, scalars.
    fn places(&self, body: Block, factors: &[(Factor, Way<'c>)]) -> Vec<Inst> {
        let program = self.program;
        let is_scalar = |inst: &Inst| program.insts[*inst].results.iter().all(|&result| program.ty(result).is_scalar());
        let wanted = factors.iter().flat_map(|(factor, way)| {
            factor.places.iter().copied().filter(move |inst| !way.is_boxes() || is_scalar(inst))
        });
        let wanted: FxHashSet<Inst> = wanted.collect();
        program.blocks[body].insts.iter().copied().filter(|inst| wanted.contains(inst)).collect()
    }

    /// Does something with what a loop's body computes of `places` at an index.  What the running iteration has computed
    /// stays as it is.
    fn at_index<T>(
        &mut self,
        (param, places): (Value, &[Inst]),
        index: Any<'c>,
        what: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let program = self.program;
        let results = places.iter().flat_map(|&inst| program.insts[inst].results.iter().copied());
        let changed: Vec<Value> = results.chain([param]).collect();
        let own: Vec<_> = changed.iter().map(|value| self.tiles.remove(value)).collect();
        let again = std::mem::take(&mut self.again);
        let index = self.splat(self.layouts[param].clone(), index);
        self.tiles.insert(param, index);
        places.iter().for_each(|&inst| self.walk(inst));
        let got = what(self);
        self.again = again;
        for (value, tile) in changed.into_iter().zip(own) {
            match tile {
                Some(tile) => self.tiles.insert(value, tile),
                None => self.tiles.remove(&value),
            };
        }
        got
    }

    /// Starts a group of copies: the factors of the iteration at an index, if it is wanted.
    fn copy(&mut self, copies: &Copies<'c>, due: &Due<'c>) {
        let (wanted, after) = (self.new_block("wanted"), self.new_block("copied"));
        self.jump_if(due.wanted, wanted, after);
        self.ir.builder.position_at_end(wanted);
        if copies.ring.filled.by_threads {
            self.await_free(&copies.ring, due.turn);
        }
        self.at_index((copies.index, &copies.places), due.index, |lower| {
            if copies.ring.filled.bytes > 0 {
                lower.ask_for_boxes(copies, due);
            }
            for (factor, way) in &copies.factors {
                lower.copy_factor(copies, (factor, way), due);
            }
        });
        self.slot_filled(&copies.ring, due.turn);
        built(self.ir.builder.build_unconditional_branch(after));
        self.ir.builder.position_at_end(after);
        self.emit.group_copies(self.ir);
    }

    /// Has the engine copy the factors that are boxes to their parts of a slot; one thread asks it to.
    fn ask_for_boxes(&mut self, copies: &Copies<'c>, due: &Due<'c>) {
        let Some(thread) = self.thread() else { return };
        let ir = self.ir;
        let first = ir.icmp(IntPredicate::EQ, ir.binary(I::Or, thread.lane, thread.warp), ir.i32(0));
        let (asks, asked) = (self.new_block("asks"), self.new_block("asked"));
        self.jump_if(first, asks, asked);
        ir.builder.position_at_end(asks);
        if !copies.ring.filled.by_threads {
            self.await_free(&copies.ring, due.turn);
        }
        let gate = self.boxes_fill(&copies.ring, due.turn);
        let outer = self.again.len();
        for (factor, way) in &copies.factors {
            if let Way::Boxes(boxes) = way {
                let to = copies.ring.place(self, due.turn, factor.before);
                self.copy_boxes(boxes, to, gate);
            }
        }
        self.again.truncate(outer);
        built(ir.builder.build_unconditional_branch(asked));
        ir.builder.position_at_end(asked);
    }

    /// Starts the copies of a factor's pieces to its part of a slot.
    fn copy_factor(&mut self, copies: &Copies<'c>, (factor, way): (&Factor, &Way<'c>), due: &Due<'c>) {
        let ir = self.ir;
        let data = &self.program.insts[factor.way[0]];
        let Op::Load(param) = data.op else { return };
        let (layout, dtype) = (self.layouts[data.results[0]].clone(), self.ty(data.results[0]).dtype);
        let to = copies.ring.place(self, due.turn, factor.before);
        match way {
            Way::Boxes(_) => {}
            Way::Computed => {
                let mask = self.mask(data.args.get(1), &layout);
                let offsets = self.tile(data.args[0], &layout);
                let place = |first: u32| self.place(param, dtype, offsets.regs[first as usize]);
                self.copy_to_panels(&place, mask.as_ref(), &factor.lie, to);
            }
            Way::Moving(Moving { at, by }) => {
                let mask = self.mask(data.args.get(1), &layout);
                let distance = ir.binary(I::Mul, ir.binary(I::Sub, due.index, copies.low), *by);
                let base = self.emit.address(ir, self.emit.buffer(ir, param), dtype, distance);
                let place = |first: u32| self.emit.address(ir, base, dtype, at[&first]);
                self.copy_to_panels(&place, mask.as_ref(), &factor.lie, to);
            }
        }
    }

    /// How a factor's pieces move with the index, from where they lie at the one that its places were computed for, if that
    /// is by one distance.
    fn moving(&mut self, index: Value, factor: &Factor) -> Option<Moving<'c>> {
        let data = &self.program.insts[factor.way[0]];
        let offsets = data.args[0];
        let by = self.slope(index, &factor.places, offsets)?;
        let layout = self.layouts[data.results[0]].clone();
        let offsets = self.tile(offsets, &layout);
        let at = factor.lie.pieces().map(|first| (first, self.first(offsets.regs[first as usize])));
        Some(Moving { at: at.collect(), by })
    }
}
