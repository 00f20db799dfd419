//! Chooses which rows share a kernel, in which order kernels run and which buffers they use.

pub mod affine;
pub mod assemble;
pub mod attention;
pub mod choice;
mod chosen;
mod chunks;
pub mod cost;
pub mod emit;
pub mod epilogue;
pub mod execute;
pub mod explain;
pub mod expr;
pub mod fuse;
mod grain;
pub mod group;
pub(crate) mod implicit;
pub mod looped;
mod matching;
mod one_pass;
pub mod operands;
mod parts;
pub mod plan;
mod print;
pub mod simplify;
pub mod trace;
mod traffic;
mod vectors;
pub mod view;
mod widen;

pub use assemble::{plan, plan_for};
pub use choice::{Choices, Class, Way};
pub use explain::{Explanation, explain};
pub use grain::Grain;
pub use plan::{
    Absorbs, Arg, Buf, BufferData, Epilogue, Gemm, InputData, Layout, Matrix, Options, Output, Plan, Sort, Step, Tail,
};
