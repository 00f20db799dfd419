//! Rows on integers and booleans.  Arithmetic wraps, and nothing traps.

use inkwell::IntPredicate;
use inkwell::values::InstructionOpcode as I;

use super::ir::{Any, Ir};
use crate::dtype::DType;
use crate::op::Pointwise;

pub(super) fn row<'c>(ir: &Ir<'c>, op: Pointwise, dtype: DType, args: &[Any<'c>]) -> Any<'c> {
    let x = args[0];
    let signed = dtype.is_signed();
    let extremum = |signed_name, unsigned_name| {
        ir.intrinsic(if signed { signed_name } else { unsigned_name }, &[x.get_type()], args)
    };
    match op {
        Pointwise::Add => ir.binary(I::Add, x, args[1]),
        Pointwise::Sub => ir.binary(I::Sub, x, args[1]),
        Pointwise::Mul => ir.binary(I::Mul, x, args[1]),
        Pointwise::Div => divide(ir, dtype, x, args[1]),
        Pointwise::Neg => ir.binary(I::Sub, ir.int_like(x, 0), x),
        Pointwise::Abs if signed => {
            ir.select(ir.icmp(IntPredicate::SLT, x, ir.int_like(x, 0)), ir.binary(I::Sub, ir.int_like(x, 0), x), x)
        }
        Pointwise::Abs => x,
        Pointwise::Min => extremum("llvm.smin", "llvm.umin"),
        Pointwise::Max => extremum("llvm.smax", "llvm.umax"),
        Pointwise::And => ir.binary(I::And, x, args[1]),
        Pointwise::Or => ir.binary(I::Or, x, args[1]),
        Pointwise::Xor => ir.binary(I::Xor, x, args[1]),
        Pointwise::Not => ir.not(x),
        Pointwise::Shl => ir.binary(I::Shl, x, count(ir, dtype, args[1])),
        Pointwise::Shr => ir.binary(if signed { I::AShr } else { I::LShr }, x, count(ir, dtype, args[1])),
        Pointwise::MulHi => mul_high(ir, dtype, x, args[1]),
        _ => panic!("bug in the lowering: `{}` on {dtype} should have been expanded", op.row().name),
    }
}

/// Shift counts are taken modulo the width.
fn count<'c>(ir: &Ir<'c>, dtype: DType, count: Any<'c>) -> Any<'c> {
    ir.binary(I::And, count, ir.int_like(count, i64::from(dtype.bits() - 1)))
}

/// The high half of the product: computed at twice the width.
fn mul_high<'c>(ir: &Ir<'c>, dtype: DType, x: Any<'c>, y: Any<'c>) -> Any<'c> {
    let narrow = ir.element(x.get_type());
    let wide = match dtype.bits() {
        8 => ir.context.i16_type(),
        16 => ir.context.i32_type(),
        32 => ir.context.i64_type(),
        _ => ir.context.i128_type(),
    };
    let extend = if dtype.is_signed() { I::SExt } else { I::ZExt };
    let (x, y) = (ir.convert(extend, x, wide.into()), ir.convert(extend, y, wide.into()));
    let product = ir.binary(I::Mul, x, y);
    let high = ir.binary(I::LShr, product, ir.int_like(product, i64::from(dtype.bits())));
    ir.convert(I::Trunc, high, narrow)
}

/// The quotient, rounded towards zero; by zero 0, and the least number by −1 is itself.
fn divide<'c>(ir: &Ir<'c>, dtype: DType, x: Any<'c>, y: Any<'c>) -> Any<'c> {
    let none = ir.int_like(x, 0);
    let zero = ir.icmp(IntPredicate::EQ, y, none);
    let one = ir.int_like(y, 1);
    if !dtype.is_signed() {
        let quotient = quotient(ir, dtype, x, ir.select(zero, one, y));
        return ir.select(zero, none, quotient);
    }
    let minus = ir.icmp(IntPredicate::EQ, y, ir.int_like(y, -1));
    let quotient = quotient(ir, dtype, x, ir.select(ir.binary(I::Or, zero, minus), one, y));
    let quotient = ir.select(minus, ir.binary(I::Sub, none, x), quotient);
    ir.select(zero, none, quotient)
}

