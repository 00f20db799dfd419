//! One product, or a band of one: strided operands in the element type that the sums are kept in.

use super::super::tail::Panel;

/// Rows (or columns) that a thread's share is a multiple of, so that micro-kernels stay full.
pub(super) const PANEL: usize = 16;

/// The `gemm` crate cuts `k` otherwise, or sums in another order, where a product has at most 64 rows and columns, and
/// where it has at most 256 elements.  Shares are wider than that, so that the number of threads never shows in a result.
const LEAST_BAND: usize = 5 * PANEL;
const LEAST_BAND_OF_FEW: usize = 32 * PANEL;

/// One product's operand in memory.
pub(super) struct View<T> {
    pub(super) start: *const T,
    pub(super) rows: isize,
    pub(super) cols: isize,
}

impl<T> Clone for View<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<T> {}

/// Both factors, and the product.
pub(super) type Views<A, C> = ([View<A>; 2], View<C>);

impl<T> View<T> {
    /// The place of an element.
    ///
    /// # Safety
    ///
    /// The matrix has this row and column.
    pub(super) unsafe fn at(self, row: usize, col: usize) -> *const T {
        // SAFETY: inside the matrix.
        unsafe { self.start.offset(row as isize * self.rows + col as isize * self.cols) }
    }

    /// The matrix below and right of an element.
    ///
    /// # Safety
    ///
    /// As for [`View::at`]; the element may be the one after the last of its row or column.
    pub(super) unsafe fn from(self, row: usize, col: usize) -> View<T> {
        View { start: self.start.wrapping_offset(row as isize * self.rows + col as isize * self.cols), ..self }
    }
}

// SAFETY: threads read the operands and write disjoint parts of the result.
unsafe impl<T> Sync for View<T> {}

/// Sizes of one product.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

impl Sizes {
    /// Whether shares are bands of rows, not of columns.
    fn is_tall(self) -> bool {
        self.m >= self.n
    }

    /// Into how many bands the longer side of the result may be divided.
    pub(super) fn bands(self) -> usize {
        let (long, short) = (self.m.max(self.n), self.m.min(self.n));
        (long / if short <= 3 { LEAST_BAND_OF_FEW } else { LEAST_BAND }).max(1)
    }
}

/// Element types that products are computed in.
pub(super) trait Number: Copy + Send + Sync + Default + 'static {
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
                super::cblas::product(super::cblas::$vendor, sizes, a, b, c)
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

/// A share of one product: a band of the longer side of the result.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) number: usize,
    pub(super) of: usize,
}

impl Part {
    pub(super) const ALL: Part = Part { number: 0, of: 1 };

    pub(super) fn band(self, len: usize) -> (usize, usize) {
        let panels = len.div_ceil(PANEL);
        let edge = |i: usize| (i * panels / self.of * PANEL).min(len);
        (edge(self.number), edge(self.number + 1))
    }

    /// The part of the result that this share of one member of the batch is.
    pub(super) fn panel(self, sizes: Sizes, member: u64) -> Panel {
        let span = |(from, to): (usize, usize)| from as u64..to as u64;
        let (rows, cols) = match sizes.is_tall() {
            true => (span(self.band(sizes.m)), 0..sizes.n as u64),
            false => (0..sizes.m as u64, span(self.band(sizes.n))),
        };
        let first = member * sizes.m as u64;
        Panel { rows: first + rows.start..first + rows.end, cols }
    }

    /// The band of a product that is this share.
    ///
    /// # Safety
    ///
    /// The views are valid for the sizes.
    pub(super) unsafe fn share<A, C>(
        self,
        mut sizes: Sizes,
        ([mut a, mut b], mut c): Views<A, C>,
    ) -> (Sizes, Views<A, C>) {
        // SAFETY: a band lies inside the matrix.
        unsafe {
            if sizes.is_tall() {
                let (from, to) = self.band(sizes.m);
                sizes.m = to - from;
                a = a.from(from, 0);
                c = c.from(from, 0);
            } else {
                let (from, to) = self.band(sizes.n);
                sizes.n = to - from;
                b = b.from(0, from);
                c = c.from(0, from);
            }
        }
        (sizes, ([a, b], c))
    }
}

/// `c = a·b`, or `c += a·b`.
///
/// # Safety
///
/// The views are valid for the sizes; `c` is this call's alone.
pub(super) unsafe fn product<T: Number>(add: bool, sizes: Sizes, ([a, b], c): Views<T, T>) {
    let Sizes { m, n, k } = sizes;
    if m == 0 || n == 0 || !add && k > 0 && T::vendor(sizes, a, b, c) {
        return;
    }
    // SAFETY: strided matrices of these sizes, valid as the caller promises; `c` is read only to be added to.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.start.cast_mut(),
            c.cols,
            c.rows,
            add,
            a.start,
            a.cols,
            a.rows,
            b.start,
            b.cols,
            b.rows,
            if add { T::ONE } else { T::default() },
            T::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// The product as it is defined: one fused multiply-add per term, in ascending order of k.
///
/// # Safety
///
/// As for [`product`].
pub(super) unsafe fn defined<A: Copy, T: Number, C>(
    Sizes { m, n, k }: Sizes,
    ([a, b], c): Views<A, C>,
    widen: impl Fn(A) -> T,
    round: impl Fn(T) -> C,
) {
    for i in 0..m {
        for j in 0..n {
            // SAFETY: inside the views, and the place in `c` is this call's alone.
            unsafe {
                let term = |sum: T, l: usize| widen(a.at(i, l).read()).fma(widen(b.at(l, j).read()), sum);
                let sum = (0..k).fold(T::default(), term);
                c.at(i, j).cast_mut().write(round(sum));
            }
        }
    }
}
