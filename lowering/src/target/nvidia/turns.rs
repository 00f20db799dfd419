//! Two groups of warps take turns at a barrier each, where the one waits for the other to arrive.
//!
//! Source: PTX ISA, "Parallel Synchronization and Communication Instructions: barrier": of sixteen barriers a block, the first
//! is that of all its threads.

use inkwell::IntPredicate;
use inkwell::values::InstructionOpcode as I;

use super::assembly::assembly;
use super::matrix::GROUP;
use crate::llvm::ir::{Any, Ir};

/// The barrier at which the first group waits; the second's comes behind it.
const FIRST: u32 = 1;

/// Threads of both groups.
const BOTH: u32 = 2 * GROUP * 32;

/// The number of a warp's group.
fn group<'c>(ir: &Ir<'c>, warp: Any<'c>) -> Any<'c> {
    ir.binary(I::LShr, warp, ir.i32(GROUP.ilog2()))
}

/// Waits for this group's turn.
pub(super) fn take<'c>(ir: &Ir<'c>, warp: Any<'c>) {
    let own = ir.binary(I::Add, group(ir, warp), ir.i32(FIRST));
    assembly(ir, &format!("bar.sync $0, {BOTH};"), "r,~{memory}", &[own], 0);
}

/// Says that it is the other group's turn.
pub(super) fn pass<'c>(ir: &Ir<'c>, warp: Any<'c>) {
    let other = ir.binary(I::Sub, ir.i32(FIRST + 1), group(ir, warp));
    assembly(ir, &format!("bar.arrive $0, {BOTH};"), "r,~{memory}", &[other], 0);
}

/// The second group has the first one begin.
pub(super) fn begin<'c>(ir: &Ir<'c>, warp: Any<'c>) {
    let second = ir.icmp(IntPredicate::NE, group(ir, warp), ir.i32(0));
    assembly(ir, &format!("@$0 bar.arrive {FIRST}, {BOTH};"), "b,~{memory}", &[second], 0);
}

/// The first group takes the turn that the second one has passed last.
pub(super) fn end<'c>(ir: &Ir<'c>, warp: Any<'c>) {
    let first = ir.icmp(IntPredicate::EQ, group(ir, warp), ir.i32(0));
    assembly(ir, &format!("@$0 bar.sync {FIRST}, {BOTH};"), "b,~{memory}", &[first], 0);
}
