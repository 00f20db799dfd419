//! Instructions that LLVM has no intrinsics for.

use inkwell::attributes::{Attribute, AttributeLoc};

use crate::llvm::ir::{Any, Ir, built};

/// Assembly for all threads of a warp at once, with so many results of f32.
pub(super) fn assembly<'c>(ir: &Ir<'c>, text: &str, constraints: &str, args: &[Any<'c>], results: u32) -> Vec<Any<'c>> {
    let types: Vec<_> = args.iter().map(|arg| arg.get_type().into()).collect();
    let ty = match results {
        0 => ir.context.void_type().fn_type(&types, false),
        _ => {
            let fields = vec![ir.context.f32_type().into(); results as usize];
            ir.context.struct_type(&fields, false).fn_type(&types, false)
        }
    };
    let asm = ir.context.create_inline_asm(ty, text.into(), constraints.into(), true, false, None, false);
    let args: Vec<_> = args.iter().map(|&arg| arg.into()).collect();
    let call = built(ir.builder.build_indirect_call(ty, asm, &args, ""));
    let convergent = Attribute::get_named_enum_kind_id("convergent");
    call.add_attribute(AttributeLoc::Function, ir.context.create_enum_attribute(convergent, 0));
    let Some(whole) = call.try_as_basic_value().basic() else { return Vec::new() };
    let whole = whole.into_struct_value();
    (0..results).map(|i| built(ir.builder.build_extract_value(whole, i, ""))).collect()
}

/// An instruction without effects that gives a word.
pub(super) fn pure_assembly<'c>(ir: &Ir<'c>, text: &str, constraints: &str, args: &[Any<'c>]) -> Any<'c> {
    let int = ir.context.i32_type();
    let types: Vec<_> = args.iter().map(|arg| arg.get_type().into()).collect();
    let ty = int.fn_type(&types, false);
    let asm = ir.context.create_inline_asm(ty, text.into(), constraints.into(), false, false, None, false);
    let args: Vec<_> = args.iter().map(|&arg| arg.into()).collect();
    let call = built(ir.builder.build_indirect_call(ty, asm, &args, ""));
    call.try_as_basic_value().basic().expect("a word")
}
