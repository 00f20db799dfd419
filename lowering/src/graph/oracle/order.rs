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

/// The sorted values.
pub fn sort(x: &Array, axis: usize, descending: bool) -> Array {
    let mut out = x.clone();
    for (places, order) in lines(x, axis, descending) {
        for (&to, &from) in places.iter().zip(&order) {
            out.bits[to] = x.bits[places[from]];
        }
    }
    out
}

/// The indices that sort.
pub fn argsort(x: &Array, axis: usize, descending: bool, dtype: DType) -> Array {
    let mut out = Array::from_fn(dtype, &x.dims, |_| 0);
    for (places, order) in lines(x, axis, descending) {
        for (&to, &from) in places.iter().zip(&order) {
            out.bits[to] = number::from_int(dtype, from as i128);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_keep_their_order_and_nan_is_greatest() {
        let x = Array::from_floats(DType::F32, &[5], &[2.0, f64::NAN, 1.0, 2.0, -1.0]);
        assert_eq!(argsort(&x, 0, false, DType::I64).ints(), [4, 2, 0, 3, 1]);
        assert_eq!(argsort(&x, 0, true, DType::I64).ints(), [1, 0, 3, 2, 4]);
        assert_eq!(sort(&x, 0, false).floats()[..4], [-1.0, 1.0, 2.0, 2.0]);
        let x = Array::from_ints(DType::I8, &[2, 2], &[3, 1, 2, 4]);
        assert_eq!(sort(&x, 0, false).ints(), [2, 1, 3, 4]);
    }
}
