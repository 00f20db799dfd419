//! Burn's float methods, each one line into the file of its topic.

use burn_backend::ops::{FloatTensorOps, PadMode};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData};
use kiln_lowering::graph::Reduction;
use kiln_lowering::op::Pointwise;

use super::tables::{binary, compare, compare_elem, reduce_all, reduce_dim, scan, unary, with_scalar};
use super::{create, elementwise, index, join, mask, matmul, order, power, random, reduce, scan, views};
use crate::{Kiln, KilnDevice, KilnTensor, record};

impl FloatTensorOps<Kiln> for Kiln {
    unary! {
        float_neg Neg;
        float_recip Recip;
        float_abs Abs;
        float_sign Sign;
        float_sqrt Sqrt;
        float_exp Exp;
        float_log Log;
        float_log1p Log1p;
        float_cos Cos;
        float_sin Sin;
        float_tan Tan;
        float_cosh Cosh;
        float_sinh Sinh;
        float_tanh Tanh;
        float_acos Acos;
        float_acosh Acosh;
        float_asin Asin;
        float_asinh Asinh;
        float_atan Atan;
        float_atanh Atanh;
        float_round Round;
        float_floor Floor;
        float_ceil Ceil;
        float_trunc Trunc;
        float_erf Erf;
    }

    binary! {
        float_add Add;
        float_sub Sub;
        float_mul Mul;
        float_div Div;
        float_remainder Rem;
        float_powf Pow;
        float_atan2 Atan2;
    }

    with_scalar! {
        float_add_scalar Add;
        float_sub_scalar Sub;
        float_mul_scalar Mul;
        float_div_scalar Div;
        float_remainder_scalar Rem;
    }

    compare! {
        float_equal Eq;
        float_not_equal Ne;
        float_greater Gt;
        float_greater_equal Ge;
        float_lower Lt;
        float_lower_equal Le;
    }

    compare_elem! {
        float_equal_elem Eq;
        float_not_equal_elem Ne;
        float_greater_elem Gt;
        float_greater_equal_elem Ge;
        float_lower_elem Lt;
        float_lower_equal_elem Le;
    }

    reduce_all! {
        float_sum Sum;
        float_prod Prod;
        float_max Max;
        float_min Min;
    }

    reduce_dim! {
        float_sum_dim Sum;
        float_prod_dim Prod;
        float_max_dim Max;
        float_min_dim Min;
    }

    scan! {
        float_cumsum Sum;
        float_cumprod Prod;
        float_cummin Min;
        float_cummax Max;
    }

    fn float_from_data(data: TensorData, device: &KilnDevice) -> KilnTensor {
        record::from_data(data, device)
    }

    async fn float_into_data(tensor: KilnTensor) -> Result<TensorData, ExecutionError> {
        record::into_data(tensor)
    }

    fn float_random(shape: Shape, distribution: Distribution, device: &KilnDevice, dtype: FloatDType) -> KilnTensor {
        random::floats("float_random", &shape, distribution, device, dtype.into())
    }

    fn float_zeros(shape: Shape, device: &KilnDevice, dtype: FloatDType) -> KilnTensor {
        create::fixed("float_zeros", &shape, 0.0, device, dtype.into())
    }

    fn float_ones(shape: Shape, device: &KilnDevice, dtype: FloatDType) -> KilnTensor {
        create::fixed("float_ones", &shape, 1.0, device, dtype.into())
    }

    fn float_full(shape: Shape, fill_value: Scalar, device: &KilnDevice, dtype: FloatDType) -> KilnTensor {
        create::full("float_full", &shape, fill_value, device, dtype.into())
    }

    fn float_empty(shape: Shape, device: &KilnDevice, dtype: FloatDType) -> KilnTensor {
        create::fixed("float_empty", &shape, 0.0, device, dtype.into())
    }

    fn float_to_device(tensor: KilnTensor, device: &KilnDevice) -> KilnTensor {
        record::transfer("float_to_device", tensor, device)
    }

    fn float_into_int(tensor: KilnTensor, out_dtype: IntDType) -> KilnTensor {
        elementwise::cast("float_into_int", tensor, out_dtype.into())
    }

    fn float_cast(tensor: KilnTensor, dtype: FloatDType) -> KilnTensor {
        elementwise::cast("float_cast", tensor, dtype.into())
    }

    fn float_clamp_min(tensor: KilnTensor, min: Scalar) -> KilnTensor {
        elementwise::clamp("float_clamp_min", tensor, Some(min), None)
    }

    fn float_clamp_max(tensor: KilnTensor, max: Scalar) -> KilnTensor {
        elementwise::clamp("float_clamp_max", tensor, None, Some(max))
    }

    fn float_clamp(tensor: KilnTensor, min: Scalar, max: Scalar) -> KilnTensor {
        elementwise::clamp("float_clamp", tensor, Some(min), Some(max))
    }

