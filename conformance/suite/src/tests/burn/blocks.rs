//! What transformers are made of, against definitions in f64: norms, rotary encodings, attention with every option,
//! prefixes, sorts, sums over letters.

use burn_tensor::activation;
use burn_tensor::module::{attention, embedding, layer_norm};
use burn_tensor::ops::AttentionModuleOptions;
use burn_tensor::{Bool, DType, Device, FloatDType, Int, Tensor, TensorData, einsum};

use super::{kiln, tensor, values};
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[
    test!(layer_norms_round_once),
    test!(rms_norms),
    test!(rotary_encodings),
    test!(attention_with_every_option_in_every_type),
    test!(embeddings_and_their_gradients),
    test!(prefixes),
    test!(sorts_and_what_is_on_top),
    test!(sums_over_letters),
    test!(softmax_rows_sum_to_one),
];

/// Multiples of 1/16 in [−2, 2], which every type holds exactly.
fn numbers(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed * 7919 + 12345;
    (0..n)
        .map(|_| {
            state = state * 48271 % 2_147_483_647;
            (state % 65) as f64 / 16.0 - 2.0
        })
        .collect()
}

fn of<const D: usize>(values: &[f64], shape: [usize; D], dtype: FloatDType, device: &Device) -> Tensor<D> {
    Tensor::<D>::from_data(TensorData::new(values.to_vec(), shape), device).cast(dtype)
}

fn floats<const D: usize>(x: Tensor<D>) -> Vec<f64> {
    x.into_data().iter::<f64>().collect()
}

/// Types with the distance that one rounding at the end may leave, as a part of the result (of 1/4 where it is less).
const ROUNDED_ONCE: &[(FloatDType, f64)] = &[
    (FloatDType::F64, 1e-12),
    (FloatDType::F32, 8e-6),
    (FloatDType::F16, 1.02 / 2048.0),
    (FloatDType::BF16, 1.01 / 256.0),
];

#[track_caller]
fn close(what: &str, got: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    for (i, (&x, &y)) in got.iter().zip(wanted).enumerate() {
        let near = x == y || (x - y).abs() <= tolerance * y.abs().max(0.25);
        assert!(near || x.is_nan() && y.is_nan(), "{what}, element {i}: {x}, wanted {y}");
    }
}

fn layer_norms_round_once() {
    let device = kiln();
    for n in [1, 3, 64, 257] {
        let (x, gamma, beta) = (numbers(3 * n, 1), numbers(n, 2), numbers(n, 3));
        let wanted: Vec<f64> = x
            .chunks(n)
            .flat_map(|row| {
                let mean = row.iter().sum::<f64>() / n as f64;
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
                let scale = (variance + 1e-3).sqrt().recip();
                row.iter().enumerate().map(|(i, x)| (x - mean) * scale * gamma[i] + beta[i]).collect::<Vec<_>>()
            })
            .collect();
        for &(dtype, tolerance) in ROUNDED_ONCE {
            let [gamma, beta] = [&gamma, &beta].map(|v| of(v, [n], dtype, &device));
            let got = layer_norm(of(&x, [3, n], dtype, &device), gamma, Some(beta), 1e-3);
            close(&format!("{n} {dtype:?}"), &floats(got), &wanted, tolerance);
        }
    }
}

/// As burn-nn writes it.
fn rms_norms() {
    let device = kiln();
    for n in [1, 5, 64, 300] {
        let (x, gamma) = (numbers(4 * n, 1), numbers(n, 2));
        let wanted: Vec<f64> = x
            .chunks(n)
            .flat_map(|row| {
                let scale = (row.iter().map(|x| x * x).sum::<f64>() / n as f64 + 1e-3).sqrt();
                row.iter().zip(&gamma).map(|(x, g)| x / scale * g).collect::<Vec<_>>()
            })
            .collect();
        let x = of(&x, [4, n], FloatDType::F32, &device);
        let rms = (x.clone().square().mean_dim(1) + 1e-3).sqrt();
        let got = x / rms * of(&gamma, [1, n], FloatDType::F32, &device);
        close(&format!("{n}"), &floats(got), &wanted, 8e-6);
    }
}

