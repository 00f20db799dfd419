//! Divisions that call nothing.
//!
//! A correctly rounded division is a sequence of instructions, and a call where operands are near the ends of the range.
//! The driver's compiler has products of several warps wait for each other, one by one, in functions that call others
//! (its message C7509), whether the call is ever made or not; kernels with such products divide f32 by way of f64.
//!
//! Of two f32, a quotient of 53 bits that is off by less than two units in the last place rounds to the right f32: quotients
//! are no nearer than 2⁻⁴⁹ to the middle between two f32, unless they are exactly there, and what is exact in f64 is found
//! exactly (Figueroa, When is double rounding innocuous?, 1995).  Whole numbers of up to 32 bits are divided by way of an
//! inverse in f64, which may be a million times as far off as this one is.

use inkwell::IntPredicate;
use inkwell::values::{BasicValue, FunctionValue, InstructionOpcode as I, InstructionValue};

use crate::llvm::INVERSE;
use crate::llvm::ir::{Any, Ir};

/// Bits of an f32: all but its sign, infinity, 1.
const MAGNITUDE: i64 = 0x7fff_ffff;
const INFINITE: i64 = 0x7f80_0000;
const ONE: i64 = 0x3f80_0000;

/// Replaces the divisions of f32 in a function, and the inverses of whole numbers in f64.
pub(super) fn leave_out<'c>(ir: &Ir<'c>, function: FunctionValue<'c>) {
    let rough = |y: Any<'c>| ir.intrinsic("llvm.nvvm.rcp.approx.ftz.d", &[], &[y]);
    for block in function.get_basic_blocks() {
        let is_division = |inst: &InstructionValue<'c>| inst.get_opcode() == I::FDiv;
        let divisions: Vec<InstructionValue<'c>> = block.get_instructions().filter(is_division).collect();
        for inst in divisions {
            let operand = |i: u32| inst.get_operand(i).and_then(|operand| operand.value());
            let (Some(x), Some(y)) = (operand(0), operand(1)) else { continue };
            ir.builder.position_before(&inst);
            let quotient = match inst.get_type() == ir.context.f32_type().into() {
                true => divided(ir, x, y, &rough),
                false if is_inverse(&inst) => inverse(ir, y, &rough),
                false => continue,
            };
            if let Some(other) = quotient.as_instruction_value() {
                inst.replace_all_uses_with(&other);
                inst.erase_from_basic_block();
            }
        }
    }
}

/// Whether a quotient is an inverse that only whole numbers are multiplied with.
fn is_inverse(inst: &InstructionValue<'_>) -> bool {
    inst.get_name().is_some_and(|name| name.to_bytes().starts_with(INVERSE.as_bytes()))
}

/// The inverse of an f64 far from the ends of the range, to a unit in the last place, by one that is good for twenty bits.
fn inverse<'c>(ir: &Ir<'c>, y: Any<'c>, reciprocal: &dyn Fn(Any<'c>) -> Any<'c>) -> Any<'c> {
    let fma = |x: Any<'c>, y: Any<'c>, z: Any<'c>| ir.intrinsic("llvm.fma", &[x.get_type()], &[x, y, z]);
    let better = |h: Any<'c>| fma(fma(ir.fneg(y), h, ir.float_like(h, 1.0)), h, h);
    better(better(reciprocal(y)))
}