    fn float_powi(lhs: KilnTensor, rhs: KilnTensor) -> KilnTensor {
        power::float_ints("float_powi", lhs, rhs)
    }

    fn float_powi_scalar(lhs: KilnTensor, rhs: Scalar) -> KilnTensor {
        power::float_scalar("float_powi_scalar", lhs, rhs)
    }

    fn float_powf_scalar(tensor: KilnTensor, value: Scalar) -> KilnTensor {
        power::float_scalar("float_powf_scalar", tensor, value)
    }

    fn float_powf_scalar_impl(tensor: KilnTensor, value: Scalar) -> KilnTensor {
        power::float_scalar("float_powf_scalar", tensor, value)
    }

    fn float_hypot(lhs: KilnTensor, rhs: KilnTensor) -> KilnTensor {
        elementwise::binary("float_hypot", Pointwise::Hypot, lhs, rhs)
    }

    fn float_is_nan(tensor: KilnTensor, out_dtype: BoolDType) -> KilnTensor {
        elementwise::test("float_is_nan", Pointwise::IsNan, tensor, out_dtype)
    }

    fn float_is_inf(tensor: KilnTensor, out_dtype: BoolDType) -> KilnTensor {
        elementwise::test("float_is_inf", Pointwise::IsInf, tensor, out_dtype)
    }

    fn float_matmul(lhs: KilnTensor, rhs: KilnTensor) -> KilnTensor {
        matmul::matmul("float_matmul", lhs, rhs)
    }

    fn float_cross(lhs: KilnTensor, rhs: KilnTensor, dim: usize) -> KilnTensor {
        matmul::cross("float_cross", lhs, rhs, dim)
    }

    fn float_transpose(tensor: KilnTensor) -> KilnTensor {
        views::transpose("float_transpose", tensor)
    }

    fn float_swap_dims(tensor: KilnTensor, dim1: usize, dim2: usize) -> KilnTensor {
        views::swap("float_swap_dims", tensor, dim1, dim2)
    }

    fn float_permute(tensor: KilnTensor, axes: &[usize]) -> KilnTensor {
        views::permute("float_permute", tensor, axes)
    }

    fn float_flip(tensor: KilnTensor, axes: &[usize]) -> KilnTensor {
        views::flip("float_flip", tensor, axes)
    }

    fn float_reshape(tensor: KilnTensor, shape: Shape) -> KilnTensor {
        views::reshape("float_reshape", tensor, shape)
    }

    fn float_expand(tensor: KilnTensor, shape: Shape) -> KilnTensor {
        views::expand("float_expand", tensor, shape)
    }

    fn float_repeat_dim(tensor: KilnTensor, dim: usize, times: usize) -> KilnTensor {
        views::repeat("float_repeat_dim", tensor, dim, times)
    }

    fn float_slice(tensor: KilnTensor, slices: &[Slice]) -> KilnTensor {
        views::slice("float_slice", tensor, slices)
    }

    fn float_unfold(tensor: KilnTensor, dim: usize, size: usize, step: usize) -> KilnTensor {
        views::unfold("float_unfold", tensor, dim, size, step)
    }

    fn float_slice_assign(tensor: KilnTensor, slices: &[Slice], value: KilnTensor) -> KilnTensor {
        join::slice_assign("float_slice_assign", tensor, slices, value)
    }

    fn float_cat(tensors: Vec<KilnTensor>, dim: usize) -> KilnTensor {
        join::cat("float_cat", tensors, dim)
    }

    fn float_pad(tensor: KilnTensor, padding: &[(usize, usize)], mode: PadMode) -> KilnTensor {
        join::pad("float_pad", tensor, padding, mode)
    }

    fn float_gather(dim: usize, tensor: KilnTensor, indices: KilnTensor) -> KilnTensor {
        index::gather("float_gather", dim, tensor, indices)
    }

    fn float_scatter(
        dim: usize,
        tensor: KilnTensor,
        indices: KilnTensor,
        value: KilnTensor,
        update: IndexingUpdateOp,
    ) -> KilnTensor {
        index::scatter("float_scatter", dim, tensor, indices, value, index::update(update))
    }

    fn float_gather_nd(data: KilnTensor, indices: KilnTensor) -> KilnTensor {
        index::gather_nd("float_gather_nd", data, indices)
    }

    fn float_scatter_nd(
        data: KilnTensor,
        indices: KilnTensor,
        values: KilnTensor,
        reduction: IndexingUpdateOp,
    ) -> KilnTensor {
        index::scatter_nd("float_scatter_nd", data, indices, values, index::update(reduction))
    }

    fn float_select(tensor: KilnTensor, dim: usize, indices: KilnTensor) -> KilnTensor {
        index::select("float_select", tensor, dim, indices)
    }

