//! Every type, order and view against the oracle, with many equals, zeros of both signs and NaN.

use kiln_lowering::DType;
use kiln_lowering::graph::arbitrary::{Draws, Fill, fill};
use kiln_lowering::graph::oracle::order;
use kiln_lowering::graph::{Array, Dims};
use kiln_lowering::schedule::{Buf, Layout, Sort};
use kiln_lowering::target::host::Pool;

/// Sorts `x`, which lies in `bytes` as `layout` says, on the processor and by the oracle.
fn check(pool: &Pool, (x, bytes, layout): (&Array, &[u8], &Layout), axis: usize, keep: u64, descending: bool) {
    let mut dims: Dims = x.dims.clone();
    dims[axis] = keep;
    for indices in [None, Some(DType::I64), Some(DType::I32)] {
        let [input, output] = [0, 1].map(Buf::from_u32);
        let len = x.dims[axis];
        let (dtype, dims, layout) = (x.dtype, dims.clone(), layout.clone());
        let sort =
            Sort { dtype, dims: dims.clone(), axis: axis as u8, len, descending, indices, input, layout, output };
        let out = indices.unwrap_or(dtype);
        let mut words = vec![0u64; (dims.iter().product::<u64>() as usize * out.bytes()).div_ceil(8)];
        // SAFETY: vectors of words are aligned and long enough.
        let done = unsafe { super::run(pool, &sort, (bytes.as_ptr(), bytes.len()), words.as_mut_ptr().cast()) };
        assert_eq!(done, Ok(()));
        let got: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let want = match indices {
            None => order::sort(x, axis, keep, descending),
            Some(dtype) => order::argsort(x, axis, keep, descending, dtype),
        };
        let got = Array::from_bytes(out, &dims, &got[..dims.iter().product::<u64>() as usize * out.bytes()]);
        assert!(got.bits == want.bits, "{dtype} {:?} axis {axis}, {keep}, {descending}, {indices:?}", x.dims);
    }
}

/// The bytes of an array, aligned.
fn aligned(x: &Array) -> Vec<u64> {
    x.to_bytes().chunks(8).map(|c| c.iter().rev().fold(0, |word, &b| word << 8 | u64::from(b))).collect()
}

fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: any word is eight bytes.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 8) }
}

#[test]
fn every_type_and_view_is_sorted_as_the_oracle_does() {
    let pool = Pool::with_threads(3);
    let mut draws = Draws::new(11);
    let kinds = DType::ALL.iter().filter(|&&dtype| dtype != DType::Bool);
    for (&dtype, with) in kinds.flat_map(|d| [(d, Fill::Ordinary), (d, Fill::Special)]) {
        for dims in [&[1u64][..], &[1000], &[3, 300, 5], &[40, 2, 33], &[20, 1030]] {
            let x = fill(&mut draws, dtype, dims, with);
            let words = aligned(&x);
            for axis in 0..dims.len() {
                let n = dims[axis];
                for (keep, descending) in [(n, false), (n, true), (n.div_ceil(10), true), (1, false)] {
                    check(&pool, (&x, bytes(&words), &Layout::contiguous(dims)), axis, keep, descending);
                }
            }
        }
        // Backwards, every other element.
        let whole = fill(&mut draws, dtype, &[600], with);
        let part = Array::from_fn(dtype, &[300], |i| whole.bits[599 - 2 * i]);
        let layout = Layout { offset: 599, strides: [-2].into_iter().collect() };
        check(&pool, (&part, bytes(&aligned(&whole)), &layout), 0, 300, false);
    }
}

#[test]
fn long_lines_are_shared() {
    let pool = Pool::with_threads(3);
    let mut draws = Draws::new(12);
    for dtype in [DType::F32, DType::F16, DType::I64] {
        let n = 200_003;
        let x = fill(&mut draws, dtype, &[n], Fill::Special);
        let words = aligned(&x);
        for (keep, descending) in [(n, false), (n, true), (100, true), (n / 2, false)] {
            check(&pool, (&x, bytes(&words), &Layout::contiguous(&[n])), 0, keep, descending);
        }
    }
}

#[test]
fn a_line_outside_of_its_buffer_is_an_error() {
    let [input, output] = [0, 1].map(Buf::from_u32);
    let dims = Dims::from_slice(&[4]);
    let layout = Layout { offset: 0, strides: [2].into_iter().collect() };
    let (dtype, indices) = (DType::F32, None);
    let sort = Sort { dtype, dims, axis: 0, len: 4, descending: false, indices, input, layout, output };
    let (memory, mut out) = ([0u64; 3], [0u64; 2]);
    // SAFETY: both are aligned and as long as is said.
    let done =
        unsafe { super::run(&Pool::with_threads(1), &sort, (memory.as_ptr().cast(), 24), out.as_mut_ptr().cast()) };
    assert!(done.is_err_and(|e| e.contains("leaves its buffer of 6")));
}
