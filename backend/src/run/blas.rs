//! Matrix products on the processor, by the `gemm` crate or a system's CBLAS.
//!
//! Operands are strided as they come: transposed and broadcast ones are not copied.  f16 and bf16 are widened to f32,
//! accumulated there and rounded once.  Large products are split over the pool's threads, batches first.

use half::{bf16, f16};
use kiln_lowering::DType;
use kiln_lowering::schedule::{Gemm, Matrix};
use kiln_lowering::target::host::Pool;

/// Multiplications that are worth waking a thread for, at some 16 a nanosecond.
const WORTH_SHARING: u64 = 1 << 19;

/// Rows (or columns) that a thread's share is a multiple of, so that micro-kernels stay full.
const PANEL: usize = 16;

/// One product's operand in memory.
struct View<T> {
    start: *const T,
    rows: isize,
    cols: isize,
}

impl<T> Clone for View<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<T> {}

// SAFETY: threads read the operands and write disjoint parts of the result.
unsafe impl<T> Sync for View<T> {}

/// Sizes of one product.
#[derive(Clone, Copy)]
struct Sizes {
    m: usize,
    n: usize,
    k: usize,
}

/// Element types that products are computed in.
trait Number: Copy + Send + Sync + Default + 'static {
    const ONE: Self;

    /// One fused multiply-add.
    fn fma(self, b: Self, acc: Self) -> Self;

    /// The product, if a system's BLAS takes it.
    fn vendor(sizes: Sizes, a: View<Self>, b: View<Self>, c: View<Self>) -> bool;
}

macro_rules! number {
    ($ty:ident, $vendor:ident) => {
        impl Number for $ty {
            const ONE: $ty = 1.0;

            fn fma(self, b: $ty, acc: $ty) -> $ty {
                self.mul_add(b, acc)
            }

            #[cfg(feature = "cblas")]
            fn vendor(sizes: Sizes, a: View<$ty>, b: View<$ty>, c: View<$ty>) -> bool {
                cblas::product(cblas::$vendor, sizes, a, b, c)
            }

            #[cfg(not(feature = "cblas"))]
            fn vendor(_: Sizes, _: View<$ty>, _: View<$ty>, _: View<$ty>) -> bool {
                false
            }
        }
    };
}

number!(f32, cblas_sgemm);
number!(f64, cblas_dgemm);

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

/// A share of one product: a band of the longer side of the result.
#[derive(Clone, Copy)]
struct Part {
    number: usize,
    of: usize,
}

impl Part {
    const ALL: Part = Part { number: 0, of: 1 };

    fn band(self, len: usize) -> (usize, usize) {
        let panels = len.div_ceil(PANEL);
        let edge = |i: usize| (i * panels / self.of * PANEL).min(len);
        (edge(self.number), edge(self.number + 1))
    }

    /// # Safety
    ///
    /// The views are valid for the sizes; the band of `c` is this call's alone.
    unsafe fn product<T: Number>(self, fast: bool, sizes: Sizes, a: View<T>, b: View<T>, c: View<T>) {
        let mut sizes = sizes;
        let (mut a, mut b, mut c) = (a, b, c);
        // SAFETY: a band lies inside the matrix.
        unsafe {
            if sizes.m >= sizes.n {
                let (from, to) = self.band(sizes.m);
                sizes.m = to - from;
                a.start = a.start.offset(from as isize * a.rows);
                c.start = c.start.offset(from as isize * c.rows);
            } else {
                let (from, to) = self.band(sizes.n);
                sizes.n = to - from;
                b.start = b.start.offset(from as isize * b.cols);
                c.start = c.start.offset(from as isize * c.cols);
            }
            product(fast, sizes, a, b, c);
        }
    }
}

/// # Safety
///
/// As for [`Part::product`].
unsafe fn product<T: Number>(fast: bool, sizes: Sizes, a: View<T>, b: View<T>, c: View<T>) {
    let Sizes { m, n, k } = sizes;
    if m == 0 || n == 0 {
        return;
    }
    if fast && k > 0 {
        if T::vendor(sizes, a, b, c) {
            return;
        }
        // SAFETY: strided matrices of these sizes, valid as the caller promises; `c` is written only.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                c.start.cast_mut(),
                c.cols,
                c.rows,
                false,
                a.start,
                a.cols,
                a.rows,
                b.start,
                b.cols,
                b.rows,
                T::default(),
                T::ONE,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
        return;
    }
    for i in 0..m as isize {
        for j in 0..n as isize {
            let mut sum = T::default();
            for l in 0..k as isize {
                // SAFETY: inside the views.
                let (x, y) = unsafe {
                    (a.start.offset(i * a.rows + l * a.cols).read(), b.start.offset(l * b.rows + j * b.cols).read())
                };
                sum = x.fma(y, sum);
            }
            // SAFETY: inside the view, and this call's alone.
            unsafe { c.start.offset(i * c.rows + j * c.cols).cast_mut().write(sum) };
        }
    }
}

