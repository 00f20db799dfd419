//! Kiln, a Burn backend: tensor operations are recorded, fused into tile kernels, compiled and run.
//!
//! [`Kiln`] is the backend and [`KilnDevice`] names the machine.  Everything in `burn/` is a thin function per Burn
//! method that records rows; `record/` keeps what was recorded; `run/` executes it on a thread of the device.

mod backend;
mod burn;
mod device;
mod dtype;
pub mod inspect;
pub mod knobs;
pub mod record;
mod run;
mod tensor;

pub use backend::Kiln;
pub use burn::NOT_LOWERED;
pub use device::KilnDevice;
pub use dtype::{from_kiln, to_kiln};
pub use record::KilnGraph;
pub use tensor::KilnTensor;
