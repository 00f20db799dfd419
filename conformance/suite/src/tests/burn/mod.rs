//! Programs of Burn's tensor API on Kiln: against definitions, against themselves in other ways, against burn-ndarray.

pub mod activations;
pub mod against;
pub mod blocks;
pub mod captures;
pub mod cases;
pub mod decisions;
pub mod epilogues;
pub mod faults;
pub mod gradients;
pub mod memory;
pub mod metamorphic;
pub mod moves;
pub mod profiles;
pub mod program;

use burn_kiln::KilnDevice;
use burn_tensor::{Device, Tensor, TensorData};

/// Kiln on the machine under test.
fn kiln() -> Device {
    Device::new(crate::DEVICE)
}

/// Kiln's interpreter.
fn interp() -> Device {
    Device::new(KilnDevice::Interp)
}

/// The other backend.
#[expect(deprecated, reason = "a second backend, with another author, is what the comparison needs")]
pub fn reference() -> Device {
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
