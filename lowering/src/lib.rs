//! Kiln's compiler: a pure function from a tensor graph and a machine's description to an object.
//!
//! Knows neither Burn nor candle, holds no global state, reads no clock and no file.

pub mod analysis;
pub mod dtype;
pub mod graph;
pub mod layout;
pub mod llvm;
pub mod op;
pub mod passes;
pub mod pipeline;
pub mod schedule;
pub mod spec;
pub mod target;
pub mod tile;

pub use dtype::DType;
