//! Burn's boolean methods, each one line into the file of its topic.

use burn_backend::ops::BoolTensorOps;
use burn_backend::{BoolDType, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData};
use kiln_lowering::graph::{Reduction, Update};
use kiln_lowering::op::Pointwise;

use super::tables::{binary, unary};
use super::{create, elementwise, index, join, mask, reduce, views};
use crate::{Kiln, KilnDevice, KilnTensor, record};

/// How the truth values of a tensor are tagged.
fn tag(x: &KilnTensor) -> BoolDType {
    x.dtype().into()
}

impl BoolTensorOps<Kiln> for Kiln {
    unary! {
        bool_not Not;
    }

    binary! {
        bool_equal Eq;
        bool_not_equal Ne;
        bool_and And;
        bool_or Or;
        bool_xor Xor;
    }

    fn bool_from_data(data: TensorData, device: &KilnDevice) -> KilnTensor {
        record::from_data(data, device)
    }

    async fn bool_into_data(tensor: KilnTensor) -> Result<TensorData, ExecutionError> {
        record::into_data(tensor)
    }

    fn bool_empty(shape: Shape, device: &KilnDevice, dtype: BoolDType) -> KilnTensor {
        create::fixed("bool_empty", &shape, 0.0, device, dtype.into())
    }

    fn bool_zeros(shape: Shape, device: &KilnDevice, dtype: BoolDType) -> KilnTensor {
        create::fixed("bool_zeros", &shape, 0.0, device, dtype.into())
    }

    fn bool_ones(shape: Shape, device: &KilnDevice, dtype: BoolDType) -> KilnTensor {
        create::fixed("bool_ones", &shape, 1.0, device, dtype.into())
    }

    fn bool_to_device(tensor: KilnTensor, device: &KilnDevice) -> KilnTensor {
        record::transfer("bool_to_device", tensor, device)
    }

    fn bool_into_int(tensor: KilnTensor, out_dtype: IntDType) -> KilnTensor {
        elementwise::cast("bool_into_int", tensor, out_dtype.into())
    }

    fn bool_into_float(tensor: KilnTensor, out_dtype: FloatDType) -> KilnTensor {
        elementwise::cast("bool_into_float", tensor, out_dtype.into())
    }

    fn bool_equal_elem(lhs: KilnTensor, rhs: Scalar) -> KilnTensor {
        elementwise::equals_truth("bool_equal_elem", Pointwise::Eq, lhs, rhs)
    }

    fn bool_not_equal_elem(lhs: KilnTensor, rhs: Scalar) -> KilnTensor {
        elementwise::equals_truth("bool_not_equal_elem", Pointwise::Ne, lhs, rhs)
    }

    fn bool_transpose(tensor: KilnTensor) -> KilnTensor {
        views::transpose("bool_transpose", tensor)
    }

    fn bool_swap_dims(tensor: KilnTensor, dim1: usize, dim2: usize) -> KilnTensor {
        views::swap("bool_swap_dims", tensor, dim1, dim2)
    }

    fn bool_permute(tensor: KilnTensor, axes: &[usize]) -> KilnTensor {
        views::permute("bool_permute", tensor, axes)
    }

    fn bool_flip(tensor: KilnTensor, axes: &[usize]) -> KilnTensor {
        views::flip("bool_flip", tensor, axes)
    }

    fn bool_reshape(tensor: KilnTensor, shape: Shape) -> KilnTensor {
        views::reshape("bool_reshape", tensor, shape)
    }

    fn bool_expand(tensor: KilnTensor, shape: Shape) -> KilnTensor {
        views::expand("bool_expand", tensor, shape)
    }

    fn bool_repeat_dim(tensor: KilnTensor, dim: usize, times: usize) -> KilnTensor {
        views::repeat("bool_repeat_dim", tensor, dim, times)
    }

    fn bool_slice(tensor: KilnTensor, slices: &[Slice]) -> KilnTensor {
        views::slice("bool_slice", tensor, slices)
    }

    fn bool_unfold(tensor: KilnTensor, dim: usize, size: usize, step: usize) -> KilnTensor {
        views::unfold("bool_unfold", tensor, dim, size, step)
    }

    fn bool_slice_assign(tensor: KilnTensor, slices: &[Slice], value: KilnTensor) -> KilnTensor {
        join::slice_assign("bool_slice_assign", tensor, slices, value)
    }

    fn bool_cat(tensors: Vec<KilnTensor>, dim: usize) -> KilnTensor {
        join::cat("bool_cat", tensors, dim)
    }

    fn bool_gather(dim: usize, tensor: KilnTensor, indices: KilnTensor) -> KilnTensor {
        index::gather("bool_gather", dim, tensor, indices)
    }

    fn bool_scatter_or(dim: usize, tensor: KilnTensor, indices: KilnTensor, value: KilnTensor) -> KilnTensor {
        index::scatter("bool_scatter_or", dim, tensor, indices, value, Update::Or)
    }

    fn bool_select(tensor: KilnTensor, dim: usize, indices: KilnTensor) -> KilnTensor {
        index::select("bool_select", tensor, dim, indices)
    }

    fn bool_select_or(tensor: KilnTensor, dim: usize, indices: KilnTensor, value: KilnTensor) -> KilnTensor {
        index::select_assign("bool_select_or", tensor, dim, indices, value, Update::Or)
    }

    fn bool_mask_where(tensor: KilnTensor, mask: KilnTensor, value: KilnTensor) -> KilnTensor {
        mask::choose("bool_mask_where", tensor, mask, value)
    }

    fn bool_mask_fill(tensor: KilnTensor, mask: KilnTensor, value: Scalar) -> KilnTensor {
        mask::fill("bool_mask_fill", tensor, mask, Scalar::Bool(value.elem()))
    }

    fn bool_any(tensor: KilnTensor) -> KilnTensor {
        let out = tag(&tensor);
        reduce::truth("bool_any", Reduction::Any, tensor, None, out)
    }

    fn bool_any_dim(tensor: KilnTensor, dim: usize) -> KilnTensor {
        let out = tag(&tensor);
        reduce::truth("bool_any_dim", Reduction::Any, tensor, Some(dim), out)
    }

    fn bool_all(tensor: KilnTensor) -> KilnTensor {
        let out = tag(&tensor);
        reduce::truth("bool_all", Reduction::All, tensor, None, out)
    }

    fn bool_all_dim(tensor: KilnTensor, dim: usize) -> KilnTensor {
        let out = tag(&tensor);
        reduce::truth("bool_all_dim", Reduction::All, tensor, Some(dim), out)
    }
}
