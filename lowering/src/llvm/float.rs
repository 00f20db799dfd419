//! Rows on floats.  Each is one IEEE operation, rounded once; nothing here may be fused, reassociated or approximated.

use inkwell::values::InstructionOpcode as I;

use super::ir::{Any, Ir};
use crate::dtype::DType;
use crate::op::Pointwise;

pub(super) fn row<'c>(ir: &Ir<'c>, op: Pointwise, dtype: DType, args: &[Any<'c>]) -> Any<'c> {
    let intrinsic = |name| ir.intrinsic(name, &[args[0].get_type()], args);
    match op {
        Pointwise::Add => ir.binary(I::FAdd, args[0], args[1]),
        Pointwise::Sub => ir.binary(I::FSub, args[0], args[1]),
        Pointwise::Mul => ir.binary(I::FMul, args[0], args[1]),
        Pointwise::Div => ir.binary(I::FDiv, args[0], args[1]),
        Pointwise::Fma => intrinsic("llvm.fma"),
        Pointwise::Neg => ir.fneg(args[0]),
        Pointwise::Abs => intrinsic("llvm.fabs"),
        Pointwise::Sqrt => intrinsic("llvm.sqrt"),
        Pointwise::Floor => intrinsic("llvm.floor"),
        Pointwise::Ceil => intrinsic("llvm.ceil"),
        Pointwise::Trunc => intrinsic("llvm.trunc"),
        Pointwise::Round => intrinsic("llvm.roundeven"),
        // A NaN operand is the result, and −0 is below +0.
        Pointwise::Min => intrinsic("llvm.minimum"),
        Pointwise::Max => intrinsic("llvm.maximum"),
        _ => panic!("bug in the lowering: `{}` on {dtype} should have been expanded", op.row().name),
    }
}
