//! Right values from the definitions, where another backend is no authority: 16-bit floats, NaN, ties, nothing to do,
//! remainders, rounding points.

use burn_backend::ops::{
    ActivationOps, BoolTensorOps, ConvOptions, DeformConvOptions, FloatTensorOps, IntTensorOps, InterpolateMode,
    InterpolateOptions, ModuleOps,
};
use burn_backend::{BoolStore, Distribution, FloatDType, IntDType, Scalar, Shape, TensorData, f16, read_sync};
use burn_kiln::{Kiln, KilnDevice, KilnTensor};

use crate::DEVICE;
use crate::test::{COMPILED, Test, test};

pub const TESTS: &[Test] = &[
    test!(half_precision_accumulates_beyond_its_range),
    test!(composites_in_half_precision_round_once),
    test!(nan_wins_and_ties_go_to_the_first),
    test!(padding_never_wins_a_pool),
    test!(nothing_to_do),
    test!(integer_division_truncates_and_the_remainder_has_the_divisors_sign),
    test!(a_comparison_with_a_number_out_of_range_does_not_wrap),
    test!(narrow_integers_have_means_and_indices),
    test!(powers_keep_their_special_values),
    test!(masked_rows_of_attention_are_zero),
    test!(a_convolution_by_hand),
    test!(the_gradient_of_a_deformed_place_is_its_derivative),
    test!(resizing_by_hand),
    test!(random_numbers_stay_in_their_range),
    test!(moves_prefixes_and_sorts_have_the_interpreters_bits).wants(&COMPILED),
    test!(rows_that_warps_share_have_the_interpreters_bits).wants(&COMPILED),
];

fn floats(values: &[f32], shape: &[usize]) -> KilnTensor {
    Kiln::float_from_data(TensorData::new(values.to_vec(), Shape::from(shape.to_vec())), &DEVICE)
}

fn ints(values: &[i32], shape: &[usize]) -> KilnTensor {
    Kiln::int_from_data(TensorData::new(values.to_vec(), Shape::from(shape.to_vec())), &DEVICE)
}

fn half(values: &[f32]) -> KilnTensor {
    Kiln::float_cast(floats(values, &[values.len()]), FloatDType::F16)
}

fn read(x: KilnTensor) -> Vec<f64> {
    let data = read_sync(Kiln::float_into_data(x)).expect("the tensor can be read");
    data.iter::<f64>().collect()
}

fn read_int(x: KilnTensor) -> Vec<i64> {
    let data = read_sync(Kiln::int_into_data(x)).expect("the tensor can be read");
    data.iter::<i64>().collect()
}

fn read_bool(x: KilnTensor) -> Vec<bool> {
    let data = read_sync(Kiln::bool_into_data(x)).expect("the tensor can be read");
    data.iter::<bool>().collect()
}

fn half_precision_accumulates_beyond_its_range() {
    let many = || half(&[60.0; 4096]);
    assert_eq!(read(Kiln::float_mean(many())), [60.0]);
    assert_eq!(read(Kiln::float_sum(half(&[16.0; 4000]))), [64000.0]);
    assert_eq!(read(Kiln::float_sum(many())), [f64::INFINITY]);
}

fn composites_in_half_precision_round_once() {
    let x: [f16; 4] = [0.1f32, -1.3, 2.7, 0.0].map(f16::from_f32);
    let soft = read(Kiln::softmax(half(&x.map(f16::to_f32)), 0));
    let exp = x.map(|v| f64::from(v).exp());
    let sum: f64 = exp.iter().sum();
    for (got, wanted) in soft.iter().zip(exp.map(|e| f16::from_f64(e / sum).to_f64())) {
        assert_eq!(*got, wanted);
    }
}

