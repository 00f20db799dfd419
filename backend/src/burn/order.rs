//! Sorting, and the greatest few.  Sorts are stable, NaN last (first, when descending).

use burn_backend::DType as BurnType;
use smallvec::smallvec;

use super::checks;
use super::two;
use crate::record::{record, record_many};
use crate::{KilnTensor, to_kiln};

/// The values in order.
pub fn sort(op: &'static str, x: KilnTensor, dim: usize, descending: bool) -> KilnTensor {
    checks::axis(op, &x, dim);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| t.sort(x, dim, descending))
}

/// The indices that put the values in order.
pub fn argsort(op: &'static str, x: KilnTensor, dim: usize, descending: bool, out: BurnType) -> KilnTensor {
    checks::axis(op, &x, dim);
    record(op, &x.device(), [&x], out, |t, [x]| t.argsort(x, dim, descending, to_kiln(out)))
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
    let dtype = x.dtype();
    two(record_many(op, &x.device(), &[&x], |t, x| {
        let values = t.sort(x[0], dim, descending);
        let indices = t.argsort(x[0], dim, descending, to_kiln(out));
        smallvec![(values, dtype), (indices, out)]
    }))
}

/// The `k` greatest values, greatest first.
pub fn top(op: &'static str, x: KilnTensor, dim: usize, k: usize) -> KilnTensor {
    checks::top(op, &x, dim, k);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| {
        let sorted = t.sort(x, dim, true);
        t.narrow(sorted, dim, 0, k as u64)
    })
}

/// Where the `k` greatest values are; of equal ones, the lowest index first.
pub fn argtop(op: &'static str, x: KilnTensor, dim: usize, k: usize, out: BurnType) -> KilnTensor {
    checks::top(op, &x, dim, k);
    record(op, &x.device(), [&x], out, |t, [x]| {
        let order = t.argsort(x, dim, true, to_kiln(out));
        t.narrow(order, dim, 0, k as u64)
    })
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
    let dtype = x.dtype();
    two(record_many(op, &x.device(), &[&x], |t, x| {
        let sorted = t.sort(x[0], dim, true);
        let order = t.argsort(x[0], dim, true, to_kiln(out));
        let values = t.narrow(sorted, dim, 0, k as u64);
        let indices = t.narrow(order, dim, 0, k as u64);
        smallvec![(values, dtype), (indices, out)]
    }))
}
