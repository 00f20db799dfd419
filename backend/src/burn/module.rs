//! Burn's neural-network methods, each one line into the file of its topic.

use burn_backend::IntDType;
use burn_backend::ops::{
    AttentionModuleOptions, BatchNormTrain, BatchNormTrainBackward, ConvOptions, ConvTransposeOptions,
    DeformConv2dBackward, DeformConvOptions, InterpolateOptions, MaxPool1dBackward, MaxPool1dWithIndices,
    MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps, UnfoldOptions,
};

use super::windows::{Windows, sizes};
use super::{attention, avg_pool, conv, deform, fold, index, interpolate, matmul, max_pool, norm};
use crate::{Kiln, KilnTensor};

/// The windows of a pooling operation.
fn pooling<const N: usize>(
    kernel: [usize; N],
    stride: [usize; N],
    padding: [usize; N],
    dilation: [usize; N],
) -> Windows {
    Windows { kernel: sizes(&kernel), stride: sizes(&stride), dilation: sizes(&dilation), low: sizes(&padding) }
}

macro_rules! convolution {
    ($n:literal, $conv:ident $x_backward:ident $weight_backward:ident $bias_backward:ident) => {
        fn $conv(x: KilnTensor, weight: KilnTensor, bias: Option<KilnTensor>, options: ConvOptions<$n>) -> KilnTensor {
            conv::conv(stringify!($conv), x, weight, bias, &options)
        }

        fn $x_backward(
            x: KilnTensor,
            weight: KilnTensor,
            output_grad: KilnTensor,
            options: ConvOptions<$n>,
        ) -> KilnTensor {
            conv::conv_x_backward(stringify!($x_backward), x, weight, output_grad, &options)
        }

        fn $weight_backward(
            x: KilnTensor,
            weight: KilnTensor,
            output_grad: KilnTensor,
            options: ConvOptions<$n>,
        ) -> KilnTensor {
            conv::conv_weight_backward(stringify!($weight_backward), x, weight, output_grad, &options)
        }

        fn $bias_backward(_x: KilnTensor, _bias: KilnTensor, output_grad: KilnTensor) -> KilnTensor {
            conv::bias_backward(stringify!($bias_backward), output_grad)
        }
    };
}

macro_rules! transposed_convolution {
    ($n:literal, $conv:ident $x_backward:ident $weight_backward:ident $bias_backward:ident) => {
        fn $conv(
            x: KilnTensor,
            weight: KilnTensor,
            bias: Option<KilnTensor>,
            options: ConvTransposeOptions<$n>,
        ) -> KilnTensor {
            conv::conv_transpose(stringify!($conv), x, weight, bias, &options)
        }

        fn $x_backward(weight: KilnTensor, output_grad: KilnTensor, options: ConvTransposeOptions<$n>) -> KilnTensor {
            conv::conv_transpose_x_backward(stringify!($x_backward), weight, output_grad, &options)
        }

        fn $weight_backward(
            x: KilnTensor,
            weight: KilnTensor,
            output_grad: KilnTensor,
            options: ConvTransposeOptions<$n>,
        ) -> KilnTensor {
            conv::conv_transpose_weight_backward(stringify!($weight_backward), x, weight, output_grad, &options)
        }

        fn $bias_backward(_x: KilnTensor, _bias: KilnTensor, output_grad: KilnTensor) -> KilnTensor {
            conv::bias_backward(stringify!($bias_backward), output_grad)
        }
    };
}

impl ModuleOps<Kiln> for Kiln {
    convolution!(1, conv1d conv1d_x_backward conv1d_weight_backward conv1d_bias_backward);
    convolution!(2, conv2d conv2d_x_backward conv2d_weight_backward conv2d_bias_backward);
    convolution!(3, conv3d conv3d_x_backward conv3d_weight_backward conv3d_bias_backward);
    transposed_convolution!(
        1,
        conv_transpose1d conv_transpose1d_x_backward conv_transpose1d_weight_backward conv_transpose1d_bias_backward
    );
    transposed_convolution!(
        2,
        conv_transpose2d conv_transpose2d_x_backward conv_transpose2d_weight_backward conv_transpose2d_bias_backward
    );
    transposed_convolution!(
        3,
        conv_transpose3d conv_transpose3d_x_backward conv_transpose3d_weight_backward conv_transpose3d_bias_backward
    );

    fn batch_norm(
        x: KilnTensor,
        gamma: KilnTensor,
        beta: KilnTensor,
        mean: KilnTensor,
        variance: KilnTensor,
        epsilon: f64,
    ) -> KilnTensor {
        norm::batch("batch_norm", x, [gamma, beta, mean, variance], epsilon)
    }

