//! Other sizes are the same programs: what a call compiled for one batch, image or sequence, it runs for another of the
//! same class.  Both sizes here are odd: which power of two divides an extent is part of the class.

use burn_backend::ops::IntTensorOps;
use burn_backend::ops::{
    ActivationOps, ConvOptions, ConvTransposeOptions, FloatTensorOps, InterpolateMode, InterpolateOptions, ModuleOps,
    PadMode,
};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{Distribution, FloatDType, IntDType, Scalar, Shape, Slice};
use burn_kiln::{Kiln, KilnTensor, inspect};

use crate::DEVICE;
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[test!(another_size_compiles_nothing).alone()];

fn floats(shape: &[usize]) -> KilnTensor {
    let dist = Distribution::Uniform(-1.0, 1.0);
    Kiln::float_random(Shape::from(shape.to_vec()), dist, &DEVICE, FloatDType::F32)
}

fn ints(shape: &[usize], below: usize) -> KilnTensor {
    let dist = Distribution::Uniform(0.0, below as f64);
    Kiln::int_random(Shape::from(shape.to_vec()), dist, &DEVICE, IntDType::I32)
}

/// A call, given the size that changes.
type Call = fn(usize) -> Vec<KilnTensor>;

fn conv() -> ConvOptions<2> {
    ConvOptions::new([1, 1], [1, 1], [1, 1], 1)
}

