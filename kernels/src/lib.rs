//! Templates: tile programs for work that rows alone do not make fast, each over a small space of configurations.
//!
//! Contains no LLVM and names no vendor: a template is written in the tile language, like a user's own kernel.

pub mod matmul;

pub use matmul::{Matmul, Operands, Sizes};
