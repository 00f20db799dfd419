//! The graph as data: nodes over whole tensors, in an arena, in an order in which they can be computed.

use cranelift_entity::{PrimaryMap, entity_impl};
use smallvec::SmallVec;

use crate::dtype::DType;
use crate::op::Pointwise;

/// A tensor-valued SSA name.  Prints as `n3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);
entity_impl!(Node, "n");

/// A scalar that is bound anew at each run: its value is no part of the graph.  Prints as `s3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(u32);
entity_impl!(Slot, "s");

/// Extents of a tensor; empty for a scalar.
pub type Dims = SmallVec<[u64; 6]>;

/// One axis of a slice: `len` elements from `start`, `step` apart; a negative step walks down from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceDim {
    /// First element.
    pub start: u64,
    /// Number of elements.
    pub len: u64,
    /// Distance, not 0.
    pub step: i64,
}

/// One axis of a pad: new elements before, after and between the old ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PadDim {
    /// Before the first.
    pub low: u64,
    /// After the last.
    pub high: u64,
    /// Between each two neighbours.
    pub interior: u64,
}

/// One axis of a window: an axis of extent `n` becomes `count` positions, and a new last axis of extent `size`.
/// Element `(p, k)` is the old element `p·step + k·dilation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowDim {
    /// The axis.
    pub axis: u8,
    /// Number of positions.
    pub count: u64,
    /// Elements in a window.
    pub size: u64,
    /// Distance between positions.
    pub step: u64,
    /// Distance between elements of a window.
    pub dilation: u64,
}

/// Views: each element of the result is one element of the operand, or a fill value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Movement {
    /// Axis `i` of the result is axis `perm[i]` of the operand.
    Permute(SmallVec<[u8; 6]>),
    /// Repeats axes of extent 1 to the node's extents.
    Expand,
    /// Keeps every `step`-th element of a range per axis.
    Slice(SmallVec<[SliceDim; 6]>),
    /// The same elements in row-major order under the node's extents.
    Reshape,
    /// Adds elements of value `fill` (a bit pattern) around and between.
    Pad {
        /// Per axis.
        dims: SmallVec<[PadDim; 6]>,
        /// Bit pattern of the new elements.
        fill: u64,
    },
    /// Sliding windows over axes; the windows' axes are appended in order.
    Window(SmallVec<[WindowDim; 3]>),
}

/// What a reduction or scan combines with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Sum; integers wrap, 16-bit floats accumulate in f32.
    Sum,
    /// Product; likewise.
    Prod,
    /// Greatest; NaN if any is.
    Max,
    /// Least; NaN if any is.
    Min,
    /// Row-major index, within the reduced axes, of the first NaN, else of the first greatest.
    ArgMax,
    /// Likewise of the least.
    ArgMin,
    /// Whether any holds.
    Any,
    /// Whether all hold.
    All,
}

/// How scattered values meet what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Update {
    /// Replaces; of several writes to one element the last in row-major order stays.
    Assign,
    /// Adds, in row-major order.
    Add,
    /// Multiplies.
    Mul,
    /// Takes the lesser.
    Min,
    /// Takes the greater.
    Max,
    /// Logical or.
    Or,
}

impl Update {
    /// The row that combines what is there with what comes, unless that replaces it.
    pub const fn row(self) -> Option<Pointwise> {
        match self {
            Update::Assign => None,
            Update::Add => Some(Pointwise::Add),
            Update::Mul => Some(Pointwise::Mul),
            Update::Min => Some(Pointwise::Min),
            Update::Max => Some(Pointwise::Max),
            Update::Or => Some(Pointwise::Or),
        }
    }
}

/// How indices address an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// One index per element: `out[.., i, ..] = x[.., idx[.., i, ..], ..]`.  Indices have the result's extents, which
    /// may be less than those of `x` on the other axes.
    Elements,
    /// One index per position of the axis: `out[.., i, ..] = x[.., idx[i], ..]` with `idx` of rank 1.
    Positions,
}

