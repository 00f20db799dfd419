//! A tensor's elements in row-major order, as bit patterns.  For oracles and tests: one word an element, no views.

use super::ir::Dims;
use super::number;
use crate::dtype::DType;

/// A dense tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Array {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub dims: Dims,
    /// Bit patterns in row-major order, see [`number`].
    pub bits: Vec<u64>,
}

impl Array {
    /// From patterns.  Panics where their number is not that of the extents.
    pub fn new(dtype: DType, dims: &[u64], bits: Vec<u64>) -> Array {
        assert_eq!(bits.len() as u64, dims.iter().product::<u64>(), "an array wants one pattern per element");
        Array { dtype, dims: Dims::from_slice(dims), bits }
    }

    /// From a function of the row-major index.
    pub fn from_fn(dtype: DType, dims: &[u64], f: impl FnMut(usize) -> u64) -> Array {
        let len = dims.iter().product::<u64>() as usize;
        Array::new(dtype, dims, (0..len).map(f).collect())
    }

    /// From numbers, rounded to the element type.
    pub fn from_floats(dtype: DType, dims: &[u64], values: &[f64]) -> Array {
        Array::new(dtype, dims, values.iter().map(|&x| number::from_f64(dtype, x)).collect())
    }

    /// From integers, wrapped or rounded to the element type.
    pub fn from_ints(dtype: DType, dims: &[u64], values: &[i128]) -> Array {
        Array::new(dtype, dims, values.iter().map(|&x| number::from_int(dtype, x)).collect())
    }

    /// From memory, elements in the machine's byte order.
    pub fn from_bytes(dtype: DType, dims: &[u64], bytes: &[u8]) -> Array {
        let width = dtype.bytes();
        let bits = bytes.chunks_exact(width).map(|element| {
            let mut word = [0; 8];
            word[..width].copy_from_slice(element);
            u64::from_le_bytes(word)
        });
        Array::new(dtype, dims, bits.collect())
    }

    /// As memory, elements in little-endian order.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bits.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(self.dtype.bytes())).collect()
    }

    /// The element at a row-major index, as a number.
    pub fn float(&self, index: usize) -> f64 {
        number::to_f64(self.dtype, self.bits[index])
    }

    /// The element at a row-major index, as an integer.
    pub fn int(&self, index: usize) -> i128 {
        number::to_int(self.dtype, self.bits[index])
    }

    /// All elements as numbers.
    pub fn floats(&self) -> Vec<f64> {
        (0..self.bits.len()).map(|i| self.float(i)).collect()
    }

    /// All elements as integers.
    pub fn ints(&self) -> Vec<i128> {
        (0..self.bits.len()).map(|i| self.int(i)).collect()
    }
}

/// Every coordinate within `dims`, in row-major order.
pub fn coordinates(dims: &[u64]) -> impl Iterator<Item = Dims> + '_ {
    let len: u64 = dims.iter().product();
    let mut next = Dims::from_elem(0, dims.len());
    (0..len).map(move |_| {
        let now = next.clone();
        for (c, &n) in next.iter_mut().zip(dims).rev() {
            *c += 1;
            if *c < n {
                break;
            }
            *c = 0;
        }
        now
    })
}

/// The row-major index of a coordinate.
pub fn place(coordinate: &[u64], dims: &[u64]) -> usize {
    coordinate.iter().zip(dims).fold(0, |at, (&c, &n)| at * n + c) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_coordinates_round_trip() {
        let a = Array::from_ints(DType::I16, &[2, 3], &[0, -1, 2, -3, 4, i128::from(i16::MIN)]);
        assert_eq!(Array::from_bytes(DType::I16, &[2, 3], &a.to_bytes()), a);
        assert_eq!(coordinates(&[2, 3]).map(|c| place(&c, &[2, 3])).collect::<Vec<_>>(), (0..6).collect::<Vec<_>>());
        assert_eq!(coordinates(&[]).count(), 1);
        assert_eq!(coordinates(&[2, 0]).count(), 0);
    }
}
