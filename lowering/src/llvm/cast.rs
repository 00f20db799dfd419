//! Conversions of numbers.  Float to integer truncates and saturates, NaN gives 0; integers wrap; anything to bool asks
//! whether it differs from zero.

use inkwell::values::InstructionOpcode as I;
use inkwell::{FloatPredicate, IntPredicate};

use super::ir::{Any, Ir};
use crate::dtype::{Class, DType};

pub(super) fn cast<'c>(ir: &Ir<'c>, x: Any<'c>, from: DType, to: DType) -> Any<'c> {
    let element = ir.scalar_type(to);
    match (from.class(), to.class()) {
        (Class::Float, Class::Bool) => ir.fcmp(FloatPredicate::UNE, x, ir.float_like(x, 0.0)),
        (_, Class::Bool) => ir.icmp(IntPredicate::NE, x, ir.int_like(x, 0)),
        (Class::Float, Class::Float) => {
            let op = if from.bits() < to.bits() { I::FPExt } else { I::FPTrunc };
            ir.convert(op, x, element)
        }
        (Class::Float, class) => {
            let name = if class == Class::Signed { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
            ir.intrinsic(name, &[ir.shaped_like(element, x), x.get_type()], &[x])
        }
        (Class::Signed, Class::Float) => ir.convert(I::SIToFP, x, element),
        (_, Class::Float) => ir.convert(I::UIToFP, x, element),
        (class, _) if from == DType::Bool || from.bits() < to.bits() => {
            ir.convert(if class == Class::Signed { I::SExt } else { I::ZExt }, x, element)
        }
        _ if from.bits() > to.bits() => ir.convert(I::Trunc, x, element),
        _ => x,
    }
}
