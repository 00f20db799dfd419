//! A system's BLAS, by its C interface: OpenBLAS, MKL, BLIS, Accelerate.

use std::ffi::c_int;

use super::product::{Number, Sizes, View};

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
    unsafe { f(ROW_MAJOR, ta, tb, m, n, k, T::ONE, a.start, lda, b.start, ldb, T::default(), c.start.cast_mut(), ldc) };
    true
}
