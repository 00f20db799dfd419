//! Reductions, scans, sorts and products.

use burn_backend::{BoolStore, IntDType};

use super::{agree, floats, ints, read_bool, read_float, read_int};

agree! {
    fn float_reductions<B>(d) within 1e-5 {
        let x = floats::<B>(&[3, 17, 5], 1, d);
        let mut out = vec![
            B::float_sum(x.clone()), B::float_prod(x.clone()), B::float_mean(x.clone()), B::float_max(x.clone()),
            B::float_min(x.clone()), B::float_max_abs(x.clone()), B::float_sum_dims(x.clone(), &[0, 2]),
        ];
        for dim in 0..3 {
            out.extend([
                B::float_sum_dim(x.clone(), dim), B::float_prod_dim(x.clone(), dim), B::float_mean_dim(x.clone(), dim),
                B::float_max_dim(x.clone(), dim), B::float_min_dim(x.clone(), dim), B::float_max_abs_dim(x.clone(), dim),
            ]);
        }
        out.into_iter().map(read_float::<B>).collect()
    }

    fn indices_of_extremes<B>(d) within 0.0 {
        let x = floats::<B>(&[3, 17, 5], 1, d);
        let mut out = vec![];
        for dim in 0..3 {
            let (max, at) = B::float_max_dim_with_indices(x.clone(), dim, IntDType::I64);
            out.extend([read_float::<B>(max), read_int::<B>(at)]);
            let (min, at) = B::float_min_dim_with_indices(x.clone(), dim, IntDType::I64);
            out.extend([read_float::<B>(min), read_int::<B>(at)]);
            out.push(read_int::<B>(B::float_argmax(x.clone(), dim, IntDType::I64)));
            out.push(read_int::<B>(B::float_argmin(x.clone(), dim, IntDType::I64)));
        }
        out
    }

    fn int_reductions<B>(d) within 0.0 {
        let x = ints::<B>(&[4, 9], -3, 4, 1, d);
        [
            B::int_sum(x.clone()), B::int_prod(x.clone()), B::int_max(x.clone()), B::int_min(x.clone()),
            B::int_sum_dim(x.clone(), 1), B::int_prod_dim(x.clone(), 0), B::int_mean_dim(x.clone(), 1),
            B::int_max_dim(x.clone(), 1), B::int_min_dim(x.clone(), 0), B::int_argmax(x.clone(), 1),
            B::int_argmin(x.clone(), 0), B::int_cumsum(x.clone(), 1), B::int_cummax(x.clone(), 0), B::int_cummin(x, 1),
        ]
        .into_iter().map(read_int::<B>).collect()
    }

    fn truth_of_numbers<B>(d) within 0.0 {
        let (x, i) = (floats::<B>(&[4, 9], 1, d), ints::<B>(&[4, 9], 0, 2, 1, d));
        let n = BoolStore::Native;
        [
            B::float_any(x.clone(), n), B::float_all(x.clone(), n), B::float_any_dim(x.clone(), 0, n),
            B::float_all_dim(x, 1, n), B::int_any(i.clone(), n), B::int_all(i.clone(), n),
            B::int_any_dim(i.clone(), 1, n), B::int_all_dim(i, 1, n),
        ]
        .into_iter().map(read_bool::<B>).collect()
    }

    fn scans<B>(d) within 1e-5 {
        let x = floats::<B>(&[3, 17], 1, d);
        let mut out = vec![];
        for dim in 0..2 {
            out.extend([
                B::float_cumsum(x.clone(), dim), B::float_cumprod(x.clone(), dim), B::float_cummin(x.clone(), dim),
                B::float_cummax(x.clone(), dim),
            ]);
        }
        out.into_iter().map(read_float::<B>).collect()
    }

    fn sorts<B>(d) within 0.0 {
        let (x, i) = (floats::<B>(&[3, 257], 1, d), ints::<B>(&[40], -100, 100, 3, d));
        vec![
            read_float::<B>(B::float_sort(x.clone(), 1, false)), read_float::<B>(B::float_sort(x.clone(), 0, true)),
            read_float::<B>(B::float_topk(x.clone(), 1, 5)), read_int::<B>(B::int_sort(i.clone(), 0, true)),
            read_float::<B>(B::float_gather(1, x.clone(), B::float_argsort(x.clone(), 1, true, IntDType::I64))),
            read_float::<B>(B::float_topk_with_indices(x, 1, 3, IntDType::I64).0), read_int::<B>(B::int_topk(i, 0, 4)),
        ]
    }

    fn products<B>(d) within 1e-5 {
        let m = |shape: &[usize], seed| floats::<B>(shape, seed, d);
        let mut out: Vec<_> = [
            B::float_matmul(m(&[5, 7], 1), m(&[7, 3], 2)),
            B::float_matmul(m(&[2, 3, 5, 7], 1), m(&[2, 3, 7, 4], 2)),
            B::float_matmul(m(&[2, 3, 5, 7], 1), m(&[1, 1, 7, 4], 2)),
            B::float_matmul(m(&[2, 1, 5, 7], 1), m(&[1, 3, 7, 4], 2)),
            B::float_matmul(B::float_transpose(m(&[7, 5], 1)), B::float_transpose(m(&[3, 7], 2))),
            B::float_cross(m(&[4, 3], 1), m(&[4, 3], 2), 1),
            B::linear(m(&[2, 4, 7], 1), m(&[7, 3], 2), Some(m(&[3], 3))),
            B::linear_x_backward(m(&[7, 3], 2), m(&[2, 4, 3], 4)),
            B::linear_weight_backward(m(&[2, 4, 7], 1), m(&[2, 4, 3], 4)),
            B::linear_bias_backward(m(&[2, 4, 3], 4)),
        ]
        .into_iter().map(read_float::<B>).collect();
        out.push(read_int::<B>(B::int_matmul(ints::<B>(&[2, 3, 4], -5, 5, 1, d), ints::<B>(&[2, 4, 5], -5, 5, 2, d))));
        out
    }
}
