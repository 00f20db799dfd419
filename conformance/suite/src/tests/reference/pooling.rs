//! Pools with their indices and gradients, over a table of options.

use burn_backend::IntDType;

use super::{agree, floats, read_float, read_int};

/// Kernel, stride, padding, dilation, ceil mode.
type Options = ([usize; 2], [usize; 2], [usize; 2], [usize; 2], bool);

const POOLS: &[Options] = &[
    ([2, 2], [2, 2], [0, 0], [1, 1], false),
    ([3, 3], [2, 2], [1, 1], [1, 1], false),
    ([3, 2], [1, 3], [1, 0], [1, 1], false),
    ([2, 2], [2, 2], [0, 0], [1, 1], true),
    ([3, 3], [2, 2], [1, 1], [1, 1], true),
    ([2, 3], [1, 1], [0, 1], [2, 1], false),
    ([2, 2], [3, 4], [1, 1], [1, 1], false),
    ([1, 1], [2, 2], [0, 0], [1, 1], false),
];

agree! {
    fn max_pool2d<B>(d) within 0.0 {
        let mut out = vec![];
        for &(k, s, p, dil, ceil) in POOLS {
            let x = floats::<B>(&[2, 3, 7, 9], 1, d);
            out.push(read_float::<B>(B::max_pool2d(x.clone(), k, s, p, dil, ceil)));
            let with = B::max_pool2d_with_indices(x, k, s, p, dil, ceil, IntDType::I64);
            out.extend([read_float::<B>(with.output), read_int::<B>(with.indices)]);
        }
        out
    }

    fn max_pool2d_backward<B>(d) within 1e-5 {
        let mut out = vec![];
        for &(k, s, p, dil, ceil) in POOLS {
            let x = floats::<B>(&[2, 3, 7, 9], 1, d);
            let with = B::max_pool2d_with_indices(x.clone(), k, s, p, dil, ceil, IntDType::I64);
            let g = B::float_sin(with.output);
            out.push(read_float::<B>(B::max_pool2d_with_indices_backward(x, k, s, p, dil, ceil, g, with.indices).x_grad));
        }
        out
    }

    fn pools_in_one_dimension<B>(d) within 1e-5 {
        let x = floats::<B>(&[2, 3, 11], 1, d);
        let with = B::max_pool1d_with_indices(x.clone(), 3, 2, 1, 1, false, IntDType::I64);
        let g = B::float_sin(with.output.clone());
        vec![
            read_int::<B>(with.indices.clone()), read_float::<B>(with.output),
            read_float::<B>(B::max_pool1d(x.clone(), 3, 2, 1, 1, true)),
            read_float::<B>(B::max_pool1d_with_indices_backward(x.clone(), 3, 2, 1, 1, false, g.clone(), with.indices).x_grad),
            read_float::<B>(B::avg_pool1d(x.clone(), 3, 2, 1, false, false)),
            read_float::<B>(B::avg_pool1d_backward(x.clone(), g, 3, 2, 1, false, false)),
            read_float::<B>(B::adaptive_avg_pool1d(x.clone(), 4)),
            read_float::<B>(B::adaptive_avg_pool1d_backward(x, floats::<B>(&[2, 3, 4], 2, d))),
        ]
    }

    fn avg_pool2d<B>(d) within 1e-5 {
        let mut out = vec![];
        for &(k, s, p, dil, ceil) in POOLS {
            for include in [false, true] {
                if dil != [1, 1] {
                    continue;
                }
                let x = floats::<B>(&[2, 3, 7, 9], 1, d);
                let y = B::avg_pool2d(x.clone(), k, s, p, include, ceil);
                let g = B::float_sin(y.clone());
                out.extend([y, B::avg_pool2d_backward(x, g, k, s, p, include, ceil)]);
            }
        }
        out.into_iter().map(read_float::<B>).collect()
    }

    fn adaptive<B>(d) within 1e-5 {
        let mut out = vec![];
        for size in [[1, 1], [3, 4], [6, 5], [8, 13], [12, 10]] {
            let x = floats::<B>(&[2, 3, 6, 10], 1, d);
            let y = B::adaptive_avg_pool2d(x.clone(), size);
            let g = B::float_sin(y.clone());
            out.extend([y, B::adaptive_avg_pool2d_backward(x, g)]);
        }
        out.into_iter().map(read_float::<B>).collect()
    }
}
