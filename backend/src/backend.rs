//! Kiln as a Burn backend: types and device-wide methods.  The operations are in `burn/`.

use burn_backend::{Backend, BackendTypes, DType, DTypeUsage, DTypeUsageSet, ExecutionError};
use burn_backend::{ProfileDuration, ProfileOptions, ProfileToken, profile_with_tokens};
use burn_ir::{BackendIr, HandleKind, TensorHandle};

use crate::device::KilnDevice;
use crate::record::{self, KilnGraph, graph, profile};
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
    type GraphPrimitive = KilnGraph;
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

    fn profile<O: Send + 'static>(
        device: &KilnDevice,
        options: ProfileOptions,
        func: impl FnOnce() -> O + Send,
    ) -> Result<(O, ProfileDuration), ExecutionError> {
        profile_with_tokens::<Kiln, O>(device, options, func)
    }

    fn profile_start(device: &KilnDevice) -> Result<Option<ProfileToken>, ExecutionError> {
        Ok(Some(profile::start(device)))
    }

    fn profile_end(
        device: &KilnDevice,
        token: ProfileToken,
        options: ProfileOptions,
    ) -> Result<ProfileDuration, ExecutionError> {
        profile::end(device, token, options)
    }

    fn profile_abandon(device: &KilnDevice, token: ProfileToken) {
        profile::abandon(device, token);
    }

    fn graph_prepare(device: &KilnDevice) -> Result<(), ExecutionError> {
        // A capture keeps whatever memory its work gets: there is nothing to make ready.
        record::flush(device);
        Ok(())
    }

    fn graph_start_capture(device: &KilnDevice) -> Result<(), ExecutionError> {
        graph::start_capture(device)
    }

    fn graph_stop_capture(device: &KilnDevice) -> Result<KilnGraph, ExecutionError> {
        graph::stop_capture(device)
    }

    unsafe fn graph_replay(device: &KilnDevice, graph: &KilnGraph) -> Result<(), ExecutionError> {
        graph::replay(device, graph)
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
