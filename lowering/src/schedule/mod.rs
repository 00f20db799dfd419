//! Chooses which rows share a kernel, in which order kernels run and which buffers they use.

pub mod plan;

pub use plan::{Arg, Buf, BufferData, Gemm, InputData, Layout, Matrix, Options, Output, Plan, Step};
