//! Operations that Burn's packages call by path rather than through the backend.

#[cfg(feature = "fft")]
pub mod fft;
