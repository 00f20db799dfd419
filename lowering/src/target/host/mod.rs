//! The machine's own processor: one program instance on one thread, its lanes the elements of vectors.

mod driver;
mod emit;
mod object;
mod pool;
mod symbols;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;

pub use crate::target::{Error, See};
pub use driver::{Kernel, load};
pub use object::{Compiler, Object, spec};
pub use pool::Pool;
