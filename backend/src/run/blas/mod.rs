//! Matrix products on the processor, by the `gemm` crate or a system's CBLAS.
//!
//! Operands are strided as they come: transposed and broadcast ones are not copied.  f16 and bf16 are widened to f32,
//! accumulated there and rounded once.  Large products are split over the pool's threads, batches first.

#[cfg(feature = "cblas")]
mod cblas;
mod product;

use half::{bf16, f16};
use kiln_lowering::DType;
use kiln_lowering::schedule::{Gemm, Matrix};
use kiln_lowering::target::host::Pool;

use product::{Number, PANEL, Part, Sizes, View};

/// Multiplications that are worth waking a thread for, at some 16 a nanosecond.
const WORTH_SHARING: u64 = 1 << 19;

/// 16-bit elements.
trait Narrow: Copy + Sync {
    fn widen(self) -> f32;
    fn narrow(x: f32) -> Self;
}

impl Narrow for f16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }
    fn narrow(x: f32) -> f16 {
        f16::from_f32(x)
    }
}

impl Narrow for bf16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }
    fn narrow(x: f32) -> bf16 {
        bf16::from_f32(x)
    }
}

/// Runs a product.  Without a pool, as one fused multiply-add per term in ascending order of k.
///
/// # Safety
///
/// The addresses are those of the gemm's buffers, valid for all elements that it names; the result overlaps no operand
/// and is not accessed meanwhile.
pub(super) unsafe fn run(pool: Option<&Pool>, gemm: &Gemm, a: *const u8, b: *const u8, c: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe {
        match gemm.dtype {
            DType::F32 => whole::<f32>(pool, gemm, a, b, c),
            DType::F64 => whole::<f64>(pool, gemm, a, b, c),
            DType::F16 => narrow::<f16>(pool, gemm, a, b, c),
            DType::Bf16 => narrow::<bf16>(pool, gemm, a, b, c),
            other => panic!("a product of {other} is not the BLAS's"),
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

unsafe fn whole<T: Number>(pool: Option<&Pool>, gemm: &Gemm, a: *const u8, b: *const u8, c: *mut u8) {
    let sizes = Sizes { m: gemm.m as usize, n: gemm.n as usize, k: gemm.k as usize };
    let members = gemm.batch.iter().product::<u64>();
    let [a, b, c] = [a as usize, b as usize, c as usize];
    let one = |number: u64, part: Part| {
        let batch = member(gemm, number);
        // SAFETY: the addresses are the caller's, and the plan's places lie inside the buffers.
        unsafe {
            let (a, b, c) = (
                view::<T>(a as *const u8, &gemm.a, &batch),
                view::<T>(b as *const u8, &gemm.b, &batch),
                view::<T>(c as *const u8, &gemm.c, &batch),
            );
            part.product(pool.is_some(), sizes, a, b, c);
        }
    };
    let Some(pool) = pool else { return (0..members).for_each(|number| one(number, Part::ALL)) };
    let (tasks, parts) = shares(pool.threads(), members, sizes);
    if tasks <= 1 {
        return (0..members).for_each(|number| one(number, Part::ALL));
    }
    pool.share(tasks as u32, &|task| {
        let task = u64::from(task);
        if parts > 1 {
            one(task / parts, Part { number: (task % parts) as usize, of: parts as usize });
        } else {
            // Members in runs of even length.
            for number in task * members / tasks..(task + 1) * members / tasks {
                one(number, Part::ALL);
            }
        }
    });
}

unsafe fn narrow<T: Narrow>(pool: Option<&Pool>, gemm: &Gemm, a: *const u8, b: *const u8, c: *mut u8) {
    let sizes = Sizes { m: gemm.m as usize, n: gemm.n as usize, k: gemm.k as usize };
    let members = gemm.batch.iter().product::<u64>();
    let fixed = |m: &Matrix| m.batch_strides.iter().zip(&gemm.batch).all(|(&s, &n)| s == 0 || n == 1);
    let (mut wide_a, mut wide_b) = (Vec::new(), Vec::new());
    let mut wide_c = vec![0f32; sizes.m * sizes.n];
    for number in 0..members {
        let batch = member(gemm, number);
        // SAFETY: the addresses are the caller's, and the plan's places lie inside the buffers; the wide copies are
        // dense and live until the product is done.
        unsafe {
            if number == 0 || !fixed(&gemm.a) {
                widen(view::<T>(a, &gemm.a, &batch), sizes.m, sizes.k, &mut wide_a);
            }
            if number == 0 || !fixed(&gemm.b) {
                widen(view::<T>(b, &gemm.b, &batch), sizes.k, sizes.n, &mut wide_b);
            }
            let (m, n, k) = (sizes.m, sizes.n, sizes.k);
            let a = View { start: wide_a.as_ptr(), rows: k as isize, cols: 1 };
            let b = View { start: wide_b.as_ptr(), rows: n as isize, cols: 1 };
            let wide = View { start: wide_c.as_mut_ptr().cast_const(), rows: n as isize, cols: 1 };
            match pool {
                Some(pool) => {
                    let (tasks, parts) = shares(pool.threads(), 1, sizes);
                    pool.share(tasks.max(1) as u32, &|task| {
                        Part { number: task as usize, of: parts.max(1) as usize }.product(true, sizes, a, b, wide);
                    });
                }
                None => Part::ALL.product(false, sizes, a, b, wide),
            }
            let out = view::<T>(c, &gemm.c, &batch);
            for i in 0..m {
                for j in 0..n {
                    let at = out.start.offset(i as isize * out.rows + j as isize * out.cols);
                    at.cast_mut().write(T::narrow(wide_c[i * n + j]));
                }
            }
        }
    }
}

/// A dense f32 copy of a matrix.
///
/// # Safety
///
/// The view is valid for `rows` × `cols` elements.
unsafe fn widen<T: Narrow>(from: View<T>, rows: usize, cols: usize, to: &mut Vec<f32>) {
    to.clear();
    to.reserve(rows * cols);
    for i in 0..rows {
        for j in 0..cols {
            // SAFETY: inside the view.
            to.push(unsafe { from.start.offset(i as isize * from.rows + j as isize * from.cols).read() }.widen());
        }
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
        return (wanted, 1);
    }
    let parts = wanted.min((sizes.m.max(sizes.n) / PANEL) as u64).max(1);
    (members * parts, parts)
}

#[cfg(test)]
mod tests;
