//! Random numbers inside a kernel, as [`crate::graph::random`] defines them.

use crate::DType;
use crate::graph::Dist;
use crate::graph::random::{MULTIPLIERS, ROUNDS, WEYL};
use crate::op::Pointwise;
use crate::tile::{Builder, Value};

/// The random element number `at` for the u64 scalars `key` and `counter`.
pub fn emit(b: &mut Builder, dist: Dist, dtype: DType, key: Value, counter: Value, at: Value) -> Value {
    let at = b.cast(at, DType::U64);
    let counter = b.add(counter, at);
    let (c0, c1) = halves(b, counter);
    let (k0, k1) = halves(b, key);
    let zero = b.constant(DType::U32, 0);
    let words = philox(b, [c0, c1, zero, zero], [k0, k1]);
    let number = match (dist, dtype) {
        (Dist::Bits, DType::U64) => join(b, words[1], words[0]),
        (Dist::Bits, _) => words[0],
        (Dist::Uniform, DType::F64) => {
            let word = join(b, words[1], words[0]);
            fraction(b, word, 53, DType::F64)
        }
        (Dist::Uniform, DType::F16) => fraction(b, words[0], 11, DType::F32),
        (Dist::Uniform, DType::Bf16) => fraction(b, words[0], 8, DType::F32),
        (Dist::Uniform, _) => fraction(b, words[0], 24, DType::F32),
        (Dist::Normal, DType::F64) => {
            let (w1, w2) = (join(b, words[1], words[0]), join(b, words[3], words[2]));
            let (u1, u2) = (fraction(b, w1, 53, DType::F64), fraction(b, w2, 53, DType::F64));
            normal(b, u1, u2, DType::F64)
        }
        (Dist::Normal, _) => {
            let (u1, u2) = (fraction(b, words[0], 24, DType::F32), fraction(b, words[1], 24, DType::F32));
            normal(b, u1, u2, DType::F32)
        }
    };
    b.cast(number, dtype)
}

fn halves(b: &mut Builder, word: Value) -> (Value, Value) {
    let shift = b.constant(DType::U64, 32);
    let high = b.map(Pointwise::Shr, &[word, shift]);
    (b.cast(word, DType::U32), b.cast(high, DType::U32))
}

fn join(b: &mut Builder, high: Value, low: Value) -> Value {
    let (high, low) = (b.cast(high, DType::U64), b.cast(low, DType::U64));
    let shift = b.constant(DType::U64, 32);
    let high = b.map(Pointwise::Shl, &[high, shift]);
    b.map(Pointwise::Or, &[high, low])
}

fn philox(b: &mut Builder, counter: [Value; 4], key: [Value; 2]) -> [Value; 4] {
    let (mut c, mut k) = (counter, key);
    let [m0, m1] = MULTIPLIERS.map(|m| b.constant(DType::U32, m.into()));
    let weyl = WEYL.map(|w| b.constant(DType::U32, w.into()));
    for _ in 0..ROUNDS {
        let (high0, low0) = (b.map(Pointwise::MulHi, &[c[0], m0]), b.mul(c[0], m0));
        let (high1, low1) = (b.map(Pointwise::MulHi, &[c[2], m1]), b.mul(c[2], m1));
        let x = b.map(Pointwise::Xor, &[high1, c[1]]);
        let y = b.map(Pointwise::Xor, &[high0, c[3]]);
        c = [b.map(Pointwise::Xor, &[x, k[0]]), low1, b.map(Pointwise::Xor, &[y, k[1]]), low0];
        k = [b.add(k[0], weyl[0]), b.add(k[1], weyl[1])];
    }
    c
}

/// The highest `keep` bits of a word, as a fraction of 1.
fn fraction(b: &mut Builder, word: Value, keep: u32, dtype: DType) -> Value {
    let from = b.ty(word).dtype;
    let shift = b.constant(from, (from.bits() - keep).into());
    let kept = b.map(Pointwise::Shr, &[word, shift]);
    // At most 53 bits: exact as a signed number too, which every machine converts.
    let signed = b.convert(Pointwise::Bitcast, kept, from.signed_bits());
    let whole = b.cast(signed, dtype);
    let scale = float(b, dtype, (-f64::from(keep)).exp2());
    b.mul(whole, scale)
}

/// √(−2·ln(1 − u₁)) · cos(2π·u₂)
fn normal(b: &mut Builder, u1: Value, u2: Value, dtype: DType) -> Value {
    let (one, minus_two, tau) = (float(b, dtype, 1.0), float(b, dtype, -2.0), float(b, dtype, std::f64::consts::TAU));
    let rest = b.map(Pointwise::Sub, &[one, u1]);
    let log = b.map(Pointwise::Log, &[rest]);
    let square = b.mul(minus_two, log);
    let radius = b.map(Pointwise::Sqrt, &[square]);
    let angle = b.mul(tau, u2);
    let cos = b.map(Pointwise::Cos, &[angle]);
    b.mul(radius, cos)
}

fn float(b: &mut Builder, dtype: DType, value: f64) -> Value {
    let bits = if dtype == DType::F64 { value.to_bits() } else { u64::from((value as f32).to_bits()) };
    b.constant(dtype, bits)
}
