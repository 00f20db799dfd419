//! How a factor of a product lies in scratch memory, from where a matrix instruction of several warps reads it by itself:
//! the second one `k×n`, and the first one, `m×k`, like a second one of as many columns as it has rows.
//!
//! Rows of 128 bytes, one below the other, make a panel; panels follow one another.  Pieces of 16 bytes change places
//! within a row: their number is XORed with that of the row, as far as there are pieces, so that the same piece of eight
//! rows lies in different banks.  Source: PTX ISA, "Asynchronous warpgroup-level matrix shared memory layout", 128-byte
//! swizzling.

use super::Linear;

/// Bytes of a row of a panel.
const ROW: u32 = 128;

/// Pieces of a row, as a number of bits.
const PIECES: u32 = 3;

/// A factor `k×n` in panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panels {
    /// The axis along which elements are neighbours in a row: 0 for that of the terms, 1 for that of the columns.
    pub axis: usize,
    /// Rows of each panel: the extent along the other axis.
    pub rows: u32,
    /// Elements of a row, and their bytes.
    pub width: u32,
    bytes: u32,
    extents: [u32; 2],
}

impl Panels {
    /// The arrangement of a factor of extents `k`, `n`, whose neighbours along `axis` lie side by side; `None` where they do
    /// not fill rows, or rows no swizzle.
    pub fn of(extents: [u32; 2], axis: usize, bytes: u32) -> Option<Panels> {
        let (width, rows) = (ROW / bytes, extents[1 - axis]);
        let fits = extents[axis].is_multiple_of(width) && rows.is_multiple_of(1 << PIECES);
        fits.then_some(Panels { axis, rows, width, bytes, extents })
    }

    /// From an element's row-major coordinate to its place.
    pub fn places(&self) -> Linear {
        let (in_row, in_piece) = (self.width.ilog2(), self.width.ilog2() - PIECES);
        let along = |bit: u32| if bit < in_row { 1 << bit } else { self.rows << bit };
        let across = |bit: u32| 1 << (in_row + bit) | if bit < PIECES { 1 << (in_piece + bit) } else { 0 };
        // The last axis has the low bits.
        let bits = |axis: usize| (0..self.extents[axis].ilog2()).map(move |bit| (axis, bit));
        Linear::new(bits(1).chain(bits(0)).map(|(axis, bit)| if axis == self.axis { along(bit) } else { across(bit) }))
    }

    /// Bytes of all panels.
    pub fn size(&self) -> u32 {
        self.extents[0] * self.extents[1] * self.bytes
    }

    /// Bytes from a panel to the next, and from eight rows to the next eight.
    pub fn strides(&self) -> [u32; 2] {
        [self.rows * ROW, ROW << PIECES]
    }

    /// Bytes before the terms (axis 0) or the columns (axis 1) from `first` on.
    pub fn before(&self, axis: usize, first: u32) -> u32 {
        match axis == self.axis {
            true => first / self.width * self.strides()[0] + first % self.width * self.bytes,
            false => first * ROW,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Element by element, as the source draws it.
    #[test]
    fn pieces_change_places_within_their_row() {
        for (extents, axis) in [([64, 64], 0), ([128, 64], 0), ([64, 128], 1), ([16, 64], 1)] {
            let panels = Panels::of(extents, axis, 2).unwrap();
            let places = panels.places();
            assert!(places.is_injective());
            for k in 0..extents[0] {
                for n in 0..extents[1] {
                    let (row, column) = if axis == 0 { (n, k) } else { (k, n) };
                    let piece = (column % 64 / 8) ^ (row % 8);
                    let place = column / 64 * panels.rows * 64 + row * 64 + piece * 8 + column % 8;
                    assert_eq!(places.apply(k * extents[1] + n), place, "{extents:?} along {axis} at {k}, {n}");
                }
            }
        }
        assert_eq!(Panels::of([32, 64], 0, 2), None);
    }

    #[test]
    fn terms_and_columns_begin_where_their_first_lies() {
        let panels = Panels::of([128, 64], 0, 2).unwrap();
        assert_eq!([0, 16, 64, 80].map(|k| panels.before(0, k)), [0, 32, 8192, 8224]);
        assert_eq!([0, 16].map(|n| panels.before(1, n)), [0, 2048]);
        assert_eq!(Panels::of([64, 128], 1, 2).unwrap().before(0, 16), 2048);
    }
}