    fn float_select_assign(
        tensor: KilnTensor,
        dim: usize,
        indices: KilnTensor,
        value: KilnTensor,
        update: IndexingUpdateOp,
    ) -> KilnTensor {
        index::select_assign("float_select_assign", tensor, dim, indices, value, index::update(update))
    }

    fn float_mask_where(tensor: KilnTensor, mask: KilnTensor, value: KilnTensor) -> KilnTensor {
        mask::choose("float_mask_where", tensor, mask, value)
    }

    fn float_mask_fill(tensor: KilnTensor, mask: KilnTensor, value: Scalar) -> KilnTensor {
        mask::fill("float_mask_fill", tensor, mask, value)
    }

    fn float_sum_dims(tensor: KilnTensor, dims: &[usize]) -> KilnTensor {
        reduce::axes("float_sum_dims", Reduction::Sum, tensor, dims)
    }

    fn float_mean(tensor: KilnTensor) -> KilnTensor {
        reduce::mean("float_mean", tensor, None)
    }

    fn float_mean_dim(tensor: KilnTensor, dim: usize) -> KilnTensor {
        reduce::mean("float_mean_dim", tensor, Some(dim))
    }

    fn float_argmax(tensor: KilnTensor, dim: usize, out_dtype: IntDType) -> KilnTensor {
        reduce::arg("float_argmax", Reduction::ArgMax, tensor, dim, out_dtype.into())
    }

    fn float_argmin(tensor: KilnTensor, dim: usize, out_dtype: IntDType) -> KilnTensor {
        reduce::arg("float_argmin", Reduction::ArgMin, tensor, dim, out_dtype.into())
    }

    fn float_max_dim_with_indices(tensor: KilnTensor, dim: usize, indices_dtype: IntDType) -> (KilnTensor, KilnTensor) {
        reduce::with_indices("float_max_dim_with_indices", Reduction::Max, tensor, dim, indices_dtype.into())
    }

    fn float_min_dim_with_indices(tensor: KilnTensor, dim: usize, indices_dtype: IntDType) -> (KilnTensor, KilnTensor) {
        reduce::with_indices("float_min_dim_with_indices", Reduction::Min, tensor, dim, indices_dtype.into())
    }

    fn float_max_abs(tensor: KilnTensor) -> KilnTensor {
        reduce::max_abs("float_max_abs", tensor, None)
    }

    fn float_max_abs_dim(tensor: KilnTensor, dim: usize) -> KilnTensor {
        reduce::max_abs("float_max_abs_dim", tensor, Some(dim))
    }

    fn float_any(tensor: KilnTensor, out_dtype: BoolDType) -> KilnTensor {
        reduce::truth("float_any", Reduction::Any, tensor, None, out_dtype)
    }

    fn float_any_dim(tensor: KilnTensor, dim: usize, out_dtype: BoolDType) -> KilnTensor {
        reduce::truth("float_any_dim", Reduction::Any, tensor, Some(dim), out_dtype)
    }

    fn float_all(tensor: KilnTensor, out_dtype: BoolDType) -> KilnTensor {
        reduce::truth("float_all", Reduction::All, tensor, None, out_dtype)
    }

    fn float_all_dim(tensor: KilnTensor, dim: usize, out_dtype: BoolDType) -> KilnTensor {
        reduce::truth("float_all_dim", Reduction::All, tensor, Some(dim), out_dtype)
    }

    fn float_sort(tensor: KilnTensor, dim: usize, descending: bool) -> KilnTensor {
        order::sort("float_sort", tensor, dim, descending)
    }

    fn float_sort_with_indices(
        tensor: KilnTensor,
        dim: usize,
        descending: bool,
        indices_dtype: IntDType,
    ) -> (KilnTensor, KilnTensor) {
        order::with_indices("float_sort_with_indices", tensor, dim, descending, indices_dtype.into())
    }

    fn float_argsort(tensor: KilnTensor, dim: usize, descending: bool, out_dtype: IntDType) -> KilnTensor {
        order::argsort("float_argsort", tensor, dim, descending, out_dtype.into())
    }

    fn float_topk(tensor: KilnTensor, dim: usize, k: usize) -> KilnTensor {
        order::top("float_topk", tensor, dim, k)
    }

    fn float_argtopk(tensor: KilnTensor, dim: usize, k: usize, out_dtype: IntDType) -> KilnTensor {
        order::argtop("float_argtopk", tensor, dim, k, out_dtype.into())
    }

    fn float_topk_with_indices(
        tensor: KilnTensor,
        dim: usize,
        k: usize,
        out_dtype: IntDType,
    ) -> (KilnTensor, KilnTensor) {
        order::top_with_indices("float_topk_with_indices", tensor, dim, k, out_dtype.into())
    }
}
