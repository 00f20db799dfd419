//! Turns groups into tile programs: which axis the lanes follow, which loops run around them, which sizes are
//! arguments.  Knows no machine but the number of elements that a tile should have.

pub mod across;
pub mod along;
pub mod attention;
mod blocks;
pub mod collapse;
pub mod columns;
pub mod combine;
pub mod context;
pub mod crossed;
mod finish;
pub mod fused;
pub mod held;
mod inside;
mod keep;
pub mod looped;
mod order;
pub mod point;
pub mod prefix;
pub mod product;
pub mod random;
pub mod reduce;
pub mod scatter;
pub mod slopes;
pub mod value;
pub mod walk;

pub use context::Emitter;
pub use held::Held;
pub use point::Point;

use super::plan::Arg;
use crate::DType;
use crate::graph::Node;
use crate::schedule::expr::Exprs;
use crate::tile::Program;

/// Elements of a tile along its lanes.
pub const TILE: u32 = 64;

/// Extents up to this, which windows and channels have, are part of the class where they are divided by or reduced
/// over: they appear in the text.
pub const WINDOW: u64 = 8;

/// Terms of a window, over all of its axes, that are added without a loop.
pub const UNROLLED: u64 = 16;

/// A kernel ready to be launched.
pub struct Emitted {
    /// What each program instance does.
    pub program: Program,
    /// Numbers of instances.
    pub grid: [u32; 3],
    /// One per parameter, but for buffers, which are named by their nodes.
    pub args: Vec<Operand>,
    /// What codes mean that the program reports.
    pub checks: Vec<String>,
    /// Which points each program visits, where they are runs of all.
    pub share: Option<Share>,
}

/// What each program visits: runs of the parallel points in row-major order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Points that belong to one place along the grid's x.
    pub points: u64,
    /// Points of a row, which places along y divide.
    pub row: u64,
    /// Points of a row that belong to one of them.
    pub piece: u64,
}

/// Kernels that run one after the other.
pub struct Passes {
    /// The kernels.
    pub list: Vec<Emitted>,
    /// Type and length of each buffer between them, by the numbers of [`Operand::Scratch`].
    pub scratch: Vec<(DType, u64)>,
}

impl From<Emitted> for Passes {
    fn from(one: Emitted) -> Passes {
        Passes { list: vec![one], scratch: Vec::new() }
    }
}

/// An argument before buffers are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The buffer that holds a node.
    Node(Node),
    /// A scalar.
    Scalar(Arg),
    /// A buffer that only the kernels of one row use, by number.
    Scratch(usize),
}

/// What computed indices report when they are out of range, by code.
pub fn messages(exprs: &Exprs) -> Vec<String> {
    exprs.gathers.iter().map(|g| g.message.clone()).collect()
}
