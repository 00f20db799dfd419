//! `2^x`, near enough for numbers that are rounded to 16 bits next, where no instruction has it.

use inkwell::values::InstructionOpcode as I;

use super::ir::Any;
use super::lower::Lower;
use super::value::{Form, Reg, Tile};
use crate::dtype::DType;
use crate::layout::Layout;
use crate::op::Pointwise;
use crate::tile::Value;

/// `(2^x − 1) / x` for −½ ≤ x ≤ ½: a minimax polynomial, by which `2^x` is off by 3.6·10⁻⁶ of it at most; the lowest degree
/// first.
const COEFFICIENTS: [f32; 4] = [0.693_113_6, 0.240_207_1, 0.055_976_88, 0.009_782_913];

/// Added to a number below 2²² and taken away again, rounds it to an integer, which is in the low bits in between.
const ROUND: f32 = 12_582_912.0;

/// Bits of an f32 below its exponent.
const MANTISSA: i64 = 23;

impl<'c> Lower<'_, 'c> {
    /// `2^x`, register by register.
    pub fn exp2_approx(&mut self, x: Value, layout: &Layout) -> Tile<'c> {
        let tile = self.tile(x, layout);
        let regs = tile.regs.iter().map(|&reg| self.exp2_of(layout, reg));
        Tile { regs: regs.collect(), layout: layout.clone() }
    }

    /// The powers of one register.
    pub(super) fn exp2_of(&self, layout: &Layout, reg: Reg<'c>) -> Reg<'c> {
        match reg {
            Reg::Uniform(x) => Reg::Uniform(self.exp2(x)),
            reg => Reg::new(Form::Vector, self.exp2(self.vector(layout, reg))),
        }
    }

    fn exp2(&self, x: Any<'c>) -> Any<'c> {
        let ir = self.ir;
        if let Some(power) = self.emit.exp2_approx(ir, x) {
            return power;
        }
        let row = |op: Pointwise, args: &[Any<'c>]| self.row(op, DType::F32, DType::F32, args);
        let number = |value: f32| ir.float_like(x, value.into());
        // From −127 down the power has no exponent left, and is 0; from 128 on it has that of infinity.
        let x = row(Pointwise::Max, &[x, number(-127.0)]);
        let x = row(Pointwise::Min, &[x, number(128.0)]);
        let shifted = ir.binary(I::FAdd, x, number(ROUND));
        let whole = ir.binary(I::FSub, shifted, number(ROUND));
        let rest = ir.binary(I::FSub, x, whole);
        let terms = COEFFICIENTS.into_iter().rev().map(number);
        let sum = terms.reduce(|sum, term| row(Pointwise::Fma, &[sum, rest, term])).unwrap_or(rest);
        let power = row(Pointwise::Fma, &[sum, rest, number(1.0)]);
        // The integer goes where exponents are.
        let word = ir.context.i32_type().into();
        let [power, shifted] = [power, shifted].map(|x| ir.bitcast(x, word));
        let exponent = ir.binary(I::Shl, shifted, ir.int_like(shifted, MANTISSA));
        ir.bitcast(ir.binary(I::Add, power, exponent), ir.context.f32_type().into())
    }
}
