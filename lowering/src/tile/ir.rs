//! The tile program as data: values, instructions and blocks in arenas.

use std::fmt;
use std::panic::Location;

use cranelift_entity::{PrimaryMap, entity_impl};
use smallvec::SmallVec;

use crate::dtype::DType;
use crate::op::Pointwise;

/// An SSA value: a tile, or a scalar where the shape is empty.  Prints as `%3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(u32);
entity_impl!(Value, "%");

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inst(u32);
entity_impl!(Inst, "inst");

/// A straight list of instructions with parameters and yielded values: the program's body, a loop's, a combine function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block(u32);
entity_impl!(Block, "^");

/// A parameter of the program: a buffer or a scalar.  Prints as `p3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Param(u32);
entity_impl!(Param, "p");

/// Extents of a tile, each a power of two; empty for a scalar.
pub type Shape = SmallVec<[u32; 4]>;

/// Type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// Element type.
    pub dtype: DType,
    /// Extents; empty for a scalar.
    pub shape: Shape,
}

/// What a parameter is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ParamKind {
    /// A buffer of elements in global memory, addressed by element offsets.
    Buffer {
        /// Whether the program stores to it.
        written: bool,
    },
    /// A scalar, known to be a multiple of `divisor` (1: nothing known).
    Scalar {
        /// The known divisor.
        divisor: u32,
    },
}

/// A parameter's type.  Buffers are aligned to 64 bytes and do not overlap, but for in-place results, which share one
/// parameter with their operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParamData {
    /// Element type of the buffer or scalar.
    pub dtype: DType,
    /// Buffer or scalar.
    pub kind: ParamKind,
}

/// How the operands of a dot are rounded before they are multiplied.  The accumulator is f32 (f64 for f64).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Not at all: products and sums in IEEE arithmetic, one fused multiply-add per term, in ascending order of k.
    Ieee,
    /// To tf32.
    Tf32,
    /// As three tf32 products.
    Tf32x3,
}

/// What a store wishes of the caches between the program and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cache {
    /// Keep the elements: they may be read again soon.
    #[default]
    Keep,
    /// Let them through to memory, so that they push out nothing else.
    Stream,
}

/// What an atomic does to the element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Atomic {
    /// Adds.
    Add,
    /// Takes the greater.
    Max,
    /// Takes the smaller.
    Min,
    /// Bitwise or.
    Or,
    /// Replaces.
    Exchange,
}

/// The operations of the tile language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Every element has this bit pattern (in the low bits).
    Constant(u64),
    /// The value of a scalar parameter.
    Scalar(Param),
    /// Index of this program along a grid axis, i32.
    ProgramId(u8),
    /// Number of programs along a grid axis, i32.
    NumPrograms(u8),
    /// 0, 1, 2, … as i32.
    Arange,
    /// Repeats along axes of extent 1, or a scalar along all axes.
    Broadcast,
    /// Inserts an axis of extent 1.
    ExpandDims(u8),
    /// Same elements in row-major order, other extents.
    Reshape,
    /// Axis `i` of the result is axis `perm[i]` of the operand.
    Trans(SmallVec<[u8; 4]>),
    /// Two tiles into one with a new last axis of extent 2.
    Join,
    /// The two halves of a tile whose last axis has extent 2.
    Split,
    /// A pointwise row on tiles of one shape.
    Map(Pointwise),
    /// Operands: offsets \[, mask, other\].  Where the mask is false nothing is read and `other` is the result.
    Load(Param),
    /// Operands: offsets, value \[, mask\].
    Store(Param, Cache),
    /// Operands: offsets, value \[, mask\].  Gives the old elements, and 0 where the mask is false.
    Atomic(Param, Atomic),
    /// Operand: condition.  Where any element is false, reports `code` to the launch; the program goes on.
    Check(u32),
    /// Combines along an axis, halving it: `x[i] ∘ x[i + n/2]` until one is left.  One operand and result per value
    /// that the combine block takes twice (left operands first).
    Reduce {
        /// Axis to remove.
        axis: u8,
        /// Parameters `a₀ … b₀ …`, yields `c₀ …`; scalars.
        combine: Block,
    },
    /// Inclusive prefix along an axis, in the order of Hillis and Steele: at each doubling distance `d`,
    /// `x[i] = x[i − d] ∘ x[i]`.
    Scan {
        /// Axis.
        axis: u8,
        /// From the end.
        reverse: bool,
        /// As in `Reduce`.
        combine: Block,
    },
    /// Operands `a: m×k`, `b: k×n`, `acc: m×n`; gives `a·b + acc`.
    Dot(Precision),
    /// `2^x` of f32 as a machine's own instruction has it: within 4·10⁻⁶ of the value, and 0 below 2⁻¹²⁶.  Like the sums of
    /// `Dot`, its last bits are the machine's.
    Exp2Approx,
    /// Operands: source, indices.  Picks along an axis within the tile.
    Gather(u8),
    /// Operands: low, high, step (i32 or i64 scalars), initial values.  The body takes the index and the carried values
    /// and yields the next ones.
    For {
        /// Body.
        body: Block,
        /// Wanted number of iterations in flight; 1 for none.
        stages: u8,
    },
    /// Operand: condition (bool scalar).  Both blocks take nothing and yield the results.
    If {
        /// Where the condition holds.
        then: Block,
        /// Where it does not.
        other: Block,
    },
}

