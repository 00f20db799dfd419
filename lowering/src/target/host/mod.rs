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

pub use driver::{Kernel, load};
pub use object::{Compiler, Error, Object, See, spec};
pub use pool::Pool;
