//! Expansions for f16 and bf16: in f32, with no more digits than the one rounding after them leaves.
//!
//! Tried on all numbers; what differs from the expansion for f32 is near a tie, and within the bound of the row.

use super::bits::{copy_sign, format};
use super::exponential::two_to;
use super::{Expander, Term};

/// `(e^r − 1 − r) / r²` on ±ln 2 / 2, relative error of `e^r` 2^−23.1: a least-squares fit with weights that even the
/// error out.
const EXP: &[f64] = &[0.00831243023, 0.0418909863, 0.166671187, 0.499992251];

/// From where on `erf` rounds to 1, and `erf x / x` in `x²` below it, for f16, relative error 2^−23.3, and for bf16, 2^−21.5:
/// one polynomial each where f32 takes two, of Chebyshev terms whose weights were changed until the error was even (Lawson,
/// "Contributions to the theory of linear least maximum approximations", 1961).
const ERF_F16: (f64, &[f64]) = (
    2.65,
    &[
        7.397792e-10,
        -3.5072127e-08,
        7.729369e-07,
        -1.0694853e-05,
        0.00010632309,
        -0.00082257664,
        0.005176838,
        -0.02682489,
        0.11281891,
        -0.3761229,
        std::f64::consts::FRAC_2_SQRT_PI,
    ],
);
const ERF_BF16: (f64, &[f64]) = (
    2.2,
    &[
        2.1159347e-07,
        -6.186042e-06,
        8.554753e-05,
        -0.00076504913,
        0.005081372,
        -0.02673438,
        0.11277515,
        -0.37611455,
        1.1283787,
    ],
);

/// `erf x` for f16.
///
/// Measured: 0.5002 ulp.
pub fn erf_f16(e: &mut dyn Expander, args: &[Term]) -> Term {
    erf(e, args[0], ERF_F16)
}

/// `erf x` for bf16.
///
/// Measured: 0.5 ulp.
pub fn erf_bf16(e: &mut dyn Expander, args: &[Term]) -> Term {
    erf(e, args[0], ERF_BF16)
}

fn erf(e: &mut dyn Expander, x: Term, (limit, coefficients): (f64, &[f64])) -> Term {
    let magnitude = e.abs(x);
    let bounded = e.at_most(magnitude, limit);
    let square = e.mul(bounded, bounded);
    let ratio = e.horner(square, coefficients);
    let value = e.mul(bounded, ratio);
    copy_sign(e, value, x)
}

/// `1 / (1 + e^−x)`, the denominator small enough by `2^−shift` for every `x`.
///
/// Measured: 0.50006 ulp.
pub fn sigmoid(e: &mut dyn Expander, args: &[Term]) -> Term {
    let (x, shift) = (args[0], 64);
    // Above the first the result is 1 and below the second 0.
    let clamped = e.at_most(x, 18.0);
    let clamped = e.at_least(clamped, -104.0);
    let negative = e.neg(clamped);
    let magic = format(e, x).magic + 2.0 * format(e, x).bias as f64;
    let (magic, log2_e) = (e.float(x, magic), e.float(x, std::f64::consts::LOG2_E));
    let power = e.fma(negative, log2_e, magic);
    let n = e.sub(power, magic);
    let ln2 = e.float(x, -std::f64::consts::LN_2);
    let r = e.fma(n, ln2, negative);
    let q = e.horner(r, EXP);
    let square = e.mul(r, r);
    let p = e.fma(q, square, r);
    let power = two_to(e, power, -shift);
    let (one, small) = (e.float(x, 1.0), e.float(x, 2f64.powi(-shift as i32)));
    let sum = e.add(power, small);
    let below = e.fma(p, power, sum);
    let quotient = e.div(one, below);
    e.mul(quotient, small)
}

#[cfg(test)]
mod tests {
    use crate::dtype::DType;
    use crate::op::pointwise::Oracle;
    use crate::op::{Pointwise, math, scalar};

    /// All numbers of both types: the few that are not the nearest are next to it, for a value near a tie.
    #[test]
    fn small_floats_are_as_good_as_rounded_once() {
        for &op in Pointwise::ALL {
            for (dtype, allowed) in [(DType::F16, 10), (DType::Bf16, 0)] {
                if math::on_small_floats(op, dtype).is_none() {
                    continue;
                }
                let Oracle::Float(oracle) = op.row().oracle else { panic!("{op:?} is on floats") };
                let operands: Vec<u64> = (0..=0xffff).collect();
                let results = scalar::map(op, dtype, dtype, &[&operands]);
                let mut others = 0;
                for (&x, &got) in operands.iter().zip(&results) {
                    let wanted = oracle(&[f64::from_bits(scalar::cast(dtype, DType::F64, x))]);
                    let nearest = scalar::cast(DType::F64, dtype, wanted.to_bits());
                    assert!(scalar::same(dtype, got, nearest) || got.abs_diff(nearest) == 1, "{op:?} {dtype} {x:#x}");
                    others += usize::from(!scalar::same(dtype, got, nearest));
                }
                assert!(others <= allowed, "{op:?} {dtype}: {others}");
            }
        }
    }
}