/// The quotient where it exists and fits.
///
/// No processor divides vectors of integers, but all divide vectors of doubles, and these hold integers of up to 32 bits
/// exactly.  Truncating the rounded quotient is right: one that is not an integer is at least 1/|y| away from the
/// nearest, and rounding moves it by at most 2⁻⁵³·|x/y| ≤ 2⁻²¹/|y|.  Division by a constant is best left to LLVM.
fn quotient<'c>(ir: &Ir<'c>, dtype: DType, x: Any<'c>, y: Any<'c>) -> Any<'c> {
    let signed = dtype.is_signed();
    let constant = matches!(y, Any::VectorValue(v) if v.is_const());
    if ir.width(x) == 1 || dtype.bits() > 32 || constant {
        return ir.binary(if signed { I::SDiv } else { I::UDiv }, x, y);
    }
    let double = ir.context.f64_type().into();
    let (there, back) = doubles(signed);
    let quotient = ir.binary(I::FDiv, ir.convert(there, x, double), ir.convert(there, y, double));
    ir.convert(back, quotient, ir.element(x.get_type()))
}

/// Conversions to doubles and back.
fn doubles(signed: bool) -> (I, I) {
    if signed { (I::SIToFP, I::FPToSI) } else { (I::UIToFP, I::FPToUI) }
}

/// The name of inverses that whole numbers are multiplied with, a unit in the last place of which does not matter.
pub(crate) const INVERSE: &str = "inverse";

/// A vector by a scalar: one reciprocal, and a multiplication per element.  `None` where this would not be exact, or
/// LLVM has a better way.
///
/// With x = q·y + r and |r| < |y|, of the sign of x, the number (x ± ½)/y, ½ taken with the sign of x, lies at least
/// ½/|y| away from any integer and truncates to q.  Two roundings move it by at most 2⁻⁵²·|x + ½|/|y| < 2⁻¹⁹/|y|.
pub(super) fn divide_by_scalar<'c>(ir: &Ir<'c>, dtype: DType, x: Any<'c>, y: Any<'c>) -> Option<Any<'c>> {
    if dtype.bits() > 32 || y.into_int_value().is_const() {
        return None;
    }
    let (signed, width) = (dtype.is_signed(), ir.width(x));
    let zero = ir.icmp(IntPredicate::EQ, y, ir.int_like(y, 0));
    let safe = ir.select(zero, ir.int_like(y, 1), y);
    let double = ir.context.f64_type().into();
    let (there, back) = doubles(signed);
    let divisor = ir.convert(there, safe, double);
    let inverse = ir.binary(I::FDiv, ir.float_like(divisor, 1.0), divisor);
    inverse.set_name(INVERSE);
    let reciprocal = ir.splat(inverse, width);
    let number = ir.convert(there, x, double);
    let half = ir.float_like(number, 0.5);
    let half = if signed { ir.intrinsic("llvm.copysign", &[half.get_type()], &[half, number]) } else { half };
    let scaled = ir.binary(I::FMul, ir.binary(I::FAdd, number, half), reciprocal);
    let none = ir.int_like(x, 0);
    let quotient = if signed {
        // MIN / −1 does not fit: anything there, and the right answer put in its place.
        let minus = ir.splat(ir.icmp(IntPredicate::EQ, y, ir.int_like(y, -1)), width);
        let scaled = ir.select(minus, ir.float_like(scaled, 0.0), scaled);
        let quotient = ir.convert(back, scaled, ir.element(x.get_type()));
        ir.select(minus, ir.binary(I::Sub, none, x), quotient)
    } else {
        ir.convert(back, scaled, ir.element(x.get_type()))
    };
    Some(ir.select(ir.splat(zero, width), none, quotient))
}
