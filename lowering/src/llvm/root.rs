//! Square roots of several f32 that cost less than one after the other and have the same bits.
//!
//! With `y` near `1/√x` and `g = ○(x·y)`, `x − g²` is exact and `○(g + (x − g²)·y/2)` is the root correctly rounded, the
//! sequence that GPUs take roots by where `x` is not near the ends of the range.  All are looked at first, so that none
//! waits for the decision about another.

use inkwell::IntPredicate;
use inkwell::values::InstructionOpcode as I;

use super::ir::Any;
use super::lower::Lower;
use super::value::Reg;

/// Bits of 2^−63.
const LEAST: i64 = 64 << 23;

/// Set in `bits − LEAST` unless the sign is positive and the exponent one of the 128 from that of 2^−63 on.
const OUTSIDE: i64 = 3 << 30;

impl<'c> Lower<'_, 'c> {
    /// The square roots of registers with different elements, where the target has an approximation.
    pub(super) fn roots_by_approximation(&self, xs: &[Reg<'c>]) -> Option<Vec<Reg<'c>>> {
        let ir = self.ir;
        self.thread()?;
        let xs: Vec<Any<'c>> = xs.iter().map(|&x| self.first(x)).collect();
        // Asked first: a target without one is left as it was.
        let inverses: Option<Vec<Any<'c>>> = xs.iter().map(|&x| self.emit.approximate_inverse_root(ir, x)).collect();
        let fma = |x: Any<'c>, y: Any<'c>, z: Any<'c>| ir.intrinsic("llvm.fma", &[x.get_type()], &[x, y, z]);
        let root = |(&x, y): (&Any<'c>, Any<'c>)| {
            let g = ir.binary(I::FMul, x, y);
            let half = ir.binary(I::FMul, y, ir.float_like(y, 0.5));
            let rest = fma(ir.fneg(g), g, x);
            fma(rest, half, g)
        };
        let roots: Vec<Any<'c>> = xs.iter().zip(inverses?).map(root).collect();
        let far = xs.iter().fold(ir.i32(0), |far, &x| {
            let bits = ir.bitcast(x, ir.context.i32_type().into());
            ir.binary(I::Or, far, ir.binary(I::Sub, bits, ir.int_like(bits, LEAST)))
        });
        let flag = ir.binary(I::And, far, ir.int_like(far, OUTSIDE));
        let exact = |&x: &Any<'c>| ir.intrinsic("llvm.sqrt", &[x.get_type()], &[x]);
        let roots = self.branch_all(
            ir.icmp(IntPredicate::EQ, flag, ir.int_like(flag, 0)),
            || roots.clone(),
            || xs.iter().map(exact).collect(),
        );
        Some(roots.into_iter().map(Reg::Vector).collect())
    }
}
