//! Rows on floats.  Each is one IEEE operation, rounded once; nothing here may be fused, reassociated or approximated.

use inkwell::FloatPredicate;
use inkwell::values::InstructionOpcode as I;

use super::ir::{Any, Ir};
use crate::dtype::DType;
use crate::op::Pointwise;

pub(super) fn row<'c>(ir: &Ir<'c>, op: Pointwise, dtype: DType, args: &[Any<'c>]) -> Any<'c> {
    let unary = |name| ir.intrinsic(name, &[args[0].get_type()], args);
    match op {
        Pointwise::Add => ir.binary(I::FAdd, args[0], args[1]),
        Pointwise::Sub => ir.binary(I::FSub, args[0], args[1]),
        Pointwise::Mul => ir.binary(I::FMul, args[0], args[1]),
        Pointwise::Div => ir.binary(I::FDiv, args[0], args[1]),
        Pointwise::Fma => unary("llvm.fma"),
        Pointwise::Neg => ir.fneg(args[0]),
        Pointwise::Abs => unary("llvm.fabs"),
        Pointwise::Sqrt => unary("llvm.sqrt"),
        Pointwise::Floor => unary("llvm.floor"),
        Pointwise::Ceil => unary("llvm.ceil"),
        Pointwise::Trunc => unary("llvm.trunc"),
        Pointwise::Round => unary("llvm.roundeven"),
        Pointwise::Min => extremum(ir, dtype, args[0], args[1], FloatPredicate::OLT, I::Or),
        Pointwise::Max => extremum(ir, dtype, args[0], args[1], FloatPredicate::OGT, I::And),
        _ => panic!("bug in the lowering: `{}` on {dtype} should have been expanded", op.row().name),
    }
}

/// Minimum or maximum: a NaN operand is the result, and −0 is below +0.
///
/// Where the operands are equal they are the same number or zeros of either sign, and `or`ing (for the minimum) or
/// `and`ing (for the maximum) their bits takes the right sign and changes nothing else.  Where one is greater, that
/// decides; what is left is NaN, and adding gives a quiet one.
fn extremum<'c>(ir: &Ir<'c>, dtype: DType, x: Any<'c>, y: Any<'c>, better: FloatPredicate, tie: I) -> Any<'c> {
    let float = ir.element(x.get_type());
    let bits = ir.scalar_type(dtype.signed_bits());
    let tied = ir.binary(tie, ir.bitcast(x, bits), ir.bitcast(y, bits));
    let tied = ir.bitcast(tied, float);
    let ordered = ir.select(ir.fcmp(better, x, y), x, y);
    let number = ir.select(ir.fcmp(FloatPredicate::OEQ, x, y), tied, ordered);
    ir.select(ir.fcmp(FloatPredicate::UNO, x, y), ir.binary(I::FAdd, x, y), number)
}