fn nan_wins_and_ties_go_to_the_first() {
    let nan = f32::NAN;
    let x = || floats(&[1.0, 3.0, 3.0, 2.0, nan, 9.0, nan, 1.0], &[2, 4]);
    assert_eq!(read_int(Kiln::float_argmax(x(), 1, IntDType::I32)), [1, 0]);
    assert_eq!(read_int(Kiln::float_argmin(x(), 1, IntDType::I32)), [0, 0]);
    let (max, at) = Kiln::float_max_dim_with_indices(x(), 1, IntDType::I64);
    assert_eq!(read_int(at), [1, 0]);
    let max = read(max);
    assert!(max[0] == 3.0 && max[1].is_nan());
    let pool = Kiln::max_pool2d_with_indices(
        floats(&[1.0, nan, nan, 4.0], &[1, 1, 2, 2]),
        [2, 2],
        [2, 2],
        [0, 0],
        [1, 1],
        false,
        IntDType::I32,
    );
    assert_eq!(read_int(pool.indices), [1]);
    assert!(read(pool.output)[0].is_nan());
    assert!(read(Kiln::relu(floats(&[nan], &[1])))[0].is_nan());
}

fn padding_never_wins_a_pool() {
    let low = f32::NEG_INFINITY;
    let pool = Kiln::max_pool2d_with_indices(
        floats(&[low; 9], &[1, 1, 3, 3]),
        [3, 3],
        [2, 2],
        [1, 1],
        [1, 1],
        false,
        IntDType::I64,
    );
    assert_eq!(read_int(pool.indices), [0, 1, 3, 4]);
    assert_eq!(read(pool.output), [f64::NEG_INFINITY; 4]);
}

fn nothing_to_do() {
    let empty = || floats(&[], &[2, 0]);
    assert_eq!(read(Kiln::float_sum(empty())), [0.0]);
    assert_eq!(read(Kiln::float_sum_dim(empty(), 1)), [0.0, 0.0]);
    assert_eq!(read(Kiln::float_prod_dim(empty(), 1)), [1.0, 1.0]);
    assert_eq!(read_bool(Kiln::float_any(empty(), BoolStore::Native)), [false]);
    assert_eq!(read_bool(Kiln::float_all(empty(), BoolStore::Native)), [true]);
    assert!(read(Kiln::float_exp(empty())).is_empty());
    assert_eq!(read(Kiln::float_matmul(empty(), floats(&[], &[0, 3]))), [0.0; 6]);
    assert_eq!(read(Kiln::float_cat(vec![empty(), floats(&[1.0, 2.0], &[2, 1])], 1)), [1.0, 2.0]);
    assert!(read(Kiln::float_select(floats(&[1.0], &[1]), 0, ints(&[], &[0]))).is_empty());
    let none = Kiln::bool_zeros(Shape::new([3]), &DEVICE, BoolStore::Native);
    let places = read_sync(Kiln::bool_argwhere(none, IntDType::I32));
    assert_eq!(*places.shape(), Shape::new([0, 1]));
    assert!(read(Kiln::float_mean(empty()))[0].is_nan());
}

fn integer_division_truncates_and_the_remainder_has_the_divisors_sign() {
    let (a, b) = ([7, -7, 7, -7, i32::MIN, 5], [2, 2, -2, -2, -1, 0]);
    let (x, y) = (|| ints(&a, &[6]), || ints(&b, &[6]));
    assert_eq!(read_int(Kiln::int_div(x(), y())), [3, -3, -3, 3, i64::from(i32::MIN), 0]);
    assert_eq!(read_int(Kiln::int_remainder(x(), y())), [1, 1, -1, -1, 0, 0]);
}

fn a_comparison_with_a_number_out_of_range_does_not_wrap() {
    let x = || Kiln::int_cast(ints(&[-100, 44, 100], &[3]), IntDType::I8);
    assert_eq!(read_bool(Kiln::int_lower_elem(x(), Scalar::Int(300), BoolStore::Native)), [true; 3]);
    assert_eq!(read_bool(Kiln::int_equal_elem(x(), Scalar::Int(300), BoolStore::Native)), [false; 3]);
}

