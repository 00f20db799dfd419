//! One product, or a band of one: strided operands in the element type that the sums are kept in.

/// Rows (or columns) that a thread's share is a multiple of, so that micro-kernels stay full.
pub(super) const PANEL: usize = 16;

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

// SAFETY: threads read the operands and write disjoint parts of the result.
unsafe impl<T> Sync for View<T> {}

/// Sizes of one product.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
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

    /// # Safety
    ///
    /// The views are valid for the sizes; the band of `c` is this call's alone.
    pub(super) unsafe fn product<T: Number>(self, fast: bool, sizes: Sizes, a: View<T>, b: View<T>, c: View<T>) {
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
