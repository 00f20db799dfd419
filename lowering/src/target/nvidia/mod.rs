//! NVIDIA's GPUs, by way of PTX, which the driver compiles further.
//!
//! A program of one warp is a warp: a block runs several of them, which have nothing to do with each other.  A program
//! of several warps is a block.

mod assembly;
mod calls;
mod copies;
pub mod driver;
mod emit;
mod group;
mod matrix;
mod object;
mod specs;
mod turns;

#[cfg(test)]
mod tests;

pub use object::{Compiler, Object};
pub use specs::{names, spec};
