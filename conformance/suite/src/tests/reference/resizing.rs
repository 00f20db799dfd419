//! Interpolation and grid sampling.

use burn_backend::ops::{GridSampleOptions, InterpolateMode, InterpolateOptions};

use super::{agree, floats, read_float};

const SIZES: &[[usize; 2]] = &[[5, 7], [10, 14], [3, 4], [9, 5]];

agree! {
    fn forward<B>(d) within 1e-4 {
        let mut out = vec![];
        for mode in [
            InterpolateMode::Nearest, InterpolateMode::Bilinear, InterpolateMode::Bicubic, InterpolateMode::Lanczos3,
        ] {
            for align in [false, true] {
                for &size in SIZES {
                    let x = floats::<B>(&[2, 2, 5, 7], 1, d);
                    let o = InterpolateOptions::new(mode.clone()).with_align_corners(align);
                    out.push(read_float::<B>(B::interpolate(x, size, o)));
                }
            }
        }
        out
    }

    /// The reference has gradients for this mode alone.
    fn nearest_backward<B>(d) within 1e-5 {
        let mut out = vec![];
        for &size in SIZES {
            let x = floats::<B>(&[2, 2, 5, 7], 1, d);
            let g = floats::<B>(&[2, 2, size[0], size[1]], 2, d);
            let o = InterpolateOptions::new(InterpolateMode::Nearest);
            out.push(read_float::<B>(B::interpolate_backward(x, g, size, o)));
        }
        out
    }

    fn grid_sample<B>(d) within 1e-5 {
        let (x, grid) = (floats::<B>(&[2, 3, 5, 4], 1, d), floats::<B>(&[2, 3, 6, 2], 2, d));
        vec![read_float::<B>(B::float_grid_sample_2d(x, grid, GridSampleOptions::new(InterpolateMode::Bilinear)))]
    }
}
