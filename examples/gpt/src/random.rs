//! Random numbers that are the same on every machine and backend. Knows no tensors.
//!
//! What a backend draws for itself differs between backends, and two training runs could then only be compared by
//! their statistics. Weights and batches come from here instead, so that their loss curves can be laid side by side.

use std::f64::consts::TAU;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator that repeats for the same seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A whole number in `0..end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// A number in `0..1`, a multiple of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.bits() >> 11) as f64 * STEP
    }

    /// A number from the standard normal distribution, by Box and Muller: √(−2·ln u)·cos(2π·v).
    pub fn normal(&mut self) -> f64 {
        // 1 − u lies in (0, 1], where the logarithm is finite.
        let (u, v) = (1.0 - self.unit(), self.unit());
        (-2.0 * u.ln()).sqrt() * (TAU * v).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_for_a_seed() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [0; 8].map(|_| random.below(1000))
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn a_normal_number_has_mean_0_and_variance_1() {
        let mut random = Random::new(1);
        let numbers: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = numbers.iter().sum::<f64>() / 20_000.0;
        let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        // Four standard errors: 4/√n and 4·√(2/n).
        assert!(mean.abs() < 0.029, "{mean}");
        assert!((variance - 1.0).abs() < 0.04, "{variance}");
    }
}
