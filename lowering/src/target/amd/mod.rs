//! AMD's GPUs, by way of code objects, which HIP loads.
//!
//! As on NVIDIA's, a program of one warp is a wave, and a work-group runs several of them, which have nothing to do with
//! each other; a program of several warps is a work-group.  Executing code objects is for later; what is in them is
//! checked by structure, and what comes before LLVM by emulation.

mod code_object;
mod emit;
mod inspect;
mod lanes;
mod matrix;
mod object;
mod specs;

#[cfg(test)]
mod tests;

pub use code_object::{Argument, CodeObject, Descriptor, Kernel, Malformed};
pub use inspect::Inspection;
pub use object::{Compiler, Linker, Object, disassemble};
pub use specs::{names, spec};
