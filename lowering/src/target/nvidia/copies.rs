//! `cp.async`: sixteen bytes from global to shared memory behind the thread's back.
//!
//! Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async": past the first cache, and zeros for what the
//! source is shorter than sixteen bytes.

use inkwell::values::{InstructionOpcode as I, PointerValue};

use super::group::assembly;
use crate::llvm::ir::{Any, Ir, built};

/// Starts a copy; where it is not `wanted`, zeros are written and nothing is read.
pub(super) fn copy<'c>(ir: &Ir<'c>, to: PointerValue<'c>, from: PointerValue<'c>, wanted: Option<Any<'c>>) {
    let (word, long) = (ir.context.i32_type(), ir.context.i64_type());
    let to: Any<'c> = built(ir.builder.build_ptr_to_int(to, word, "")).into();
    let from: Any<'c> = built(ir.builder.build_ptr_to_int(from, long, "")).into();
    let text = "cp.async.cg.shared.global.L2::128B [$0], [$1], 16";
    match wanted {
        None => assembly(ir, &format!("{text};"), "r,l,~{memory}", &[to, from], 0),
        Some(wanted) => {
            let ignored = ir.binary(I::Xor, wanted, ir.bit(true));
            assembly(ir, &format!("{text}, $2;"), "r,l,b,~{memory}", &[to, from, ignored], 0)
        }
    };
}
