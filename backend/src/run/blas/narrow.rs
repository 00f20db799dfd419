//! Products of 16-bit floats: blocks of the operands are widened to f32 where the cache holds them, multiplied there,
//! and the sums are rounded once.

use std::cell::RefCell;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::product::{self, Part, Sizes, View, Views};

/// Most rows, columns and terms of the blocks: 1.25 MB of f32 with the sums, of which a second-level cache of 1 MB holds
/// the operands.
const ROWS: usize = 256;
const COLS: usize = 512;
const TERMS: usize = 256;

/// 16-bit elements.
pub(super) trait Narrow: Copy + Sync {
    fn widen(self) -> f32;

    /// Widens a run of elements.
    fn widen_all(from: &[Self], to: &mut [f32]);
}

/// What sums are rounded to.
pub(super) trait Rounded: Sized {
    fn round(x: f32) -> Self;

    /// Rounds a run of elements.
    fn round_all(from: &[f32], to: &mut [Self]);
}

impl Narrow for f16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }

    fn widen_all(from: &[f16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }
}

impl Rounded for f16 {
    fn round(x: f32) -> f16 {
        f16::from_f32(x)
    }

    fn round_all(from: &[f32], to: &mut [f16]) {
        to.convert_from_f32_slice(from);
    }
}

/// A bfloat16 is the upper half of an f32, which is written out here without branches so that it is done by vectors.
impl Narrow for bf16 {
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    fn widen_all(from: &[bf16], to: &mut [f32]) {
        from.iter().zip(to).for_each(|(&x, y)| *y = x.widen());
    }
}

impl Rounded for bf16 {
    fn round(x: f32) -> bf16 {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        bf16::from_bits(if x.is_nan() { bits >> 16 | 0x40 } else { rounded } as u16)
    }

    fn round_all(from: &[f32], to: &mut [bf16]) {
        from.iter().zip(to).for_each(|(&x, y)| *y = bf16::round(x));
    }
}

impl Rounded for f32 {
    fn round(x: f32) -> f32 {
        x
    }

    fn round_all(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
}

/// A thread's blocks: of both operands, and the sums.
#[derive(Default)]
struct Blocks {
    a: Vec<f32>,
    b: Vec<f32>,
    sums: Vec<f32>,
}

thread_local! {
    static BLOCKS: RefCell<Blocks> = RefCell::default();
}

/// `c = a·b`
///
/// # Safety
///
/// The views are valid for the sizes; `c` is this call's alone.
pub(super) unsafe fn product<A: Narrow, C: Rounded>(sizes: Sizes, views: Views<A, C>) {
    // SAFETY: as the caller promises.
    BLOCKS.with_borrow_mut(|blocks| unsafe { blocks.product(sizes, views) });
}

/// Blocks of even length, at most `most`.
fn cut(len: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let of = len.div_ceil(most);
    (0..of).map(move |number| Part { number, of }.band(len))
}

impl Blocks {
    /// # Safety
    ///
    /// As for [`product`].
    unsafe fn product<A: Narrow, C: Rounded>(&mut self, Sizes { m, n, k }: Sizes, ([a, b], c): Views<A, C>) {
        for (left, right) in cut(n, COLS) {
            for (top, bottom) in cut(m, ROWS) {
                let (rows, cols) = (bottom - top, right - left);
                self.sums.clear();
                self.sums.resize(rows * cols, 0.0);
                let sums = View { start: self.sums.as_mut_ptr().cast_const(), rows: cols as isize, cols: 1 };
                for from in (0..k).step_by(TERMS) {
                    let terms = TERMS.min(k - from);
                    // SAFETY: blocks lie inside the matrices.
                    unsafe {
                        let x = widen(a.from(top, from), rows, terms, &mut self.a);
                        // One block of terms serves all rows.
                        let y = match top > 0 && k <= TERMS {
                            true => widened(b, terms, cols, &self.b),
                            false => widen(b.from(from, left), terms, cols, &mut self.b),
                        };
                        product::product(from > 0, Sizes { m: rows, n: cols, k: terms }, ([x, y], sums));
                    }
                }
                // SAFETY: the block lies inside the result.
                unsafe { round(&self.sums, c.from(top, left), rows, cols) };
            }
        }
    }
}

/// Whether elements are kept column by column.
fn is_turned<T>(view: View<T>) -> bool {
    view.cols != 1 && view.rows == 1
}

/// The dense copy that [`widen`] made.
fn widened<T>(from: View<T>, rows: usize, cols: usize, copy: &[f32]) -> View<f32> {
    match is_turned(from) {
        true => View { start: copy.as_ptr(), rows: 1, cols: rows as isize },
        false => View { start: copy.as_ptr(), rows: cols as isize, cols: 1 },
    }
}

/// A dense f32 copy of a matrix, in the order in which the matrix lies.
///
/// # Safety
///
/// The view is valid for `rows` × `cols` elements.
unsafe fn widen<T: Narrow>(from: View<T>, rows: usize, cols: usize, to: &mut Vec<f32>) -> View<f32> {
    to.resize(rows * cols, 0.0);
    let (lines, length) = if is_turned(from) { (cols, rows) } else { (rows, cols) };
    for (line, to) in (0..lines).zip(to.chunks_exact_mut(length.max(1))) {
        // SAFETY: elements of the view; where they are taken as a slice they lie side by side.
        unsafe {
            match is_turned(from) {
                true => T::widen_all(std::slice::from_raw_parts(from.at(0, line), length), to),
                false if from.cols == 1 => T::widen_all(std::slice::from_raw_parts(from.at(line, 0), length), to),
                false => to.iter_mut().enumerate().for_each(|(i, y)| *y = from.at(line, i).read().widen()),
            }
        }
    }
    widened(from, rows, cols, to)
}

/// Writes the sums, rounded.
///
/// # Safety
///
/// The view is valid for `rows` × `cols` elements and nobody else's.
unsafe fn round<T: Rounded>(sums: &[f32], to: View<T>, rows: usize, cols: usize) {
    for (i, line) in (0..rows).zip(sums.chunks_exact(cols.max(1))) {
        // SAFETY: elements of the view, side by side where they are taken as a slice.
        unsafe {
            match to.cols == 1 {
                true => T::round_all(line, std::slice::from_raw_parts_mut(to.at(i, 0).cast_mut(), cols)),
                false => line.iter().enumerate().for_each(|(j, &x)| to.at(i, j).cast_mut().write(T::round(x))),
            }
        }
    }
}