    fn batch_norm_train(x: KilnTensor, gamma: KilnTensor, beta: KilnTensor, epsilon: f64) -> BatchNormTrain<Kiln> {
        norm::batch_train("batch_norm_train", x, gamma, beta, epsilon)
    }

    fn batch_norm_train_backward(
        x: KilnTensor,
        gamma: KilnTensor,
        mean: KilnTensor,
        variance: KilnTensor,
        epsilon: f64,
        output_grad: KilnTensor,
    ) -> BatchNormTrainBackward<Kiln> {
        norm::batch_train_backward("batch_norm_train_backward", x, [gamma, mean, variance], epsilon, output_grad)
    }

    fn layer_norm(tensor: KilnTensor, gamma: KilnTensor, beta: Option<KilnTensor>, epsilon: f64) -> KilnTensor {
        norm::layer("layer_norm", tensor, gamma, beta, epsilon)
    }

    fn embedding(weights: KilnTensor, indices: KilnTensor) -> KilnTensor {
        index::embedding("embedding", weights, indices)
    }

    fn embedding_backward(weights: KilnTensor, output_grad: KilnTensor, indices: KilnTensor) -> KilnTensor {
        index::embedding_backward("embedding_backward", weights, output_grad, indices)
    }

    fn linear(x: KilnTensor, weight: KilnTensor, bias: Option<KilnTensor>) -> KilnTensor {
        matmul::linear("linear", x, weight, bias)
    }

    fn linear_x_backward(weight: KilnTensor, output_grad: KilnTensor) -> KilnTensor {
        matmul::linear_x_backward("linear_x_backward", weight, output_grad)
    }

    fn linear_weight_backward(x: KilnTensor, output_grad: KilnTensor) -> KilnTensor {
        matmul::linear_weight_backward("linear_weight_backward", x, output_grad)
    }

    fn linear_bias_backward(output_grad: KilnTensor) -> KilnTensor {
        matmul::linear_bias_backward("linear_bias_backward", output_grad)
    }

    fn deform_conv2d(
        x: KilnTensor,
        offset: KilnTensor,
        weight: KilnTensor,
        mask: Option<KilnTensor>,
        bias: Option<KilnTensor>,
        options: DeformConvOptions<2>,
    ) -> KilnTensor {
        deform::conv("deform_conv2d", [x, offset, weight], mask, bias, &options)
    }

    fn deform_conv2d_backward(
        x: KilnTensor,
        offset: KilnTensor,
        weight: KilnTensor,
        mask: Option<KilnTensor>,
        bias: Option<KilnTensor>,
        output_grad: KilnTensor,
        options: DeformConvOptions<2>,
    ) -> DeformConv2dBackward<Kiln> {
        deform::backward("deform_conv2d_backward", [x, offset, weight], mask, bias, output_grad, &options)
    }

    fn unfold4d(x: KilnTensor, kernel_size: [usize; 2], options: UnfoldOptions) -> KilnTensor {
        fold::unfold4d("unfold4d", x, kernel_size, &options)
    }

    fn fold4d(x: KilnTensor, output_size: [usize; 2], kernel_size: [usize; 2], options: UnfoldOptions) -> KilnTensor {
        fold::fold4d("fold4d", x, output_size, kernel_size, &options)
    }