/// A system's BLAS, by its C interface: OpenBLAS, MKL, BLIS, Accelerate.
#[cfg(feature = "cblas")]
mod cblas {
    use std::ffi::c_int;

    use super::{Number, Sizes, View};

    type Product<T> = unsafe extern "C" fn(
        order: c_int,
        trans_a: c_int,
        trans_b: c_int,
        m: c_int,
        n: c_int,
        k: c_int,
        alpha: T,
        a: *const T,
        lda: c_int,
        b: *const T,
        ldb: c_int,
        beta: T,
        c: *mut T,
        ldc: c_int,
    );

    const ROW_MAJOR: c_int = 101;
    const PLAIN: c_int = 111;
    const TRANSPOSED: c_int = 112;

    unsafe extern "C" {
        pub(super) fn cblas_sgemm(
            order: c_int,
            trans_a: c_int,
            trans_b: c_int,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: f32,
            a: *const f32,
            lda: c_int,
            b: *const f32,
            ldb: c_int,
            beta: f32,
            c: *mut f32,
            ldc: c_int,
        );
        pub(super) fn cblas_dgemm(
            order: c_int,
            trans_a: c_int,
            trans_b: c_int,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: f64,
            a: *const f64,
            lda: c_int,
            b: *const f64,
            ldb: c_int,
            beta: f64,
            c: *mut f64,
            ldc: c_int,
        );
    }

    /// How a matrix looks to BLAS: whether transposed, and the distance between its rows.
    fn shape(rows: usize, cols: usize, row_stride: isize, col_stride: isize) -> Option<(c_int, c_int)> {
        let plain = (col_stride == 1 || cols == 1).then_some((PLAIN, row_stride, cols));
        let turned = (row_stride == 1 || rows == 1).then_some((TRANSPOSED, col_stride, rows));
        [plain, turned].into_iter().flatten().find_map(|(kind, stride, least)| {
            let stride = if stride == 0 || (kind == PLAIN && rows == 1) || (kind == TRANSPOSED && cols == 1) {
                least as isize
            } else {
                stride
            };
            (stride >= least as isize).then(|| c_int::try_from(stride).ok()).flatten().map(|ld| (kind, ld))
        })
    }

