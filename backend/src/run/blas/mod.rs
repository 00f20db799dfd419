//! Matrix products on the processor, by the `gemm` crate or a system's CBLAS.
//!
//! Operands are strided as they come: transposed and broadcast ones are not copied.  f16 and bf16 are widened to f32 in
//! blocks, accumulated there and rounded once.  Large products are split over the pool's threads, batches first; how
//! many threads there are changes no result.  A thread that has finished its part goes on with the product's tail there.

#[cfg(feature = "cblas")]
mod cblas;
mod narrow;
mod product;

use half::{bf16, f16};
use kiln_lowering::DType;
use kiln_lowering::schedule::{Gemm, Matrix};
use kiln_lowering::target::host::Pool;

use super::tail::{Panel, Tail};
use narrow::{Narrow, Rounded};
use product::{Number, Part, Sizes, View, Views};

/// What a product runs on.
#[derive(Clone, Copy)]
pub(super) enum On<'a> {
    /// This thread alone: one fused multiply-add per term, in ascending order of k.
    Definition,
    /// A pool's threads, which finish it with a tail.
    Pool(&'a Pool, Option<&'a Tail<'a>>),
}

/// Multiplications that are worth waking a thread for, at some 16 a nanosecond.
const WORTH_SHARING: u64 = 1 << 19;

/// Elements of a result up to which the tail of a product that one thread computes is left to that thread.
const TAIL_ALONE: u64 = 1 << 13;

/// Runs a product.
///
/// # Safety
///
/// The addresses are those of the gemm's buffers, valid for all elements that it names; the result overlaps no operand
/// and is not accessed meanwhile but by the tail.
pub(super) unsafe fn run(on: On<'_>, gemm: &Gemm, a: *const u8, b: *const u8, c: *mut u8) {
    let buffers = [a as usize, b as usize, c as usize];
    // SAFETY: as the caller promises.
    unsafe {
        match (gemm.from, gemm.dtype) {
            (DType::F32, DType::F32) => whole::<f32>(on, gemm, buffers),
            (DType::F64, DType::F64) => whole::<f64>(on, gemm, buffers),
            (DType::F16, DType::F16) => narrow::<f16, f16>(on, gemm, buffers),
            (DType::F16, DType::F32) => narrow::<f16, f32>(on, gemm, buffers),
            (DType::Bf16, DType::Bf16) => narrow::<bf16, bf16>(on, gemm, buffers),
            (DType::Bf16, DType::F32) => narrow::<bf16, f32>(on, gemm, buffers),
            (from, to) => panic!("a product of {from} in {to} is not the BLAS's"),
        }
    }
}

/// The view of one member of the batch.
///
/// # Safety
///
/// `base` is the start of the matrix's buffer.
unsafe fn view<T>(base: *const u8, matrix: &Matrix, batch: &[u64]) -> View<T> {
    let at = matrix.batch_strides.iter().zip(batch).map(|(&s, &i)| s * i as i64).sum::<i64>() + matrix.offset;
    // SAFETY: the plan names elements inside the buffer.
    let start = unsafe { base.cast::<T>().offset(at as isize) };
    View { start, rows: matrix.row_stride as isize, cols: matrix.col_stride as isize }
}

/// The coordinates of the `number`th member of the batch.
fn member(gemm: &Gemm, number: u64) -> smallvec::SmallVec<[u64; 4]> {
    let mut rest = number;
    let mut index: smallvec::SmallVec<[u64; 4]> = gemm.batch.iter().map(|_| 0).collect();
    for (i, &n) in gemm.batch.iter().enumerate().rev() {
        index[i] = rest % n;
        rest /= n;
    }
    index
}

/// A product's division into tasks: how many there are, and how many of them are parts of each member of the batch.
#[derive(Clone, Copy)]
struct Shares {
    members: u64,
    sizes: Sizes,
    tasks: u64,
    parts: u64,
}

impl Shares {
    /// The members of the batch that a task computes, in runs of even length, and which part of each.
    fn of(self, task: u64) -> (std::ops::Range<u64>, Part) {
        if self.parts > 1 {
            let member = task / self.parts;
            return (member..member + 1, Part { number: (task % self.parts) as usize, of: self.parts as usize });
        }
        (task * self.members / self.tasks..(task + 1) * self.members / self.tasks, Part::ALL)
    }