    fn avg_pool1d(
        x: KilnTensor,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> KilnTensor {
        let windows = pooling([kernel_size], [stride], [padding], [1]);
        avg_pool::pool("avg_pool1d", x, &windows, count_include_pad, ceil_mode)
    }

    fn avg_pool1d_backward(
        x: KilnTensor,
        grad: KilnTensor,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        count_include_pad: bool,
        _ceil_mode: bool,
    ) -> KilnTensor {
        let windows = pooling([kernel_size], [stride], [padding], [1]);
        avg_pool::backward("avg_pool1d_backward", x, grad, &windows, count_include_pad)
    }

    fn max_pool1d(
        x: KilnTensor,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
    ) -> KilnTensor {
        let windows = pooling([kernel_size], [stride], [padding], [dilation]);
        max_pool::pool("max_pool1d", x, &windows, ceil_mode)
    }

    fn max_pool1d_with_indices(
        x: KilnTensor,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
        indices_dtype: IntDType,
    ) -> MaxPool1dWithIndices<Kiln> {
        let windows = pooling([kernel_size], [stride], [padding], [dilation]);
        let op = "max_pool1d_with_indices";
        let (output, indices) = max_pool::pool_with_indices(op, x, &windows, ceil_mode, indices_dtype.into());
        MaxPool1dWithIndices::new(output, indices)
    }

    fn max_pool1d_with_indices_backward(
        x: KilnTensor,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        _ceil_mode: bool,
        output_grad: KilnTensor,
        indices: KilnTensor,
    ) -> MaxPool1dBackward<Kiln> {
        let windows = pooling([kernel_size], [stride], [padding], [dilation]);
        let op = "max_pool1d_with_indices_backward";
        MaxPool1dBackward::new(max_pool::backward(op, x, &windows, output_grad, indices))
    }

    fn avg_pool2d(
        x: KilnTensor,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> KilnTensor {
        let windows = pooling(kernel_size, stride, padding, [1; 2]);
        avg_pool::pool("avg_pool2d", x, &windows, count_include_pad, ceil_mode)
    }

    fn avg_pool2d_backward(
        x: KilnTensor,
        grad: KilnTensor,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
        _ceil_mode: bool,
    ) -> KilnTensor {
        let windows = pooling(kernel_size, stride, padding, [1; 2]);
        avg_pool::backward("avg_pool2d_backward", x, grad, &windows, count_include_pad)
    }

    fn max_pool2d(
        x: KilnTensor,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
    ) -> KilnTensor {
        let windows = pooling(kernel_size, stride, padding, dilation);
        max_pool::pool("max_pool2d", x, &windows, ceil_mode)
    }

    fn max_pool2d_with_indices(
        x: KilnTensor,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        indices_dtype: IntDType,
    ) -> MaxPool2dWithIndices<Kiln> {
        let windows = pooling(kernel_size, stride, padding, dilation);
        let op = "max_pool2d_with_indices";
        let (output, indices) = max_pool::pool_with_indices(op, x, &windows, ceil_mode, indices_dtype.into());
        MaxPool2dWithIndices::new(output, indices)
    }

    fn max_pool2d_with_indices_backward(
        x: KilnTensor,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        _ceil_mode: bool,
        output_grad: KilnTensor,
        indices: KilnTensor,
    ) -> MaxPool2dBackward<Kiln> {
        let windows = pooling(kernel_size, stride, padding, dilation);
        let op = "max_pool2d_with_indices_backward";
        MaxPool2dBackward::new(max_pool::backward(op, x, &windows, output_grad, indices))
    }

    fn adaptive_avg_pool1d(x: KilnTensor, output_size: usize) -> KilnTensor {
        avg_pool::adaptive("adaptive_avg_pool1d", x, &[output_size])
    }

    fn adaptive_avg_pool1d_backward(x: KilnTensor, grad: KilnTensor) -> KilnTensor {
        avg_pool::adaptive_backward("adaptive_avg_pool1d_backward", x, grad)
    }

    fn adaptive_avg_pool2d(x: KilnTensor, output_size: [usize; 2]) -> KilnTensor {
        avg_pool::adaptive("adaptive_avg_pool2d", x, &output_size)
    }

    fn adaptive_avg_pool2d_backward(x: KilnTensor, grad: KilnTensor) -> KilnTensor {
        avg_pool::adaptive_backward("adaptive_avg_pool2d_backward", x, grad)
    }

    fn adaptive_avg_pool3d(x: KilnTensor, output_size: [usize; 3]) -> KilnTensor {
        avg_pool::adaptive("adaptive_avg_pool3d", x, &output_size)
    }

    fn adaptive_avg_pool3d_backward(x: KilnTensor, grad: KilnTensor) -> KilnTensor {
        avg_pool::adaptive_backward("adaptive_avg_pool3d_backward", x, grad)
    }

    fn interpolate(x: KilnTensor, output_size: [usize; 2], options: InterpolateOptions) -> KilnTensor {
        interpolate::interpolate("interpolate", x, output_size, &options)
    }

    fn interpolate_backward(
        x: KilnTensor,
        grad: KilnTensor,
        output_size: [usize; 2],
        options: InterpolateOptions,
    ) -> KilnTensor {
        interpolate::backward("interpolate_backward", x, grad, output_size, &options)
    }

    fn attention(
        query: KilnTensor,
        key: KilnTensor,
        value: KilnTensor,
        mask: Option<KilnTensor>,
        attn_bias: Option<KilnTensor>,
        options: AttentionModuleOptions,
    ) -> KilnTensor {
        attention::attention("attention", [query, key, value], mask, attn_bias, &options)
    }
}
