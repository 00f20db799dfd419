//! Lowers tile programs to LLVM, one file per family of operations, the same for every target.
//!
//! A register of a tile is a value of "the element type of this target": a vector with an element per lane on a
//! processor, a scalar on a GPU, where the lanes are threads.  What differs otherwise is asked of [`Emit`].

pub mod address;
pub mod alias;
pub mod check;
pub mod emit;
pub mod ir;
pub mod tensor_map;

mod ahead;
mod atomic;
mod boxes;
mod cast;
mod chain;
mod combine;
mod compare;
mod control;
mod convert;
mod divide;
mod dot;
mod exp2;
mod factors;
mod float;
mod int;
mod kept;
mod lower;
mod matrix;
mod memory;
mod reduce;
mod ring;
mod root;
mod runs;
mod scan;
mod scratch;
mod shape;
mod slope;
mod threads;
mod turns;
mod value;

pub use emit::{Emit, Left, Thread};
pub(crate) use int::INVERSE;
pub use ir::Ir;
pub use lower::{lower_body, started};
