//! Element types, their classes and sizes.  Knows nothing of tensors, tiles or machines.

use std::fmt;

macro_rules! dtypes {
    ($($name:ident $text:literal $bytes:literal $class:ident;)+) => {
        /// The type of one element of a tensor or tile.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DType { $(#[doc = concat!("`", $text, "`")] $name),+ }

        impl DType {
            /// Every element type, in the order of the table.
            pub const ALL: &[DType] = &[$(DType::$name),+];

            /// The name used in printed programs.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$name => $text),+ }
            }

            /// Size of one element in memory, in bytes.
            pub const fn bytes(self) -> usize {
                match self { $(DType::$name => $bytes),+ }
            }

            /// The class that rows ask for.
            pub const fn class(self) -> Class {
                match self { $(DType::$name => Class::$class),+ }
            }
        }
    };
}

dtypes! {
//  name  text   bytes class
    Bool  "bool" 1     Bool;
    I8    "i8"   1     Signed;
    I16   "i16"  2     Signed;
    I32   "i32"  4     Signed;
    I64   "i64"  8     Signed;
    U8    "u8"   1     Unsigned;
    U16   "u16"  2     Unsigned;
    U32   "u32"  4     Unsigned;
    U64   "u64"  8     Unsigned;
    F16   "f16"  2     Float;
    Bf16  "bf16" 2     Float;
    F32   "f32"  4     Float;
    F64   "f64"  8     Float;
}

/// What kind of number an element type holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Truth values, one byte each in memory, 0 or 1.
    Bool,
    /// Two's complement integers; arithmetic wraps.
    Signed,
    /// Unsigned integers; arithmetic wraps.
    Unsigned,
    /// IEEE 754 numbers and bfloat16.
    Float,
}

impl DType {
    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self.class(), Class::Float)
    }

    /// Whether this is a signed or unsigned integer.
    pub const fn is_int(self) -> bool {
        matches!(self.class(), Class::Signed | Class::Unsigned)
    }

    /// Whether this is a signed integer.
    pub const fn is_signed(self) -> bool {
        matches!(self.class(), Class::Signed)
    }

    /// Width of one element, in bits.
    pub const fn bits(self) -> u32 {
        self.bytes() as u32 * 8
    }

    /// A word with the bits of one element set.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// The number that the bits of a signed integer stand for; the bits themselves for other types.
    pub const fn sign_extend(self, bits: u64) -> i64 {
        let unused = 64 - self.bits();
        if self.is_signed() { (bits << unused) as i64 >> unused } else { bits as i64 }
    }

    /// The type in which arithmetic on this type is carried out: f32 for the 16-bit floats, itself otherwise.
    pub const fn compute(self) -> DType {
        match self {
            DType::F16 | DType::Bf16 => DType::F32,
            other => other,
        }
    }

    /// The signed integer of the same width.
    pub const fn signed_bits(self) -> DType {
        match self.bytes() {
            1 => DType::I8,
            2 => DType::I16,
            4 => DType::I32,
            _ => DType::I64,
        }
    }

    /// The element type of that printed name.
    pub fn parse(text: &str) -> Option<DType> {
        DType::ALL.iter().copied().find(|d| d.name() == text)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &d in DType::ALL {
            assert_eq!(DType::parse(d.name()), Some(d));
        }
        assert_eq!(DType::parse("f8"), None);
    }
}
