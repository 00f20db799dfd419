//! The rules of graphs, and how a broken one is reported.

use thiserror::Error;

use crate::dtype::DType;
use crate::graph::ir::{Dims, Node, Slot};

/// Most axes that a tensor may have.
pub const MAX_RANK: usize = 16;

/// Most elements that a tensor may have: their byte offsets fit 63 bits.
pub const MAX_ELEMENTS: u64 = 1 << 56;

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{at}`: {rule}")]
pub struct Violation {
    /// The node, if one is to blame.
    pub node: Option<Node>,
    /// The node, as it is printed, or the part of the graph.
    pub at: String,
    /// What is wrong.
    pub rule: Rule,
}

/// What can be wrong with a graph.  Operands, axes and outputs are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Rule {
    #[error("output {index} is {got}, which does not exist")]
    NoOutput { index: usize, got: Node },
    #[error("operand {index} is {got}, which is not defined above")]
    Undefined { index: usize, got: Node },
    #[error("takes {wanted} operands, got {got}")]
    Arity { wanted: usize, got: usize },
    #[error("operand {index} should be {wanted}, got {got}")]
    OperandType { index: usize, wanted: &'static str, got: DType },
    #[error("operand {index} should be {wanted} like the others, got {got}")]
    OperandsDiffer { index: usize, wanted: DType, got: DType },
    #[error("operand {index} should have the extents {wanted:?}, got {got:?}")]
    OperandDims { index: usize, wanted: Dims, got: Dims },
    #[error("operand {index} should have {wanted} axes, got {got}")]
    OperandRank { index: usize, wanted: &'static str, got: usize },
    #[error("the result should be {wanted}, got {got}")]
    ResultType { wanted: &'static str, got: DType },
    #[error("the result should have the extents {wanted:?}, got {got:?}")]
    ResultDims { wanted: Dims, got: Dims },
    #[error("the result may have no more than {MAX_RANK} axes, got {got}")]
    Rank { got: usize },
    #[error("the result may have no more than 2^56 elements, got {got:?}")]
    TooLarge { got: Dims },
    #[error("the axis should be below {wanted}, got {got}")]
    Axis { wanted: usize, got: u8 },
    #[error("names an axis twice or out of order: {got:?}")]
    AxisOrder { got: Vec<u8> },
    #[error("should name each of {wanted} axes once, got {got:?}")]
    Permutation { wanted: usize, got: Vec<u8> },
    #[error("should have an entry for each of {wanted} axes, got {got}")]
    Entries { wanted: usize, got: usize },
    #[error("cannot repeat {from:?} to {to:?}")]
    Expand { from: Dims, to: Dims },
    #[error("keeps the number of elements, got {from:?} as {to:?}")]
    Reshape { from: Dims, to: Dims },
    #[error("the slice {start}:{len}:{step} leaves axis {axis} of extent {extent}")]
    Slice { axis: usize, start: u64, len: u64, step: i64, extent: u64 },
    #[error("the windows leave axis {axis} of extent {extent}")]
    Window { axis: u8, extent: u64 },
    #[error("the inner extents should agree, got {left} and {right}")]
    Inner { left: u64, right: u64 },
    #[error("`{name}` over no elements has no value")]
    Nothing { name: &'static str },
    #[error("`{name}` has no prefixes")]
    NoScan { name: &'static str },
    #[error("the constant {bits:#x} does not fit {dtype}")]
    Constant { bits: u64, dtype: DType },
    #[error("there are {wanted} inputs, got number {got}")]
    NoInput { wanted: u32, got: u32 },
    #[error("input {number} is given twice")]
    InputTwice { number: u32 },
    #[error("{got} does not exist")]
    NoSlot { got: Slot },
    #[error("{slot} should be {wanted}, got {got}")]
    SlotType { slot: Slot, wanted: DType, got: DType },
}
