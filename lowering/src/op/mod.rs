//! Operations as rows: one table per kind, and what the rest of the compiler may ask of a row.

pub mod expander;
pub mod math;
pub mod pointwise;
pub mod round;
pub mod scalar;

pub use expander::{Expander, Term};
pub use pointwise::Pointwise;
