//! Gathers and scatters, in row-major order of what they pick or put.

use super::OutOfRange;
use super::combine::{Sum, binary};
use crate::graph::array::{Array, coordinates, place};
use crate::graph::ir::{Dims, Index, Node, Update};
use crate::graph::number;
use crate::op::Pointwise;

/// Follows indices along one axis.
struct Follow<'a> {
    node: Node,
    index: Index,
    axis: usize,
    indices: &'a Array,
    extent: u64,
}

impl Follow<'_> {
    /// The coordinate that `c` leads to.
    fn from(&self, c: &[u64]) -> Result<Dims, OutOfRange> {
        let element = match self.index {
            Index::Elements => place(c, &self.indices.dims),
            Index::Positions => c[self.axis] as usize,
        };
        let index = self.indices.int(element);
        if !(0..i128::from(self.extent)).contains(&index) {
            return Err(OutOfRange { node: self.node, element, index, extent: self.extent });
        }
        let mut to = Dims::from_slice(c);
        to[self.axis] = index as u64;
        Ok(to)
    }
}

/// Picks along an axis.
pub fn gather(
    node: Node,
    index: Index,
    axis: usize,
    x: &Array,
    indices: &Array,
    dims: &[u64],
) -> Result<Array, OutOfRange> {
    let follow = Follow { node, index, axis, indices, extent: x.dims[axis] };
    let picked = coordinates(dims).map(|c| Ok(x.bits[place(&follow.from(&c)?, &x.dims)]));
    Ok(Array::new(x.dtype, dims, picked.collect::<Result<_, _>>()?))
}

/// Puts values along an axis.
pub fn scatter(
    node: Node,
    index: Index,
    axis: usize,
    update: Update,
    x: &Array,
    indices: &Array,
    values: &Array,
) -> Result<Array, OutOfRange> {
    let follow = Follow { node, index, axis, indices, extent: x.dims[axis] };
    let mut out = x.clone();
    // Float sums are kept wide until the last addition.
    let mut sums: Vec<Option<Sum>> = vec![None; out.bits.len()];
    for (c, &value) in coordinates(&values.dims).zip(&values.bits) {
        let at = place(&follow.from(&c)?, &x.dims);
        let old = out.bits[at];
        out.bits[at] = match update {
            Update::Assign => value,
            Update::Add if x.dtype.is_float() => {
                let sum = sums[at].get_or_insert_with(|| {
                    let mut sum = Sum::default();
                    sum.add(number::to_f64(x.dtype, old));
                    sum
                });
                sum.add(number::to_f64(x.dtype, value));
                number::from_f64(x.dtype, sum.value())
            }
            Update::Add => binary(Pointwise::Add, x.dtype, old, value),
            Update::Mul => binary(Pointwise::Mul, x.dtype, old, value),
            Update::Min => binary(Pointwise::Min, x.dtype, old, value),
            Update::Max => binary(Pointwise::Max, x.dtype, old, value),
            Update::Or => old | value,
        };
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    fn ints(dims: &[u64], values: &[i128]) -> Array {
        Array::from_ints(DType::I64, dims, values)
    }

    #[test]
    fn positions_pick_whole_slices_and_elements_single_ones() {
        let (n, x) = (Node::from_u32(0), ints(&[2, 3], &[0, 1, 2, 3, 4, 5]));
        let rows = gather(n, Index::Positions, 0, &x, &ints(&[3], &[1, 0, 1]), &[3, 3]).unwrap();
        assert_eq!(rows.ints(), [3, 4, 5, 0, 1, 2, 3, 4, 5]);
        let picked = gather(n, Index::Elements, 1, &x, &ints(&[1, 2], &[2, 2]), &[1, 2]).unwrap();
        assert_eq!(picked.ints(), [2, 2]);
    }

    #[test]
    fn the_last_write_stays_and_sums_add_up() {
        let (n, x) = (Node::from_u32(0), ints(&[2], &[10, 20]));
        let (at, values) = (ints(&[3], &[1, 1, 0]), ints(&[3], &[1, 2, 3]));
        let put = |update| scatter(n, Index::Positions, 0, update, &x, &at, &values).unwrap().ints();
        assert_eq!(put(Update::Assign), [3, 2]);
        assert_eq!(put(Update::Add), [13, 23]);
        assert_eq!(put(Update::Max), [10, 20]);
    }

    #[test]
    fn an_index_out_of_range_is_named() {
        let (n, x) = (Node::from_u32(7), ints(&[2], &[10, 20]));
        let fault = gather(n, Index::Positions, 0, &x, &ints(&[2], &[0, -1]), &[2]).unwrap_err();
        assert_eq!(fault.to_string(), "n7: index -1 is out of range for an axis of extent 2 (element 1)");
    }
}
