//! Arithmetic, comparison, functions, powers, masks and casts.

use burn_backend::tensor::{FloatTensor, IntTensor};
use burn_backend::{BoolStore, FloatDType, IntDType, Scalar, TensorData};

use super::{agree, bools, floats, ints, read_bool, read_float, read_int};

type Map<T> = fn(T) -> T;
type Pair<T> = fn(T, T) -> T;
type With<T> = fn(T, Scalar) -> T;

const S: &[usize] = &[3, 1, 5];
const R: &[usize] = &[1, 4, 5];

agree! {
    fn arithmetic<B>(d) within 1e-6 {
        let (a, b) = (floats::<B>(S, 1, d), floats::<B>(R, 2, d));
        let ops: [Pair<FloatTensor<B>>; 6] =
            [B::float_add, B::float_sub, B::float_mul, B::float_div, B::float_atan2, B::float_hypot];
        ops.iter().map(|op| read_float::<B>(op(a.clone(), b.clone()))).collect()
    }

    fn arithmetic_with_numbers<B>(d) within 1e-6 {
        let a = floats::<B>(&[33], 1, d);
        let ops: [With<FloatTensor<B>>; 8] = [
            B::float_add_scalar, B::float_sub_scalar, B::float_mul_scalar, B::float_div_scalar,
            B::float_remainder_scalar, B::float_clamp_min, B::float_clamp_max, B::float_powf_scalar,
        ];
        ops.iter().map(|op| read_float::<B>(op(a.clone(), Scalar::Float(0.75)))).collect()
    }

    fn float_comparison<B>(d) within 0.0 {
        let (a, b) = (floats::<B>(&[4, 65], 1, d), floats::<B>(&[4, 65], 2, d));
        let n = BoolStore::Native;
        let s = Scalar::Float(0.5);
        [
            B::float_equal(a.clone(), b.clone(), n), B::float_not_equal(a.clone(), b.clone(), n),
            B::float_greater(a.clone(), b.clone(), n), B::float_greater_equal(a.clone(), b.clone(), n),
            B::float_lower(a.clone(), b.clone(), n), B::float_lower_equal(a.clone(), b, n),
            B::float_equal_elem(a.clone(), s, n), B::float_not_equal_elem(a.clone(), s, n),
            B::float_greater_elem(a.clone(), s, n), B::float_greater_equal_elem(a.clone(), s, n),
            B::float_lower_elem(a.clone(), s, n), B::float_lower_equal_elem(a.clone(), s, n),
            B::float_is_nan(B::float_log(a.clone()), n), B::float_is_inf(B::float_recip(a), n),
        ]
        .into_iter().map(read_bool::<B>).collect()
    }

    fn functions<B>(d) within 1e-5 {
        let x = floats::<B>(&[129], 3, d);
        let positive = B::float_add_scalar(B::float_abs(x.clone()), Scalar::Float(0.25));
        let small = B::float_div_scalar(x.clone(), Scalar::Float(2.5));
        let ops: [Map<FloatTensor<B>>; 17] = [
            B::float_exp, B::float_cos, B::float_sin, B::float_tanh, B::float_sinh, B::float_cosh, B::float_erf,
            B::float_floor, B::float_ceil, B::float_trunc, B::float_round, B::float_abs, B::float_neg, B::float_sign,
            B::float_atan, B::float_asinh, B::float_tan,
        ];
        let logs: [Map<FloatTensor<B>>; 4] =
            [B::float_log, B::float_log1p, B::float_sqrt, B::float_recip];
        let arcs: [Map<FloatTensor<B>>; 3] =
            [B::float_asin, B::float_acos, B::float_atanh];
        let all = ops.iter().map(|op| op(x.clone()));
        let all = all.chain(logs.iter().map(|op| op(positive.clone())));
        let all = all.chain(arcs.iter().map(|op| op(small.clone())));
        let all = all.chain([B::float_acosh(B::float_add_scalar(positive.clone(), Scalar::Float(1.0)))]);
        all.map(read_float::<B>).collect()
    }

    fn powers<B>(d) within 1e-5 {
        let x = floats::<B>(&[33], 3, d);
        let positive = B::float_add_scalar(B::float_abs(x.clone()), Scalar::Float(0.25));
        let mut out: Vec<_> = [0.0, 1.0, 2.0, 3.0, 4.0, 7.0, -1.0, -2.0]
            .into_iter().map(|e| B::float_powf_scalar(positive.clone(), Scalar::Float(e))).collect();
        out.extend([2, 3, 4, 5].map(|e| B::float_powi_scalar(x.clone(), Scalar::Int(e))));
        out.extend([0.5, 1.5, -0.3].map(|e| B::float_powf_scalar(positive.clone(), Scalar::Float(e))));
        out.push(B::float_powi(positive, ints::<B>(&[33], -3, 4, 5, d)));
        out.into_iter().map(read_float::<B>).collect()
    }

    fn integers<B>(d) within 0.0 {
        let (a, b) = (ints::<B>(S, -50, 50, 1, d), ints::<B>(R, 1, 9, 2, d));
        let ops: [Pair<IntTensor<B>>; 8] = [
            B::int_add, B::int_sub, B::int_mul, B::int_div, B::int_remainder, B::bitwise_and, B::bitwise_or,
            B::bitwise_xor,
        ];
        let with: [With<IntTensor<B>>; 10] = [
            B::int_add_scalar, B::int_sub_scalar, B::int_mul_scalar, B::int_div_scalar, B::int_remainder_scalar,
            B::int_powi_scalar, B::bitwise_left_shift_scalar, B::bitwise_right_shift_scalar, B::bitwise_and_scalar,
            B::int_clamp_min,
        ];
        let all = ops.iter().map(|op| op(a.clone(), b.clone()));
        let all = all.chain(with.iter().map(|op| op(a.clone(), Scalar::Int(3))));
        let all = all.chain([B::int_abs(a.clone()), B::int_neg(a.clone()), B::int_sign(a.clone()), B::bitwise_not(a.clone())]);
        all.map(read_int::<B>).collect()
    }

    fn truth<B>(d) within 0.0 {
        let (a, b) = (bools::<B>(&[4, 9], 1, d), bools::<B>(&[4, 9], 2, d));
        [
            B::bool_and(a.clone(), b.clone()), B::bool_or(a.clone(), b.clone()), B::bool_xor(a.clone(), b.clone()),
            B::bool_not(a.clone()), B::bool_equal(a.clone(), b.clone()), B::bool_not_equal(a.clone(), b.clone()),
            B::bool_equal_elem(a.clone(), Scalar::Bool(true)), B::bool_any_dim(a.clone(), 1), B::bool_all_dim(a.clone(), 0),
            B::bool_any(a.clone()), B::bool_all(a.clone()), B::bool_mask_where(a.clone(), b.clone(), B::bool_not(a)),
        ]
        .into_iter().map(read_bool::<B>).collect()
    }

    fn masks<B>(d) within 0.0 {
        let (x, y, m) = (floats::<B>(&[3, 7], 1, d), floats::<B>(&[3, 7], 2, d), bools::<B>(&[3, 7], 3, d));
        let i = ints::<B>(&[3, 7], -5, 5, 4, d);
        vec![
            read_float::<B>(B::float_mask_where(x.clone(), m.clone(), y)),
            read_float::<B>(B::float_mask_fill(x.clone(), m.clone(), Scalar::Float(-1.5))),
            read_int::<B>(B::int_mask_fill(i, m.clone(), Scalar::Int(9))),
            read_float::<B>(burn_backend::read_sync(B::float_mask_select(x, m.clone()))),
            read_int::<B>(burn_backend::read_sync(B::bool_argwhere(m, IntDType::I64))),
        ]
    }

    fn casts<B>(d) within 0.0 {
        let (x, m) = (floats::<B>(&[40], 1, d), bools::<B>(&[40], 3, d));
        let i = ints::<B>(&[40], -300, 300, 4, d);
        vec![
            read_int::<B>(B::float_into_int(x.clone(), IntDType::I32)),
            read_float::<B>(B::float_cast(x, FloatDType::F64)),
            read_float::<B>(B::int_into_float(i.clone(), FloatDType::F32)),
            read_int::<B>(B::int_cast(i, IntDType::I16)),
            read_int::<B>(B::bool_into_int(m.clone(), IntDType::I64)),
            read_float::<B>(B::bool_into_float(m, FloatDType::F32)),
        ]
    }

    fn creation<B>(d) within 0.0 {
        let s = || burn_backend::Shape::new([2, 3]);
        vec![
            read_float::<B>(B::float_zeros(s(), d, FloatDType::F32)),
            read_float::<B>(B::float_ones(s(), d, FloatDType::F32)),
            read_float::<B>(B::float_full(s(), Scalar::Float(2.5), d, FloatDType::F32)),
            read_int::<B>(B::int_full(s(), Scalar::Int(-7), d, IntDType::I64)),
            read_bool::<B>(B::bool_ones(s(), d, BoolStore::Native)),
            read_int::<B>(B::int_arange(3..11, d, IntDType::I32)),
            read_int::<B>(B::int_arange_step(-7..11, 4, d, IntDType::I64)),
        ] as Vec<TensorData>
    }

    fn activations<B>(d) within 2e-5 {
        let (x, g) = (floats::<B>(&[2, 65], 1, d), floats::<B>(&[2, 65], 2, d));
        [
            B::relu(x.clone()), B::relu_backward(x.clone(), g.clone()), B::gelu(x.clone()), B::sigmoid(x.clone()),
            B::sigmoid_backward(B::sigmoid(x.clone()), g.clone()), B::log_sigmoid(x.clone()),
            B::log_sigmoid_backward(x.clone(), g.clone()), B::leaky_relu(x.clone(), Scalar::Float(0.1)),
            B::hard_sigmoid(x.clone(), Scalar::Float(0.2), Scalar::Float(0.5)), B::softmax(x.clone(), 1),
            B::softmax(x.clone(), 0), B::log_softmax(x.clone(), 1), B::softmin(x.clone(), 1),
            B::prelu(x, floats::<B>(&[1, 65], 3, d)),
        ]
        .into_iter().map(read_float::<B>).collect()
    }

    /// The reference differentiates the approximation by tanh.
    fn gelu_backward<B>(d) within 2e-3 {
        let (x, g) = (floats::<B>(&[2, 65], 1, d), floats::<B>(&[2, 65], 2, d));
        vec![read_float::<B>(B::gelu_backward(x, g))]
    }
}
