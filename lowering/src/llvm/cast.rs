//! Conversions of numbers.  Float to integer truncates and saturates, NaN gives 0; integers wrap; anything to bool asks
//! whether it differs from zero.

use inkwell::values::InstructionOpcode as I;
use inkwell::{FloatPredicate, IntPredicate};

use super::emit::Emit;
use super::ir::{Any, Ir};
use crate::dtype::{Class, DType};

pub(super) fn cast<'c>(ir: &Ir<'c>, emit: &dyn Emit<'c>, x: Any<'c>, from: DType, to: DType) -> Any<'c> {
    let element = ir.scalar_type(to);
    match (from.class(), to.class()) {
        (Class::Float, Class::Float) if to == DType::Bf16 => emit.to_bf16(ir, x).unwrap_or_else(|| to_bf16(ir, x)),
        (Class::Float, Class::Bool) => ir.fcmp(FloatPredicate::UNE, x, ir.float_like(x, 0.0)),
        (_, Class::Bool) => ir.icmp(IntPredicate::NE, x, ir.int_like(x, 0)),
        (Class::Float, Class::Float) => {
            let op = if from.bits() < to.bits() { I::FPExt } else { I::FPTrunc };
            ir.convert(op, x, element)
        }
        (Class::Float, _) => saturate(ir, x, to),
        (Class::Signed, Class::Float) => ir.convert(I::SIToFP, x, element),
        (_, Class::Float) => ir.convert(I::UIToFP, x, element),
        (class, _) if from == DType::Bool || from.bits() < to.bits() => {
            ir.convert(if class == Class::Signed { I::SExt } else { I::ZExt }, x, element)
        }
        _ if from.bits() > to.bits() => ir.convert(I::Trunc, x, element),
        _ => x,
    }
}

/// f32 to bf16, to nearest even, on integers: `(bits + 0x7fff + (bits ≫ 16 & 1)) ≫ 16`, where a carry runs into the
/// exponent.
fn to_bf16<'c>(ir: &Ir<'c>, x: Any<'c>) -> Any<'c> {
    let bits = ir.bitcast(x, ir.context.i32_type().into());
    let int = |value| ir.int_like(bits, value);
    let kept = ir.binary(I::LShr, bits, int(16));
    let bias = ir.binary(I::Add, ir.binary(I::And, kept, int(1)), int(0x7fff));
    let rounded = ir.binary(I::LShr, ir.binary(I::Add, bits, bias), int(16));
    let is_nan = ir.fcmp(FloatPredicate::UNO, x, x);
    ir.convert(I::Trunc, ir.select(is_nan, int(0x7fc0), rounded), ir.context.i16_type().into())
}

/// Float to integer.  LLVM's own saturating conversion is taken apart into scalars on processors.
fn saturate<'c>(ir: &Ir<'c>, x: Any<'c>, to: DType) -> Any<'c> {
    let element = ir.scalar_type(to);
    let value_bits = to.bits() - u32::from(to.is_signed());
    // Both are powers of two (or 0), and so exact in any float.
    let above = ir.float_like(x, 2f64.powi(value_bits as i32));
    let low = if to.is_signed() { -(2f64.powi(value_bits as i32)) } else { 0.0 };
    let low = ir.float_like(x, low);
    let (fits_above, fits_below) = (ir.fcmp(FloatPredicate::OLT, x, above), ir.fcmp(FloatPredicate::OGE, x, low));
    let inside = ir.select(ir.binary(I::And, fits_above, fits_below), x, ir.float_like(x, 0.0));
    let op = if to.is_signed() { I::FPToSI } else { I::FPToUI };
    let converted = ir.convert(op, inside, element);
    let (least, most) = if to.is_signed() { (1u64 << value_bits, (1u64 << value_bits) - 1) } else { (0, u64::MAX) };
    let too_great = ir.fcmp(FloatPredicate::OGE, x, above);
    let too_small = ir.fcmp(FloatPredicate::OLT, x, low);
    let converted = ir.select(too_great, ir.int_like(converted, most as i64), converted);
    ir.select(too_small, ir.int_like(converted, least as i64), converted)
}
