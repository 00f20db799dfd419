//! Reduction of an angle to an eighth of a turn, for every magnitude: Payne and Hanek's method without branches.
//!
//! With `|x| = m · 2^(E−W+1)`, `m` an integer of `W` bits (32 for f32, 64 for f64), the fraction of `x · 2/π` modulo 4
//! depends only on a window of `3W` bits of 2/π, whose place follows from `E`.  A barrel shifter of selects cuts the
//! window out; two words of its product with `m` give the quadrant and `2W − 2` bits of fraction.

use super::bits::{Format, by_type, format, to_bits, to_float};
use super::pair::{fast_two_sum, two_product};
use super::{Expander, Term};

/// Words of 2/π: word `j` is `⌊2/π · 2^(32j − 1)⌋` modulo 2^32.
const TWO_OVER_PI_32: &[u64] = &[0, 0x517cc1b7, 0x27220a94, 0xfe13abe8, 0xfa9a6ee0, 0x6db14acc, 0x9e21c820];
/// The same in words of 64 bits.
const TWO_OVER_PI_64: &[u64] = &[
    0,
    0x517cc1b727220a94,
    0xfe13abe8fa9a6ee0,
    0x6db14acc9e21c820,
    0xff28b1d5ef5de2b0,
    0xdb92371d2126e970,
    0x0324977504e8c90e,
    0x7f0ef58e5894d39f,
    0x74411afa975da242,
    0x74ce38135a2fbf20,
    0x9cc8eb1cc1a99cfa,
    0x4e422fc5defc941d,
    0x8ffc4bffef02cc07,
    0xf79788c5ad05368f,
    0xb69b3f6793e584db,
    0xa7a31fb34f2ff516,
    0xba93dd63f5f2f8bd,
    0x9e839cfbc5294975,
    0x35fdafd88fc6ae84,
];

/// π/2 in two parts.
const HALF_PI_32: [f64; 2] = [1.5707963705062866, -4.371138828673793e-08];
const HALF_PI_64: [f64; 2] = [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17];

/// `|x| = quadrant · π/2 + angle`, `|angle| ≤ π/4`.
pub(super) struct Reduced {
    /// An unsigned integer, of which the two low bits count.
    pub quadrant: Term,
    /// The angle, as a pair.
    pub angle: (Term, Term),
}

/// Reduces the magnitude of `x`; infinities and NaN give an arbitrary angle.
pub(super) fn reduce(e: &mut dyn Expander, x: Term) -> Reduced {
    let f = format(e, x);
    let magnitude = e.abs(x);
    let product = fraction(e, f, magnitude);
    let (quadrant, angle) = angle(e, f, product);
    // Up to π/4 there is nothing to reduce.
    let (limit, zero) = (e.float(x, std::f64::consts::FRAC_PI_4), e.float(x, 0.0));
    let none = e.int(f.bits, 0);
    let small = e.lt(magnitude, limit);
    Reduced {
        quadrant: e.select(small, none, quadrant),
        angle: (e.select(small, magnitude, angle.0), e.select(small, zero, angle.1)),
    }
}

/// `x · 2/π` modulo 4 in two words, the first two bits of which are the integer part.
fn fraction(e: &mut dyn Expander, f: &Format, magnitude: Term) -> (Term, Term) {
    let int = |e: &mut dyn Expander, value: i64| e.int(f.bits, value);
    let bits = to_bits(e, magnitude);
    let (shift, top) = (int(e, f.width - 1 - f.mantissa), int(e, 1 << (f.width - 1)));
    let m = e.shl(bits, shift);
    let m = e.or(m, top);
    // E counts from −1 (magnitudes below 1); there m is halved instead.
    let (mantissa, one, bias) = (int(e, f.mantissa), int(e, 1), int(e, f.bias));
    let exponent = e.shr(bits, mantissa);
    let below_one = e.lt(exponent, bias);
    let half = e.shr(m, one);
    let m = e.select(below_one, half, m);
    let exponent = e.select(below_one, bias, exponent);
    let exponent = e.sub(exponent, bias);
    let window = window(e, f, exponent);
    // The product's second and third words; its first counts whole turns.
    let high = e.mul(m, window[0]);
    let high_1 = e.mul_high(m, window[1]);
    let low_1 = e.mul(m, window[1]);
    let high_2 = e.mul_high(m, window[2]);
    let low = e.add(low_1, high_2);
    let carry = e.lt(low, low_1);
    let carry = e.cast(carry, f.bits);
    let high = e.add(high, high_1);
    (e.add(high, carry), low)
}

