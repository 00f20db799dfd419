//! Views, by the definition of each: where an element of the result comes from.

use crate::dtype::DType;
use crate::graph::array::{Array, coordinates, place};
use crate::graph::ir::{Dims, Movement};

/// Applies a view.
pub fn apply(movement: &Movement, x: &Array, dtype: DType, dims: &[u64]) -> Array {
    if let Movement::Reshape = movement {
        return Array::new(dtype, dims, x.bits.clone());
    }
    let elements = coordinates(dims).map(|c| match source(movement, &c, &x.dims) {
        Ok(from) => x.bits[place(&from, &x.dims)],
        Err(fill) => fill,
    });
    Array::new(dtype, dims, elements.collect())
}

/// The operand's coordinate for one of the result's, or the fill value.
fn source(movement: &Movement, c: &[u64], from: &[u64]) -> Result<Dims, u64> {
    Ok(match movement {
        Movement::Permute(perm) => {
            let mut out = Dims::from_elem(0, from.len());
            for (&axis, &i) in perm.iter().zip(c) {
                out[axis as usize] = i;
            }
            out
        }
        Movement::Expand => c.iter().zip(from).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect(),
        Movement::Slice(ranges) => {
            ranges.iter().zip(c).map(|(r, &i)| (r.start as i64 + r.step * i as i64) as u64).collect()
        }
        Movement::Reshape => Dims::from_slice(c),
        Movement::Pad { dims, fill } => {
            let mut out = Dims::new();
            for ((p, &i), &n) in dims.iter().zip(c).zip(from) {
                let stride = p.interior + 1;
                match i.checked_sub(p.low) {
                    Some(k) if k % stride == 0 && k / stride < n => out.push(k / stride),
                    _ => return Err(*fill),
                }
            }
            out
        }
        Movement::Window(windows) => {
            let mut out = Dims::from_slice(&c[..from.len()]);
            for (w, &k) in windows.iter().zip(&c[from.len()..]) {
                let at = &mut out[w.axis as usize];
                *at = *at * w.step + k * w.dilation;
            }
            out
        }
    })
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::graph::ir::{PadDim, SliceDim, WindowDim};

    fn line(n: u64) -> Array {
        Array::from_ints(DType::I32, &[n], &(0..i128::from(n)).collect::<Vec<_>>())
    }

    #[test]
    fn slices_walk_backwards() {
        let back = Movement::Slice(smallvec![SliceDim { start: 4, len: 3, step: -2 }]);
        assert_eq!(apply(&back, &line(5), DType::I32, &[3]).ints(), [4, 2, 0]);
    }

    #[test]
    fn pads_put_elements_around_and_between() {
        let pad = Movement::Pad { dims: smallvec![PadDim { low: 1, high: 2, interior: 1 }], fill: 9 };
        assert_eq!(apply(&pad, &line(3), DType::I32, &[8]).ints(), [9, 0, 9, 1, 9, 2, 9, 9]);
    }

    #[test]
    fn windows_slide() {
        let window = Movement::Window(smallvec![WindowDim { axis: 0, count: 2, size: 3, step: 1, dilation: 2 }]);
        assert_eq!(apply(&window, &line(6), DType::I32, &[2, 3]).ints(), [0, 2, 4, 1, 3, 5]);
    }

    #[test]
    fn permuted_axes_come_from_where_they_say() {
        let x = Array::from_ints(DType::I32, &[2, 3], &[0, 1, 2, 3, 4, 5]);
        let turned = apply(&Movement::Permute(smallvec![1, 0]), &x, DType::I32, &[3, 2]);
        assert_eq!(turned.ints(), [0, 3, 1, 4, 2, 5]);
    }
}
