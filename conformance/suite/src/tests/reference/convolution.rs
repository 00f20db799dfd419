//! Convolutions in one to three dimensions, transposed ones, and their gradients, over a table of options.

use burn_backend::ops::{ConvOptions, ConvTransposeOptions, DeformConvOptions, UnfoldOptions};

use super::{agree, floats, read_float};

/// Stride, padding, dilation, groups.
type Options = ([usize; 2], [usize; 2], [usize; 2], usize);

const TWO: &[Options] = &[
    ([1, 1], [0, 0], [1, 1], 1),
    ([1, 1], [1, 1], [1, 1], 1),
    ([2, 1], [1, 2], [1, 1], 1),
    ([1, 1], [2, 1], [2, 1], 1),
    ([2, 3], [1, 0], [1, 2], 1),
    ([1, 1], [1, 1], [1, 1], 2),
    ([2, 2], [1, 1], [1, 1], 4),
    ([3, 3], [0, 0], [1, 1], 1),
];

agree! {
    fn conv2d<B>(d) within 1e-5 {
        let mut out = vec![];
        for &(stride, padding, dilation, groups) in TWO {
            let x = floats::<B>(&[2, 4, 7, 8], 1, d);
            let w = floats::<B>(&[8, 4 / groups, 3, 2], 2, d);
            let b = floats::<B>(&[8], 3, d);
            let o = || ConvOptions::new(stride, padding, dilation, groups);
            let y = B::conv2d(x.clone(), w.clone(), Some(b.clone()), o());
            let g = B::float_sin(y.clone());
            out.push(y);
            out.push(B::conv2d(x.clone(), w.clone(), None, o()));
            out.push(B::conv2d_x_backward(x.clone(), w.clone(), g.clone(), o()));
            out.push(B::conv2d_weight_backward(x.clone(), w, g.clone(), o()));
            out.push(B::conv2d_bias_backward(x, b, g));
        }
        out.into_iter().map(read_float::<B>).collect()
    }

    fn conv2d_with_uneven_padding<B>(d) within 1e-5 {
        let (x, w) = (floats::<B>(&[2, 3, 6, 5], 1, d), floats::<B>(&[4, 3, 3, 3], 2, d));
        let o = || ConvOptions::new_with_padding([1, 2], [(0, 2), (1, 0)], [1, 1], 1);
        let y = B::conv2d(x.clone(), w.clone(), None, o());
        let g = B::float_sin(y.clone());
        [y, B::conv2d_x_backward(x.clone(), w.clone(), g.clone(), o()), B::conv2d_weight_backward(x, w, g, o())]
            .into_iter().map(read_float::<B>).collect()
    }

    fn conv1d<B>(d) within 1e-5 {
        let mut out = vec![];
        for (stride, padding, dilation, groups) in [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 1, 1, 1)] {
            let (x, w) = (floats::<B>(&[2, 4, 11], 1, d), floats::<B>(&[6, 4 / groups, 3], 2, d));
            let o = || ConvOptions::new([stride], [padding], [dilation], groups);
            let y = B::conv1d(x.clone(), w.clone(), Some(floats::<B>(&[6], 3, d)), o());
            let g = B::float_sin(y.clone());
            out.extend([y, B::conv1d_x_backward(x.clone(), w.clone(), g.clone(), o()), B::conv1d_weight_backward(x, w, g, o())]);
        }
        out.into_iter().map(read_float::<B>).collect()
    }

    fn conv3d<B>(d) within 1e-5 {
        let mut out = vec![];
        for (stride, padding, dilation, groups) in [([1, 1, 1], [1, 0, 1], [1, 1, 1], 1), ([2, 1, 2], [1, 1, 0], [1, 2, 1], 2)] {
            let (x, w) = (floats::<B>(&[1, 2, 5, 6, 5], 1, d), floats::<B>(&[4, 2 / groups, 2, 3, 2], 2, d));
            let o = || ConvOptions::new(stride, padding, dilation, groups);
            let y = B::conv3d(x.clone(), w.clone(), Some(floats::<B>(&[4], 3, d)), o());
            let g = B::float_sin(y.clone());
            out.extend([y, B::conv3d_x_backward(x.clone(), w.clone(), g.clone(), o()), B::conv3d_weight_backward(x, w, g, o())]);
        }
        out.into_iter().map(read_float::<B>).collect()
    }

    fn transposed<B>(d) within 1e-5 {
        let mut out = vec![];
        for (stride, padding, padding_out, dilation, groups) in [
            ([1, 1], [0, 0], [0, 0], [1, 1], 1), ([2, 2], [1, 0], [1, 0], [1, 1], 1), ([2, 3], [1, 1], [0, 2], [2, 1], 2),
            ([3, 3], [0, 1], [0, 0], [1, 1], 1), ([1, 1], [3, 2], [0, 0], [2, 2], 1),
        ] {
            let (x, w) = (floats::<B>(&[2, 4, 4, 5], 1, d), floats::<B>(&[4, 6 / groups, 3, 3], 2, d));
            let o = || ConvTransposeOptions::new(stride, padding, padding_out, dilation, groups);
            let y = B::conv_transpose2d(x.clone(), w.clone(), Some(floats::<B>(&[6], 3, d)), o());
            let g = B::float_sin(y.clone());
            out.extend([
                y, B::conv_transpose2d_x_backward(w.clone(), g.clone(), o()),
                B::conv_transpose2d_weight_backward(x, w, g, o()),
            ]);
        }
        out.into_iter().map(read_float::<B>).collect()
    }

    fn transposed_1d_and_3d<B>(d) within 1e-5 {
        let (x, w) = (floats::<B>(&[2, 3, 6], 1, d), floats::<B>(&[3, 2, 4], 2, d));
        let one = B::conv_transpose1d(x, w, None, ConvTransposeOptions::new([2], [1], [1], [1], 1));
        let (x, w) = (floats::<B>(&[1, 2, 3, 3, 4], 1, d), floats::<B>(&[2, 3, 2, 3, 2], 2, d));
        let o = || ConvTransposeOptions::new([2, 1, 2], [1, 0, 0], [0, 0, 1], [1, 1, 2], 1);
        let three = B::conv_transpose3d(x.clone(), w.clone(), None, o());
        let g = B::float_sin(three.clone());
        [one, three, B::conv_transpose3d_x_backward(w.clone(), g.clone(), o()), B::conv_transpose3d_weight_backward(x, w, g, o())]
            .into_iter().map(read_float::<B>).collect()
    }

    fn folds<B>(d) within 1e-5 {
        let mut out = vec![];
        for (kernel, stride, padding, dilation) in [
            ([2, 2], [1, 1], [0, 0], [1, 1]), ([3, 2], [2, 1], [1, 1], [1, 2]), ([2, 3], [2, 3], [0, 0], [1, 1]), ([2, 2], [3, 2], [1, 0], [1, 1]),
        ] {
            let x = floats::<B>(&[2, 3, 6, 6], 1, d);
            let o = || UnfoldOptions::new(stride, padding, dilation);
            let columns = B::unfold4d(x, kernel, o());
            out.extend([columns.clone(), B::fold4d(columns, [6, 6], kernel, o())]);
        }
        out.into_iter().map(read_float::<B>).collect()
    }

    /// The reference's gradient of the offset is wrong for several offset groups.
    fn deformed<B>(d) within 2e-5 {
        let mut out = vec![];
        for (stride, padding, dilation, groups, offset_groups) in [
            ([1, 1], [0, 0], [1, 1], 1, 1), ([2, 1], [1, 2], [1, 2], 2, 1), ([1, 2], [1, 1], [1, 1], 2, 1),
        ] {
            let x = floats::<B>(&[2, 4, 6, 7], 1, d);
            let w = floats::<B>(&[4, 4 / groups, 3, 2], 2, d);
            let o = || DeformConvOptions::new(stride, padding, dilation, groups, offset_groups);
            let [oh, ow] = [0, 1].map(|i| ([6, 7][i] + 2 * padding[i] - dilation[i] * ([3, 2][i] - 1) - 1) / stride[i] + 1);
            // Never a whole number, where the derivative jumps.
            let offset = floats::<B>(&[2, 12 * offset_groups, oh, ow], 3, d);
            let offset = B::float_add_scalar(offset, burn_backend::Scalar::Float(1.0 / 256.0));
            let mask = floats::<B>(&[2, 6 * offset_groups, oh, ow], 4, d);
            for mask in [None, Some(mask)] {
                let b = floats::<B>(&[4], 5, d);
                let y = B::deform_conv2d(x.clone(), offset.clone(), w.clone(), mask.clone(), Some(b.clone()), o());
                let g = B::float_sin(y.clone());
                let back = B::deform_conv2d_backward(x.clone(), offset.clone(), w.clone(), mask, Some(b), g, o());
                out.extend([y, back.x_grad, back.offset_grad, back.weight_grad]);
                out.extend(back.mask_grad);
                out.extend(back.bias_grad);
            }
        }
        out.into_iter().map(read_float::<B>).collect()
    }
}
