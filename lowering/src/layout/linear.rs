//! Linear maps between bit strings.  Knows nothing of tiles.
//!
//! A map `F₂ⁿ → F₂ᵐ` is kept as the images of the `n` unit vectors.  Sums are XORs, so evaluating a map costs one XOR
//! per set bit, and Gaussian elimination is a loop over machine words.

use smallvec::SmallVec;

/// A linear map over the field of two elements: `bases[i]` is the image of input bit `i`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Linear {
    bases: SmallVec<[u32; 16]>,
}

impl Linear {
    /// The map with these images of the unit vectors.
    pub fn new(bases: impl IntoIterator<Item = u32>) -> Linear {
        Linear { bases: bases.into_iter().collect() }
    }

    /// `x ↦ x` on `bits` bits.
    pub fn identity(bits: u32) -> Linear {
        Linear::new((0..bits).map(|i| 1 << i))
    }

    /// Number of input bits.
    pub fn bits(&self) -> u32 {
        self.bases.len() as u32
    }

    /// Images of the unit vectors.
    pub fn bases(&self) -> &[u32] {
        &self.bases
    }

    /// The image of `x`: the XOR of the images of its set bits.
    pub fn apply(&self, x: u32) -> u32 {
        self.bases.iter().enumerate().filter(|&(i, _)| x >> i & 1 == 1).fold(0, |sum, (_, &b)| sum ^ b)
    }

    /// First `self`, then `next`.
    pub fn then(&self, next: &Linear) -> Linear {
        Linear::new(self.bases.iter().map(|&b| next.apply(b)))
    }

    /// The map on the joint input, `self`'s bits below those of `high`: `(x, y) ↦ self(x) ⊕ high(y)`.
    pub fn beside(&self, high: &Linear) -> Linear {
        Linear::new(self.bases.iter().chain(&high.bases).copied())
    }

    /// Dimension of the image.
    pub fn rank(&self) -> u32 {
        self.echelon().len() as u32
    }

    /// Whether different inputs have different images.
    pub fn is_injective(&self) -> bool {
        self.rank() == self.bits()
    }

    /// Some input with image `y`, if there is one: bits that the others make superfluous are left 0.
    pub fn solve(&self, y: u32) -> Option<u32> {
        let (rest, input) = self.reduce(y);
        (rest == 0).then_some(input)
    }

    /// A map that undoes this one on its image; `None` where the image is not all of `F₂` to the power of `bits`.
    pub fn inverse(&self, bits: u32) -> Option<Linear> {
        (0..bits).map(|i| self.solve(1 << i)).collect::<Option<SmallVec<_>>>().map(|bases| Linear { bases })
    }

    /// Input bits whose images depend on those of lower bits: flipping them, along with some of those, changes nothing.
    pub fn free_bits(&self) -> u32 {
        let independent = self.echelon().iter().fold(0, |mask, row| mask | 1 << row.bit);
        !independent & ((1u64 << self.bits()) - 1) as u32
    }

    /// Row-echelon form of the bases, in the order of the input bits.
    fn echelon(&self) -> SmallVec<[Row; 16]> {
        let mut rows: SmallVec<[Row; 16]> = SmallVec::new();
        for (bit, &image) in self.bases.iter().enumerate() {
            let (image, input) = reduce_by(&rows, image, 1 << bit);
            if image != 0 {
                rows.push(Row { image, input, bit: bit as u32 });
            }
        }
        rows
    }

    fn reduce(&self, y: u32) -> (u32, u32) {
        reduce_by(&self.echelon(), y, 0)
    }
}

/// A vector of the image, with an input that it comes from.
struct Row {
    image: u32,
    input: u32,
    bit: u32,
}

/// Clears the leading bits of `rows` from `image`, keeping `image ⊕ map(input)` as it is.
fn reduce_by(rows: &[Row], mut image: u32, mut input: u32) -> (u32, u32) {
    for row in rows {
        if image >> row.image.ilog2() & 1 == 1 {
            image ^= row.image;
            input ^= row.input;
        }
    }
    (image, input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_map() -> impl Strategy<Value = Linear> {
        prop::collection::vec(0u32..64, 0..8).prop_map(Linear::new)
    }

    proptest! {
        #[test]
        fn images_add_up(f in any_map(), x in 0u32..256, y in 0u32..256) {
            prop_assert_eq!(f.apply(x ^ y), f.apply(x) ^ f.apply(y));
        }

        #[test]
        fn then_is_composition(f in any_map(), g in any_map(), x in 0u32..256) {
            prop_assert_eq!(f.then(&g).apply(x), g.apply(f.apply(x)));
            prop_assert_eq!(f.then(&Linear::identity(6)), f);
        }

        #[test]
        fn solve_finds_an_input_exactly_where_there_is_one(f in any_map(), y in 0u32..64) {
            let wanted = (0..1 << f.bits()).any(|x| f.apply(x) == y);
            prop_assert_eq!(f.solve(y).is_some(), wanted);
            if let Some(x) = f.solve(y) {
                prop_assert_eq!(f.apply(x), y);
                prop_assert_eq!(x & f.free_bits(), 0);
            }
        }

        #[test]
        fn an_inverse_undoes(f in any_map()) {
            if let Some(inverse) = f.inverse(6) {
                prop_assert_eq!(inverse.then(&f), Linear::identity(6));
            }
        }

        #[test]
        fn rank_and_free_bits_are_the_dimension(f in any_map()) {
            prop_assert_eq!(f.rank() + f.free_bits().count_ones(), f.bits());
            prop_assert_eq!(f.is_injective(), f.free_bits() == 0);
        }
    }
}
