//! Machines that run tile programs.  Nothing outside this folder asks which one it is.

pub mod host;
pub mod interp;
pub mod nvidia;

mod module;

pub use module::{Error, See};
