//! Expansions for bf16 by an approximation that differs between machines: what is rounded is nowhere so near to a tie that
//! the difference shows.
//!
//! Tried on all numbers, with approximations off by several times what machines promise.

use super::{Expander, Term};

/// What the quotient is lowered by, relative to it: the value nearest to a tie lies 4·10⁻⁸ below it, all others are further
/// away than this and the errors together.
const LOWERED: f64 = 6e-7;

/// Below this the values come too close to the ties that `½ + x/4` is, and a line decides: towards ½, where the curve is.
const NEAR: f64 = 0.07;

/// `1 / (1 + u²)` with `u = e^(−x/2)`, which stays in range where the result is below the normal numbers; the denominator
/// small enough by `2^−64` for every `x`.
pub fn sigmoid(e: &mut dyn Expander, args: &[Term]) -> Term {
    let x = args[0];
    let half = e.float(x, -std::f64::consts::LOG2_E / 2.0);
    let half = e.mul(x, half);
    let u = e.exp2_approx(half);
    let small = e.float(x, 2f64.powi(-64));
    let less = e.mul(u, small);
    let below = e.fma(u, less, small);
    let one = e.float(x, 1.0);
    let quotient = e.div(one, below);
    let lowered = e.float(x, 2f64.powi(-64) * (1.0 - LOWERED));
    let far = e.mul(quotient, lowered);
    let (slope, middle) = (e.float(x, 0.25 * (1.0 - 2f64.powi(-12))), e.float(x, 0.5));
    let line = e.fma(x, slope, middle);
    let (magnitude, limit) = (e.abs(x), e.float(x, NEAR));
    let is_near = e.lt(magnitude, limit);
    e.select(is_near, line, far)
}

#[cfg(test)]
mod tests {
    use crate::dtype::DType;
    use crate::op::{Expander, Pointwise, Term, scalar};

    /// All bf16 numbers at once, powers off by some of their size.
    struct Off {
        values: Vec<(DType, Vec<u64>)>,
        by: f64,
    }

    impl Off {
        fn push(&mut self, dtype: DType, bits: Vec<u64>) -> Term {
            self.values.push((dtype, bits));
            Term(self.values.len() as u32 - 1)
        }
    }

    impl Expander for Off {
        fn row(&mut self, op: Pointwise, args: &[Term]) -> Term {
            let from = self.dtype(args[args.len() - 1]);
            let to = op.row().result(from).unwrap();
            let args: Vec<&[u64]> = args.iter().map(|t| self.values[t.0 as usize].1.as_slice()).collect();
            let bits = scalar::map(op, from, to, &args);
            self.push(to, bits)
        }

        fn convert(&mut self, op: Pointwise, arg: Term, to: DType) -> Term {
            let (from, bits) = &self.values[arg.0 as usize];
            let bits = scalar::map(op, *from, to, &[bits]);
            self.push(to, bits)
        }

        fn constant(&mut self, dtype: DType, bits: u64) -> Term {
            self.push(dtype, vec![bits; 1 << 16])
        }

        fn exp2_approx(&mut self, x: Term) -> Term {
            let off = |&x: &u64| (f64::from(f32::from_bits(x as u32)).exp2() * (1.0 + self.by)) as f32;
            let bits = self.values[x.0 as usize].1.iter().map(|x| off(x).to_bits().into()).collect();
            self.push(DType::F32, bits)
        }

        fn dtype(&self, term: Term) -> DType {
            self.values[term.0 as usize].0
        }
    }

    /// Machines promise 2^−22, which is 0.24 of these.
    #[test]
    fn an_approximation_does_not_show() {
        let all: Vec<u64> = (0..=0xffff).collect();
        let wide: Vec<u64> = all.iter().map(|&x| scalar::cast(DType::Bf16, DType::F32, x)).collect();
        let wanted = scalar::map(Pointwise::Sigmoid, DType::Bf16, DType::Bf16, &[&all]);
        for step in -7..=9 {
            let mut off = Off { values: Vec::new(), by: f64::from(step) * 1e-7 };
            let x = off.push(DType::F32, wide.clone());
            let result = super::sigmoid(&mut off, &[x]);
            for (&got, (&wanted, x)) in off.values[result.0 as usize].1.iter().zip(wanted.iter().zip(&all)) {
                let got = scalar::cast(DType::F32, DType::Bf16, got);
                assert!(scalar::same(DType::Bf16, got, wanted), "{x:#x} by {step}: {got:#x}, not {wanted:#x}");
            }
        }
    }
}