    /// The product, if BLAS takes operands that lie so.
    pub(super) fn product<T: Number>(f: Product<T>, sizes: Sizes, a: View<T>, b: View<T>, c: View<T>) -> bool {
        let Sizes { m, n, k } = sizes;
        let broadcast = |v: View<T>, rows: usize, cols: usize| v.rows == 0 && rows > 1 || v.cols == 0 && cols > 1;
        if broadcast(a, m, k) || broadcast(b, k, n) {
            return false;
        }
        let (Some((ta, lda)), Some((tb, ldb)), Some((PLAIN, ldc))) =
            (shape(m, k, a.rows, a.cols), shape(k, n, b.rows, b.cols), shape(m, n, c.rows, c.cols))
        else {
            return false;
        };
        let (Ok(m), Ok(n), Ok(k)) = (c_int::try_from(m), c_int::try_from(n), c_int::try_from(k)) else { return false };
        // SAFETY: the views are valid for these sizes, and `shape` found leading distances that describe them.
        unsafe {
            f(ROW_MAJOR, ta, tb, m, n, k, T::ONE, a.start, lda, b.start, ldb, T::default(), c.start.cast_mut(), ldc)
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    /// A small integer at every place, so that sums are exact in every order.
    fn value(i: usize) -> f64 {
        (i * 7 % 11) as f64 - 5.0
    }

    fn bytes(dtype: DType, len: usize) -> Vec<u8> {
        (0..len).flat_map(|i| encode(dtype, value(i))).collect()
    }

    fn encode(dtype: DType, x: f64) -> Vec<u8> {
        match dtype {
            DType::F32 => (x as f32).to_ne_bytes().to_vec(),
            DType::F64 => x.to_ne_bytes().to_vec(),
            DType::F16 => f16::from_f64(x).to_ne_bytes().to_vec(),
            _ => bf16::from_f64(x).to_ne_bytes().to_vec(),
        }
    }

    fn matrix(buffer: u32, offset: i64, row_stride: i64, col_stride: i64, batch: i64) -> Matrix {
        Matrix {
            buffer: kiln_lowering::schedule::Buf::from_u32(buffer),
            offset,
            row_stride,
            col_stride,
            batch_strides: smallvec![batch],
        }
    }

    fn check(
        dtype: DType,
        (m, n, k): (u64, u64, u64),
        batch: u64,
        views: [(i64, i64, i64, i64); 2],
        threads: Option<usize>,
    ) {
        let len = 40_000;
        let (a, b) = (bytes(dtype, len), bytes(dtype, len));
        let mut c = vec![0xffu8; (batch * m * n) as usize * dtype.bytes()];
        let [x, y] = views;
        let gemm = Gemm {
            dtype,
            m,
            n,
            k,
            batch: smallvec![batch],
            a: matrix(0, x.0, x.1, x.2, x.3),
            b: matrix(1, y.0, y.1, y.2, y.3),
            c: matrix(2, 0, n as i64, 1, (m * n) as i64),
        };
        let pool = threads.map(Pool::with_threads);
        // SAFETY: every view of the tests stays inside the buffers.
        unsafe { run(pool.as_ref(), &gemm, a.as_ptr(), b.as_ptr(), c.as_mut_ptr()) };
        let at = |v: (i64, i64, i64, i64), g: u64, i: u64, j: u64| {
            value((v.0 + v.1 * i as i64 + v.2 * j as i64 + v.3 * g as i64) as usize)
        };
        for g in 0..batch {
            for i in 0..m {
                for j in 0..n {
                    let want: f64 = (0..k).map(|l| at(x, g, i, l) * at(y, g, l, j)).fold(0.0, |sum, x| sum + x);
                    let from = ((g * m + i) * n + j) as usize * dtype.bytes();
                    assert_eq!(c[from..from + dtype.bytes()], encode(dtype, want), "{dtype} {g} {i} {j}");
                }
            }
        }
    }

    #[test]
    fn products_of_every_type_and_view_are_exact() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16] {
            for threads in [None, Some(1), Some(3)] {
                // Plain, transposed, broadcast over rows and batch, negative steps.
                let k = if dtype == DType::Bf16 { 3 } else { 9 };
                check(dtype, (5, 7, k), 1, [(0, 9, 1, 0), (0, 7, 1, 0)], threads);
                check(dtype, (5, 7, k), 3, [(3, 1, 5, 50), (1, 1, 9, 70)], threads);
                check(dtype, (5, 7, k), 2, [(0, 0, 1, 0), (0, 7, 1, 63)], threads);
                check(dtype, (5, 7, k), 2, [(60, -9, -1, 3), (80, 1, -7, 0)], threads);
                check(dtype, (5, 7, 0), 2, [(0, 0, 0, 0), (0, 0, 0, 0)], threads);
                check(dtype, (1, 1, 1), 1, [(0, 1, 1, 0), (0, 1, 1, 0)], threads);
                check(dtype, (0, 3, 2), 1, [(0, 1, 1, 0), (0, 1, 1, 0)], threads);
            }
        }
    }

    #[test]
    fn large_products_are_shared_and_exact() {
        for threads in [1, 2, 3, 7] {
            check(DType::F32, (150, 90, 100), 1, [(0, 100, 1, 0), (0, 90, 1, 0)], Some(threads));
            check(DType::F64, (33, 160, 120), 2, [(0, 120, 1, 4000), (0, 1, 120, 0)], Some(threads));
            check(DType::F32, (16, 16, 64), 60, [(0, 64, 1, 100), (0, 16, 1, 7)], Some(threads));
            check(DType::F16, (120, 90, 70), 1, [(0, 70, 1, 0), (0, 90, 1, 0)], Some(threads));
        }
    }

    #[test]
    fn bands_cover_everything_once() {
        for len in [1, 15, 16, 17, 100, 1000] {
            for of in 1..9 {
                let bands: Vec<_> = (0..of).map(|number| Part { number, of }.band(len)).collect();
                assert_eq!((bands[0].0, bands[of - 1].1), (0, len));
                assert!(bands.windows(2).all(|w| w[0].1 == w[1].0), "{bands:?}");
            }
        }
    }
}
