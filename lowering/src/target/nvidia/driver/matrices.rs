//! How the operands of a product lie, as a library that reads matrices column by column sees them.
//!
//! A result that lies row by row is the transposed one of the transposed factors in reverse order, so every plain or
//! transposed factor is taken as it lies.  An epilogue's bias goes along the library's rows, so it needs such a result.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::schedule::{Gemm, Matrix};

/// A matrix as the library sees it: `rows` by `cols` as it lies, columns `ld` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Side {
    pub(super) turned: bool,
    pub(super) rows: u64,
    pub(super) cols: u64,
    pub(super) ld: i64,
    /// Elements between members of the batch.
    pub(super) step: i64,
}

/// Bytes that a bias must be aligned to: a library's kernels read several elements of it at once.
pub(super) const BIAS: u64 = 16;

/// What the library is asked for: the factors in its order, and how batches are walked.
pub(super) struct Call<'a> {
    /// The factors and the result.
    pub(super) matrices: [&'a Matrix; 3],
    pub(super) sides: [Side; 3],
    /// Whether the plan's second factor is the library's first.
    pub(super) swapped: bool,
    pub(super) batch: u64,
    /// Axes beyond the library's one: extents and steps.
    pub(super) outer: SmallVec<[(u64, [i64; 3]); 4]>,
}

/// A matrix with columns `rows` long that lie without gaps, or rows that do.
fn side(rows: u64, cols: u64, row_stride: i64, col_stride: i64) -> Option<Side> {
    let plain = |rows: u64, cols: u64, near: i64, far: i64| {
        let ld = if cols > 1 { far } else { rows.max(1) as i64 };
        ((near == 1 || rows <= 1) && ld >= rows.max(1) as i64).then_some(ld)
    };
    let made = |turned, rows, cols, ld| Side { turned, rows, cols, ld, step: 0 };
    plain(rows, cols, row_stride, col_stride)
        .map(|ld| made(false, rows, cols, ld))
        .or_else(|| plain(cols, rows, col_stride, row_stride).map(|ld| made(true, cols, rows, ld)))
}

/// Whether a bias may begin at element `first` of its buffer.  One of a single element, which is left out, was not always
/// added to all columns (<https://github.com/dfyz/cublaslt-bias-epilogue>).
fn reads_at(gemm: &Gemm, first: i64) -> bool {
    gemm.n > 1 && (first * gemm.dtype.bytes() as i64).unsigned_abs().is_multiple_of(BIAS)
}

/// Axes of the batch that can be walked as one, merged; those of extent 1 left out.
fn merged(gemm: &Gemm) -> SmallVec<[(u64, [i64; 3]); 4]> {
    let mut axes: SmallVec<[(u64, [i64; 3]); 4]> = SmallVec::new();
    for (i, &n) in gemm.batch.iter().enumerate().filter(|(_, n)| **n != 1) {
        let steps = [&gemm.a, &gemm.b, &gemm.c].map(|m| m.batch_strides[i]);
        match axes.last_mut() {
            Some((outer, far)) if (0..3).all(|s| far[s] == steps[s] * n as i64) => (*outer, *far) = (*outer * n, steps),
            _ => axes.push((n, steps)),
        }
    }
    axes
}

