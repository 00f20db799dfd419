//! Ways to lay a tensor out in a buffer: what the elements mean is the same for all of them.

use kiln_lowering::graph::Array;
use kiln_lowering::graph::arbitrary::Draws;
use kiln_lowering::graph::array::coordinates;
use kiln_lowering::schedule::{InputData, Layout};

/// How inputs are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lay {
    /// Row-major without gaps.
    Dense,
    /// Axes in reverse order.
    Transposed,
    /// Gaps between elements and before the first.
    Strided,
    /// Last element first.
    Reversed,
    /// One of the above per axis, at random.
    Mixed,
}

impl Lay {
    /// Every way.
    pub const ALL: &[Lay] = &[Lay::Dense, Lay::Transposed, Lay::Strided, Lay::Reversed, Lay::Mixed];
}

/// A buffer's bytes, and where a tensor lies in it.
pub struct Laid {
    /// The tensor's place.
    pub data: InputData,
    /// The buffer.
    pub bytes: Vec<u8>,
}

/// Lays a tensor out; what lies between its elements is poison.
pub fn lay(array: &Array, lay: Lay, draws: &mut Draws) -> Laid {
    let rank = array.dims.len();
    let order: Vec<usize> = match lay {
        Lay::Transposed => (0..rank).rev().collect(),
        Lay::Mixed => draws.order(rank),
        _ => (0..rank).collect(),
    };
    let mut layout = Layout::contiguous(&array.dims);
    let mut len: i64 = 1;
    for &axis in order.iter().rev() {
        let n = array.dims[axis].max(1) as i64;
        let gap = match lay {
            Lay::Strided => 2,
            Lay::Mixed => draws.between(1, 2),
            _ => 1,
        };
        let stride = len * gap;
        let backwards = lay == Lay::Reversed || lay == Lay::Mixed && draws.one_in(2);
        layout.strides[axis] = if backwards { -stride } else { stride };
        if backwards {
            layout.offset += stride * (n - 1);
        }
        len += stride * (n - 1);
    }
    if matches!(lay, Lay::Strided | Lay::Mixed) {
        layout.offset += 3;
        len += 5;
    }
    if array.bits.is_empty() {
        len = 0;
        layout.offset = 0;
    }
    let width = array.dtype.bytes();
    let mut bytes = vec![0xff; len as usize * width];
    for (c, bits) in coordinates(&array.dims).zip(&array.bits) {
        let at = offset(&layout, &c) * width;
        bytes[at..at + width].copy_from_slice(&bits.to_le_bytes()[..width]);
    }
    Laid { data: InputData { layout, buffer_len: len as u64, donated: false }, bytes }
}

/// Reads a tensor out of a buffer.
pub fn read(array: &Array, layout: &Layout, bytes: &[u8]) -> Array {
    let width = array.dtype.bytes();
    let elements = coordinates(&array.dims).map(|c| {
        let at = offset(layout, &c) * width;
        let mut word = [0; 8];
        word[..width].copy_from_slice(&bytes[at..at + width]);
        u64::from_le_bytes(word)
    });
    Array { bits: elements.collect(), ..array.clone() }
}

/// Where in its buffer an element lies.
pub fn offset(layout: &Layout, coordinate: &[u64]) -> usize {
    let at = coordinate.iter().zip(&layout.strides).fold(layout.offset, |at, (&c, &s)| at + c as i64 * s);
    at as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_lowering::DType;

    #[test]
    fn what_is_laid_out_is_read_back() {
        let array = Array::from_fn(DType::I16, &[3, 1, 4], |i| i as u64);
        for seed in 0..20 {
            for &way in Lay::ALL {
                let laid = lay(&array, way, &mut Draws::new(seed));
                assert_eq!(read(&array, &laid.data.layout, &laid.bytes), array, "{way:?}");
            }
        }
    }
}
