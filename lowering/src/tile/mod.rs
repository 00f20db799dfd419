//! Tile programs: what one program instance does, in SSA over whole tiles.  Knows no threads, lanes or machines.

#[cfg(any(test, feature = "arbitrary"))]
pub mod arbitrary;
pub mod builder;
pub mod ir;
pub mod parse;
pub mod print;
pub mod verify;

pub use builder::{Builder, OpenBlock};
pub use ir::{
    Atomic, Block, BlockData, Cache, Inst, InstData, Op, Param, ParamData, ParamKind, Place, Precision, Program, Shape,
    Type, Value,
};
pub use parse::{ParseError, parse};
pub use print::Names;
pub use verify::{Rule, Violation, verify};
