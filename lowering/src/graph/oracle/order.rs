//! Sorting along an axis: stable, NaN above everything.

use std::cmp::Ordering;

use crate::dtype::DType;
use crate::graph::array::{Array, coordinates, place};
use crate::graph::number;

/// Numbers in ascending order, NaN last; −0 equals +0.
fn compare(dtype: DType, a: u64, b: u64) -> Ordering {
    if dtype.is_float() {
        let (a, b) = (number::to_f64(dtype, a), number::to_f64(dtype, b));
        a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    } else {
        number::to_int(dtype, a).cmp(&number::to_int(dtype, b))
    }
}

/// For each line along the axis: the places of its elements, and the order in which they come.
fn lines(x: &Array, axis: usize, descending: bool) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut one = x.dims.clone();
    one[axis] = one[axis].min(1);
    let line = |c: &[u64]| {
        let mut c = crate::graph::Dims::from_slice(c);
        let places: Vec<usize> = (0..x.dims[axis])
            .map(|i| {
                c[axis] = i;
                place(&c, &x.dims)
            })
            .collect();
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by(|&i, &j| {
            let ascending = compare(x.dtype, x.bits[places[i]], x.bits[places[j]]);
            if descending { ascending.reverse() } else { ascending }
        });
        (places, order)
    };
    coordinates(&one).map(|c| line(&c)).collect()
}

/// The result of `of` for the first `keep` places of each sorted line: from the line's places and its order.
fn first(
    x: &Array,
    axis: usize,
    keep: u64,
    descending: bool,
    dtype: DType,
    of: impl Fn(&[usize], usize) -> u64,
) -> Array {
    let mut dims = x.dims.clone();
    dims[axis] = keep;
    let mut out = Array::from_fn(dtype, &dims, |_| 0);
    let mut one = dims.clone();
    one[axis] = one[axis].min(1);
    for (mut c, (places, order)) in coordinates(&one).zip(lines(x, axis, descending)) {
        for (i, &from) in order.iter().take(keep as usize).enumerate() {
            c[axis] = i as u64;
            out.bits[place(&c, &dims)] = of(&places, from);
        }
    }
    out
}

/// The first `keep` of the sorted values.
pub fn sort(x: &Array, axis: usize, keep: u64, descending: bool) -> Array {
    first(x, axis, keep, descending, x.dtype, |places, from| x.bits[places[from]])
}

/// The first `keep` of the indices that sort.
pub fn argsort(x: &Array, axis: usize, keep: u64, descending: bool, dtype: DType) -> Array {
    first(x, axis, keep, descending, dtype, |_, from| number::from_int(dtype, from as i128))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_keep_their_order_and_nan_is_greatest() {
        let x = Array::from_floats(DType::F32, &[5], &[2.0, f64::NAN, 1.0, 2.0, -1.0]);
        assert_eq!(argsort(&x, 0, 5, false, DType::I64).ints(), [4, 2, 0, 3, 1]);
        assert_eq!(argsort(&x, 0, 3, true, DType::I64).ints(), [1, 0, 3]);
        assert_eq!(sort(&x, 0, 4, false).floats(), [-1.0, 1.0, 2.0, 2.0]);
        let x = Array::from_ints(DType::I8, &[2, 2], &[3, 1, 2, 4]);
        assert_eq!(sort(&x, 0, 2, false).ints(), [2, 1, 3, 4]);
    }
}
