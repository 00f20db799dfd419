//! `cp.async`: sixteen bytes from global to shared memory behind the thread's back; `cp.async.bulk.tensor`, a box of a
//! tensor behind everybody's; and `mbarrier`, the gates that open when such copies have arrived.
//!
//! Sources: PTX ISA, "Data Movement and Conversion Instructions: cp.async" (past the first cache, zeros where the source is
//! ignored), "cp.async.bulk.tensor" and "Parallel Synchronization and Communication Instructions: mbarrier".

use inkwell::values::{InstructionOpcode as I, PointerValue};

use super::assembly::assembly;
use crate::llvm::ir::{Any, Ir, built};

/// Starts a copy; where it is not `wanted`, zeros are written and nothing is read.
pub(super) fn copy<'c>(ir: &Ir<'c>, to: PointerValue<'c>, from: PointerValue<'c>, wanted: Option<Any<'c>>) {
    let to = shared(ir, to);
    let from: Any<'c> = built(ir.builder.build_ptr_to_int(from, ir.context.i64_type(), "")).into();
    let text = "cp.async.cg.shared.global.L2::128B [$0], [$1], 16";
    match wanted {
        None => assembly(ir, &format!("{text};"), "r,l,~{memory}", &[to, from], 0),
        Some(wanted) => {
            let ignored = ir.binary(I::Xor, wanted, ir.bit(true));
            assembly(ir, &format!("{text}, $2;"), "r,l,b,~{memory}", &[to, from, ignored], 0)
        }
    };
}

/// An address in shared memory.
fn shared<'c>(ir: &Ir<'c>, place: PointerValue<'c>) -> Any<'c> {
    built(ir.builder.build_ptr_to_int(place, ir.context.i32_type(), "")).into()
}

/// Makes a gate, on one thread, that opens when so many have passed it.
pub(super) fn make_gate<'c>(ir: &Ir<'c>, first: Any<'c>, gate: PointerValue<'c>, count: u32) {
    let text = "@$2 mbarrier.init.shared::cta.b64 [$0], $1;";
    assembly(ir, text, "r,r,b,~{memory}", &[shared(ir, gate), ir.i32(count), first], 0);
}

/// Ends a gate's life, on one thread.
pub(super) fn end_gate<'c>(ir: &Ir<'c>, first: Any<'c>, gate: PointerValue<'c>) {
    assembly(ir, "@$1 mbarrier.inval.shared::cta.b64 [$0];", "r,b,~{memory}", &[shared(ir, gate), first], 0);
}

/// Waits until a gate has opened for a round of that parity.
pub(super) fn await_gate<'c>(ir: &Ir<'c>, gate: PointerValue<'c>, odd: Any<'c>) {
    let text = "{ .reg .pred open; again: mbarrier.try_wait.parity.shared::cta.b64 open, [$0], $1; @!open bra again; }";
    assembly(ir, text, "r,r,~{memory}", &[shared(ir, gate), odd], 0);
}

/// Passes a gate as soon as the copies that this thread has started are complete.
pub(super) fn pass_when_copied<'c>(ir: &Ir<'c>, gate: PointerValue<'c>) {
    assembly(ir, "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];", "r,~{memory}", &[shared(ir, gate)], 0);
}

/// Passes a gate on one thread of a warp.
pub(super) fn pass<'c>(ir: &Ir<'c>, first: Any<'c>, gate: PointerValue<'c>) {
    let text = "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];";
    assembly(ir, text, "r,b,~{memory}", &[shared(ir, gate), first], 0);
}

/// Starts to copy the box at a place of a tensor; the gate hears of its bytes.
pub(super) fn copy_box<'c>(
    ir: &Ir<'c>,
    map: PointerValue<'c>,
    [x, y, z]: [Any<'c>; 3],
    to: PointerValue<'c>,
    gate: PointerValue<'c>,
) {
    let map: Any<'c> = built(ir.builder.build_ptr_to_int(map, ir.context.i64_type(), "")).into();
    let text = "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes \
                [$0], [$1, {$2, $3, $4}], [$5];";
    assembly(ir, text, "r,l,r,r,r,r,~{memory}", &[shared(ir, to), map, x, y, z, shared(ir, gate)], 0);
}

/// Passes a gate, which then waits for so many bytes more.
pub(super) fn pass_when_arrived<'c>(ir: &Ir<'c>, gate: PointerValue<'c>, bytes: u32) {
    let text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;";
    assembly(ir, text, "r,r,~{memory}", &[shared(ir, gate), ir.i32(bytes)], 0);
}
