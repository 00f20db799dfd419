//! Addresses of elements, scalar and by vectors of offsets.

use inkwell::types::{AsTypeRef, BasicTypeEnum};
use inkwell::values::{AsValueRef, PointerValue, VectorValue};

use super::ir::{Any, Ir, built};

/// Address of element `offset` of type `element`, counted from `base`.
pub fn element_address<'c>(
    ir: &Ir<'c>,
    element: BasicTypeEnum<'c>,
    base: PointerValue<'c>,
    offset: Any<'c>,
) -> PointerValue<'c> {
    // SAFETY: only emits an instruction.  That it computes an address inside the buffer is what the program promises
    // for every element it accesses, and the result is used for nothing but accesses.
    built(unsafe { ir.builder.build_gep(element, base, &[offset.into_int_value()], "") })
}

/// Addresses of the elements at a vector of offsets.
pub fn element_addresses<'c>(
    ir: &Ir<'c>,
    element: BasicTypeEnum<'c>,
    base: PointerValue<'c>,
    offsets: Any<'c>,
) -> Any<'c> {
    let mut index = offsets.as_value_ref();
    // SAFETY: builder, pointer and index belong to one live context; a vector of indices gives a vector of pointers.
    // No promise about the addresses is made (`LLVMBuildGEP2`, not its `InBounds` sibling): lanes that are masked off
    // may point anywhere.
    unsafe {
        let gep = inkwell::llvm_sys::core::LLVMBuildGEP2(
            ir.builder.as_mut_ptr(),
            element.as_type_ref(),
            base.as_value_ref(),
            &mut index,
            1,
            c"".as_ptr(),
        );
        VectorValue::new(gep).into()
    }
}
