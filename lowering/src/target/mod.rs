//! Machines that run tile programs.  Nothing outside this folder asks which one it is.

pub mod host;
pub mod interp;
pub mod nvidia;

#[cfg(test)]
mod emulated;
mod module;

pub use module::{Error, See};
