//! Composite operations in every float type against the same in f64, from operands that every type holds exactly: a
//! result in 16 bits is within one unit in the last place, as if it had been rounded once.

use burn_backend::ops::{
    ActivationOps, ConvOptions, ConvTransposeOptions, FloatTensorOps, InterpolateMode, InterpolateOptions, ModuleOps,
};
use burn_backend::{FloatDType, IntDType, Shape, TensorData, read_sync};
use burn_kiln::{Kiln, KilnTensor};

use crate::DEVICE;
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[test!(narrow_types_round_once)];

/// Multiples of 1/16 in [−2, 2].
fn floats(shape: &[usize], seed: u64, dtype: FloatDType) -> KilnTensor {
    let mut state = seed * 7919 + 12345;
    let mut draw = || {
        state = state * 48271 % 2_147_483_647;
        (state % 65) as f32 / 16.0 - 2.0
    };
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| draw()).collect();
    let x = Kiln::float_from_data(TensorData::new(values, Shape::from(shape.to_vec())), &DEVICE);
    Kiln::float_cast(x, dtype)
}

fn read(x: KilnTensor) -> Vec<f64> {
    read_sync(Kiln::float_into_data(x)).expect("the tensor can be read").iter::<f64>().collect()
}

/// A call, given tensors of a shape and seed in the type under test.
type Call = fn(&dyn Fn(&[usize], u64) -> KilnTensor) -> Vec<KilnTensor>;

const CALLS: &[(&str, Call)] = &[
    ("softmax", |x| vec![Kiln::softmax(x(&[3, 33], 1), 1), Kiln::softmin(x(&[3, 33], 1), 0)]),
    ("log_softmax", |x| vec![Kiln::log_softmax(x(&[3, 33], 1), 1)]),
    ("mean", |x| vec![Kiln::float_mean(x(&[3, 33], 1)), Kiln::float_mean_dim(x(&[3, 33], 1), 0)]),
    ("sum", |x| vec![Kiln::float_sum(x(&[3, 33], 1)), Kiln::float_sum_dim(x(&[3, 33], 1), 0)]),
    ("gelu", |x| vec![Kiln::gelu(x(&[65], 1)), Kiln::gelu_backward(x(&[65], 1), x(&[65], 2))]),
    ("sigmoid", |x| vec![Kiln::sigmoid(x(&[65], 1)), Kiln::log_sigmoid(x(&[65], 1))]),
    ("layer_norm", |x| vec![Kiln::layer_norm(x(&[3, 33], 1), x(&[33], 2), Some(x(&[33], 3)), 1e-5)]),
    ("batch_norm_train", |x| {
        let y = Kiln::batch_norm_train(x(&[4, 3, 5], 1), x(&[3], 2), x(&[3], 3), 1e-5);
        vec![y.output, y.mean, y.variance]
    }),
    ("matmul", |x| vec![Kiln::float_matmul(x(&[2, 5, 17], 1), x(&[2, 17, 3], 2))]),
    ("linear", |x| vec![Kiln::linear(x(&[4, 17], 1), x(&[17, 3], 2), Some(x(&[3], 3)))]),
    ("conv2d", |x| {
        let options = || ConvOptions::new([2, 1], [1, 1], [1, 1], 1);
        let (w, b) = (x(&[3, 2, 3, 3], 2), x(&[3], 3));
        vec![
            Kiln::conv2d(x(&[2, 2, 6, 5], 1), w.clone(), Some(b), options()),
            Kiln::conv2d_x_backward(x(&[2, 2, 6, 5], 1), w.clone(), x(&[2, 3, 3, 5], 4), options()),
            Kiln::conv2d_weight_backward(x(&[2, 2, 6, 5], 1), w, x(&[2, 3, 3, 5], 4), options()),
        ]
    }),
    ("conv_transpose2d", |x| {
        let options = ConvTransposeOptions::new([2, 2], [1, 1], [0, 0], [1, 1], 1);
        vec![Kiln::conv_transpose2d(x(&[2, 2, 4, 4], 1), x(&[2, 3, 3, 3], 2), Some(x(&[3], 3)), options)]
    }),
    ("pools", |x| {
        let image = || x(&[2, 3, 7, 7], 1);
        let max = Kiln::max_pool2d_with_indices(image(), [3, 3], [2, 2], [1, 1], [1, 1], false, IntDType::I32);
        let grad = x(&[2, 3, 4, 4], 2);
        let back = Kiln::max_pool2d_with_indices_backward(
            image(),
            [3, 3],
            [2, 2],
            [1, 1],
            [1, 1],
            false,
            grad.clone(),
            max.indices,
        );
        vec![
            max.output,
            back.x_grad,
            Kiln::avg_pool2d(image(), [3, 3], [2, 2], [1, 1], false, false),
            Kiln::avg_pool2d_backward(image(), grad, [3, 3], [2, 2], [1, 1], false, false),
            Kiln::adaptive_avg_pool2d(image(), [3, 2]),
        ]
    }),
    ("attention", |x| {
        vec![Kiln::attention(
            x(&[1, 2, 5, 4], 1),
            x(&[1, 2, 7, 4], 2),
            x(&[1, 2, 7, 3], 3),
            None,
            None,
            Default::default(),
        )]
    }),
    ("interpolate", |x| {
        vec![Kiln::interpolate(x(&[1, 2, 4, 5], 1), [7, 3], InterpolateOptions::new(InterpolateMode::Bicubic))]
    }),
];

fn narrow_types_round_once() {
    let mut failed = vec![];
    for (name, call) in CALLS {
        let exact: Vec<Vec<f64>> =
            call(&|shape, seed| floats(shape, seed, FloatDType::F64)).into_iter().map(read).collect();
        for (dtype, unit) in
            [(FloatDType::F32, 2f64.powi(-18)), (FloatDType::F16, 2f64.powi(-10)), (FloatDType::BF16, 2f64.powi(-7))]
        {
            for (i, (got, wanted)) in
                call(&|shape, seed| floats(shape, seed, dtype)).into_iter().zip(&exact).enumerate()
            {
                for (x, y) in read(got).into_iter().zip(wanted) {
                    // Near zero a sum is as good as its summands.
                    if (x - y).abs() > unit * y.abs().max(0.05) {
                        failed.push(format!("{name} in {dtype:?}, result {i}: {x}, wanted {y}"));
                        break;
                    }
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