    /// The part of the result that is there when a task has computed its members below `end`.
    fn panel(self, members: std::ops::Range<u64>, part: Part) -> Panel {
        let first = part.panel(self.sizes, members.start);
        let rows = first.rows.start..first.rows.end + (members.end - members.start - 1) * self.sizes.m as u64;
        Panel { rows, ..first }
    }

    /// Calls `one` for each member and part of a task, and runs the tail's programs that this lets run.
    fn run(self, task: u64, one: &(dyn Fn(u64, Part) + Sync), tail: Option<&Tail<'_>>) {
        let (members, part) = self.of(task);
        let mut done = 0;
        for member in members.clone() {
            one(member, part);
            if let Some(tail) = tail {
                tail.advance(&self.panel(members.start..member + 1, part), &mut done);
            }
        }
    }
}

/// Calls `one` for each share of each member, on the pool's threads where that is worth it, and runs the tail.
fn share_out(pool: &Pool, tail: Option<&Tail<'_>>, members: u64, sizes: Sizes, one: &(dyn Fn(u64, Part) + Sync)) {
    let (tasks, parts) = shares(pool.threads(), members, sizes);
    let shares = Shares { members, sizes, tasks, parts };
    let few = members * sizes.m as u64 * sizes.n as u64 <= TAIL_ALONE;
    let at_once = tail.filter(|_| tasks > 1 || few || pool.threads() == 1);
    match tasks {
        0 | 1 => shares.run(0, one, at_once),
        _ => pool.share(tasks as u32, &|task| shares.run(task.into(), one, at_once)),
    }
    if let Some(tail) = tail {
        let ran = if at_once.is_some() { 0..tasks } else { 0..0 };
        tail.finish(pool, ran.map(|task| shares.of(task)).map(|(members, part)| shares.panel(members, part)));
    }
}

/// The views of one member of the batch.
///
/// # Safety
///
/// The addresses are those of the gemm's buffers.
unsafe fn views<A, C>(gemm: &Gemm, [a, b, c]: [usize; 3], number: u64) -> Views<A, C> {
    let batch = member(gemm, number);
    // SAFETY: the addresses are the caller's, and the plan's places lie inside the buffers.
    unsafe {
        let factors = [view(a as *const u8, &gemm.a, &batch), view(b as *const u8, &gemm.b, &batch)];
        (factors, view(c as *const u8, &gemm.c, &batch))
    }
}

fn sizes(gemm: &Gemm) -> Sizes {
    Sizes { m: gemm.m as usize, n: gemm.n as usize, k: gemm.k as usize }
}

unsafe fn whole<T: Number>(on: On<'_>, gemm: &Gemm, buffers: [usize; 3]) {
    let (sizes, members) = (sizes(gemm), gemm.batch.iter().product::<u64>());
    // SAFETY: the addresses are the caller's; shares of the result are disjoint.
    unsafe {
        let On::Pool(pool, tail) = on else {
            let one = |at| product::defined(sizes, views::<T, T>(gemm, buffers, at), |x| x, |x| x);
            return (0..members).for_each(one);
        };
        share_out(pool, tail, members, sizes, &|number, part| {
            let (sizes, views) = part.share(sizes, views::<T, T>(gemm, buffers, number));
            product::product(false, sizes, views);
        });
    }
}

unsafe fn narrow<A: Narrow, C: Rounded>(on: On<'_>, gemm: &Gemm, buffers: [usize; 3]) {
    let (sizes, members) = (sizes(gemm), gemm.batch.iter().product::<u64>());
    // SAFETY: as above.
    unsafe {
        let On::Pool(pool, tail) = on else {
            let one = |at| product::defined(sizes, views::<A, C>(gemm, buffers, at), A::widen, C::round);
            return (0..members).for_each(one);
        };
        share_out(pool, tail, members, sizes, &|number, part| {
            let (sizes, views) = part.share(sizes, views::<A, C>(gemm, buffers, number));
            narrow::product(sizes, views);
        });
    }
}

/// How many tasks a batch of products makes, and how many parts each member is split into.
fn shares(threads: usize, members: u64, sizes: Sizes) -> (u64, u64) {
    let threads = threads as u64;
    let each = sizes.m as u64 * sizes.n as u64 * sizes.k as u64;
    let wanted = (members * each / WORTH_SHARING).min(threads);
    if wanted <= 1 {
        return (1, 1);
    }
    if members >= wanted * 2 || members.is_multiple_of(wanted) {
        return (members.min(wanted * 4), 1);
    }
    let parts = wanted.min(sizes.bands() as u64);
    (members * parts, parts)
}

#[cfg(test)]
mod tests;
