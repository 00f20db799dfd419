//! Burn's methods on quantized tensors.  None is lowered yet; each says so, and every method that Burn builds on these
//! does too.

use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{QuantScheme, QuantizationParametersPrimitive};
use burn_backend::{ExecutionError, FloatDType, Shape, TensorData};

use super::checks::not_lowered;
use crate::{Kiln, KilnDevice, KilnTensor};

impl QTensorOps<Kiln> for Kiln {
    fn q_from_data(_data: TensorData, _device: &KilnDevice) -> KilnTensor {
        not_lowered("q_from_data")
    }

    fn quantize(
        _tensor: KilnTensor,
        _scheme: &QuantScheme,
        _qparams: QuantizationParametersPrimitive<Kiln>,
    ) -> KilnTensor {
        not_lowered("quantize")
    }

    fn quantize_dynamic(_tensor: KilnTensor, _scheme: &QuantScheme) -> KilnTensor {
        not_lowered("quantize_dynamic")
    }

    fn dequantize(_tensor: KilnTensor, _dtype: FloatDType) -> KilnTensor {
        not_lowered("dequantize")
    }

    fn q_to_device(_tensor: KilnTensor, _device: &KilnDevice) -> KilnTensor {
        not_lowered("q_to_device")
    }

    fn q_reshape(_tensor: KilnTensor, _shape: Shape) -> KilnTensor {
        not_lowered("q_reshape")
    }

    async fn q_into_data(_tensor: KilnTensor) -> Result<TensorData, ExecutionError> {
        not_lowered("q_into_data")
    }

    fn q_swap_dims(_tensor: KilnTensor, _dim1: usize, _dim2: usize) -> KilnTensor {
        not_lowered("q_swap_dims")
    }

    fn q_permute(_tensor: KilnTensor, _axes: &[usize]) -> KilnTensor {
        not_lowered("q_permute")
    }

    fn q_flip(_tensor: KilnTensor, _axes: &[usize]) -> KilnTensor {
        not_lowered("q_flip")
    }
}
