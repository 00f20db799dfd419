//! Graphs: whole-tensor programs over a small set of primitive rows.  Knows no kernels, buffers or machines.

pub mod arbitrary;
pub mod array;
pub mod build;
pub mod canonical;
pub mod ir;
pub mod number;
pub mod oracle;
pub mod parse;
pub mod print;
pub mod random;
pub mod verify;

pub use array::Array;
pub use canonical::Canonical;
pub use ir::{
    Dims, Dist, Graph, Index, Movement, Node, NodeData, Op, PadDim, Reduction, SliceDim, Slot, Update, WindowDim,
};
pub use parse::ParseError;
pub use verify::verify;
