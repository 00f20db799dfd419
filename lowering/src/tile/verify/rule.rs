//! The rules of the tile language, and how a broken one is reported.

use thiserror::Error;

use crate::dtype::DType;
use crate::tile::ir::{Param, Place, Type};

/// Most elements that a tile may have.
pub const MAX_ELEMENTS: u32 = 1 << 20;

/// Most axes that a tile may have.
pub const MAX_RANK: usize = 8;

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{at}`: {rule}{}", self.place.map(|p| format!(" ({p})")).unwrap_or_default())]
pub struct Violation {
    /// The instruction, as it is printed.
    pub at: String,
    /// Where the user wrote it.
    pub place: Option<Place>,
    /// What is wrong.
    pub rule: Rule,
}

/// What can be wrong with an instruction.  Operands, results and yields are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Rule {
    #[error("a name is letters, digits and underscores and starts with no digit, got `{got}`")]
    Name { got: String },
    #[error("the divisor of {param} must be at least 1, got 0")]
    Divisor { param: Param },
    #[error("owns a block that does not exist")]
    NoBlock,
    #[error("owns a block that is owned elsewhere too")]
    SharedBlock,
    #[error("a block lists an instruction that does not exist")]
    NoInst,
    #[error("stands at two places")]
    Repeated,
    #[error("defines a value that does not exist")]
    NoValue,
    #[error("defines a value that is defined elsewhere too")]
    Redefined,
    #[error("operand {index} is not defined at this point")]
    Undefined { index: usize },
    #[error("yield {index} is not defined at the end of the block")]
    UndefinedYield { index: usize },
    #[error("wants {want} operands, got {got}")]
    Operands { want: &'static str, got: usize },
    #[error("wants {want} results, got {got}")]
    Results { want: usize, got: usize },
    #[error("wants extents that are powers of two, got {got}")]
    Extent { got: Type },
    #[error("wants at most {MAX_RANK} axes and {MAX_ELEMENTS} elements, got {got}")]
    Size { got: Type },
    #[error("operand {index} wants {want}, got {got}")]
    Operand { index: usize, want: String, got: Type },
    #[error("result {index} wants {want}, got {got}")]
    Result { index: usize, want: String, got: Type },
    #[error("wants an axis below {below}, got {got}")]
    Axis { below: usize, got: u8 },
    #[error("wants a permutation of {rank} axes, got {got:?}")]
    Permutation { rank: usize, got: Vec<u8> },
    #[error("wants the bits of a {dtype}, got {bits:#x}")]
    Constant { dtype: DType, bits: u64 },
    #[error("wants {want}, got {param}")]
    Param { want: &'static str, param: Param },
    #[error("wants an atomic on numbers of 4 or 8 bytes (integers for `or`), got {got}")]
    Atomic { got: DType },
    #[error("wants block parameters {want}, got {got}")]
    BlockParams { want: String, got: String },
    #[error("wants yields {want}, got {got}")]
    Yields { want: String, got: String },
    #[error("a combine block holds constants, scalars and pointwise rows, all of them scalar")]
    InCombine,
    #[error("wants at least 1 stage, got 0")]
    Stages,
}