fn narrow_integers_have_means_and_indices() {
    let x = || Kiln::int_cast(ints(&[100; 300], &[300]), IntDType::I8);
    assert_eq!(read_int(Kiln::int_mean(x())), [100]);
    let mut values = [1; 300];
    values[299] = 2;
    assert_eq!(read_int(Kiln::int_argmax(Kiln::int_cast(ints(&values, &[300]), IntDType::I8), 0)), [299]);
}

fn powers_keep_their_special_values() {
    let x = || floats(&[-0.0, f32::NEG_INFINITY, 4.0, -1.0], &[4]);
    let root = read(Kiln::float_powf_scalar(x(), Scalar::Float(0.5)));
    assert!(root[0] == 0.0 && root[0].is_sign_positive());
    assert_eq!(root[1..3], [f64::INFINITY, 2.0]);
    assert!(root[3].is_nan());
    assert_eq!(read(Kiln::float_powf_scalar(floats(&[f32::NAN], &[1]), Scalar::Float(0.0))), [1.0]);
    assert_eq!(read_int(Kiln::int_powi_scalar(ints(&[-3, 2], &[2]), Scalar::Int(5))), [-243, 32]);
}

fn masked_rows_of_attention_are_zero() {
    let q = floats(&[1.0, 2.0], &[1, 1, 2, 1]);
    let mask = Kiln::bool_from_data(TensorData::new(vec![true, true, false, true], Shape::new([1, 1, 2, 2])), &DEVICE);
    let v = floats(&[5.0, 7.0], &[1, 1, 2, 1]);
    let y = Kiln::attention(q.clone(), q, v, Some(mask), None, Default::default());
    assert_eq!(read(y), [0.0, 5.0]);
}

fn a_convolution_by_hand() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], &[1, 1, 3, 3]);
    let w = floats(&[1.0, 0.0, 0.0, -1.0], &[1, 1, 2, 2]);
    let y = Kiln::conv2d(x, w, Some(floats(&[0.5], &[1])), ConvOptions::new([1, 1], [0, 0], [1, 1], 1));
    assert_eq!(read(y), [-3.5; 4]);
}

fn the_gradient_of_a_deformed_place_is_its_derivative() {
    let numbers = |n: u64, factor: u64| -> Vec<f64> {
        (0..n).map(|i| ((i * factor + 11) % 257) as f64 / 64.0 - 2.0 + 1.0 / 256.0).collect()
    };
    let tensor = |values: &[f64], shape: &[usize]| {
        Kiln::float_from_data(TensorData::new(values.to_vec(), Shape::from(shape.to_vec())), &DEVICE)
    };
    let options = || DeformConvOptions::new([2, 1], [1, 2], [1, 2], 2, 2);
    let x = tensor(&numbers(168, 101), &[1, 4, 6, 7]);
    let w = tensor(&numbers(48, 37), &[4, 2, 3, 2]);
    let grad = numbers(108, 53);
    let offset = numbers(648, 71);
    let total = |offset: &[f64]| -> f64 {
        let offset = tensor(offset, &[1, 24, 3, 9]);
        let y = read(Kiln::deform_conv2d(x.clone(), offset, w.clone(), None, None, options()));
        y.iter().zip(&grad).map(|(y, g)| y * g).sum()
    };
    let at = tensor(&offset, &[1, 24, 3, 9]);
    let g = tensor(&grad, &[1, 4, 3, 9]);
    let back = read(Kiln::deform_conv2d_backward(x.clone(), at, w.clone(), None, None, g, options()).offset_grad);
    for i in (0..648).step_by(29) {
        let moved = |by: f64| {
            let mut offset = offset.clone();
            offset[i] += by;
            total(&offset)
        };
        let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        assert!((slope - back[i]).abs() < 1e-5, "offset {i}: {} recorded, {slope} measured", back[i]);
    }
}

