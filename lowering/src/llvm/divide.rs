//! Division of a tile of f32 by one number: a reciprocal for all, and four operations instead of a division each, with
//! the same bits.
//!
//! With `h = ○(1/y)`, `1 − h·y` is exact and `l = ○((1 − h·y)·h)` is what `h` lacks, so that `q = ○(x·h + ○(x·l))` is
//! off by less than a unit in the last place. Then `x − q·y` is exact too, and `○(q + (x − q·y)·h)` is the quotient
//! correctly rounded (Markstein, Computation of elementary functions on the IBM RISC System/6000, 1990, theorem 4).
//! All of this as long as nothing leaves the range of normal numbers: `y` within 2^±40 and positive, each `x` +0 or
//! within 2^−63 … 2^64 and of either sign. A tile where that does not hold is divided as it stands.

use inkwell::IntPredicate;
use inkwell::values::InstructionOpcode as I;

use super::ir::Any;
use super::lower::Lower;
use super::value::Reg;
use crate::layout::Layout;

/// Bits of 2^−63.
const LEAST: i64 = 64 << 23;

/// Set in `bits − LEAST` unless the exponent is one of the 128 from that of 2^−63 on, whatever the sign.
const OUTSIDE: i64 = 1 << 30;

/// Bits of 2^−40 and of 2^40.
const DIVISORS: [i64; 2] = [(127 - 40) << 23, (127 + 40) << 23];

impl<'c> Lower<'_, 'c> {
    /// The registers `xs` divided by the scalar `y`.
    pub(super) fn divide_by_one(&self, layout: &Layout, xs: &[Reg<'c>], y: Any<'c>) -> Vec<Reg<'c>> {
        let ir = self.ir;
        let (int, width) = (ir.context.i32_type().into(), self.emit.width());
        let fma = |x: Any<'c>, y: Any<'c>, z: Any<'c>| ir.intrinsic("llvm.fma", &[x.get_type()], &[x, y, z]);
        let one = ir.float_like(y, 1.0);
        let high = ir.binary(I::FDiv, one, y);
        let low = ir.binary(I::FMul, fma(ir.fneg(high), y, one), high);
        let bits = ir.bitcast(y, int);
        let from_least = ir.binary(I::Sub, bits, ir.int_like(bits, DIVISORS[0]));
        let fits = ir.icmp(IntPredicate::ULE, from_least, ir.int_like(bits, DIVISORS[1] - DIVISORS[0]));

        let xs: Vec<Any<'c>> = xs.iter().map(|&x| self.vector(layout, x)).collect();
        let outside = xs.iter().map(|&x| {
            let bits = ir.bitcast(x, int);
            let zero = ir.int_like(bits, 0);
            let far = ir.binary(I::Sub, bits, ir.int_like(bits, LEAST));
            ir.select(ir.icmp(IntPredicate::EQ, bits, zero), zero, far)
        });
        let Some(outside) = outside.reduce(|x, y| ir.binary(I::Or, x, y)) else { return Vec::new() };
        let flag = ir.binary(I::And, outside, ir.int_like(outside, OUTSIDE));
        let inside = self.all(ir.icmp(IntPredicate::EQ, flag, ir.int_like(flag, 0)));

        let (wide_y, wide_high, wide_low) = (ir.splat(y, width), ir.splat(high, width), ir.splat(low, width));
        let by_reciprocal = |&x: &Any<'c>| {
            let q = fma(x, wide_high, ir.binary(I::FMul, x, wide_low));
            let rest = fma(ir.fneg(q), wide_y, x);
            fma(rest, wide_high, q)
        };
        let quotients = self.branch_all(
            ir.binary(I::And, inside, fits),
            || xs.iter().map(by_reciprocal).collect(),
            || xs.iter().map(|&x| ir.binary(I::FDiv, x, wide_y)).collect(),
        );
        quotients.into_iter().map(Reg::Vector).collect()
    }
}