/// Pairs of neighbours turned by an angle that grows with the position, in the steps that burn-nn takes.
fn rotary_encodings() {
    let device = kiln();
    let (batch, length, width) = (2, 5, 6);
    let x = numbers(batch * length * width, 1);
    let theta: Vec<f64> = (0..width / 2).map(|i| 10_000f64.powf(-2.0 * i as f64 / width as f64)).collect();
    let mut wanted = vec![0.0; x.len()];
    for (at, pair) in x.chunks(2).enumerate() {
        let angle = ((at * 2 / width) % length) as f64 * theta[at % (width / 2)];
        wanted[2 * at] = pair[0] * angle.cos() - pair[1] * angle.sin();
        wanted[2 * at + 1] = pair[0] * angle.sin() + pair[1] * angle.cos();
    }
    let exponent = Tensor::<1, Int>::arange_step(0..width as i64, 2, &device).float() / width as f32;
    let theta = (exponent * 10_000f32.ln()).exp().recip();
    let positions = Tensor::<1, Int>::arange(0..length as i64, &device).float().unsqueeze::<2>().transpose();
    let angles: Tensor<2> = positions.repeat_dim(1, width / 2) * theta.unsqueeze();
    let turns = Tensor::cat(vec![angles.clone().cos(), angles.sin()], 1).reshape([length, 2, width / 2]);
    let turns = turns.swap_dims(1, 2).unsqueeze_dim::<4>(2).repeat_dim(2, 2).reshape([length, width, 2]);
    let signs = Tensor::<2>::from_floats([[1.0, 0.0, 0.0, 1.0], [0.0, -1.0, 1.0, 0.0]], &device);
    let x = of(&x, [batch, length, width / 2, 2], FloatDType::F32, &device);
    let spread = x.matmul(signs.unsqueeze()).reshape([batch, length, width, 2]);
    let got: Tensor<4> = spread * turns.unsqueeze();
    close("rotary", &floats(got.sum_dim(3)), &wanted, 8e-6);
}

/// Extents of an attention, and its options.
struct Case {
    queries: usize,
    keys: usize,
    masked: bool,
    biased: bool,
    options: AttentionModuleOptions,
}

const HEADS: usize = 2;
const WIDTH: usize = 8;
const VALUES: usize = 5;

/// The first query of each head sees nothing.
fn hides(case: &Case, at: usize) -> bool {
    let query = at / case.keys % case.queries;
    query == 0 || (at * 37 + 11).is_multiple_of(5)
}

/// `softmax(cap(q·kᵀ·scale) masked + bias) · v`, 0 where all is masked.
fn define(case: &Case, q: &[f64], k: &[f64], v: &[f64], bias: &[f64]) -> Vec<f64> {
    let Case { queries, keys, masked, biased, options } = case;
    let scale = options.scale.unwrap_or(1.0 / (WIDTH as f64).sqrt());
    let mut out = Vec::new();
    for head in 0..HEADS {
        for query in 0..*queries {
            let score = |key: usize| {
                let at = (head * queries + query) * keys + key;
                let row = |x: &[f64], i: usize| x[i * WIDTH..(i + 1) * WIDTH].to_vec();
                let (q, k) = (row(q, head * queries + query), row(k, head * keys + key));
                let mut score = q.iter().zip(&k).map(|(q, k)| q * k).sum::<f64>() * scale;
                if let Some(cap) = options.softcap {
                    score = cap * (score / cap).tanh();
                }
                if *masked && hides(case, at) || options.is_causal && key + queries > query + keys {
                    score = f64::NEG_INFINITY;
                }
                if *biased { score + bias[at] } else { score }
            };
            let scores: Vec<f64> = (0..*keys).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> =
                scores.iter().map(|s| if most == f64::NEG_INFINITY { 0.0 } else { (s - most).exp() }).collect();
            let total: f64 = weights.iter().sum();
            for column in 0..VALUES {
                let sum: f64 = (0..*keys).map(|key| weights[key] * v[(head * keys + key) * VALUES + column]).sum();
                out.push(if total == 0.0 { 0.0 } else { sum / total });
            }
        }
    }
    out
}

