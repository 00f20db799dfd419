//! Programs of Burn's tensor API on Kiln: against definitions, against themselves in other ways, against burn-ndarray.

mod activations;
mod against;
mod blocks;
mod cases;
mod decisions;
mod faults;
mod memory;
mod metamorphic;
mod program;

use burn_kiln::KilnDevice;
use burn_tensor::{Device, Tensor, TensorData};

/// Kiln on this computer's processor.
fn kiln() -> Device {
    Device::new(KilnDevice::Cpu)
}

/// Kiln's interpreter.
fn interp() -> Device {
    Device::new(KilnDevice::Interp)
}

/// The other backend.
#[expect(deprecated, reason = "a second backend, with another author, is what the comparison needs")]
fn reference() -> Device {
    Device::ndarray()
}

/// A tensor of f32.
fn tensor<const D: usize>(values: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
}

/// The elements, as f32.
fn values<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    x.into_data_as::<f32>().try_to_vec().expect("the data was converted to f32")
}
