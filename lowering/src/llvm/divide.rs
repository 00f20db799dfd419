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

/// Bits of the least divisor, and what is set in `bits − least` unless the exponent is one of those from there on,
/// whatever the sign.
type Divisors = (i64, i64);

/// 2^−31 … 2^33.
const ANY: Divisors = (96 << 23, 3 << 29);

/// 2^−70 … 2^58, which have reciprocals.
const OF_ONE: Divisors = (57 << 23, 1 << 30);

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

    /// Pairs of a dividend and a divisor, from reciprocals that are off by a unit in the last place at most:
    /// `h' = ○(h + (1 − h·y)·h)`, `q = ○(x·h')`, `○(q + (x − q·y)·h')`, the sequence that GPUs divide by where no operand is
    /// near the ends of the range.  All pairs are looked at first, so that none waits for the decision about another, and
    /// zeros among the dividends only where something else is wanted than the usual.  Where all `x` are 1, `h'` is the
    /// quotient.
    pub(super) fn divide_by_approximation(&self, pairs: &[Vec<Reg<'c>>]) -> Option<Vec<Reg<'c>>> {
        let ir = self.ir;
        self.thread()?;
        let is_one = |regs: &Vec<Reg<'c>>| matches!(regs[0], Reg::Uniform(x) if x == ir.float_like(x, 1.0));
        let inverse = pairs.iter().all(is_one);
        let pairs: Vec<[Any<'c>; 2]> = pairs.iter().map(|regs| [0, 1].map(|i| self.first(regs[i]))).collect();
        // Asked first: a target without one is left as it was.
        let reciprocals: Option<Vec<Any<'c>>> =
            pairs.iter().map(|&[_, y]| self.emit.approximate_reciprocal(ir, y)).collect();
        let fma = |x: Any<'c>, y: Any<'c>, z: Any<'c>| ir.intrinsic("llvm.fma", &[x.get_type()], &[x, y, z]);
        let fast = |(&[x, y], h): (&[Any<'c>; 2], Any<'c>)| {
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
        let quotients: Vec<Any<'c>> = pairs.iter().zip(reciprocals?).map(fast).collect();
        let exact = || pairs.iter().map(|&[x, y]| ir.binary(I::FDiv, x, y)).collect();
        let divisors = if inverse { OF_ONE } else { ANY };
        let usual = self.are_divisible(&pairs, divisors, false);
        let quotients = self.branch_all(
            usual,
            || quotients.clone(),
            || self.branch_all(self.are_divisible(&pairs, divisors, true), || quotients.clone(), exact),
        );
        Some(quotients.into_iter().map(Reg::Vector).collect())
    }

    /// Whether all dividends are within 2^−63 … 2^65, or +0 where `zeros` may be, and all divisors within their range.
    fn are_divisible(&self, pairs: &[[Any<'c>; 2]], divisors: Divisors, zeros: bool) -> Any<'c> {
        let ir = self.ir;
        let int = ir.context.i32_type().into();
        let far = pairs.iter().map(|pair| {
            let [x, y] = pair.map(|operand| ir.bitcast(operand, int));
            let zero = ir.int_like(x, 0);
            let far = ir.binary(I::Sub, x, ir.int_like(x, LEAST));
            let far = if zeros { ir.select(ir.icmp(IntPredicate::EQ, x, zero), zero, far) } else { far };
            (far, ir.binary(I::Sub, y, ir.int_like(y, divisors.0)))
        });
        let or = |x, y| ir.binary(I::Or, x, y);
        let none = (ir.i32(0), ir.i32(0));
        let (x, y) = far.fold(none, |(x, y), (far_x, far_y)| (or(x, far_x), or(y, far_y)));
        let flag = or(ir.binary(I::And, x, ir.int_like(x, OUTSIDE)), ir.binary(I::And, y, ir.int_like(y, divisors.1)));
        ir.icmp(IntPredicate::EQ, flag, ir.int_like(flag, 0))
    }
}
