//! Kinds of faults that users of tensor compilers have met, a function each; the right values come from definitions.

use burn_kiln::inspect;
use burn_tensor::activation;
use burn_tensor::{Bool, DType, Device, FloatDType, Int, Slice, Tensor, TensorData};

use super::{kiln, tensor, values};
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[
    test!(narrow_outputs),
    test!(accumulators),
    test!(nothing_to_do),
    test!(nan_and_ties),
    test!(remainders),
    test!(rounding_points),
    test!(views),
    test!(dots),
    test!(masked_rows),
    test!(precision),
    test!(first_error),
    test!(gradients_of_gelu),
    test!(casts_between_all_types),
];

fn ints<const D: usize>(values: &[i64], shape: [usize; D], dtype: DType, device: &Device) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), (device, dtype))
}

fn ints_of<const D: usize>(x: Tensor<D, Int>) -> Vec<i64> {
    x.into_data_as::<i64>().try_to_vec().expect("the data was converted to i64")
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 37 % 101) as f32 / 16.0 - 3.0).collect()
}

/// Narrow outputs: [N, 1] and [1, N] heads of small networks, batched and one row at a time.
fn narrow_outputs() {
    let device = kiln();
    for n in 1..=33 {
        let x = tensor(&ramp(n * 5), [n, 5], &device);
        let (w, v) = (tensor(&ramp(35), [5, 7], &device), tensor(&ramp(7), [7, 1], &device));
        let head = |x: Tensor<2>| activation::relu(x.matmul(w.clone()) * 0.5).matmul(v.clone()) + 1.0;
        let all = values(head(x.clone()));
        let unfused = inspect::with_fusing(false, || values(head(x.clone())));
        assert_eq!(all, unfused, "[{n}, 1]");
        for (i, &whole) in all.iter().enumerate() {
            let row = x.clone().slice([i..i + 1, 0..5]);
            assert!((values(head(row))[0] - whole).abs() <= 1e-4 * whole.abs().max(1.0), "row {i} of [{n}, 1]");
        }
        let wide = values(head(x.clone()).transpose() * 2.0);
        let doubled: Vec<f32> = all.iter().map(|x| 2.0 * x).collect();
        assert_eq!(wide, doubled, "[1, {n}]");
    }
}

/// Accumulators: sums of 16-bit floats beyond their range on the way, and where ones would no longer count.
fn accumulators() {
    for dtype in [DType::F16, DType::BF16] {
        let device = kiln();
        let ones = Tensor::<1>::ones([66_000], (&device, dtype));
        let there_and_back = Tensor::cat(vec![ones.clone(), ones.clone().neg(), ones.clone().narrow(0, 0, 8)], 0);
        assert_eq!(values(there_and_back.sum()), [8.0], "{dtype:?}");
        assert_eq!(values(ones.clone().mean()), [1.0], "{dtype:?}");
        let product = ones.clone().reshape([1, 66_000]).matmul(ones.clone().reshape([66_000, 1]) / 33_000.0);
        assert!((values(product)[0] - 2.0).abs() < 0.02, "{dtype:?}");
        // Burn keeps the sum of squares and its length in the type itself: those fit, the sum of the elements does not.
        let half = ones.narrow(0, 0, 30_000);
        let spread = Tensor::cat(vec![half.clone() * 100.0, half * 101.0], 0).reshape([1, 60_000]);
        let variance = values(spread.var_bias(1))[0];
        assert!((variance - 0.25).abs() < 0.005, "{dtype:?}: {variance}");
    }
}

/// Nothing to do: tensors without elements, and reductions over none.
fn nothing_to_do() {
    let device = kiln();
    let empty = Tensor::<2>::zeros([0, 3], &device);
    assert!(values((empty.clone() * 2.0 + 1.0).exp()).is_empty());
    assert_eq!(values(empty.clone().sum_dim(0)), [0.0; 3]);
    assert_eq!(values(empty.clone().prod_dim(0)), [1.0; 3]);
    assert!(values(empty.clone().sum_dim(1)).is_empty());
    assert_eq!(values(empty.clone().sum()), [0.0]);
    assert_eq!(values(Tensor::cat(vec![empty.clone(), Tensor::ones([1, 3], &device)], 0)), [1.0; 3]);
    let product = Tensor::<2>::ones([2, 0], &device).matmul(Tensor::ones([0, 3], &device));
    assert_eq!(values(product), [0.0; 6]);
    let message = panics(|| values(empty.max_dim(0)));
    assert!(message.contains("max"), "{message}");
    let none = Tensor::<1, Bool>::from_data(TensorData::new(vec![false; 9], [9]), &device);
    assert_eq!(none.argwhere().dims(), [0, 1]);
}