impl<'a> Call<'a> {
    /// How the library would compute a product; nothing for one that it can't.
    pub(super) fn of(gemm: &'a Gemm) -> Option<Call<'a>> {
        let known = matches!(gemm.dtype, DType::F64 | DType::F32 | DType::F16 | DType::Bf16);
        let widens = gemm.dtype == DType::F32 && matches!(gemm.from, DType::F16 | DType::Bf16);
        let bias = gemm.bias();
        if !known || gemm.from != gemm.dtype && !widens || gemm.k == 0 {
            return None;
        }
        let Gemm { m, n, k, a, b, c, .. } = gemm;
        let result = |turned: bool| {
            let side = match turned {
                true => side(*n, *m, c.col_stride, c.row_stride),
                false => side(*m, *n, c.row_stride, c.col_stride),
            };
            side.filter(|s| !s.turned).map(|s| (turned, s))
        };
        let (swapped, out) = result(true).or_else(|| result(false).filter(|_| bias.is_none()))?;
        if bias.is_some_and(|(_, first)| !reads_at(gemm, first)) {
            return None;
        }
        let (matrices, sides) = match swapped {
            true => {
                let (x, y) = (side(*n, *k, b.col_stride, b.row_stride)?, side(*k, *m, a.col_stride, a.row_stride)?);
                ([b, a, c], [x, y, out])
            }
            false => {
                let (x, y) = (side(*m, *k, a.row_stride, a.col_stride)?, side(*k, *n, b.row_stride, b.col_stride)?);
                ([a, b, c], [x, y, out])
            }
        };
        let mut call = Call { matrices, sides, swapped, batch: 1, outer: merged(gemm) };
        let largest = (0..call.outer.len()).max_by_key(|&i| call.outer[i].0);
        if let Some(axis) = largest {
            let (count, steps) = call.outer.remove(axis);
            call.batch = count;
            let steps = call.ordered(steps);
            call.sides.iter_mut().zip(steps).for_each(|(side, step)| side.step = step);
        }
        // Members of a result must not lie over each other.
        (call.batch == 1 || call.sides[2].step != 0).then_some(call)
    }

    /// Where the factors and the result start, in the library's order: their buffers' addresses are in the plan's, and the
    /// bytes of their elements are the same for both factors.
    pub(super) fn starts(&self, addresses: [u64; 3], bytes: [usize; 3]) -> [u64; 3] {
        let bases = self.ordered(addresses);
        std::array::from_fn(|i| bases[i].wrapping_add_signed(self.matrices[i].offset * bytes[i] as i64))
    }

    /// Numbers of the plan's factors and result in the library's order.
    pub(super) fn ordered<T: Copy>(&self, [a, b, c]: [T; 3]) -> [T; 3] {
        if self.swapped { [b, a, c] } else { [a, b, c] }
    }
}

/// Whether the library can compute a product as its operands lie, its epilogue's among them.
pub fn takes(gemm: &Gemm) -> bool {
    Call::of(gemm).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Epilogue;

    fn matrix(row_stride: i64, col_stride: i64, steps: &[i64]) -> Matrix {
        Matrix {
            buffer: cranelift_entity::EntityRef::new(0),
            offset: 0,
            row_stride,
            col_stride,
            batch_strides: steps.iter().copied().collect(),
        }
    }

    fn gemm(batch: &[u64], [a, b, c]: [Matrix; 3]) -> Gemm {
        let batch = batch.iter().copied().collect();
        Gemm { dtype: DType::F32, from: DType::F32, m: 2, n: 3, k: 4, batch, a, b, c, epilogue: None, tail: None }
    }

    /// What the library's definition gives, element by element: column-major, op by `turned`.
    fn by_definition(call: &Call<'_>, k: u64, read: impl Fn(usize, i64) -> i64) -> Vec<(i64, i64)> {
        let [x, y, z] = call.sides;
        let at = |s: Side, row: u64, col: u64| {
            let (row, col) = if s.turned { (col, row) } else { (row, col) };
            assert!(row < s.rows && col < s.cols);
            row as i64 + col as i64 * s.ld
        };
        let mut out = Vec::new();
        for row in 0..z.rows {
            for col in 0..z.cols {
                let sum = (0..k).map(|i| read(0, at(x, row, i)) * read(1, at(y, i, col))).sum();
                out.push((at(z, row, col), sum));
            }
        }
        out.sort_unstable();
        out
    }

    #[test]
    fn every_transposition_is_taken_as_it_lies() {
        let (a_ways, b_ways, c_ways) = ([(4, 1), (1, 2), (7, 1)], [(3, 1), (1, 4), (1, 9)], [(3, 1), (1, 2), (5, 1)]);
        for number in 0..27 {
            let (a, b, c) = (a_ways[number % 3], b_ways[number / 3 % 3], c_ways[number / 9]);
            let product = gemm(&[], [matrix(a.0, a.1, &[]), matrix(b.0, b.1, &[]), matrix(c.0, c.1, &[])]);
            let call = Call::of(&product).expect("plain or transposed");
            // Values that tell every element of every factor from the others.
            let read = |which: usize, at: i64| if (which == 0) == call.swapped { 100 + at * at } else { 7 + 3 * at };
            let mut wanted: Vec<(i64, i64)> = Vec::new();
            for row in 0..2 {
                for col in 0..3 {
                    let term = |i: i64| (7 + 3 * (row * a.0 + i * a.1)) * (100 + (i * b.0 + col * b.1).pow(2));
                    wanted.push((row * c.0 + col * c.1, (0..4).map(term).sum()));
                }
            }
            wanted.sort_unstable();
            assert_eq!(by_definition(&call, 4, read), wanted, "{a:?} {b:?} {c:?}");
        }
    }

    #[test]
    fn batches_are_merged_and_the_largest_is_the_library_s() {
        let plain = |steps: [&[i64]; 3]| [matrix(4, 1, steps[0]), matrix(3, 1, steps[1]), matrix(3, 1, steps[2])];
        let product = gemm(&[2, 5], plain([&[40, 8], &[60, 12], &[30, 6]]));
        let call = Call::of(&product).expect("plain");
        assert_eq!((call.batch, call.outer.len()), (10, 0));
        assert_eq!(call.sides.map(|s| s.step), [12, 8, 6]);
        // A factor that all members of the first axis share.
        let product = gemm(&[2, 1, 5], plain([&[0, 0, 8], &[60, 3, 12], &[30, 2, 6]]));
        let call = Call::of(&product).expect("plain");
        assert_eq!((call.batch, call.outer.as_slice()), (5, &[(2, [0, 60, 30])][..]));
    }

    fn with_bias(gemm: Gemm, first: i64) -> Gemm {
        let bias = Some((cranelift_entity::EntityRef::new(1), first));
        Gemm { epilogue: Some(Epilogue { bias, relu: false }), ..gemm }
    }

    /// The library has an element of the bias per row of its result: the plan's columns, where the two are swapped.
    #[test]
    fn a_bias_goes_along_the_library_s_rows() {
        let plain = |c: Matrix| gemm(&[], [matrix(4, 1, &[]), matrix(3, 1, &[]), c]);
        let by_rows = with_bias(plain(matrix(3, 1, &[])), 0);
        let call = Call::of(&by_rows).expect("plain");
        assert_eq!((call.swapped, call.sides[2].rows), (true, by_rows.n));
        // Columns that lie side by side are the library's own.
        let by_columns = plain(matrix(1, 2, &[]));
        assert!(!Call::of(&by_columns).expect("plain").swapped);
        assert!(!takes(&with_bias(by_columns.clone(), 0)));
        let relu = Some(Epilogue { bias: None, relu: true });
        assert!(takes(&Gemm { epilogue: relu, ..by_columns }));
        // Every member of a batch gets the same.
        let batch = |outer: [&[i64]; 3]| [matrix(4, 1, outer[0]), matrix(3, 1, outer[1]), matrix(3, 1, outer[2])];
        assert!(takes(&with_bias(gemm(&[2, 5], batch([&[40, 8], &[0, 12], &[30, 6]])), 0)));
    }

    #[test]
    fn a_bias_starts_at_a_multiple_of_sixteen_bytes() {
        let plain = || gemm(&[], [matrix(4, 1, &[]), matrix(3, 1, &[]), matrix(3, 1, &[])]);
        let at = |dtype: DType, first: i64| takes(&with_bias(Gemm { dtype, from: dtype, ..plain() }, first));
        assert_eq!([0, 1, 2, 4, 8].map(|first| at(DType::F32, first)), [true, false, false, true, true]);
        assert_eq!([0, 1, 2, 4, 8].map(|first| at(DType::F64, first)), [true, false, true, true, true]);
        assert_eq!([0, 1, 2, 4, 8].map(|first| at(DType::Bf16, first)), [true, false, false, false, true]);
        assert!(!takes(&with_bias(Gemm { n: 1, ..plain() }, 0)));
    }

    #[test]
    fn what_lies_in_no_known_way_is_left_to_others() {
        let b = || matrix(3, 1, &[]);
        for a in [matrix(8, 2, &[]), matrix(0, 1, &[]), matrix(-4, 1, &[]), matrix(3, 1, &[])] {
            assert!(!takes(&gemm(&[], [a, b(), matrix(3, 1, &[])])));
        }
        let row = |c| Gemm { m: 1, ..gemm(&[], [matrix(0, 1, &[]), b(), c]) };
        assert!(takes(&row(matrix(9, 1, &[]))));
        let whole =
            Gemm { dtype: DType::I32, from: DType::I32, ..gemm(&[], [matrix(4, 1, &[]), b(), matrix(3, 1, &[])]) };
        assert!(!takes(&whole));
    }
}
