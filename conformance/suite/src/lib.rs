//! Kiln's tests across crates as a library: `cargo test` runs them, and so does the binary that is carried to machines
//! without a toolchain.  Holds the list of tests and the way to run them; what they are about is in `tests/`.

pub mod child;
pub mod kernels;
pub mod run;
pub mod test;
mod tests;

use burn_kiln::KilnDevice;

/// The machine under test: the one that `KILN_DEVICE` names.
pub const DEVICE: KilnDevice = KilnDevice::Chosen;
