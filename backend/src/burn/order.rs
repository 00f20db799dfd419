//! Sorting, and the greatest few.  Sorts are stable, NaN last (first, when descending).

use burn_backend::DType as BurnType;
use kiln_lowering::DType;
use kiln_lowering::graph::Index;
use smallvec::smallvec;

use super::checks;
use super::dims::dims;
use super::two;
use crate::record::{record, record_many};
use crate::{KilnTensor, to_kiln};

/// The values in order.
pub fn sort(op: &'static str, x: KilnTensor, dim: usize, descending: bool) -> KilnTensor {
    checks::axis(op, &x, dim);
    let all = dims(&x)[dim];
    first(op, x, dim, all, descending)
}

/// The indices that put the values in order.
pub fn argsort(op: &'static str, x: KilnTensor, dim: usize, descending: bool, out: BurnType) -> KilnTensor {
    checks::axis(op, &x, dim);
    let all = dims(&x)[dim];
    first_indices(op, x, dim, all, descending, out)
}

/// Both.
pub fn with_indices(
    op: &'static str,
    x: KilnTensor,
    dim: usize,
    descending: bool,
    out: BurnType,
) -> (KilnTensor, KilnTensor) {
    checks::axis(op, &x, dim);
    let all = dims(&x)[dim];
    first_with_indices(op, x, dim, all, descending, out)
}

/// The `k` greatest values, greatest first.
pub fn top(op: &'static str, x: KilnTensor, dim: usize, k: usize) -> KilnTensor {
    checks::top(op, &x, dim, k);
    first(op, x, dim, k as u64, true)
}

/// Where the `k` greatest values are; of equal ones, the lowest index first.
pub fn argtop(op: &'static str, x: KilnTensor, dim: usize, k: usize, out: BurnType) -> KilnTensor {
    checks::top(op, &x, dim, k);
    first_indices(op, x, dim, k as u64, true, out)
}

/// Both.
pub fn top_with_indices(
    op: &'static str,
    x: KilnTensor,
    dim: usize,
    k: usize,
    out: BurnType,
) -> (KilnTensor, KilnTensor) {
    checks::top(op, &x, dim, k);
    first_with_indices(op, x, dim, k as u64, true, out)
}

/// The first `keep` values.
fn first(op: &'static str, x: KilnTensor, dim: usize, keep: u64, descending: bool) -> KilnTensor {
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| t.sort(x, dim, keep, descending))
}

/// Their indices.
fn first_indices(
    op: &'static str,
    x: KilnTensor,
    dim: usize,
    keep: u64,
    descending: bool,
    out: BurnType,
) -> KilnTensor {
    record(op, &x.device(), [&x], out, |t, [x]| t.argsort(x, dim, keep, descending, to_kiln(out)))
}

/// Both: sorted once, the values then fetched.
fn first_with_indices(
    op: &'static str,
    x: KilnTensor,
    dim: usize,
    keep: u64,
    descending: bool,
    out: BurnType,
) -> (KilnTensor, KilnTensor) {
    let dtype = x.dtype();
    two(record_many(op, &x.device(), &[&x], |t, x| {
        // Narrow types need not hold all indices that are fetched at.
        let order = t.argsort(x[0], dim, keep, descending, DType::I64);
        let values = t.gather(Index::Elements, x[0], dim, order);
        let indices = t.cast(order, to_kiln(out));
        smallvec![(values, dtype), (indices, out)]
    }))
}