/// The quotient of two f32, by a reciprocal of an f64 that is good for twenty bits.
fn divided<'c>(ir: &Ir<'c>, x: Any<'c>, y: Any<'c>, reciprocal: &dyn Fn(Any<'c>) -> Any<'c>) -> Any<'c> {
    let (int, single, double) = (ir.context.i32_type(), ir.context.f32_type(), ir.context.f64_type());
    let fma = |x: Any<'c>, y: Any<'c>, z: Any<'c>| ir.intrinsic("llvm.fma", &[double.into()], &[x, y, z]);
    let [wide_x, wide_y] = [x, y].map(|x| ir.convert(I::FPExt, x, double.into()));
    let h = inverse(ir, wide_y, reciprocal);
    let q = ir.binary(I::FMul, wide_x, h);
    let q = fma(fma(ir.fneg(wide_y), q, wide_x), h, q);
    let usual = ir.convert(I::FPTrunc, q, single.into());

    // Zeros, infinities and NaNs: the dividend, with the divisor's sign, times 0, 1 or infinity.
    let [bits_x, bits_y] = [x, y].map(|x| ir.bitcast(x, int.into()));
    let number = |bits: Any<'c>| {
        let size = ir.binary(I::And, bits, ir.int_like(bits, MAGNITUDE));
        let from_least = ir.binary(I::Sub, size, ir.int_like(size, 1));
        (size, ir.icmp(IntPredicate::ULT, from_least, ir.int_like(size, INFINITE - 1)))
    };
    let ((_, x_is_number), (size, y_is_number)) = (number(bits_x), number(bits_y));
    let sign = ir.binary(I::And, bits_y, ir.int_like(bits_y, !MAGNITUDE));
    // Infinity for 0, 0 for infinity; a NaN stays one.
    let inverse = ir.binary(I::Xor, size, ir.int_like(size, INFINITE));
    let is_nan = ir.icmp(IntPredicate::UGT, size, ir.int_like(size, INFINITE));
    let inverse = ir.select(is_nan, size, inverse);
    let factor = ir.select(y_is_number, ir.int_like(size, ONE), inverse);
    let factor = ir.bitcast(ir.binary(I::Or, factor, sign), single.into());
    let special = ir.binary(I::FMul, x, factor);
    ir.select(ir.binary(I::And, x_is_number, y_is_number), usual, special)
}

#[cfg(test)]
mod tests {
    use inkwell::context::Context;

    use super::*;
    use crate::llvm::address::element_address;
    use crate::llvm::ir::built;
    use crate::target::host::{Compiler, Object, load, spec};
    use crate::target::module;
    use crate::tile::Builder;

    /// A kernel of the host's that divides an f32 by another.
    fn divide() -> impl Fn(f32, f32) -> f32 {
        Compiler::initialise();
        let context = Context::create();
        let (program, spec) = (Builder::new("division").finish(), spec());
        let (ir, machine, symbol) = module::begin(&context, &program, &spec).unwrap();
        let pointer = context.ptr_type(Default::default());
        let ty = context.void_type().fn_type(&[pointer.into(); 3], false);
        let function = ir.module.add_function(&symbol, ty, None);
        ir.builder.position_at_end(context.append_basic_block(function, "entry"));
        let slots = function.get_nth_param(0).unwrap().into_pointer_value();
        let single = context.f32_type().into();
        let place = |i: u32| {
            let slot = element_address(&ir, context.i64_type().into(), slots, ir.i32(i));
            ir.load(pointer.into(), slot, 8).into_pointer_value()
        };
        let [x, y] = [0, 1].map(|i| ir.load(single, place(i), 4));
        let rough = |y| {
            let exact = ir.binary(I::FDiv, ir.float_like(y, 1.0), y);
            let bits = ir.bitcast(exact, context.i64_type().into());
            ir.bitcast(ir.binary(I::And, bits, ir.int_like(bits, !0xffff_ffff)), exact.get_type())
        };
        let quotient = divided(&ir, x, y, &rough);
        ir.store(place(2), quotient, 4);
        built(ir.builder.build_return(None));
        let bytes = module::relocatable(&ir, &machine, &program).unwrap();
        let kernel = load(&Object { symbol, bytes }).unwrap();
        move |x, y| {
            let mut result = 0f32;
            let slots = [&raw const x as u64, &raw const y as u64, &raw mut result as u64];
            // SAFETY: the kernel reads two numbers and writes one where the slots say.
            unsafe { kernel.call(&slots, &[0; 7], &Default::default()) };
            result
        }
    }

    #[test]
    fn quotients_are_those_of_the_processor() {
        let divide = divide();
        let same = |x: f32, y: f32| {
            let (got, want) = (divide(x, y), x / y);
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{x:e} / {y:e}: {got:e}, {want:e}"
            );
        };
        let special = [0.0, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), 1.0, 3.0, 7e-42];
        let both = |x: f32| [x, -x];
        let all: Vec<f32> = special.into_iter().flat_map(both).collect();
        all.iter().for_each(|&x| all.iter().for_each(|&y| same(x, y)));
        // Quotients of all sizes, those below the normal range among them.
        let mut bits = 0x1234_5678_9abc_def1u64;
        for _ in 0..300_000 {
            bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let (x, y) = (f32::from_bits((bits >> 32) as u32), f32::from_bits((bits >> 5) as u32));
            same(x, y);
            same(x, f32::from_bits(y.to_bits() & !0x7f80_0000 | x.to_bits() & 0x7f80_0000));
        }
    }
}