/// The three words of 2/π from bit `exponent` on.
fn window(e: &mut dyn Expander, f: &Format, exponent: Term) -> Vec<Term> {
    let int = |e: &mut dyn Expander, value: i64| e.int(f.bits, value);
    let (table, width, mut step) = if f.width == 32 { (TWO_OVER_PI_32, 32, 2) } else { (TWO_OVER_PI_64, 64, 8) };
    let mut words: Vec<Term> = table.iter().map(|&word| int(e, word as i64)).collect();
    let zero = int(e, 0);
    while step > 0 {
        let bit = int(e, step as i64 * width);
        let bit = e.and(exponent, bit);
        let unset = e.eq(bit, zero);
        words = (0..3 + step).map(|i| e.select(unset, words[i], words[i + step])).collect();
        step /= 2;
    }
    let (mask, one) = (int(e, width - 1), int(e, 1));
    let left = e.and(exponent, mask);
    let right = e.xor(left, mask);
    let spill: Vec<Term> = words[1..]
        .iter()
        .map(|&word| {
            let halved = e.shr(word, one);
            e.shr(halved, right)
        })
        .collect();
    (0..3)
        .map(|i| {
            let kept = e.shl(words[i], left);
            e.or(kept, spill[i])
        })
        .collect()
}

/// Rounds to a quadrant and converts what is left to an angle.
fn angle(e: &mut dyn Expander, f: &Format, (high, low): (Term, Term)) -> (Term, (Term, Term)) {
    let (width, p, half_width) = (f.width, f.mantissa, f.width / 2);
    let int = |e: &mut dyn Expander, value: i64| e.int(f.bits, value);
    // Half a quadrant more, so that cutting off rounds.
    let eighth = int(e, 1 << (width - 3));
    let shifted = e.add(high, eighth);
    let point = int(e, width - 2);
    let quadrant = e.shr(shifted, point);
    let mask = int(e, (1 << (width - 2)) - 1);
    let rest = e.and(shifted, mask);
    // Three chunks that floats hold exactly, in units of 2^(half_width − width + 2), 2^−b and 2^−c quadrants.
    let count = int(e, half_width);
    let first = e.shr(rest, count);
    let low_mask = int(e, (1 << half_width) - 1);
    let second = e.and(rest, low_mask);
    let (up, down) = (int(e, p - half_width), int(e, width - p + half_width));
    let second = e.shl(second, up);
    let from_low = e.shr(low, down);
    let second = e.or(second, from_low);
    let left = width - p + half_width;
    let third_mask = int(e, (1 << left) - 1);
    let third = e.and(low, third_mask);
    let excess = (left - p).max(0);
    let excess_count = int(e, excess);
    let third = e.shr(third, excess_count);
    let unit = |power: i64| 2f64.powi(power as i32);
    let first = to_float(e, first, -unit(width - 3 - half_width));
    let second = to_float(e, second, 0.0);
    let third = to_float(e, third, 0.0);
    let (a, b, c) = (unit(half_width - width + 2), unit(left - 2 * width + 2), unit(excess - 2 * width + 2));
    let (a, b, c) = (e.float(first, a), e.float(first, b), e.float(first, c));
    let (first, second, third) = (e.mul(first, a), e.mul(second, b), e.mul(third, c));
    let (sum, rest) = fast_two_sum(e, first, second);
    let rest = e.add(rest, third);
    let (sum, rest) = fast_two_sum(e, sum, rest);
    let [pi_high, pi_low] = by_type(e, sum, HALF_PI_32, HALF_PI_64);
    let (pi_high, pi_low) = (e.float(sum, pi_high), e.float(sum, pi_low));
    let (high, lost) = two_product(e, sum, pi_high);
    let lost = e.fma(sum, pi_low, lost);
    let lost = e.fma(rest, pi_high, lost);
    (quadrant, (high, lost))
}

/// The sign bit of a function whose sign changes with bit `bit` of the quadrant.
pub(super) fn quadrant_sign(e: &mut dyn Expander, quadrant: Term, bit: i64) -> Term {
    let dtype = e.dtype(quadrant);
    let width = i64::from(dtype.bits());
    let mask = e.int(dtype, 1 << bit);
    let count = e.int(dtype, width - 1 - bit);
    let kept = e.and(quadrant, mask);
    e.shl(kept, count)
}

/// Whether the quadrant is odd.
pub(super) fn is_odd(e: &mut dyn Expander, quadrant: Term) -> Term {
    let dtype = e.dtype(quadrant);
    let (zero, one) = (e.int(dtype, 0), e.int(dtype, 1));
    let low = e.and(quadrant, one);
    e.ne(low, zero)
}

/// `result` where `x` is finite, NaN elsewhere.
pub(super) fn unless_infinite(e: &mut dyn Expander, x: Term, result: Term) -> Term {
    let magnitude = e.abs(x);
    let (infinity, nan) = (e.float(x, f64::INFINITY), e.float(x, f64::NAN));
    let finite = e.lt(magnitude, infinity);
    e.select(finite, result, nan)
}
