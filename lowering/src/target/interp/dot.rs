//! Matrix products.  One fused multiply-add per term, in ascending order of k; integers wrap.

use super::machine::Tile;
use crate::dtype::DType;
use crate::op::scalar::cast;
use crate::tile::{Precision, Type};

/// `a·b + acc`
pub(super) fn dot(precision: Precision, [a, b, acc]: [&Type; 3], args: &[Tile]) -> Vec<u64> {
    let (m, k, n) = (a.shape[0] as usize, a.shape[1] as usize, b.shape[1] as usize);
    let size = [m, k, n];
    match acc.dtype {
        DType::F64 => {
            let x: Vec<f64> = args[0].iter().map(|&x| f64::from_bits(x)).collect();
            let y: Vec<f64> = args[1].iter().map(|&x| f64::from_bits(x)).collect();
            let mut sums: Vec<f64> = args[2].iter().map(|&x| f64::from_bits(x)).collect();
            product(size, &x, &y, &mut sums, |x, y, sum| x.mul_add(y, sum));
            sums.into_iter().map(|x| if x.is_nan() { 0x7ff8_0000_0000_0000 } else { x.to_bits() }).collect()
        }
        DType::F32 => {
            let wide = |dtype: DType, t: &Tile| -> Vec<f32> {
                t.iter().map(|&x| f32::from_bits(cast(dtype, DType::F32, x) as u32)).collect()
            };
            let (x, y) = (wide(a.dtype, &args[0]), wide(b.dtype, &args[1]));
            let mut sums = wide(acc.dtype, &args[2]);
            let step = |x: f32, y: f32, sum: f32| x.mul_add(y, sum);
            match precision {
                Precision::Ieee => product(size, &x, &y, &mut sums, step),
                Precision::Tf32 => product(size, &head(&x), &head(&y), &mut sums, step),
                // a·b ≈ tail(a)·head(b) + head(a)·tail(b) + head(a)·head(b), the small products first.
                Precision::Tf32x3 => {
                    let ((xh, xt), (yh, yt)) = ((head(&x), tail(&x)), (head(&y), tail(&y)));
                    product(size, &xt, &yh, &mut sums, step);
                    product(size, &xh, &yt, &mut sums, step);
                    product(size, &xh, &yh, &mut sums, step);
                }
            }
            sums.into_iter().map(|x| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits().into() }).collect()
        }
        int => {
            let wide = |t: &Tile| -> Vec<u64> { t.iter().map(|&x| cast(a.dtype, int, x)).collect() };
            let mut sums = args[2].to_vec();
            product(size, &wide(&args[0]), &wide(&args[1]), &mut sums, |x, y, sum| {
                x.wrapping_mul(y).wrapping_add(sum) & int.mask()
            });
            sums
        }
    }
}

fn product<T: Copy>([m, k, n]: [usize; 3], a: &[T], b: &[T], sums: &mut [T], step: impl Fn(T, T, T) -> T) {
    for i in 0..m {
        for l in 0..k {
            for j in 0..n {
                sums[i * n + j] = step(a[i * k + l], b[l * n + j], sums[i * n + j]);
            }
        }
    }
}

/// The nearest tf32, ten stored bits of mantissa, ties to even.
fn tf32(x: f32) -> f32 {
    if !x.is_finite() {
        return x;
    }
    let bits = x.to_bits();
    f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff)
}

fn head(x: &[f32]) -> Vec<f32> {
    x.iter().map(|&x| tf32(x)).collect()
}

/// What the head leaves, itself rounded to tf32.
fn tail(x: &[f32]) -> Vec<f32> {
    x.iter().map(|&x| tf32(x - tf32(x))).collect()
}
