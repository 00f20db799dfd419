//! A small generator of random numbers, and of elements that find faults.

use crate::dtype::{Class, DType};
use crate::op::scalar;

/// Sebastiano Vigna's splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of that seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 11) as usize % n
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of the items.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// An element: often small and exact, sometimes at an edge of its type, sometimes any bits.
    pub fn element(&mut self, dtype: DType) -> u64 {
        const EDGES: &[f64] = &[
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            2.5,
            1e-40,
            -1e-40,
            6e-8,
            65504.0,
            65520.0,
            3.4e38,
            1e20,
            -1e20,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        let small = self.below(17) as i64 - 8;
        match (dtype.class(), self.below(8)) {
            (Class::Bool, _) => self.bits() & 1,
            (Class::Float, 0) => scalar::cast(DType::F64, dtype, self.pick(EDGES).to_bits()),
            (Class::Float, 2..5) => {
                let unit = (self.bits() >> 11) as f64 / (1u64 << 53) as f64;
                scalar::cast(DType::F64, dtype, (8.0 * unit - 4.0).to_bits())
            }
            (Class::Float, 5..) => scalar::cast(DType::I64, dtype, small as u64),
            (_, 0) => self.pick(&[0, 1, dtype.mask(), dtype.mask() >> 1, (dtype.mask() >> 1) + 1]),
            (_, 1) => self.bits() & dtype.mask(),
            (_, 2) => self.bits() & 0xff & dtype.mask(),
            (Class::Unsigned, _) => small.unsigned_abs(),
            _ => small as u64 & dtype.mask(),
        }
    }

    /// The bytes of `n` elements.
    pub fn elements(&mut self, dtype: DType, n: usize) -> Vec<u8> {
        (0..n).flat_map(|_| self.element(dtype).to_le_bytes().into_iter().take(dtype.bytes())).collect()
    }
}