/// Where in a user's source an instruction was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place(pub &'static Location<'static>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.0.file().rsplit(['/', '\\']).next().unwrap_or_default();
        write!(f, "{file}:{}", self.0.line())
    }
}

/// An instruction with its operands and results.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InstData {
    /// What it does.
    pub op: Op,
    /// Operands.
    pub args: SmallVec<[Value; 4]>,
    /// Results.
    pub results: SmallVec<[Value; 2]>,
    /// Where the user wrote it; not part of the program's text.
    pub place: Option<Place>,
}

/// The contents of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockData {
    /// Values that the surrounding instruction provides.
    pub params: Vec<Value>,
    /// Instructions in order.
    pub insts: Vec<Inst>,
    /// Values handed to the surrounding instruction.
    pub yields: Vec<Value>,
}

/// One program, run by every instance of a launch.  Equal ones were built alike and have one text; of two that differ
/// only in the order of building the texts can be equal too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// Name, for dumps and symbol tables: letters, digits and underscores.
    pub name: String,
    /// Warps that share an instance where lanes are threads: how many it takes to hold its tiles.  Changes what runs
    /// where; a machine whose lanes are the elements of a vector has one.
    pub warps: u32,
    /// Warps, the last ones, that are not started: nobody needs what they would hold.  It is written nowhere and changes no
    /// reduction, and nothing but reductions brings together what several warps hold.
    pub absent: u32,
    /// Parameters in launch order.
    pub params: PrimaryMap<Param, ParamData>,
    /// Type of each value.
    pub values: PrimaryMap<Value, Type>,
    /// All instructions, in no particular order; blocks list those that run.
    pub insts: PrimaryMap<Inst, InstData>,
    /// All blocks.
    pub blocks: PrimaryMap<Block, BlockData>,
    /// The outermost block.
    pub body: Block,
}

impl Type {
    /// A tile type.
    pub fn tile(dtype: DType, shape: &[u32]) -> Type {
        Type { dtype, shape: Shape::from_slice(shape) }
    }

    /// A scalar type.
    pub fn scalar(dtype: DType) -> Type {
        Type { dtype, shape: Shape::new() }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().map(|&n| n as usize).product()
    }

    /// Whether there are no elements; never true of a valid type.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this is a scalar.
    pub fn is_scalar(&self) -> bool {
        self.shape.is_empty()
    }

    /// The same extents with another element type.
    pub fn with(&self, dtype: DType) -> Type {
        Type { dtype, shape: self.shape.clone() }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for n in &self.shape {
            write!(f, "{n}x")?;
        }
        write!(f, "{}", self.dtype)
    }
}

impl Op {
    /// Whether the instruction must stay although nobody uses its results.
    pub fn has_effect(&self) -> bool {
        matches!(self, Op::Store(..) | Op::Atomic(..) | Op::Check(_) | Op::For { .. } | Op::If { .. })
    }

    /// Whether it makes no difference how often and when the instruction is done.
    pub fn is_pure(&self) -> bool {
        matches!(
            self,
            Op::Constant(_)
                | Op::Scalar(_)
                | Op::ProgramId(_)
                | Op::NumPrograms(_)
                | Op::Arange
                | Op::Broadcast
                | Op::ExpandDims(_)
                | Op::Reshape
                | Op::Trans(_)
                | Op::Map(_)
        )
    }

    /// The blocks this instruction owns.
    pub fn blocks(&self) -> SmallVec<[Block; 2]> {
        match self {
            Op::Reduce { combine, .. } | Op::Scan { combine, .. } => SmallVec::from_slice(&[*combine]),
            Op::For { body, .. } => SmallVec::from_slice(&[*body]),
            Op::If { then, other } => SmallVec::from_slice(&[*then, *other]),
            _ => SmallVec::new(),
        }
    }
}

impl Program {
    /// A program without parameters and instructions.
    pub fn new(name: impl Into<String>) -> Program {
        let mut blocks = PrimaryMap::new();
        let body = blocks.push(BlockData::default());
        Program {
            name: name.into(),
            warps: 1,
            absent: 0,
            params: PrimaryMap::new(),
            values: PrimaryMap::new(),
            insts: PrimaryMap::new(),
            blocks,
            body,
        }
    }

    /// Type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value]
    }
}
