//! Burn's integer methods, each one line into the file of its topic.

use std::ops::Range;

use burn_backend::ops::{IntTensorOps, PadMode};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData};
use kiln_lowering::graph::Reduction;
use kiln_lowering::op::Pointwise;

use super::dims::index_dtype;
use super::tables::{binary, compare, compare_elem, reduce_all, reduce_dim, scan, unary, with_scalar};
use super::{create, elementwise, index, join, mask, matmul, order, power, random, reduce, scan, views};
use crate::{Kiln, KilnDevice, KilnTensor, record};

impl IntTensorOps<Kiln> for Kiln {
    unary! {
        int_neg Neg;
        int_abs Abs;
        int_sign Sign;
        bitwise_not Not;
    }

    binary! {
        int_add Add;
        int_sub Sub;
        int_mul Mul;
        int_div Div;
        int_remainder Rem;
        int_powi Pow;
        bitwise_and And;
        bitwise_or Or;
        bitwise_xor Xor;
        bitwise_left_shift Shl;
        bitwise_right_shift Shr;
    }

    with_scalar! {
        int_add_scalar Add;
        int_sub_scalar Sub;
        int_mul_scalar Mul;
        int_div_scalar Div;
        int_remainder_scalar Rem;
        bitwise_and_scalar And;
        bitwise_or_scalar Or;
        bitwise_xor_scalar Xor;
    }

    compare! {
        int_equal Eq;
        int_not_equal Ne;
        int_greater Gt;
        int_greater_equal Ge;
        int_lower Lt;
        int_lower_equal Le;
    }

    compare_elem! {
        int_equal_elem Eq;
        int_not_equal_elem Ne;
        int_greater_elem Gt;
        int_greater_equal_elem Ge;
        int_lower_elem Lt;
        int_lower_equal_elem Le;
    }

    reduce_all! {
        int_sum Sum;
        int_prod Prod;
        int_max Max;
        int_min Min;
    }

    reduce_dim! {
        int_sum_dim Sum;
        int_prod_dim Prod;
        int_max_dim Max;
        int_min_dim Min;
    }

    scan! {
        int_cumsum Sum;
        int_cumprod Prod;
        int_cummin Min;
        int_cummax Max;
    }

    fn int_from_data(data: TensorData, device: &KilnDevice) -> KilnTensor {
        record::from_data(data, device)
    }

    async fn int_into_data(tensor: KilnTensor) -> Result<TensorData, ExecutionError> {
        record::into_data(tensor)
    }

    fn int_random(shape: Shape, distribution: Distribution, device: &KilnDevice, dtype: IntDType) -> KilnTensor {
        random::ints("int_random", &shape, distribution, device, dtype.into())
    }

    fn int_zeros(shape: Shape, device: &KilnDevice, dtype: IntDType) -> KilnTensor {
        create::fixed("int_zeros", &shape, 0.0, device, dtype.into())
    }

    fn int_ones(shape: Shape, device: &KilnDevice, dtype: IntDType) -> KilnTensor {
        create::fixed("int_ones", &shape, 1.0, device, dtype.into())
    }

    fn int_full(shape: Shape, fill_value: Scalar, device: &KilnDevice, dtype: IntDType) -> KilnTensor {
        create::full("int_full", &shape, fill_value, device, dtype.into())
    }

    fn int_empty(shape: Shape, device: &KilnDevice, dtype: IntDType) -> KilnTensor {
        create::fixed("int_empty", &shape, 0.0, device, dtype.into())
    }

    fn int_arange_step(range: Range<i64>, step: usize, device: &KilnDevice, dtype: IntDType) -> KilnTensor {
        create::arange("int_arange_step", range, step, device, dtype.into())
    }

    fn int_to_device(tensor: KilnTensor, device: &KilnDevice) -> KilnTensor {
        record::transfer("int_to_device", tensor, device)
    }

    fn int_into_float(tensor: KilnTensor, out_dtype: FloatDType) -> KilnTensor {
        elementwise::cast("int_into_float", tensor, out_dtype.into())
    }

    fn int_cast(tensor: KilnTensor, dtype: IntDType) -> KilnTensor {
        elementwise::cast("int_cast", tensor, dtype.into())
    }

    fn bitwise_left_shift_scalar(lhs: KilnTensor, rhs: Scalar) -> KilnTensor {
        elementwise::shift("bitwise_left_shift_scalar", Pointwise::Shl, lhs, rhs)
    }

