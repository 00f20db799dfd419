//! Random tensors: Burn's distributions from raw uniform, normal and bit streams.  Knows no seeds: each recorded
//! operation draws its own numbers from the device's stream.

use burn_backend::{DType as BurnType, Distribution, Scalar, Shape, bf16, f16};
use kiln_lowering::DType;
use kiln_lowering::graph::{Dist, Node};
use kiln_lowering::op::Pointwise as P;

use super::checks::fail;
use super::dims::extents;
use super::elementwise::{beside, map_fixed, map_scalar};
use super::scalars::range;
use crate::record::{Tape, record};
use crate::{KilnDevice, KilnTensor, to_kiln};

/// Random floats.
pub fn floats(op: &'static str, shape: &Shape, dist: Distribution, device: &KilnDevice, dtype: BurnType) -> KilnTensor {
    check(op, dist);
    let (dims, to) = (extents(shape), to_kiln(dtype));
    record(op, device, [], dtype, |t, []| {
        let wide = to.compute();
        match dist {
            Distribution::Default => {
                let u = t.random(Dist::Uniform, wide, &dims);
                let u = t.cast(u, to);
                below_one(t, u, to)
            }
            Distribution::Uniform(low, high) => {
                let u = t.random(Dist::Uniform, wide, &dims);
                let scaled = map_scalar(t, P::Mul, u, high - low);
                let moved = map_scalar(t, P::Add, scaled, low);
                let moved = t.cast(moved, to);
                // Rounding may reach the upper bound, which the distribution excludes.
                let (low, high) = (beside(t, moved, Scalar::Float(low)), beside(t, moved, Scalar::Float(high)));
                let beyond = t.map(P::Ge, &[moved, high]);
                t.map(P::Select, &[beyond, low, moved])
            }
            Distribution::Bernoulli(p) => {
                let hit = bernoulli(t, p, wide, &dims);
                t.cast(hit, to)
            }
            Distribution::Normal(mean, std) => {
                let z = normal(t, mean, std, wide, &dims);
                t.cast(z, to)
            }
        }
    })
}

/// Random integers.  The default distribution is uniform over the whole type.
pub fn ints(op: &'static str, shape: &Shape, dist: Distribution, device: &KilnDevice, dtype: BurnType) -> KilnTensor {
    check(op, dist);
    let (dims, to) = (extents(shape), to_kiln(dtype));
    record(op, device, [], dtype, |t, []| match dist {
        Distribution::Default => {
            let bits = t.random(Dist::Bits, DType::U64, &dims);
            t.cast(bits, to)
        }
        Distribution::Uniform(low, high) => {
            let (low, high) = (saturate(to, low), saturate(to, high));
            // ⌊bits · span / 2⁶⁴⌋ is uniform below `span`, to within span / 2⁶⁴.
            let span = Scalar::UInt((high - low).max(0) as u64);
            let bits = t.random(Dist::Bits, DType::U64, &dims);
            let span = beside(t, bits, span);
            let offset = t.map(P::MulHi, &[bits, span]);
            let low = beside(t, offset, Scalar::UInt(low as u64));
            let value = t.map(P::Add, &[offset, low]);
            t.cast(value, to)
        }
        Distribution::Bernoulli(p) => {
            let hit = bernoulli(t, p, DType::F32, &dims);
            t.cast(hit, to)
        }
        Distribution::Normal(mean, std) => {
            let z = normal(t, mean, std, DType::F64, &dims);
            t.cast(z, to)
        }
    })
}

fn check(op: &str, dist: Distribution) {
    match dist {
        Distribution::Bernoulli(p) if !(0.0..=1.0).contains(&p) => {
            fail(op, "The probability of a Bernoulli distribution is between 0 and 1.", &format!("Got {p}."));
        }
        Distribution::Normal(_, std) if !std.is_finite() => {
            fail(op, "The standard deviation of a normal distribution is finite.", &format!("Got {std}."));
        }
        Distribution::Uniform(low, high) if !(low <= high && low.is_finite() && high.is_finite()) => {
            fail(op, "The bounds of a uniform distribution are finite and in order.", &format!("Got {low}..{high}."));
        }
        _ => {}
    }
}

/// Rounding a number below 1 to 16 bits may give 1; the distribution excludes it.
fn below_one(t: &mut Tape, u: Node, dtype: DType) -> Node {
    match dtype {
        DType::F16 => map_fixed(t, P::Min, u, 1.0 - f16::EPSILON.to_f64() / 2.0),
        DType::Bf16 => map_fixed(t, P::Min, u, 1.0 - bf16::EPSILON.to_f64() / 2.0),
        _ => u,
    }
}

fn bernoulli(t: &mut Tape, p: f64, dtype: DType, dims: &[u64]) -> Node {
    let u = t.random(Dist::Uniform, dtype, dims);
    map_scalar(t, P::Lt, u, p)
}

fn normal(t: &mut Tape, mean: f64, std: f64, dtype: DType, dims: &[u64]) -> Node {
    let z = t.random(Dist::Normal, dtype, dims);
    let scaled = map_scalar(t, P::Mul, z, std);
    map_scalar(t, P::Add, scaled, mean)
}

/// A bound of a distribution in an integer type: truncated, and kept inside.
fn saturate(dtype: DType, bound: f64) -> i128 {
    let (least, most) = range(dtype);
    (bound as i128).clamp(least, most)
}
