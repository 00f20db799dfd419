//! Machines that run tile programs.  Nothing outside this folder asks which one it is.

pub mod amd;
pub mod host;
pub mod interp;
pub mod nvidia;

mod arguments;
#[cfg(test)]
mod emulated;
mod module;
mod scratch;

pub use module::{Error, See};