    fn bitwise_right_shift_scalar(lhs: KilnTensor, rhs: Scalar) -> KilnTensor {
        elementwise::shift("bitwise_right_shift_scalar", Pointwise::Shr, lhs, rhs)
    }

    fn int_clamp_min(tensor: KilnTensor, min: Scalar) -> KilnTensor {
        elementwise::clamp("int_clamp_min", tensor, Some(min), None)
    }

    fn int_clamp_max(tensor: KilnTensor, max: Scalar) -> KilnTensor {
        elementwise::clamp("int_clamp_max", tensor, None, Some(max))
    }

    fn int_clamp(tensor: KilnTensor, min: Scalar, max: Scalar) -> KilnTensor {
        elementwise::clamp("int_clamp", tensor, Some(min), Some(max))
    }

    fn int_powi_scalar(lhs: KilnTensor, rhs: Scalar) -> KilnTensor {
        power::int_scalar("int_powi_scalar", lhs, rhs)
    }

    fn int_powi_scalar_impl(lhs: KilnTensor, rhs: Scalar) -> KilnTensor {
        power::int_scalar("int_powi_scalar", lhs, rhs)
    }

    fn int_matmul(lhs: KilnTensor, rhs: KilnTensor) -> KilnTensor {
        matmul::matmul("int_matmul", lhs, rhs)
    }

    fn int_transpose(tensor: KilnTensor) -> KilnTensor {
        views::transpose("int_transpose", tensor)
    }

    fn int_swap_dims(tensor: KilnTensor, dim1: usize, dim2: usize) -> KilnTensor {
        views::swap("int_swap_dims", tensor, dim1, dim2)
    }

    fn int_permute(tensor: KilnTensor, axes: &[usize]) -> KilnTensor {
        views::permute("int_permute", tensor, axes)
    }

    fn int_flip(tensor: KilnTensor, axes: &[usize]) -> KilnTensor {
        views::flip("int_flip", tensor, axes)
    }

    fn int_reshape(tensor: KilnTensor, shape: Shape) -> KilnTensor {
        views::reshape("int_reshape", tensor, shape)
    }

    fn int_expand(tensor: KilnTensor, shape: Shape) -> KilnTensor {
        views::expand("int_expand", tensor, shape)
    }

    fn int_repeat_dim(tensor: KilnTensor, dim: usize, times: usize) -> KilnTensor {
        views::repeat("int_repeat_dim", tensor, dim, times)
    }

    fn int_slice(tensor: KilnTensor, slices: &[Slice]) -> KilnTensor {
        views::slice("int_slice", tensor, slices)
    }

    fn int_unfold(tensor: KilnTensor, dim: usize, size: usize, step: usize) -> KilnTensor {
        views::unfold("int_unfold", tensor, dim, size, step)
    }

    fn int_slice_assign(tensor: KilnTensor, slices: &[Slice], value: KilnTensor) -> KilnTensor {
        join::slice_assign("int_slice_assign", tensor, slices, value)
    }

    fn int_cat(tensors: Vec<KilnTensor>, dim: usize) -> KilnTensor {
        join::cat("int_cat", tensors, dim)
    }

    fn int_pad(tensor: KilnTensor, padding: &[(usize, usize)], mode: PadMode) -> KilnTensor {
        join::pad("int_pad", tensor, padding, mode)
    }

    fn int_gather(dim: usize, tensor: KilnTensor, indices: KilnTensor) -> KilnTensor {
        index::gather("int_gather", dim, tensor, indices)
    }

    fn int_scatter(
        dim: usize,
        tensor: KilnTensor,
        indices: KilnTensor,
        value: KilnTensor,
        update: IndexingUpdateOp,
    ) -> KilnTensor {
        index::scatter("int_scatter", dim, tensor, indices, value, index::update(update))
    }

    fn int_gather_nd(data: KilnTensor, indices: KilnTensor) -> KilnTensor {
        index::gather_nd("int_gather_nd", data, indices)
    }

    fn int_scatter_nd(
        data: KilnTensor,
        indices: KilnTensor,
        values: KilnTensor,
        reduction: IndexingUpdateOp,
    ) -> KilnTensor {
        index::scatter_nd("int_scatter_nd", data, indices, values, index::update(reduction))
    }

    fn int_select(tensor: KilnTensor, dim: usize, indices: KilnTensor) -> KilnTensor {
        index::select("int_select", tensor, dim, indices)
    }