fn resizing_by_hand() {
    let x = || floats(&[0.0, 1.0, 2.0, 3.0], &[1, 1, 1, 4]);
    let mode = |mode| InterpolateOptions::new(mode).with_align_corners(false);
    // ⌊(2o + 1)·4/6⌋ = 0, 2, 3
    let nearest = Kiln::interpolate(x(), [1, 3], mode(InterpolateMode::NearestExact));
    assert_eq!(read(nearest), [0.0, 2.0, 3.0]);
    let grad =
        Kiln::interpolate_backward(x(), floats(&[1.0, 2.0], &[1, 1, 1, 2]), [1, 2], mode(InterpolateMode::Bilinear));
    // The outputs lie at ½ and 2½.
    assert_eq!(read(grad), [0.5, 0.5, 1.0, 1.0]);
}

fn random_numbers_stay_in_their_range() {
    let shape = || Shape::new([10_000]);
    for dtype in [FloatDType::F16, FloatDType::BF16, FloatDType::F32, FloatDType::F64] {
        let u = read(Kiln::float_random(shape(), Distribution::Default, &DEVICE, dtype));
        assert!(u.iter().all(|&u| (0.0..1.0).contains(&u)));
        let u = read(Kiln::float_random(shape(), Distribution::Uniform(-1.0, 3.0), &DEVICE, dtype));
        assert!(u.iter().all(|&u| (-1.0..3.0).contains(&u)));
        let mean = u.iter().sum::<f64>() / 10_000.0;
        assert!((mean - 1.0).abs() < 0.05, "{mean}");
    }
    let z = read(Kiln::float_random(shape(), Distribution::Normal(2.0, 3.0), &DEVICE, FloatDType::F32));
    let mean = z.iter().sum::<f64>() / 10_000.0;
    let variance = z.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / 10_000.0;
    assert!((mean - 2.0).abs() < 0.15 && (variance.sqrt() - 3.0).abs() < 0.1, "{mean} {variance}");
    let hits = read(Kiln::float_random(shape(), Distribution::Bernoulli(0.25), &DEVICE, FloatDType::F32));
    assert!((hits.iter().sum::<f64>() / 10_000.0 - 0.25).abs() < 0.02);
    let dice = read_int(Kiln::int_random(shape(), Distribution::Uniform(-3.0, 4.0), &DEVICE, IntDType::I32));
    assert!((-3..4).all(|face| dice.contains(&face)) && dice.iter().all(|d| (-3..4).contains(d)));
}

