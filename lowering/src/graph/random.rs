//! What random numbers are: Philox4x32-10, and the distributions made from its words.  Knows no tensors, only elements.
//!
//! Element `i` (row-major) of a tensor with seed `s` and counter start `c` takes the four words
//! `philox([lo(c + i), hi(c + i), 0, 0], [lo(s), hi(s)])`, where `c + i` wraps at 2⁶⁴.  With `w₀ … w₃` for these:
//!
//! | distribution | f32 | f16, bf16 | f64 | u32 | u64 |
//! |---|---|---|---|---|---|
//! | bits | | | | `w₀` | `w₁·2³² + w₀` |
//! | uniform | `(w₀ >> 8)·2⁻²⁴` | `(w₀ >> 21)·2⁻¹¹`, `(w₀ >> 24)·2⁻⁸` | `((w₁·2³² + w₀) >> 11)·2⁻⁵³` | | |
//! | normal | below | that of f32, rounded | below | | |
//!
//! A uniform number has as many bits as its type holds exactly below 1, so that none is rounded up to 1.
//!
//! The normal number of Box and Muller is `√(−2·ln(1 − u₁)) · cos(2π·u₂)`.  In f32, `u₁` and `u₂` are the uniforms of
//! `w₀` and `w₁`; in f64 those of `w₁·2³² + w₀` and `w₃·2³² + w₂`.  Each of the rows sub, log, mul, sqrt, mul, cos, mul
//! rounds to the type, and 2π is the type's own.
//!
//! John Salmon, Mark Moraes, Ron Dror and David Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

use super::number;
use crate::dtype::DType;

/// Multipliers of the two halves of a round (Salmon et al., table 2).
pub const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];

/// What is added to the key after each round: the golden ratio and √3 − 1, as fractions of 2³².
pub const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// Number of rounds.
pub const ROUNDS: usize = 10;

/// What a number costs, in additions.
pub const COST: u32 = 40;

/// Four random words from a counter and a key.
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let (mut c, mut k) = (counter, key);
    for _ in 0..ROUNDS {
        let a = u64::from(c[0]) * u64::from(MULTIPLIERS[0]);
        let b = u64::from(c[2]) * u64::from(MULTIPLIERS[1]);
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

/// The words of one element.
pub fn words(seed: u64, start: u64, element: u64) -> [u32; 4] {
    let counter = start.wrapping_add(element);
    philox([counter as u32, (counter >> 32) as u32, 0, 0], [seed as u32, (seed >> 32) as u32])
}

/// Random bits of an element, as a pattern of `dtype` (`u32` or `u64`).
pub fn bits(dtype: DType, words: [u32; 4]) -> u64 {
    pair(words[1], words[0]) & number::mask(dtype)
}

/// The uniform number of an element, in [0, 1).
pub fn uniform(dtype: DType, words: [u32; 4]) -> f64 {
    match dtype {
        DType::F64 => fraction(pair(words[1], words[0]), 64, 53),
        _ => fraction(u64::from(words[0]), 32, number::precision(dtype)),
    }
}

/// The normal number of an element: exact rows, each rounded to f32, or for f64 to f64.
pub fn normal(dtype: DType, words: [u32; 4]) -> f64 {
    let [u1, u2] = match dtype {
        DType::F64 => [pair(words[1], words[0]), pair(words[3], words[2])].map(|w| fraction(w, 64, 53)),
        _ => [words[0], words[1]].map(|w| fraction(u64::from(w), 32, 24)),
    };
    let round = |x: f64| if dtype == DType::F64 { x } else { f64::from(x as f32) };
    let radius = round(round(-2.0 * round((1.0 - u1).ln())).sqrt());
    let angle = round(round(std::f64::consts::TAU) * u2);
    round(radius * round(angle.cos()))
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The highest `keep` of `width` bits, as a fraction of 1.
fn fraction(word: u64, width: u32, keep: u32) -> f64 {
    (word >> (width - keep)) as f64 * (-f64::from(keep)).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors publish with their library.
    #[test]
    fn philox_gives_the_published_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn uniforms_are_exact_and_stay_below_one() {
        for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
            let greatest = uniform(dtype, [u32::MAX; 4]);
            let pattern = number::from_f64(dtype, greatest);
            assert!(greatest < 1.0 && number::to_f64(dtype, pattern) == greatest, "{dtype}");
            assert_eq!(uniform(dtype, [0; 4]), 0.0);
        }
    }

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        for dtype in [DType::F32, DType::F64] {
            let draws: Vec<f64> = (0..100_000).map(|i| normal(dtype, words(7, 1 << 33, i))).collect();
            let mean = draws.iter().sum::<f64>() / 1e5;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
            assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        }
    }
}
