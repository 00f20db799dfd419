//! Elements as words whose order as unsigned numbers is the order of the numbers that they stand for.

use kiln_lowering::DType;

use crate::run::memory::Plain;

/// What digits are read from.
pub(super) trait Item: Copy + Ord + Default + Send + Sync {
    /// Byte `i`, the lowest first.
    fn byte(self, i: u32) -> usize;
}

/// The bits of an element.
pub(super) trait Word: Plain + Item {
    /// The sign of a signed number.
    const SIGN: Self;
    /// Bytes.
    const BYTES: u32;
    /// A word with an index below it, in [`LOW`](Word::LOW) bytes.
    type Tagged: Item;

    /// All bits flipped where `flip`.
    fn flipped(self, flip: bool) -> Self;
    /// `self ^ other`
    fn xor(self, other: Self) -> Self;
    /// Of this width, from the low bits.
    fn from_u64(bits: u64) -> Self;
    /// Compares by the word, then by the index.
    fn tagged(self, index: u32) -> Self::Tagged;
    /// The index.
    fn index(tagged: Self::Tagged) -> u32;
}

/// Bytes of the index in a tagged word.
pub(super) const LOW: u32 = 4;

macro_rules! words {
    ($($word:ident in $tagged:ident),*) => {$(
        impl Word for $word {
            const SIGN: $word = 1 << ($word::BITS - 1);
            const BYTES: u32 = $word::BITS / 8;
            type Tagged = $tagged;

            fn flipped(self, flip: bool) -> $word {
                if flip { !self } else { self }
            }
            fn xor(self, other: $word) -> $word {
                self ^ other
            }
            fn from_u64(bits: u64) -> $word {
                bits as $word
            }
            fn tagged(self, index: u32) -> $tagged {
                $tagged::from(self) << 32 | $tagged::from(index)
            }
            fn index(tagged: $tagged) -> u32 {
                tagged as u32
            }
        }
    )*};
}

macro_rules! items {
    ($($item:ident),*) => {$(
        impl Item for $item {
            fn byte(self, i: u32) -> usize {
                (self >> (8 * i)) as u8 as usize
            }
        }
    )*};
}

words!(u8 in u64, u16 in u64, u32 in u64, u64 in u128);
items!(u8, u16, u32, u64, u128);

/// How bits become keys.
#[derive(Clone, Copy)]
pub(super) struct Order<W> {
    /// Whether the sign is the highest bit.
    signed: bool,
    /// For floats, the bits of infinity.
    infinity: Option<W>,
    /// Whether the greatest comes first.
    descending: bool,
}

impl<W: Word> Order<W> {
    /// That of a type.
    pub(super) fn new(dtype: DType, descending: bool) -> Order<W> {
        let infinity = match dtype {
            DType::F64 => Some(f64::INFINITY.to_bits()),
            DType::F32 => Some(f32::INFINITY.to_bits().into()),
            DType::F16 => Some(half::f16::INFINITY.to_bits().into()),
            DType::Bf16 => Some(half::bf16::INFINITY.to_bits().into()),
            _ => None,
        };
        Order { signed: dtype.is_signed(), infinity: infinity.map(W::from_u64), descending }
    }

    /// Ascends as the elements do in the wanted order; equal for equal numbers, and for all NaN.
    pub(super) fn key(&self, x: W) -> W {
        let key = match self.infinity {
            None if self.signed => x.xor(W::SIGN),
            None => x,
            Some(infinity) => {
                let magnitude = if x >= W::SIGN { x.xor(W::SIGN) } else { x };
                if magnitude > infinity {
                    W::default().flipped(true)
                } else if x > W::SIGN {
                    x.flipped(true)
                } else {
                    // Both zeros are here.
                    magnitude.xor(W::SIGN)
                }
            }
        };
        key.flipped(self.descending)
    }

    /// An element with that key.
    pub(super) fn element(&self, key: W) -> W {
        let key = key.flipped(self.descending);
        match self.infinity {
            None if self.signed => key.xor(W::SIGN),
            None => key,
            Some(_) if key < W::SIGN => key.flipped(true),
            Some(_) => key.xor(W::SIGN),
        }
    }

    /// Keys that elements of different bits share.
    pub(super) fn ambiguous(&self) -> impl Iterator<Item = W> {
        let keys = [W::SIGN, W::default().flipped(true)].map(|key| key.flipped(self.descending));
        keys.into_iter().filter(|_| self.infinity.is_some())
    }
}