fn attention_with_every_option_in_every_type() {
    let device = kiln();
    let bits = |n: usize, bit: usize| n >> bit & 1 == 1;
    for (queries, keys) in [(1, 1), (1, 9), (7, 7), (5, 33), (33, 65)] {
        for n in 0..32 {
            let options = AttentionModuleOptions {
                scale: bits(n, 0).then_some(0.3),
                softcap: bits(n, 1).then_some(2.0),
                is_causal: bits(n, 2),
            };
            let case = Case { queries, keys, masked: bits(n, 3), biased: bits(n, 4), options };
            let q = numbers(HEADS * queries * WIDTH, 1);
            let (k, v) = (numbers(HEADS * keys * WIDTH, 2), numbers(HEADS * keys * VALUES, 3));
            let scores = [1, HEADS, queries, keys];
            let bias = numbers(HEADS * queries * keys, 4);
            let mask: Vec<bool> = (0..HEADS * queries * keys).map(|at| hides(&case, at)).collect();
            let wanted = define(&case, &q, &k, &v, &bias);
            for &(dtype, tolerance) in ROUNDED_ONCE {
                // Its kernels are those of f32 but for the type.
                if queries > 7 && dtype == FloatDType::F64 {
                    continue;
                }
                let mask = Tensor::<4, Bool>::from_data(TensorData::new(mask.clone(), scores), &device);
                let got = attention(
                    of(&q, [1, HEADS, queries, WIDTH], dtype, &device),
                    of(&k, [1, HEADS, keys, WIDTH], dtype, &device),
                    of(&v, [1, HEADS, keys, VALUES], dtype, &device),
                    case.masked.then_some(mask),
                    case.biased.then(|| of(&bias, scores, dtype, &device)),
                    case.options,
                );
                close(&format!("{queries}×{keys}, options {n:05b}, {dtype:?}"), &floats(got), &wanted, tolerance);
            }
        }
    }
}

fn embeddings_and_their_gradients() {
    let device = kiln().autodiff();
    let table = numbers(7 * 3, 1);
    // Rows that come several times, and rows that never come.
    let picks = [[2i64, 0, 2], [6, 2, 5]];
    for dtype in [FloatDType::F32, FloatDType::F16, FloatDType::BF16] {
        let weights = of(&table, [7, 3], dtype, &device).require_grad();
        let indices = Tensor::<2, Int>::from_data(TensorData::from(picks), (&device, DType::I64));
        let rows = embedding(weights.clone(), indices);
        let wanted: Vec<f64> =
            picks.iter().flatten().flat_map(|&i| table[i as usize * 3..i as usize * 3 + 3].to_vec()).collect();
        assert_eq!(floats(rows.clone()), wanted);
        let grad = numbers(18, 2);
        let gradients = (rows * of(&grad, [2, 3, 3], dtype, &device)).sum().backward();
        let mut sums = vec![0.0; 21];
        for (at, &i) in picks.iter().flatten().enumerate() {
            (0..3).for_each(|c| sums[i as usize * 3 + c] += grad[at * 3 + c]);
        }
        assert_eq!(floats(weights.grad(&gradients).expect("the table has a gradient")), sums);
    }
}

/// Prefixes in f32 and 16 bits: sums and products from f32 inside, extremes with the first NaN kept.
fn prefixes() {
    let device = kiln();
    for n in [1, 2, 31, 64, 1025] {
        let x: Vec<f64> = numbers(n, 1).iter().map(|x| x / 64.0).collect();
        let factors: Vec<f64> = (0..n).map(|i| if i % 2 == 0 { 2.0 } else { -0.5 }).collect();
        let scan = |values: &[f64], f: fn(f64, f64) -> f64| -> Vec<f64> {
            let mut last = None;
            values.iter().map(|&x| *last.insert(last.map_or(x, |l| f(l, x)))).collect()
        };
        for &(dtype, tolerance) in ROUNDED_ONCE {
            let t = |values: &[f64]| of(values, [1, n], dtype, &device);
            close("cumsum", &floats(t(&x).cumsum(1)), &scan(&x, |a, b| a + b), tolerance);
            assert_eq!(floats(t(&factors).cumprod(1)), scan(&factors, |a, b| a * b));
            assert_eq!(floats(t(&x).cummax(1)), scan(&x, f64::max));
            assert_eq!(floats(t(&x).cummin(1)), scan(&x, f64::min));
        }
        for at in [0, n / 2, n - 1] {
            let mut with_nan = x.clone();
            with_nan[at] = f64::NAN;
            for y in [
                of(&with_nan, [n], FloatDType::F32, &device).cummax(0),
                of(&with_nan, [n], FloatDType::BF16, &device).cummin(0),
            ] {
                let y = floats(y);
                assert!(y[..at].iter().all(|y| !y.is_nan()) && y[at..].iter().all(|y| y.is_nan()), "{n}, NaN at {at}");
            }
        }
    }
}

