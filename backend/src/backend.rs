//! Kiln as a Burn backend: types and device-wide methods.  The operations are in `burn/`.

use burn_backend::{Backend, BackendTypes, DType, DTypeUsage, DTypeUsageSet, ExecutionError, GraphUnsupported};
use burn_ir::{BackendIr, HandleKind, TensorHandle};

use crate::device::KilnDevice;
use crate::record;
use crate::run::Machine;
use crate::tensor::KilnTensor;

/// The Kiln backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kiln;

impl BackendTypes for Kiln {
    type Device = KilnDevice;
    type FloatTensorPrimitive = KilnTensor;
    type IntTensorPrimitive = KilnTensor;
    type BoolTensorPrimitive = KilnTensor;
    type QuantizedTensorPrimitive = KilnTensor;
    type GraphPrimitive = GraphUnsupported;
}

impl Backend for Kiln {
    fn name(device: &KilnDevice) -> String {
        format!("kiln<{device}>")
    }

    fn seed(device: &KilnDevice, seed: u64) {
        record::seed(device, seed);
    }

    fn sync(device: &KilnDevice) -> Result<(), ExecutionError> {
        record::sync(device)
    }

    fn flush(device: &KilnDevice) -> Result<(), ExecutionError> {
        record::flush(device);
        Ok(())
    }

    fn memory_cleanup(device: &KilnDevice) {
        Machine::of(device).pool.trim();
    }

    fn dtype_usage(_device: &KilnDevice, dtype: DType) -> DTypeUsageSet {
        match dtype {
            DType::QFloat(_) | DType::Flex32 => DTypeUsageSet::empty(),
            _ => DTypeUsage::general(),
        }
    }

    fn device_count(type_id: u16) -> usize {
        KilnDevice::of_kind(type_id).map_or(0, crate::run::count)
    }
}

impl BackendIr for Kiln {
    type Handle = HandleKind<Kiln>;

    fn float_tensor(handle: TensorHandle<Self::Handle>) -> KilnTensor {
        match handle.handle {
            HandleKind::Float(t) => t,
            other => panic!("a float tensor is wanted, got a handle of kind {}", other.name()),
        }
    }

    fn int_tensor(handle: TensorHandle<Self::Handle>) -> KilnTensor {
        match handle.handle {
            HandleKind::Int(t) => t,
            other => panic!("an int tensor is wanted, got a handle of kind {}", other.name()),
        }
    }

    fn bool_tensor(handle: TensorHandle<Self::Handle>) -> KilnTensor {
        match handle.handle {
            HandleKind::Bool(t) => t,
            other => panic!("a bool tensor is wanted, got a handle of kind {}", other.name()),
        }
    }

    fn quantized_tensor(handle: TensorHandle<Self::Handle>) -> KilnTensor {
        match handle.handle {
            HandleKind::Quantized(t) => t,
            other => panic!("a quantized tensor is wanted, got a handle of kind {}", other.name()),
        }
    }

    fn float_tensor_handle(tensor: KilnTensor) -> Self::Handle {
        HandleKind::Float(tensor)
    }

    fn int_tensor_handle(tensor: KilnTensor) -> Self::Handle {
        HandleKind::Int(tensor)
    }

    fn bool_tensor_handle(tensor: KilnTensor) -> Self::Handle {
        HandleKind::Bool(tensor)
    }

    fn quantized_tensor_handle(tensor: KilnTensor) -> Self::Handle {
        HandleKind::Quantized(tensor)
    }
}
