//! Two groups of warps that take turns at multiplying.

use super::lower::Lower;
use crate::tile::{Block, Op, Value};

/// The products of a loop's body between which each group does the rest.
#[derive(Clone, Copy)]
pub(super) struct Turns {
    first: Value,
    second: Value,
}

impl Lower<'_, '_> {
    /// The products of a loop's body where two groups of warps should take turns: two of them, between which there is other
    /// work.  While one group multiplies, for the second product of an iteration and the first of the next, the other does
    /// that work (Shah and others: "FlashAttention-3", 2024, section 3.1).
    pub fn turns(&self, body: Block) -> Option<Turns> {
        let program = self.program;
        let insts = program.blocks[body].insts.iter().map(|&inst| &program.insts[inst]);
        let mut products = insts.filter(|data| matches!(data.op, Op::Dot(_))).map(|data| data.results[0]);
        let (Some(first), Some(second), None) = (products.next(), products.next(), products.next()) else {
            return None;
        };
        let together = |value| self.layouts.product(value).is_some_and(|(_, tiling)| tiling.panels.is_some());
        let two = self.emit.has_turns() && self.spec.warps == 2 * self.spec.group;
        (two && together(first) && together(second)).then_some(Turns { first, second })
    }

    /// Begins the turns of a loop: it is the first group's.
    pub fn begin_turns(&self, turns: Option<Turns>) {
        if turns.is_some() {
            self.emit.begin_turns(self.ir);
            self.emit.take_turn(self.ir);
        }
    }

    /// Takes this group's turn before the product that asks for it.
    pub fn take_turn(&self, product: Value) {
        if self.laid.turns().is_some_and(|turns| turns.second == product) {
            self.emit.take_turn(self.ir);
        }
    }

    /// Passes it once the product is begun behind which the other work comes.
    pub fn pass_turn(&self, product: Value) {
        if self.laid.turns().is_some_and(|turns| turns.first == product) {
            self.emit.pass_turn(self.ir);
        }
    }

    /// Ends the turns of a loop, which ends in one.
    pub fn end_turns(&self, turns: Option<Turns>) {
        if turns.is_some() {
            self.emit.pass_turn(self.ir);
            self.emit.end_turns(self.ir);
        }
    }
}