const CALLS: &[(&str, Call)] = &[
    ("sum", |n| vec![Kiln::float_sum_dim(floats(&[n, 33]), 1)]),
    ("mean", |n| vec![Kiln::float_mean_dim(floats(&[n, 33]), 0)]),
    ("argmax", |n| vec![Kiln::float_argmax(floats(&[n, 10]), 1, IntDType::I64)]),
    ("softmax", |n| vec![Kiln::softmax(floats(&[n, 10]), 1), Kiln::log_softmax(floats(&[n, 10]), 1)]),
    ("layer_norm", |n| vec![Kiln::layer_norm(floats(&[n, 3, 33]), floats(&[33]), Some(floats(&[33])), 1e-5)]),
    ("batch_norm", |n| {
        let y = Kiln::batch_norm_train(floats(&[n, 3, 7, 7]), floats(&[3]), floats(&[3]), 1e-5);
        vec![y.output, y.mean, y.variance]
    }),
    ("batch_norm_backward", |n| {
        let (x, g) = (floats(&[n, 3, 7, 7]), floats(&[n, 3, 7, 7]));
        let y = Kiln::batch_norm_train_backward(x, floats(&[3]), floats(&[3]), floats(&[3]), 1e-5, g);
        vec![y.x_grad, y.gamma_grad, y.beta_grad]
    }),
    ("conv2d", |n| vec![Kiln::conv2d(floats(&[n, 3, 7, 7]), floats(&[5, 3, 3, 3]), Some(floats(&[5])), conv())]),
    ("conv2d_x_backward", |n| {
        vec![Kiln::conv2d_x_backward(floats(&[n, 3, 7, 7]), floats(&[5, 3, 3, 3]), floats(&[n, 5, 7, 7]), conv())]
    }),
    ("conv2d_weight_backward", |n| {
        vec![Kiln::conv2d_weight_backward(floats(&[n, 3, 7, 7]), floats(&[5, 3, 3, 3]), floats(&[n, 5, 7, 7]), conv())]
    }),
    ("conv_transpose2d", |n| {
        let options = ConvTransposeOptions::new([2, 2], [1, 1], [1, 1], [1, 1], 1);
        vec![Kiln::conv_transpose2d(floats(&[n, 3, 7, 7]), floats(&[3, 5, 3, 3]), None, options)]
    }),
    ("max_pool2d", |n| {
        let y =
            Kiln::max_pool2d_with_indices(floats(&[n, 3, 9, 9]), [3, 3], [2, 2], [1, 1], [1, 1], false, IntDType::I64);
        vec![y.output, y.indices]
    }),
    ("max_pool2d_backward", |n| {
        let (grad, at) = (floats(&[n, 3, 5, 5]), ints(&[n, 3, 5, 5], 81));
        let y = Kiln::max_pool2d_with_indices_backward(
            floats(&[n, 3, 9, 9]),
            [3, 3],
            [2, 2],
            [1, 1],
            [1, 1],
            false,
            grad,
            at,
        );
        vec![y.x_grad]
    }),
    ("avg_pool2d", |n| vec![Kiln::avg_pool2d(floats(&[n, 3, 9, 9]), [3, 3], [2, 2], [1, 1], false, false)]),
    ("adaptive", |n| vec![Kiln::adaptive_avg_pool2d(floats(&[2, 3, n, n]), [7, 9])]),
    ("matmul", |n| vec![Kiln::float_matmul(floats(&[n, 33]), floats(&[33, 5]))]),
    ("linear", |n| vec![Kiln::linear(floats(&[n, 3, 33]), floats(&[33, 5]), Some(floats(&[5])))]),
    ("attention", |n| {
        let x = floats(&[2, 3, n, 5]);
        let causal = burn_backend::ops::AttentionModuleOptions { is_causal: true, ..Default::default() };
        vec![Kiln::attention(x.clone(), x.clone(), x, None, None, causal)]
    }),
    ("embedding", |n| vec![Kiln::embedding(floats(&[50, 7]), ints(&[n, 3], 50))]),
    ("embedding_backward", |n| vec![Kiln::embedding_backward(floats(&[50, 7]), floats(&[n, 3, 7]), ints(&[n, 3], 50))]),
    ("cat", |n| vec![Kiln::float_cat(vec![floats(&[3, n]), floats(&[3, 2])], 1)]),
    ("slice_assign", |n| {
        vec![Kiln::float_slice_assign(
            floats(&[50, 3]),
            &[Slice::new(n as isize, Some(n as isize + 5), 1)],
            floats(&[5, 3]),
        )]
    }),
    ("pad", |n| {
        // What is reflected at the end is found from twice the last index: of lengths that differ by multiples of 32, all
        // such numbers are of one class.
        let (rows, pads) = (32 * n + 5, [(2, 2), (2, 2)]);
        vec![
            Kiln::float_pad(floats(&[rows, 9]), &pads, PadMode::Constant(1.0)),
            Kiln::float_pad(floats(&[rows, 9]), &pads, PadMode::Reflect),
        ]
    }),
    ("gather", |n| vec![Kiln::float_gather(1, floats(&[n, 9]), ints(&[n, 1], 9))]),
    ("scatter", |n| {
        vec![Kiln::float_scatter(1, floats(&[n, 9]), ints(&[n, 1], 9), floats(&[n, 1]), IndexingUpdateOp::Add)]
    }),
    ("interpolate", |n| {
        vec![Kiln::interpolate(floats(&[2, 3, n, n]), [14, 15], InterpolateOptions::new(InterpolateMode::Bilinear))]
    }),
    ("transpose", |n| {
        let (x, y) = (floats(&[n, 33]), floats(&[33, n]));
        vec![Kiln::float_add(Kiln::float_transpose(x), y), Kiln::float_permute(floats(&[2, n, 3, 17]), &[0, 3, 1, 2])]
    }),
    ("cumsum", |n| vec![Kiln::float_cumsum(floats(&[n, 33]), 1), Kiln::float_cumsum(floats(&[n, 33]), 0)]),
    ("long cumsum", |n| vec![Kiln::float_cumsum(floats(&[1, n * 1000]), 1), Kiln::float_cumsum(floats(&[n, 3000]), 1)]),
    ("topk", |n| {
        let (values, indices) = Kiln::float_topk_with_indices(floats(&[n, 33]), 1, 5, IntDType::I64);
        vec![values, indices, Kiln::float_sort(floats(&[n, 33]), 0, false)]
    }),
    ("adam", |n| {
        let step = Scalar::Float(1.0 - 0.9f64.powi(n as i32));
        let (grad, momentum) = (floats(&[33]), floats(&[33]));
        let momentum = Kiln::float_add(
            Kiln::float_mul_scalar(momentum, Scalar::Float(0.9)),
            Kiln::float_mul_scalar(grad, Scalar::Float(0.1)),
        );
        vec![Kiln::float_div_scalar(momentum, step)]
    }),
];

/// Kernels that the call had to find or compile.
fn new_kernels(call: Call, n: usize) -> u64 {
    let (_kept, report) = inspect::record(&DEVICE, || call(n));
    report.compiled() + report.cache_hits()
}

fn another_size_compiles_nothing() {
    let mut failed = vec![];
    for (name, call) in CALLS {
        new_kernels(*call, 23);
        let new = new_kernels(*call, 25);
        if new > 0 {
            failed.push(format!("{name}: {new} new kernels"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
