//! Which operands a row is tried on: every number, or one from each of many strata of equal width, and hard cases.
//!
//! Counted, not stored: operand `i` follows from `i` alone, so that threads share nothing and a run can be repeated.

use kiln_lowering::DType;
use kiln_lowering::graph::number;

/// Numbers near which expansions change from one formula to another, or results leave the range.
const CORNERS: &[f64] = &[
    0.0,
    5e-324,
    2.225_073_858_507_201_4e-308,
    1e-45,
    1.175_494_4e-38,
    5.96e-8,
    6.1e-5,
    1e-16,
    1e-8,
    3e-8,
    0.25,
    0.346_573_6,
    0.5,
    0.625,
    2.0 / 3.0,
    std::f64::consts::FRAC_PI_4,
    1.0,
    4.0 / 3.0,
    std::f64::consts::SQRT_2,
    std::f64::consts::FRAC_PI_2,
    2.0,
    3.93,
    5.95,
    9.0,
    10.4,
    11.09,
    18.0,
    20.0,
    37.0,
    87.336_54,
    88.722_84,
    89.416,
    103.97,
    104.0,
    708.396_418_532_264_1,
    709.782_712_893_384,
    710.475_8,
    745.133,
    65504.0,
    1e5,
    6.7e7,
    1.8e16,
    1e22,
    2.26e38,
    3.402_823_5e38,
    5.319372648326541e255,
    1e300,
    f64::MAX,
    f64::INFINITY,
    f64::NAN,
];

/// Numbers tried on each side of a corner.
const NEIGHBOURS: u64 = 16;

/// Multiples of π/2 whose nearest numbers are tried: where sine, cosine and tangent cancel most.
const QUADRANTS: i32 = 256;

/// Other hard cases that each one is paired with.
const PARTNERS: u64 = 4;

/// The operands of one sweep.
pub struct Inputs {
    dtype: DType,
    arity: usize,
    /// Logarithm of the number of strata.
    strata: u32,
    hard: Vec<u64>,
}

/// A number without pattern (S. Vigna's splitmix64).
fn noise(index: u64) -> u64 {
    let z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Inputs {
    /// `2^strata` operands (or all there are) and the hard cases.
    pub fn new(dtype: DType, arity: usize, strata: u32) -> Inputs {
        let strata = if arity == 1 { strata.min(dtype.bits()) } else { strata };
        let exhaustive = arity == 1 && strata == dtype.bits();
        Inputs { dtype, arity, strata, hard: if exhaustive { Vec::new() } else { hard(dtype) } }
    }

    /// Whether every number of the type comes.
    pub fn are_all(&self) -> bool {
        self.arity == 1 && self.strata == self.dtype.bits()
    }

    /// Number of operands (of pairs of operands).
    pub fn len(&self) -> u64 {
        let hard = self.hard.len() as u64;
        (1 << self.strata) + if self.arity == 1 { hard } else { hard * PARTNERS }
    }

    /// Whether there are none; there always are.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The operands at a place below [`Inputs::len`]; a lone operand comes twice.
    #[inline]
    pub fn at(&self, index: u64) -> [u64; 2] {
        if self.are_all() {
            return [index; 2];
        }
        let bits = self.dtype.bits();
        match (index.checked_sub(1 << self.strata), self.arity) {
            (None, 1) => {
                let rest = bits - self.strata;
                let x = (index << rest) | (noise(index) & ((1 << rest) - 1));
                [x, x]
            }
            (Some(hard), 1) => [self.hard[hard as usize]; 2],
            (None, _) => self.pair(index),
            // Each with a few of all the others.
            (Some(place), _) => {
                let count = self.hard.len() as u64;
                let (x, y) = (place % count, place / count);
                [self.hard[x as usize], self.hard[(noise(y) % count) as usize]]
            }
        }
    }

    /// Pairs of all magnitudes, of like ones, of bases and exponents in range, and of a base near one and what takes it
    /// somewhere.
    fn pair(&self, index: u64) -> [u64; 2] {
        let dtype = self.dtype;
        let (a, b) = (noise(2 * index), noise(2 * index + 1));
        let unit = |noise: u64| (noise >> 11) as f64 / (1u64 << 53) as f64;
        let number = |x: f64| number::from_f64(dtype, x);
        match index % 4 {
            0 => [a & dtype.mask(), b & dtype.mask()],
            1 => [number(80.0 * unit(a) - 40.0), number(80.0 * unit(b) - 40.0)],
            2 => [number(9.0 * unit(a)), number(80.0 * unit(b) - 40.0)],
            _ => {
                let off = (-f64::from(number::precision(dtype)) * unit(a)).exp2();
                let base = if a & 1 == 0 { 1.0 + off } else { 1.0 - off / 2.0 };
                [number(base), number((2.0 * unit(b) - 1.0) * 100.0 / base.ln())]
            }
        }
    }
}

/// Corners and multiples of a quarter turn, with their neighbours, of both signs.
fn hard(dtype: DType) -> Vec<u64> {
    let sign = 1 << (dtype.bits() - 1);
    let around = |x: u64, by: u64| (x.saturating_sub(by)..=(x + by).min(sign - 1)).flat_map(move |x| [x, x | sign]);
    let corners = CORNERS.iter().flat_map(|&x| around(number::from_f64(dtype, x), NEIGHBOURS));
    let quadrants =
        (1..=QUADRANTS).flat_map(|k| around(number::from_f64(dtype, f64::from(k) * std::f64::consts::FRAC_PI_2), 1));
    corners.chain(quadrants).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_sweep_meets_every_number_once() {
        let inputs = Inputs::new(DType::Bf16, 1, 32);
        assert!(inputs.are_all());
        assert_eq!(inputs.len(), 1 << 16);
        assert!((0..inputs.len()).all(|i| inputs.at(i) == [i, i]));
    }

    #[test]
    fn a_sample_meets_every_magnitude() {
        let inputs = Inputs::new(DType::F64, 1, 12);
        for i in 0..1 << 12 {
            assert_eq!(inputs.at(i)[0] >> 52, i);
        }
        assert!(!inputs.are_all() && inputs.len() > 1 << 12);
    }

    #[test]
    fn pairs_stay_within_the_type() {
        for dtype in [DType::F16, DType::F32, DType::F64] {
            let inputs = Inputs::new(dtype, 2, 8);
            assert!((0..inputs.len()).all(|i| inputs.at(i).iter().all(|&x| x <= dtype.mask())));
        }
    }
}