/// Sorts are stable, NaN counts as the greatest; the top are those of a descending sort.
fn sorts_and_what_is_on_top() {
    let device = kiln();
    for n in [1, 2, 63, 1000, 5000] {
        let mut x: Vec<f64> = numbers(n, 1);
        if n > 10 {
            x[3] = f64::NAN;
            x[7] = f64::NEG_INFINITY;
        }
        let order = |descending: bool| {
            let mut order: Vec<usize> = (0..n).collect();
            let key = |i: usize| if x[i].is_nan() { f64::INFINITY } else { x[i] };
            order.sort_by(|&a, &b| if descending { key(b).total_cmp(&key(a)) } else { key(a).total_cmp(&key(b)) });
            order
        };
        for dtype in [FloatDType::F32, FloatDType::F16, FloatDType::BF16] {
            let t = of(&x, [n], dtype, &device);
            for descending in [false, true] {
                let (sorted, at) = match descending {
                    true => t.clone().sort_descending_with_indices(0),
                    false => t.clone().sort_with_indices(0),
                };
                let at: Vec<usize> = at.into_data().iter::<i64>().map(|i| i as usize).collect();
                assert_eq!(at, order(descending), "{n} {dtype:?} {descending}");
                let wanted: Vec<f64> = at.iter().map(|&i| x[i]).collect();
                close("sort", &floats(sorted), &wanted, 0.0);
            }
            let k = n.min(5);
            let (top, at) = t.topk_with_indices(k, 0);
            let at: Vec<f64> = at.into_data().iter::<i64>().map(|i| x[i as usize]).collect();
            let wanted: Vec<f64> = order(true)[..k].iter().map(|&i| x[i]).collect();
            close("top", &floats(top), &wanted, 0.0);
            close("places of the top", &at, &wanted, 0.0);
        }
    }
}

fn sums_over_letters() {
    let device = kiln();
    let (x, y) = (numbers(2 * 3 * 4, 1), numbers(2 * 4 * 5, 2));
    let (a, b) = (of(&x, [2, 3, 4], FloatDType::F32, &device), of(&y, [2, 4, 5], FloatDType::F32, &device));
    let mut product = vec![0.0; 30];
    for (at, sum) in product.iter_mut().enumerate() {
        let (batch, row, column) = (at / 15, at / 5 % 3, at % 5);
        *sum = (0..4).map(|k| x[(batch * 3 + row) * 4 + k] * y[(batch * 4 + k) * 5 + column]).sum();
    }
    let batched: Tensor<3> = einsum!("bij,bjk->bik", a.clone(), b.clone());
    close("bij,bjk->bik", &floats(batched), &product, 1e-6);
    let whole: Tensor<2> = einsum!("bij,bjk->ik", a.clone(), b);
    let summed: Vec<f64> = (0..15).map(|at| product[at] + product[15 + at]).collect();
    close("bij,bjk->ik", &floats(whole), &summed, 1e-6);
    let turned: Tensor<3> = einsum!("bij->jbi", a);
    let wanted: Vec<f64> = (0..24).map(|at| x[(at / 3 % 2 * 3 + at % 3) * 4 + at / 6]).collect();
    close("bij->jbi", &floats(turned), &wanted, 0.0);
}

/// Rows of a softmax sum to 1 within the rounding of their elements: half a unit each.
fn softmax_rows_sum_to_one() {
    let device = kiln();
    for (n, spread) in [(1usize, 1.0), (3, 30.0), (100, 1.0), (1000, 8.0), (4097, 0.1), (50_000, 1.0)] {
        let x: Vec<f32> = numbers(2 * n, 1).iter().map(|x| (x * spread) as f32).collect();
        let y = values(activation::softmax(tensor(&x, [2, n], &device), 1));
        for row in y.chunks(n) {
            let sum: f64 = row.iter().map(|&y| f64::from(y)).sum();
            // exp, the sum, the quotient: 2, 1 and ½ units at most, of each element.
            assert!((sum - 1.0).abs() <= 4.0 * f64::from(f32::EPSILON), "{n}: {sum}");
        }
    }
}
