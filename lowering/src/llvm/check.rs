//! How a program reports that something it was promised does not hold.

use inkwell::AtomicOrdering;
use inkwell::values::PointerValue;

use super::ir::{Any, Ir, built};

/// Puts `code` into the word at `status` where `condition` (an i1) is false.  The first code that any program reports
/// is kept.
pub fn report<'c>(ir: &Ir<'c>, status: PointerValue<'c>, condition: Any<'c>, code: u32) {
    let builder = &ir.builder;
    let (fail, after) = match builder.get_insert_block() {
        Some(here) => {
            let after = ir.context.insert_basic_block_after(here, "checked");
            (ir.context.insert_basic_block_after(here, "failed"), after)
        }
        None => panic!("bug in the lowering: the builder has no position"),
    };
    built(builder.build_conditional_branch(condition.into_int_value(), after, fail));
    builder.position_at_end(fail);
    let (none, code) = (ir.i32(0), ir.i32(code));
    let relaxed = AtomicOrdering::Monotonic;
    built(builder.build_cmpxchg(status, none.into_int_value(), code.into_int_value(), relaxed, relaxed));
    built(builder.build_unconditional_branch(after));
    builder.position_at_end(after);
}