/// What is moved, counted up or sorted in ways of its own on the processor: the interpreter, which defines what programs
/// mean, gives the same bits.
fn moves_prefixes_and_sorts_have_the_interpreters_bits() {
    let values = |n: usize, nan: bool| -> Vec<f32> {
        let number = |i: usize| match i % 97 {
            13 if nan => f32::NAN,
            29 => -0.0,
            31 => 0.0,
            k => ((i * 7919 + k) % 1009) as f32 / 64.0 - 7.0,
        };
        (0..n).map(number).collect()
    };
    let run = |device: &KilnDevice| {
        let laid = |shape: &[usize], dtype, nan| {
            let data = TensorData::new(values(shape.iter().product(), nan), Shape::from(shape.to_vec()));
            Kiln::float_cast(Kiln::float_from_data(data, device), dtype)
        };
        let of = |shape: &[usize], dtype| laid(shape, dtype, true);
        let finite = |shape: &[usize], dtype| laid(shape, dtype, false);
        let mut all = Vec::new();
        for dtype in [FloatDType::F32, FloatDType::BF16, FloatDType::F64] {
            for (shape, axes) in
                [(&[37, 50][..], &[1, 0][..]), (&[2, 19, 3, 33], &[0, 3, 2, 1]), (&[40, 3, 17], &[2, 1, 0])]
            {
                let x = Kiln::float_permute(of(shape, dtype), axes);
                let to: Vec<usize> = axes.iter().map(|&a| shape[a]).collect();
                all.push(Kiln::float_mul(x, of(&to, dtype)));
            }
            for (shape, dim) in [(&[3, 2500][..], 1), (&[2500, 3], 0), (&[20, 30], 1), (&[2, 40, 70], 1)] {
                all.push(Kiln::float_cumsum(finite(shape, dtype), dim));
                all.push(Kiln::float_cummax(of(shape, dtype), dim));
            }
            for dim in 0..3 {
                let x = || of(&[5, 300, 7], dtype);
                all.extend([Kiln::float_sort(x(), dim, false), Kiln::float_topk(x(), dim, 2)]);
                all.push(Kiln::float_sort_with_indices(Kiln::float_swap_dims(x(), 0, 1), dim, true, IntDType::I64).0);
            }
        }
        all.push(Kiln::float_cumsum(finite(&[1, 17_000], FloatDType::F32), 1));
        all.into_iter().map(|x| read_sync(Kiln::float_into_data(x)).expect("can be read")).collect::<Vec<_>>()
    };
    for (i, (got, want)) in run(&DEVICE).into_iter().zip(run(&KilnDevice::Interp)).enumerate() {
        for (at, (a, b)) in got.iter::<f64>().zip(want.iter::<f64>()).enumerate() {
            let same = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(same, "result {i}, {:?} {:?}, element {at}: {a} and {b}", got.dtype(), got.shape());
        }
    }
}

/// Statistics of rows of several chunks, the last of which may be a part of one, where rows are aligned and where they are not.
fn rows_that_warps_share_have_the_interpreters_bits() {
    const ROWS: usize = 2;
    let lengths = [2048, 2560, 3072, 4096, 4224, 5120, 6656, 8192, 12_288, 16_384, 20_480, 32_000, 32_768];
    let run = |device: &KilnDevice| {
        let mut all = Vec::new();
        for (n, dtype) in lengths.into_iter().flat_map(|n| [FloatDType::F32, FloatDType::BF16].map(|dtype| (n, dtype)))
        {
            let number = |i: usize| ((i * 7919 + i / 251) % 1009) as f32 / 64.0 - 7.0;
            let values: Vec<f32> = (0..ROWS * (n + 1)).map(number).collect();
            let wide = Kiln::float_from_data(TensorData::new(values, [ROWS, n + 1]), device);
            let wide = Kiln::float_cast(wide, dtype);
            for first in [0, 1] {
                let x = || Kiln::float_slice(wide.clone(), &[(0..ROWS).into(), (first..first + n).into()]);
                // What is written as a whole is laid anew; of the other, one number a row is written.
                let even = Kiln::float_neg(x());
                let centred = Kiln::float_sub(even.clone(), Kiln::float_mean_dim(even.clone(), 1));
                let squares = Kiln::float_mul(centred.clone(), centred.clone());
                let spread = Kiln::float_sqrt(Kiln::float_mean_dim(squares, 1));
                let less = Kiln::float_sub(x(), Kiln::float_max_dim(x(), 1));
                let sum = Kiln::float_sum_dim(Kiln::float_exp(less), 1);
                all.extend([Kiln::softmax(x(), 1), Kiln::float_div(centred, spread), sum]);
            }
        }
        all.into_iter().map(|x| read_sync(Kiln::float_into_data(x)).expect("can be read")).collect::<Vec<_>>()
    };
    for (i, (got, want)) in run(&DEVICE).into_iter().zip(run(&KilnDevice::Interp)).enumerate() {
        let differ = got.iter::<f64>().zip(want.iter::<f64>()).position(|(a, b)| a.to_bits() != b.to_bits());
        assert_eq!(differ, None, "result {i}, {:?} {:?}", got.dtype(), got.shape());
    }
}
