//! Kiln under the names of Burn's CPU backend, so that `[patch.crates-io]` swaps one for the other.
//!
//! Holds no code of its own: what Burn asks of `burn-flex` is answered by [`burn_kiln`].

pub use burn_kiln::{Kiln as Flex, KilnTensor as FlexTensor, KilnTensor as FlexQTensor};
pub use burn_kiln::{KilnDevice, KilnTensor};

/// The type of devices.
pub type FlexDevice = burn_kiln::KilnDevice;

/// The machine that `KILN_DEVICE` names.
#[expect(non_upper_case_globals, reason = "Burn uses the name as a type and as a value")]
pub const FlexDevice: burn_kiln::KilnDevice = burn_kiln::KilnDevice::Chosen;

#[doc(hidden)]
pub mod ops;
