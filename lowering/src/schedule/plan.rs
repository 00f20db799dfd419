//! What running a graph takes: tile programs, launches, matrix products and buffers.  Knows no addresses and no threads.

use cranelift_entity::{PrimaryMap, entity_impl};
use smallvec::SmallVec;

use super::choice::{Choices, Class, Way};
use super::grain::Grain;

use crate::dtype::DType;
use crate::graph::{Dims, Slot};
use crate::tile::Program;

/// A buffer of the plan.  Prints as `b3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Buf(u32);
entity_impl!(Buf, "b");

/// Where the elements of a tensor lie in its buffer, in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Place of the first element.
    pub offset: i64,
    /// Distance between neighbours, per axis.
    pub strides: SmallVec<[i64; 6]>,
}

impl Layout {
    /// Row-major without gaps.
    pub fn contiguous(dims: &[u64]) -> Layout {
        let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, dims.len());
        for i in (1..dims.len()).rev() {
            strides[i - 1] = strides[i] * dims[i] as i64;
        }
        Layout { offset: 0, strides }
    }

    /// Whether this is row-major without gaps; axes of extent 1 may have any stride.
    pub fn is_contiguous(&self, dims: &[u64]) -> bool {
        let want = Layout::contiguous(dims);
        self.offset == 0
            && dims.iter().zip(self.strides.iter().zip(&want.strides)).all(|(&n, (&s, &w))| n == 1 || s == w)
    }
}

/// What the plan may assume about one of the graph's inputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InputData {
    /// Where its elements lie.
    pub layout: Layout,
    /// Number of elements in the buffer it lies in.
    pub buffer_len: u64,
    /// Whether nobody else will read that buffer, so that results may take its place.
    pub donated: bool,
}

/// A buffer's size and origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferData {
    /// Element type.
    pub dtype: DType,
    /// Number of elements.
    pub len: u64,
    /// The graph's input that it is, if it is one; otherwise it is allocated at its first use.
    pub input: Option<u32>,
    /// The buffer whose memory it takes over, with what is in it, at the first launch that names it; nobody uses the
    /// other one from then on, and no step frees that.
    pub takes: Option<Buf>,
}

/// A launch argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A buffer's address.
    Buffer(Buf),
    /// A scalar bound at this run.
    Slot(Slot),
    /// A bit pattern: a size, a stride, an offset.
    Literal(u64),
}

/// A matrix (or a batch of them) in a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// The buffer.
    pub buffer: Buf,
    /// Place of the first element.
    pub offset: i64,
    /// Distance between rows.
    pub row_stride: i64,
    /// Distance between columns.
    pub col_stride: i64,
    /// Distances along the batch axes of the product.
    pub batch_strides: SmallVec<[i64; 4]>,
}

/// `c = a·b` on a vendor's library; f32 inside for 16-bit floats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// Element type of the product.
    pub dtype: DType,
    /// Element type of the factors: the same, or one of 16 bits where the product is in f32.
    pub from: DType,
    /// Rows of `a` and `c`.
    pub m: u64,
    /// Columns of `b` and `c`.
    pub n: u64,
    /// Columns of `a`, rows of `b`.
    pub k: u64,
    /// Extents of the batch axes.
    pub batch: SmallVec<[u64; 4]>,
    /// Left factor.
    pub a: Matrix,
    /// Right factor.
    pub b: Matrix,
    /// Product, or what the epilogue makes of it.
    pub c: Matrix,
    /// What the library does to the product before it rounds and writes it.
    pub epilogue: Option<Epilogue>,
    /// How the launch that is the next step follows it, if that is its tail.
    pub tail: Option<Tail>,
}

impl Gemm {
    /// The buffer of the epilogue's bias, and the place of its first element.
    pub fn bias(&self) -> Option<(Buf, i64)> {
        self.epilogue.and_then(|epilogue| epilogue.bias)
    }

    /// Every buffer that it names.
    pub fn buffers(&self) -> SmallVec<[Buf; 4]> {
        let matrices = [&self.a, &self.b, &self.c].map(|matrix| matrix.buffer);
        matrices.into_iter().chain(self.bias().map(|(buf, _)| buf)).collect()
    }
}

/// What follows a product (bias, activation, residual, a norm of its rows): the launch that is the next step.  Each of its
/// programs reads no more of the result than is said here, and none writes to what the product reads; so a program may
/// run as soon as its part of the result is there.  A machine that makes no use of this runs the launch like any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Elements of the result, in row-major order, that the programs at each place along x read together.
    pub span: u64,
    /// Columns of the result that those at each place along y read; all where there is but one.
    pub columns: u64,
}

/// `max(product + bias, 0)`, or a part of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epilogue {
    /// The buffer of a vector with an element per column, side by side, of the result's type, and the place of the first.
    pub bias: Option<(Buf, i64)>,
    /// Whether what is negative becomes 0; NaN stays NaN.
    pub relu: bool,
}

/// Whether a library computes a product with its epilogue.
pub type Absorbs<'a> = &'a dyn Fn(&Gemm) -> bool;

/// Sorts along an axis, stably; NaN is above every number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// Element type of the operand.
    pub dtype: DType,
    /// Extents of the result.
    pub dims: Dims,
    /// Axis.
    pub axis: u8,
    /// Extent of the operand along the axis: the first of the sorted elements make the result.
    pub len: u64,
    /// Greatest first.
    pub descending: bool,
    /// The type of the indices, if they are wanted rather than the values.
    pub indices: Option<DType>,
    /// Operand.
    pub input: Buf,
    /// Where the operand lies.
    pub layout: Layout,
    /// Result, contiguous.
    pub output: Buf,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Runs a kernel.
    Launch {
        /// Index into the plan's programs.
        program: usize,
        /// Numbers of program instances.
        grid: [u32; 3],
        /// One per parameter.
        args: Vec<Arg>,
        /// What it means when the program reports code `i + 1`.
        checks: Vec<String>,
        /// Graph nodes computed here, for reports: names of rows in order.
        rows: Vec<&'static str>,
    },
    /// A matrix product by the vendor's library.
    Gemm(Gemm),
    /// A sort.
    Sort(Sort),
    /// The buffer is not used any more: its memory may serve others.
    Free(Buf),
}

/// A wanted node's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The buffer it lies in.
    pub buffer: Buf,
    /// Where in it.
    pub layout: Layout,
}

/// What running a graph takes.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Tile programs; equal ones appear once.
    pub programs: Vec<Program>,
    /// Buffers.
    pub buffers: PrimaryMap<Buf, BufferData>,
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// One per step: how many of the graph's nodes, from the first, say what the step computes.  A hint: rows that it computes
    /// besides are not counted.
    pub known: Vec<u32>,
    /// One per output of the graph.
    pub outputs: Vec<Output>,
    /// Products that could be computed in more than one way, and in which they are: each class once.
    pub decided: Vec<(Class, Way)>,
}

/// What the user may ask of scheduling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Whether rows may share kernels.
    pub fuse: bool,
    /// Products of at least this many multiplications go to the vendor's library; `None` for never, and for one order of
    /// the terms of all products, whatever the machine has to multiply with.
    pub gemm_from: Option<u64>,
    /// How work is cut up.
    pub grain: Grain,
    /// What was measured, which goes before what a model says.
    pub choices: Choices,
}

impl Options {
    /// With nothing measured.
    pub const fn new(fuse: bool, gemm_from: Option<u64>, grain: Grain) -> Options {
        Options { fuse, gemm_from, grain, choices: Choices::NONE }
    }
}
