//! Elements for tests: ordinary numbers, and those at which arithmetic goes wrong.

use super::draws::Draws;
use crate::dtype::{Class, DType};
use crate::graph::array::Array;
use crate::graph::number;

/// What to fill a tensor with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Numbers of moderate size.
    Ordinary,
    /// Every other element from [`specials`].
    Special,
    /// Indices below an extent.
    Below(u64),
}

/// Patterns at which arithmetic goes wrong: zeros, extremes, subnormals, infinities, NaN and their neighbours.
pub fn specials(dtype: DType) -> Vec<u64> {
    let float = |x: f64| number::from_f64(dtype, x);
    match dtype.class() {
        Class::Bool => vec![0, 1],
        Class::Signed | Class::Unsigned => {
            let width = dtype.bits();
            let mut all: Vec<u64> = [0i128, 1, -1, 2, -2, 3, -3, 7, 10, 31, 64, 100, -100]
                .into_iter()
                .chain([(1 << (width - 1)) - 1, 1 << (width - 1), (1 << (width - 1)) + 1, (1 << (width - 1)) - 2])
                .map(|x| number::from_int(dtype, x))
                .collect();
            all.sort_unstable();
            all.dedup();
            all
        }
        Class::Float => {
            let infinity = float(f64::INFINITY);
            let least_normal = float(f64::from(number::least_exponent(dtype)).exp2());
            let positive = [
                float(0.0),
                1,
                least_normal - 1,
                least_normal,
                float(1.0) - 1,
                float(1.0),
                float(1.0) + 1,
                float(0.5),
                float(1.5),
                float(2.5),
                float(3.0),
                float(10.0),
                float(100.0),
                float(1e20),
                float(std::f64::consts::FRAC_PI_2),
                infinity - 1,
                infinity,
            ];
            let sign = 1u64 << (dtype.bits() - 1);
            let both = positive.iter().flat_map(|&bits| [bits, bits | sign]);
            both.chain([float(f64::NAN)]).collect()
        }
    }
}

/// A tensor of random elements.
pub fn fill(draws: &mut Draws, dtype: DType, dims: &[u64], with: Fill) -> Array {
    let special = specials(dtype);
    Array::from_fn(dtype, dims, |_| match with {
        Fill::Below(extent) => number::from_int(dtype, i128::from(draws.below(extent.max(1)))),
        Fill::Special if draws.one_in(2) => *draws.pick(&special),
        _ => ordinary(draws, dtype),
    })
}

fn ordinary(draws: &mut Draws, dtype: DType) -> u64 {
    match dtype.class() {
        Class::Bool => draws.below(2),
        Class::Signed => number::from_int(dtype, i128::from(draws.between(-9, 9))),
        Class::Unsigned => number::from_int(dtype, i128::from(draws.between(0, 12))),
        // Small whole numbers, for exact ties, among numbers of several magnitudes.
        Class::Float if draws.one_in(4) => number::from_f64(dtype, draws.between(-4, 4) as f64),
        Class::Float => {
            let magnitude = (draws.between(-6, 3) as f64).exp2() * (1.0 + draws.fraction());
            number::from_f64(dtype, if draws.one_in(2) { -magnitude } else { magnitude })
        }
    }
}
