//! Divisions of tiles of f32 that cost less than a division for each element and have the same bits.
//!
//! By one number: a reciprocal for all, and four operations for each.
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

/// Bits of 2^−31; set in `bits − DIVISOR_LEAST` unless the exponent is one of the 64 from there on, whatever the sign.
const DIVISOR_LEAST: i64 = 96 << 23;
const DIVISOR_OUTSIDE: i64 = 3 << 29;

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

    /// Element by element, from a reciprocal that is off by a unit in the last place at most: `h' = ○(h + (1 − h·y)·h)`,
    /// `q = ○(x·h')`, `○(q + (x − q·y)·h')`, the sequence that GPUs divide by where no operand is near the ends of the
    /// range.  All elements are looked at first, so that none waits for the decision about another.  Where all `x` are 1, `h'`
    /// is the quotient.
    pub(super) fn divide_by_approximation(&self, xs: &[Reg<'c>], ys: &[Reg<'c>]) -> Option<Vec<Reg<'c>>> {
        let ir = self.ir;
        self.thread()?;
        let pairs: Vec<(Any<'c>, Any<'c>)> = xs.iter().zip(ys).map(|(&x, &y)| (self.first(x), self.first(y))).collect();
        let int = ir.context.i32_type().into();
        let fma = |x: Any<'c>, y: Any<'c>, z: Any<'c>| ir.intrinsic("llvm.fma", &[x.get_type()], &[x, y, z]);
        // Asked first: a target without one is left as it was.
        let reciprocals: Option<Vec<Any<'c>>> =
            pairs.iter().map(|&(_, y)| self.emit.approximate_reciprocal(ir, y)).collect();
        let reciprocals = reciprocals?;
        let is_one = |reg: &Reg<'c>| matches!(*reg, Reg::Uniform(x) if x == ir.float_like(x, 1.0));
        let inverse = xs.iter().all(is_one);
        let outside = pairs.iter().map(|&(x, y)| {
            let (x, y) = (ir.bitcast(x, int), ir.bitcast(y, int));
            let zero = ir.int_like(x, 0);
            let far = ir.binary(I::Sub, x, ir.int_like(x, LEAST));
            let far = ir.select(ir.icmp(IntPredicate::EQ, x, zero), zero, far);
            (far, ir.binary(I::Sub, y, ir.int_like(y, DIVISOR_LEAST)))
        });
        let or = |x, y| ir.binary(I::Or, x, y);
        let (x, y) = outside.reduce(|(x, y), (far_x, far_y)| (or(x, far_x), or(y, far_y)))?;
        let (x, y) =
            (ir.binary(I::And, x, ir.int_like(x, OUTSIDE)), ir.binary(I::And, y, ir.int_like(y, DIVISOR_OUTSIDE)));
        let inside = ir.icmp(IntPredicate::EQ, or(x, y), ir.int_like(x, 0));
        let fast = |(&(x, y), &h): (&(Any<'c>, Any<'c>), &Any<'c>)| {
            let minus_y = ir.fneg(y);
            let rest = fma(h, minus_y, ir.float_like(h, 1.0));
            let h = fma(h, rest, h);
            if inverse {
                return h;
            }
            let q = ir.binary(I::FMul, x, h);
            let rest = fma(q, minus_y, x);
            fma(h, rest, q)
        };
        let quotients = self.branch_all(
            inside,
            || pairs.iter().zip(&reciprocals).map(fast).collect(),
            || pairs.iter().map(|&(x, y)| ir.binary(I::FDiv, x, y)).collect(),
        );
        Some(quotients.into_iter().map(Reg::Vector).collect())
    }
}
