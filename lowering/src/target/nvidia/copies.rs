//! `cp.async`: sixteen bytes from global to shared memory behind the thread's back.
//!
//! Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async": past the first cache, and zeros for what the
//! source is shorter than sixteen bytes.

use inkwell::values::PointerValue;

use super::group::assembly;
use crate::llvm::ir::{Any, Ir, built};

/// Bytes of a copy.
const SIZE: u32 = 16;

/// Starts a copy; where it is not `wanted`, zeros are written and nothing is read.
pub(super) fn copy<'c>(ir: &Ir<'c>, to: PointerValue<'c>, from: PointerValue<'c>, wanted: Option<Any<'c>>) {
    let (word, long) = (ir.context.i32_type(), ir.context.i64_type());
    let to: Any<'c> = built(ir.builder.build_ptr_to_int(to, word, "")).into();
    let from: Any<'c> = built(ir.builder.build_ptr_to_int(from, long, "")).into();
    let size = wanted.map_or_else(|| ir.i32(SIZE), |wanted| ir.select(wanted, ir.i32(SIZE), ir.i32(0)));
    let text = "cp.async.cg.shared.global.L2::128B [$0], [$1], 16, $2;";
    assembly(ir, text, "r,l,r,~{memory}", &[to, from, size], 0);
}