    fn int_select_assign(
        tensor: KilnTensor,
        dim: usize,
        indices: KilnTensor,
        value: KilnTensor,
        update: IndexingUpdateOp,
    ) -> KilnTensor {
        index::select_assign("int_select_assign", tensor, dim, indices, value, index::update(update))
    }

    fn int_mask_where(tensor: KilnTensor, mask: KilnTensor, value: KilnTensor) -> KilnTensor {
        mask::choose("int_mask_where", tensor, mask, value)
    }

    fn int_mask_fill(tensor: KilnTensor, mask: KilnTensor, value: Scalar) -> KilnTensor {
        mask::fill("int_mask_fill", tensor, mask, value)
    }

    fn int_mean(tensor: KilnTensor) -> KilnTensor {
        reduce::mean("int_mean", tensor, None)
    }

    fn int_mean_dim(tensor: KilnTensor, dim: usize) -> KilnTensor {
        reduce::mean("int_mean_dim", tensor, Some(dim))
    }

    fn int_argmax(tensor: KilnTensor, dim: usize) -> KilnTensor {
        let out = index_dtype(&tensor);
        reduce::arg("int_argmax", Reduction::ArgMax, tensor, dim, out)
    }

    fn int_argmin(tensor: KilnTensor, dim: usize) -> KilnTensor {
        let out = index_dtype(&tensor);
        reduce::arg("int_argmin", Reduction::ArgMin, tensor, dim, out)
    }

    fn int_max_dim_with_indices(tensor: KilnTensor, dim: usize) -> (KilnTensor, KilnTensor) {
        let out = index_dtype(&tensor);
        reduce::with_indices("int_max_dim_with_indices", Reduction::Max, tensor, dim, out)
    }

    fn int_min_dim_with_indices(tensor: KilnTensor, dim: usize) -> (KilnTensor, KilnTensor) {
        let out = index_dtype(&tensor);
        reduce::with_indices("int_min_dim_with_indices", Reduction::Min, tensor, dim, out)
    }

    fn int_max_abs(tensor: KilnTensor) -> KilnTensor {
        reduce::max_abs("int_max_abs", tensor, None)
    }

    fn int_max_abs_dim(tensor: KilnTensor, dim: usize) -> KilnTensor {
        reduce::max_abs("int_max_abs_dim", tensor, Some(dim))
    }

    fn int_any(tensor: KilnTensor, out_dtype: BoolDType) -> KilnTensor {
        reduce::truth("int_any", Reduction::Any, tensor, None, out_dtype)
    }

    fn int_any_dim(tensor: KilnTensor, dim: usize, out_dtype: BoolDType) -> KilnTensor {
        reduce::truth("int_any_dim", Reduction::Any, tensor, Some(dim), out_dtype)
    }

    fn int_all(tensor: KilnTensor, out_dtype: BoolDType) -> KilnTensor {
        reduce::truth("int_all", Reduction::All, tensor, None, out_dtype)
    }

    fn int_all_dim(tensor: KilnTensor, dim: usize, out_dtype: BoolDType) -> KilnTensor {
        reduce::truth("int_all_dim", Reduction::All, tensor, Some(dim), out_dtype)
    }

    fn int_sort(tensor: KilnTensor, dim: usize, descending: bool) -> KilnTensor {
        order::sort("int_sort", tensor, dim, descending)
    }

    fn int_sort_with_indices(tensor: KilnTensor, dim: usize, descending: bool) -> (KilnTensor, KilnTensor) {
        let out = index_dtype(&tensor);
        order::with_indices("int_sort_with_indices", tensor, dim, descending, out)
    }

    fn int_argsort(tensor: KilnTensor, dim: usize, descending: bool) -> KilnTensor {
        let out = index_dtype(&tensor);
        order::argsort("int_argsort", tensor, dim, descending, out)
    }

    fn int_topk(tensor: KilnTensor, dim: usize, k: usize) -> KilnTensor {
        order::top("int_topk", tensor, dim, k)
    }

    fn int_argtopk(tensor: KilnTensor, dim: usize, k: usize) -> KilnTensor {
        let out = index_dtype(&tensor);
        order::argtop("int_argtopk", tensor, dim, k, out)
    }

    fn int_topk_with_indices(tensor: KilnTensor, dim: usize, k: usize) -> (KilnTensor, KilnTensor) {
        let out = index_dtype(&tensor);
        order::top_with_indices("int_topk_with_indices", tensor, dim, k, out)
    }
}