/// Raw random numbers, as a function of the seed and the row-major index of the element; defined in [`super::random`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dist {
    /// 32 (for u32) or 64 (for u64) random bits.
    Bits,
    /// Uniform in [0, 1), with as many bits as the type holds exactly below 1.
    Uniform,
    /// Standard normal, by Box and Muller.
    Normal,
}

/// The primitive rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A tensor given from outside; the number counts inputs.
    Input(u32),
    /// All elements have this bit pattern.
    Constant(u64),
    /// All elements have the value bound to a slot.
    Scalar(Slot),
    /// The index along an axis.
    Iota(u8),
    /// A pointwise row over operands of one shape.  For `select` the first operand is bool.
    Map(Pointwise),
    /// A view.
    Move(Movement),
    /// Combines along axes, whose extents become 1.
    Reduce(Reduction, SmallVec<[u8; 6]>),
    /// Inclusive prefix along an axis.
    Scan(Reduction, u8),
    /// `a: [b…, m, k]` times `b: [b…, k, n]`.
    Contract,
    /// Operands: data, indices.
    Gather(Index, u8),
    /// Operands: data, indices, values.  Indices as in `Gather`, of the values' extents.
    Scatter(Index, u8, Update),
    /// Random numbers; slots: key (u64 seed), counter (u64 start).
    Random(Dist, Slot, Slot),
    /// Sorts along an axis, stably, NaN last; gives the sorted values, as many of the first as the result is long.
    Sort {
        /// Axis.
        axis: u8,
        /// Greatest first (NaN first then).
        descending: bool,
    },
    /// As `Sort`, but gives the indices that sort.
    ArgSort {
        /// Axis.
        axis: u8,
        /// Greatest first.
        descending: bool,
    },
}

/// A node: what it computes, from what, and what comes out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeData {
    /// Operation.
    pub op: Op,
    /// Operands.
    pub args: SmallVec<[Node; 3]>,
    /// Element type of the result.
    pub dtype: DType,
    /// Extents of the result.
    pub dims: Dims,
}

/// A whole-tensor program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Nodes, operands before users.
    pub nodes: PrimaryMap<Node, NodeData>,
    /// Element types of the scalars bound at each run.
    pub slots: PrimaryMap<Slot, DType>,
    /// Number of inputs.
    pub inputs: u32,
    /// Nodes whose values are wanted.
    pub outputs: Vec<Node>,
}

impl NodeData {
    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Op {
    /// Whether each element of the result depends on the elements at the same place alone.
    pub fn is_pointwise(&self) -> bool {
        matches!(self, Op::Map(_) | Op::Constant(_) | Op::Scalar(_) | Op::Iota(_) | Op::Random(..))
    }

    /// Whether this is a leaf that costs nothing to compute where it is needed.
    pub fn is_free(&self) -> bool {
        matches!(self, Op::Input(_) | Op::Constant(_) | Op::Scalar(_) | Op::Iota(_) | Op::Move(_))
    }
}

impl Reduction {
    /// Every reduction.
    pub const ALL: &[Reduction] = &[
        Reduction::Sum,
        Reduction::Prod,
        Reduction::Max,
        Reduction::Min,
        Reduction::ArgMax,
        Reduction::ArgMin,
        Reduction::Any,
        Reduction::All,
    ];

    /// The name used in printed programs.
    pub const fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Prod => "prod",
            Reduction::Max => "max",
            Reduction::Min => "min",
            Reduction::ArgMax => "argmax",
            Reduction::ArgMin => "argmin",
            Reduction::Any => "any",
            Reduction::All => "all",
        }
    }

    /// Whether the result is an index rather than a value.
    pub const fn is_arg(self) -> bool {
        matches!(self, Reduction::ArgMax | Reduction::ArgMin)
    }
}