/// NaN and ties: the first NaN, else the first of equals.
fn nan_and_ties() {
    let device = kiln();
    for n in [1, 2, 3, 7, 8, 9, 31, 64, 100, 257, 1024, 1025] {
        for at in [0, n / 2, n - 1] {
            let mut x = vec![1.0; n];
            x[at] = f32::NAN;
            let t = tensor(&x, [n], &device);
            assert!(values(t.clone().max())[0].is_nan() && values(t.clone().min())[0].is_nan(), "{at} of {n}");
            assert_eq!(ints_of(t.clone().argmax(0)), [at as i64], "{n}");
            assert_eq!(ints_of(t.clone().argmin(0)), [at as i64], "{n}");
            let prefixes = values(t.cummax(0));
            assert!(prefixes.iter().enumerate().all(|(i, x)| x.is_nan() == (i >= at)), "{at} of {n}");
        }
        let equal = tensor(&vec![2.5; n], [n], &device);
        assert_eq!(ints_of(equal.clone().argmax(0)), [0]);
        assert_eq!(ints_of(equal.argmin(0)), [0]);
    }
}

/// Remainders: of every sign, of the extremes, by nothing; in the body of a vector loop and its tail.
fn remainders() {
    let device = kiln();
    let pairs = [(7, 3), (-7, 3), (7, -3), (-7, -3), (6, 3), (-6, 3), (0, 5), (1, -1), (-1, 1), (5, 0)];
    for dtype in [DType::I8, DType::I16, DType::I32, DType::I64] {
        let least = [i8::MIN as i64, i16::MIN as i64, i32::MIN as i64, i64::MIN][dtype.size().ilog2() as usize];
        let all: Vec<(i64, i64)> = pairs.into_iter().chain([(least, -1), (least, 3)]).cycle().take(37).collect();
        let (a, b): (Vec<i64>, Vec<i64>) = all.iter().copied().unzip();
        let (x, y) = (ints(&a, [37], dtype, &device), ints(&b, [37], dtype, &device));
        let floor = |(a, b): (i64, i64)| if b == 0 { 0 } else { a.wrapping_rem(b).wrapping_add(b).wrapping_rem(b) };
        let want: Vec<i64> = all.iter().map(|&pair| floor(pair)).collect();
        assert_eq!(ints_of(x.clone().remainder(y.clone())), want, "{dtype:?}");
        let towards_zero = |(a, b): (i64, i64)| match b {
            0 => 0,
            -1 if a == least => least,
            _ => a / b,
        };
        let want: Vec<i64> = all.iter().map(|&pair| towards_zero(pair)).collect();
        assert_eq!(ints_of(x.div(y)), want, "{dtype:?}");
    }
    let floats = [(7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (-7.5, -2.0), (1e20, 3.0), (-1e20, 3.0), (5.0, f32::INFINITY)];
    let (a, b): (Vec<f32>, Vec<f32>) = floats.iter().copied().cycle().take(37).unzip();
    let got = values(tensor(&a, [37], &device).remainder(tensor(&b, [37], &device)));
    for ((a, b), got) in a.iter().zip(&b).zip(got) {
        let exact = (f64::from(*a) % f64::from(*b)) as f32;
        let want = if exact != 0.0 && (exact < 0.0) != (*b < 0.0) { exact + b } else { exact };
        assert_eq!(got, want, "{a} rem {b}");
    }
    let undefined = [(1.0, 0.0), (f32::INFINITY, 2.0), (f32::NAN, 2.0), (2.0, f32::NAN)];
    for (a, b) in undefined {
        assert!(values(tensor(&[a], [1], &device).remainder(tensor(&[b], [1], &device)))[0].is_nan(), "{a} rem {b}");
    }
}

/// Rounding points: each operation on 16-bit floats rounds, fused or not; ties go to even.
fn rounding_points() {
    let device = kiln();
    let x = tensor(&[1.0, 256.0, 257.0, 3.0], [4], &device).cast(DType::BF16);
    // 256 + 1 is a tie between 256 and 258, and 258 + 1 one between 258 and 260.
    let sum = x.clone().add_scalar(1.0).add_scalar(1.0);
    assert_eq!(values(sum.clone()), [3.0, 256.0, 256.0, 5.0]);
    // 257 is no bf16: it is 256 from the start, and 256 + 1 − 1 is 255.
    let same = x.clone().add_scalar(1.0).sub_scalar(1.0).equal(x.clone());
    assert_eq!(same.into_data().iter::<bool>().collect::<Vec<_>>(), [true, false, false, true]);
    let third = tensor(&[1.0, 2.0], [2], &device) / 3.0;
    let through = third.clone().cast(DType::BF16).cast(DType::F32);
    let truncated = third.clone().equal(through.clone());
    assert_eq!(truncated.into_data().iter::<bool>().collect::<Vec<_>>(), [false, false]);
    assert_eq!(values(through), [0.333_984_38, 0.667_968_75]);
}

/// Views: transposed, repeated, offset, size-1 and backwards inputs through products, reductions and chains.
fn views() {
    let device = kiln();
    let base = tensor(&ramp(6 * 8), [6, 8], &device);
    let copy = |x: Tensor<2>| {
        let shape = x.dims();
        tensor(&values(x), shape, &device)
    };
    let views: Vec<(&str, Tensor<2>)> = vec![
        ("transposed", base.clone().transpose()),
        ("offset", base.clone().slice([1..5, 2..7])),
        ("backwards", base.clone().flip([0, 1])),
        ("steps", base.clone().slice([Slice::new(0, Some(6), 2), Slice::new(1, Some(8), -3)])),
        ("repeated", base.clone().slice([2..3, 0..8]).expand([5, 8])),
        ("column", base.clone().slice([0..6, 3..4])),
        ("row", base.clone().slice([4..5, 0..8])),
        ("transposed slice", base.clone().slice([1..4, 1..6]).transpose()),
    ];
    for (name, view) in views {
        let dense = copy(view.clone());
        let [m, k] = view.dims();
        let other = tensor(&ramp(k * 4), [k, 4], &device);
        assert_eq!(values(view.clone()).len(), m * k, "{name}");
        assert_eq!(values(view.clone().sum_dim(0)), values(dense.clone().sum_dim(0)), "{name}");
        assert_eq!(values(view.clone().sum_dim(1)), values(dense.clone().sum_dim(1)), "{name}");
        assert_eq!(values(view.clone().matmul(other.clone())), values(dense.clone().matmul(other)), "{name}");
        let chain = |x: Tensor<2>| (x.clone() * 2.0 - x.transpose().transpose().exp()).tanh();
        assert_eq!(values(chain(view.clone())), values(chain(dense.clone())), "{name}");
        let convolved = |x: Tensor<2>| {
            let x = x.reshape([1, 1, m, k]);
            let weight = tensor(&[1.0, -0.5], [1, 1, 1, 2], &device);
            burn_tensor::module::conv2d(x, weight, None, burn_tensor::ops::ConvOptions::new([1, 1], [0, 1], [1, 1], 1))
        };
        assert_eq!(values(convolved(view)), values(convolved(dense)), "{name}");
    }
}

/// Dots: sums of two products, tails in K, 16-bit factors accumulated in f32.
fn dots() {
    let device = kiln();
    for k in [1, 2, 3, 15, 16, 17, 31, 33, 63, 65, 127, 129] {
        let (a, b) = (ramp(3 * k), ramp(k * 5));
        let (x, y) = (tensor(&a, [3, k], &device), tensor(&b, [k, 5], &device));
        let twice = values(x.clone().matmul(y.clone()) + x.clone().matmul(y.clone() * 2.0));
        for (at, got) in twice.iter().enumerate() {
            let exact: f64 = (0..k).map(|i| 3.0 * f64::from(a[at / 5 * k + i]) * f64::from(b[i * 5 + at % 5])).sum();
            assert!((f64::from(*got) - exact).abs() < 1e-3, "{k}: {got} {exact}");
        }
        // These numbers are exact in bf16, so that only the sum rounds.
        let narrow = x.cast(DType::BF16).matmul(y.cast(DType::BF16));
        for (at, got) in values(narrow).iter().enumerate() {
            let bf16 = |x: f32| f64::from(values(tensor(&[x], [1], &device).cast(DType::BF16))[0]);
            let exact: f64 = if at % 7 == 0 {
                (0..k).map(|i| bf16(a[at / 5 * k + i]) * bf16(b[i * 5 + at % 5])).sum()
            } else {
                continue;
            };
            assert!((f64::from(*got) - exact).abs() <= exact.abs() / 128.0 + 1e-3, "{k}: {got} {exact}");
        }
    }
}

/// Rows that are fully masked, and rows of −∞.
fn masked_rows() {
    let device = kiln();
    let x = tensor(&[1.0, 2.0, f32::NEG_INFINITY, f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY], [3, 2], &device);
    let got = values(activation::softmax(x.clone(), 1));
    assert!((got[0] + got[1] - 1.0).abs() < 1e-6, "{got:?}");
    // Nothing to divide among: 0 / 0.
    assert!(got[2].is_nan() && got[3].is_nan(), "{got:?}");
    assert_eq!(got[4..], [1.0, 0.0]);
    let log = values(activation::log_softmax(x, 1));
    assert_eq!(log[4..], [0.0, f32::NEG_INFINITY]);
    // Poison in what a mask hides does not leak.
    let poisoned = tensor(&[f32::NAN, 1.0, 2.0, f32::NAN], [2, 2], &device);
    let hidden = poisoned.clone().is_nan();
    assert_eq!(values(poisoned.mask_fill(hidden, 0.0).sum_dim(1)), [1.0, 2.0]);
}

/// Precision: near zero, in sums of softmax rows, in long prefixes.
fn precision() {
    let device = kiln();
    let tiny = [1e-7f32, -1e-7, 3e-20, 1e-30];
    for (x, got) in tiny.iter().zip(values(tensor(&tiny, [4], &device).log1p())) {
        assert!((got / x - 1.0).abs() < 1e-6, "log1p {x} = {got}");
    }
    let rows = activation::softmax(tensor(&ramp(64 * 1000), [64, 1000], &device) * 4.0, 1);
    for sum in values(rows.sum_dim(1)) {
        assert!((sum - 1.0).abs() < 4e-6, "{sum}");
    }
    let mut x = vec![1.0f32; 1001];
    x[0] = 1e8;
    let prefixes = values(tensor(&x, [1001], &device).cumsum(0));
    // Numbers of this size are 8 apart.
    assert_eq!(prefixes[1000], 100_001_000.0);
    assert_eq!(prefixes[12], 100_000_016.0);
}

/// The first error: one failing read is one error that names its operation; other work goes on.
fn first_error() {
    let device = kiln();
    let fine = tensor(&[1.0, 2.0], [2], &device);
    let bad = tensor(&[1.0, 2.0], [2], &device).select(0, ints(&[0, 5], [2], DType::I64, &device)) * 2.0;
    let error = bad.try_into_data().expect_err("the index is out of range");
    let text = format!("{error:?}");
    assert!(text.contains("select") || text.contains("gather") || text.contains("index"), "{text}");
    assert_eq!(values(fine * 3.0), [3.0, 6.0]);
}

/// Gradients of activations: of GELU `Φ(x) + x·φ(x)`, not of what approximates it.
fn gradients_of_gelu() {
    let device = kiln().autodiff();
    let x = tensor(&ramp(50), [50], &device).require_grad();
    let gradients = activation::gelu(x.clone()).sum().backward();
    let got = values(x.grad(&gradients).expect("the input has a gradient"));
    for (x, got) in ramp(50).into_iter().map(f64::from).zip(got) {
        let normal = 0.5 * (1.0 + kiln_lowering::op::math::reference::erf(&[x / 2f64.sqrt()]));
        let density = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
        assert!((f64::from(got) - (normal + x * density)).abs() < 1e-5, "{x}: {got}");
    }
}

/// Casts: NaN, infinities, out of range, signs of zero.
fn casts_between_all_types() {
    let device = kiln();
    let x = tensor(&[0.0, -0.0, 1.5, -2.5, 300.7, -1e10, 1e30, f32::INFINITY, f32::NAN], [9], &device);
    let to = |dtype| ints_of(x.clone().int().cast(dtype));
    let _ = to(DType::I8);
    let saturated = ints_of(x.clone().cast(DType::F64).int().cast(DType::I64));
    assert_eq!(saturated[..5], [0, 0, 1, -2, 300]);
    for dtype in [FloatDType::F16, FloatDType::BF16, FloatDType::F64] {
        let back = values(x.clone().cast(dtype).cast(FloatDType::F32));
        assert!(
            back[0].is_sign_positive() && back[1].is_sign_negative() && back[8].is_nan() && back[7] == f32::INFINITY
        );
        assert_eq!(back[2..4], [1.5, -2.5]);
    }
}

/// The message of a call that has to panic.
pub fn panics<T>(f: impl FnOnce() -> T) -> String {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    match caught {
        Ok(_) => panic!("a panic was wanted"),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
        }
    }
}
