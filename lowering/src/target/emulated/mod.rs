//! The shape of a GPU on the processor, for tests: each lane of each warp is a thread that runs scalar code, and lanes
//! meet for every exchange.  What GPUs run differs from this in the instructions behind the few questions of
//! [`Emit`](crate::llvm::Emit) alone.

mod driver;
mod emit;
mod fragment;

mod tests;

pub(crate) use tests::{Lies, staged_product};
