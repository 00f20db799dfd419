//! Where each element of a tile lives: maps from (register, lane, warp) to coordinates that are linear over XOR.
//!
//! A tile's extents are powers of two, so a coordinate is a string of bits, and so is the name of a place: which
//! register, which lane, which warp.  A [`Layout`] sends places to coordinates and is linear over the field of two
//! elements: the image of a place is the XOR of the images of its set bits.  The images of the single bits, the *bases*,
//! therefore say everything, and blocked, sliced, transposed and swizzled arrangements are just different bases.
//! Composition, inversion and equality are linear algebra on a handful of machine words ([`linear`]), and how to get
//! from one layout to another is a factorisation of a matrix ([`factor`], [`convert`]).
//!
//! Knows no element types and no machines.

pub mod assign;
pub mod convert;
pub mod factor;
pub mod fragment;
pub mod linear;
pub mod panels;

mod place;

pub use linear::Linear;
pub use place::{Layout, bits_of};
