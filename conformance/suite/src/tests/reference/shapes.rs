//! Views, joins and pads.

use burn_backend::ops::PadMode;
use burn_backend::{Shape, Slice};

use super::{agree, bools, floats, ints, read_bool, read_float, read_int};

agree! {
    fn views<B>(d) within 0.0 {
        let x = floats::<B>(&[2, 3, 4], 1, d);
        [
            B::float_reshape(x.clone(), Shape::new([4, 6])), B::float_permute(x.clone(), &[2, 0, 1]),
            B::float_swap_dims(x.clone(), 0, 2), B::float_transpose(x.clone()), B::float_flip(x.clone(), &[0, 2]),
            B::float_repeat_dim(x.clone(), 1, 3), B::float_unfold(x.clone(), 2, 2, 1), B::float_unfold(x.clone(), 1, 2, 2),
            B::float_expand(B::float_reshape(x.clone(), Shape::new([2, 3, 1, 4])), Shape::new([2, 3, 5, 4])),
            B::float_reshape(B::float_flip(B::float_permute(x, &[1, 2, 0]), &[1]), Shape::new([24])),
        ]
        .into_iter().map(read_float::<B>).collect()
    }

    fn slices<B>(d) within 0.0 {
        let x = floats::<B>(&[5, 9], 1, d);
        let s = |start, end, step| Slice::new(start, Some(end), step);
        let mut out = vec![];
        for slices in [
            vec![s(1, 4, 1)], vec![s(0, 5, 2), s(1, 9, 3)], vec![s(0, 5, -1), s(2, 8, -2)], vec![Slice::full(), s(-3, -1, 1)],
        ] {
            let part = B::float_slice(x.clone(), &slices);
            let value = B::float_neg(part.clone());
            out.push(part);
            out.push(B::float_slice_assign(x.clone(), &slices, value));
        }
        out.into_iter().map(read_float::<B>).collect()
    }

    fn joins<B>(d) within 0.0 {
        let (x, y, z) = (floats::<B>(&[2, 3], 1, d), floats::<B>(&[2, 1], 2, d), floats::<B>(&[2, 4], 3, d));
        vec![
            read_float::<B>(B::float_cat(vec![x.clone(), y, z], 1)),
            read_float::<B>(B::float_cat(vec![x.clone(), x.clone(), x], 0)),
            read_int::<B>(B::int_cat(vec![ints::<B>(&[2], 0, 9, 1, d), ints::<B>(&[3], 0, 9, 2, d)], 0)),
            read_bool::<B>(B::bool_cat(vec![bools::<B>(&[2, 2], 1, d), bools::<B>(&[1, 2], 2, d)], 0)),
        ]
    }

    fn pads<B>(d) within 0.0 {
        let (x, i) = (floats::<B>(&[3, 4], 1, d), ints::<B>(&[3, 4], -9, 9, 1, d));
        let pads = [(1, 2), (0, 3)];
        vec![
            read_float::<B>(B::float_pad(x.clone(), &pads, PadMode::Constant(0.5))),
            read_float::<B>(B::float_pad(x.clone(), &[(1, 2), (3, 0)], PadMode::Reflect)),
            read_float::<B>(B::float_pad(x, &pads, PadMode::Edge)),
            read_int::<B>(B::int_pad(i, &pads, PadMode::Constant(-2.0))),
        ]
    }
}
