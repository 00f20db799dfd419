//! Products against sums in f64.

use smallvec::smallvec;

use super::product::Part;
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

/// A product of factors of its own type.
fn product(dtype: DType, (m, n, k): (u64, u64, u64), batch: u64, [a, b, c]: [Matrix; 3]) -> Gemm {
    Gemm { dtype, from: dtype, m, n, k, batch: smallvec![batch], a, b, c, epilogue: None, tail: None }
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
    let [a_view, b_view] = [(0, x), (1, y)].map(|(buffer, v)| matrix(buffer, v.0, v.1, v.2, v.3));
    let gemm = product(dtype, (m, n, k), batch, [a_view, b_view, matrix(2, 0, n as i64, 1, (m * n) as i64)]);
    let pool = threads.map(Pool::with_threads);
    let on = pool.as_ref().map_or(On::Definition, |pool| On::Pool(pool, None));
    // SAFETY: every view of the tests stays inside the buffers.
    unsafe { run(on, &gemm, a.as_ptr(), b.as_ptr(), c.as_mut_ptr()) };
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

/// Not exact: sums differ where their order does.
fn uneven(dtype: DType, len: usize) -> Vec<u8> {
    (0..len as u64)
        .flat_map(|i| encode(dtype, (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64 - 0.3))
        .collect()
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for dtype in [DType::F32, DType::F64, DType::Bf16] {
        let sizes = [(130, 70, 1500), (700, 2, 900), (1, 1100, 1100), (1100, 1, 1100), (3, 1300, 600), (161, 161, 700)];
        for (m, n, k) in sizes {
            let (a, b) = (uneven(dtype, (m * k) as usize), uneven(dtype, (k * n) as usize));
            let result = |threads: usize, turned: bool| {
                let mut c = vec![0u8; (m * n) as usize * dtype.bytes()];
                let (m_stride, k_stride) = if turned { (1, m as i64) } else { (k as i64, 1) };
                let a_view = matrix(0, 0, m_stride, k_stride, 0);
                let (b_view, c_view) = (matrix(1, 0, n as i64, 1, 0), matrix(2, 0, n as i64, 1, 0));
                let gemm = product(dtype, (m, n, k), 1, [a_view, b_view, c_view]);
                let pool = Pool::with_threads(threads);
                // SAFETY: the views are those of the buffers.
                unsafe { run(On::Pool(&pool, None), &gemm, a.as_ptr(), b.as_ptr(), c.as_mut_ptr()) };
                c
            };
            for turned in [false, true] {
                let alone = result(1, turned);
                for threads in [2, 3, 4, 7] {
                    assert!(result(threads, turned) == alone, "{dtype} {m}x{n}x{k} {turned} on {threads}");
                }
            }
        }
    }
}

#[test]
fn sixteen_bits_in_several_blocks_are_exact() {
    for dtype in [DType::F16, DType::Bf16] {
        // Rows, columns and terms beyond one block, of which the terms beyond eight are 0.
        let (m, n, k) = (300u64, 600u64, 520u64);
        let a: Vec<u8> = (0..m * k).flat_map(|i| encode(dtype, if i % k % 65 == 0 { 1.0 } else { 0.0 })).collect();
        let b = bytes(dtype, (k * n) as usize);
        for (rows, cols) in [(n as i64, 1), (1, k as i64)] {
            let mut c = vec![0xffu8; (m * n) as usize * dtype.bytes()];
            let (a_view, c_view) = (matrix(0, 0, k as i64, 1, 0), matrix(2, 0, n as i64, 1, 0));
            let b_view = matrix(1, 0, rows, cols, 0);
            let gemm = product(dtype, (m, n, k), 1, [a_view, b_view, c_view]);
            let pool = Pool::with_threads(2);
            // SAFETY: the views are those of the buffers.
            unsafe { run(On::Pool(&pool, None), &gemm, a.as_ptr(), b.as_ptr(), c.as_mut_ptr()) };
            for i in 0..m {
                for j in 0..n {
                    let at = |l: u64| value((l as i64 * rows + j as i64 * cols) as usize);
                    let want: f64 = (0..k).step_by(65).map(at).sum();
                    let from = (i * n + j) as usize * dtype.bytes();
                    assert_eq!(c[from..from + dtype.bytes()], encode(dtype, want), "{dtype} {i} {j}");
                }
            }
        }
    }
}

#[test]
fn bfloat16_rounds_as_the_half_crate_does() {
    for high in 0..=u16::MAX {
        for low in [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
            let x = f32::from_bits(u32::from(high) << 16 | low);
            assert_eq!(<bf16 as narrow::Rounded>::round(x).to_bits(), bf16::from_f32(x).to_bits(), "{x:e}");
        }
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
