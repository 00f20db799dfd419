//! Between Burn's words for shapes and element types and the graph's.  Knows no operations.

use burn_backend::Shape;
use kiln_lowering::graph::Dims;

use crate::KilnTensor;

/// Extents of a tensor.
pub fn dims(x: &KilnTensor) -> Dims {
    x.dims()
}

/// Extents of a shape.
pub fn extents(shape: &Shape) -> Dims {
    shape.iter().map(|&n| n as u64).collect()
}

/// Extents with one of them replaced.
pub fn with(dims: &[u64], axis: usize, extent: u64) -> Dims {
    let mut out = Dims::from_slice(dims);
    out[axis] = extent;
    out
}

/// 1 everywhere but at `axis`, where it is `extent`.
pub fn along(rank: usize, axis: usize, extent: u64) -> Dims {
    (0..rank).map(|i| if i == axis { extent } else { 1 }).collect()
}

/// The dtype of indices into a tensor of integers: its own, or the device's where its own is too narrow for an index.
pub fn index_dtype(x: &KilnTensor) -> burn_backend::DType {
    match x.kiln_dtype().bytes() {
        4 | 8 => x.dtype(),
        _ => burn_backend::get_or_init_device_settings::<crate::Kiln>(&x.device()).int_dtype.into(),
    }
}
