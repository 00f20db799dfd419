//! The text form of a graph, which [`super::parse`] reads back.  Prints invalid graphs too.
//!
//! ```text
//! graph 2 inputs {
//!   s0: u64
//!   n0: f32[64, 10] = input 0
//!   n1: f32[10] = input 1
//!   n2: f32[64, 10] = expand n1
//!   n3: f32[64, 10] = add n0, n2
//!   n4: f32[10, 64] = permute [1, 0] n3
//!   n5: f32[10, 32] = slice [0:10:1, 62:32:-2] n4
//!   n6: f32[1, 32] = reduce sum [0] n5
//!   outputs n6
//! }
//! ```
//!
//! A line is a name, its type and extents, the operation with what parametrises it, and its operands.  Lists in brackets
//! have one entry per axis: `start:len:step` for slices, `low:high:interior` for pads, `axis:count:size:step:dilation`
//! for windows.  Constants are decimal where that is exact, else bit patterns.

use std::fmt::{self, Display, Formatter};

use super::ir::{Dist, Graph, Index, Movement, NodeData, Op, Update};
use super::number;
use crate::dtype::{Class, DType};

impl Dist {
    /// Every distribution.
    pub const ALL: &[Dist] = &[Dist::Bits, Dist::Uniform, Dist::Normal];

    /// The name used in printed programs.
    pub const fn name(self) -> &'static str {
        match self {
            Dist::Bits => "bits",
            Dist::Uniform => "uniform",
            Dist::Normal => "normal",
        }
    }
}

impl Index {
    /// Every way to address.
    pub const ALL: &[Index] = &[Index::Elements, Index::Positions];

    /// The name used in printed programs.
    pub const fn name(self) -> &'static str {
        match self {
            Index::Elements => "elements",
            Index::Positions => "positions",
        }
    }
}

impl Update {
    /// Every way to update.
    pub const ALL: &[Update] = &[Update::Assign, Update::Add, Update::Mul, Update::Min, Update::Max, Update::Or];

    /// The name used in printed programs.
    pub const fn name(self) -> &'static str {
        match self {
            Update::Assign => "assign",
            Update::Add => "add",
            Update::Mul => "mul",
            Update::Min => "min",
            Update::Max => "max",
            Update::Or => "or",
        }
    }
}

impl Display for Graph {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {} inputs {{", self.inputs)?;
        for (slot, dtype) in &self.slots {
            writeln!(f, "  {slot}: {dtype}")?;
        }
        for (node, data) in &self.nodes {
            writeln!(f, "  {node}: {data}")?;
        }
        write!(f, "  outputs")?;
        list(f, " ", &self.outputs, |f, n| write!(f, "{n}"))?;
        writeln!(f, "\n}}")
    }
}

/// A node without its name: `f32[64, 10] = add n0, n2`.
impl Display for NodeData {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dtype)?;
        brackets(f, &self.dims, |f, n| write!(f, "{n}"))?;
        write!(f, " = ")?;
        self.operation(f)?;
        list(f, " ", &self.args, |f, n| write!(f, "{n}"))
    }
}

impl NodeData {
    fn operation(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.op {
            Op::Input(number) => write!(f, "input {number}"),
            Op::Constant(bits) => {
                write!(f, "constant ")?;
                literal(f, self.dtype, *bits)
            }
            Op::Scalar(slot) => write!(f, "scalar {slot}"),
            Op::Iota(axis) => write!(f, "iota {axis}"),
            Op::Map(op) => write!(f, "{}", op.row().name),
            Op::Move(movement) => self.movement(f, movement),
            Op::Reduce(kind, axes) => {
                write!(f, "reduce {} ", kind.name())?;
                brackets(f, axes, |f, a| write!(f, "{a}"))
            }
            Op::Scan(kind, axis) => write!(f, "scan {} {axis}", kind.name()),
            Op::Contract => write!(f, "contract"),
            Op::Gather(index, axis) => write!(f, "gather {} {axis}", index.name()),
            Op::Scatter(index, axis, update) => write!(f, "scatter {} {} {axis}", update.name(), index.name()),
            Op::Random(dist, key, counter) => write!(f, "random {} {key} {counter}", dist.name()),
            Op::Sort { axis, descending } => write!(f, "sort {} {axis}", direction(*descending)),
            Op::ArgSort { axis, descending } => write!(f, "argsort {} {axis}", direction(*descending)),
        }
    }

    fn movement(&self, f: &mut Formatter<'_>, movement: &Movement) -> fmt::Result {
        match movement {
            Movement::Permute(perm) => {
                write!(f, "permute ")?;
                brackets(f, perm, |f, a| write!(f, "{a}"))
            }
            Movement::Expand => write!(f, "expand"),
            Movement::Reshape => write!(f, "reshape"),
            Movement::Slice(ranges) => {
                write!(f, "slice ")?;
                brackets(f, ranges, |f, r| write!(f, "{}:{}:{}", r.start, r.len, r.step))
            }
            Movement::Pad { dims, fill } => {
                write!(f, "pad ")?;
                literal(f, self.dtype, *fill)?;
                write!(f, " ")?;
                brackets(f, dims, |f, p| write!(f, "{}:{}:{}", p.low, p.high, p.interior))
            }
            Movement::Window(windows) => {
                write!(f, "window ")?;
                brackets(f, windows, |f, w| write!(f, "{}:{}:{}:{}:{}", w.axis, w.count, w.size, w.step, w.dilation))
            }
        }
    }
}

/// The word for a direction of sorting.
pub const fn direction(descending: bool) -> &'static str {
    if descending { "descending" } else { "ascending" }
}

/// A bit pattern as the number it stands for, where reading the decimal gives the pattern back.
fn literal(f: &mut Formatter<'_>, dtype: DType, bits: u64) -> fmt::Result {
    let x = number::to_f64(dtype, bits);
    match dtype.class() {
        _ if bits & !number::mask(dtype) != 0 => write!(f, "{bits:#x}"),
        Class::Float if !x.is_finite() => write!(f, "{bits:#x}"),
        Class::Float if dtype == DType::F64 => write!(f, "{x:?}"),
        // Every number of a narrower type is one of f32, whose decimals are shorter.
        Class::Float => write!(f, "{:?}", x as f32),
        Class::Bool if bits > 1 => write!(f, "{bits:#x}"),
        Class::Bool => write!(f, "{}", bits == 1),
        Class::Signed | Class::Unsigned => write!(f, "{}", number::to_int(dtype, bits)),
    }
}

fn brackets<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    item: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    write!(f, "[")?;
    list(f, "", items, item)?;
    write!(f, "]")
}

/// Items with commas between them, `before` ahead of the first.
fn list<T>(
    f: &mut Formatter<'_>,
    before: &str,
    items: &[T],
    item: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (i, x) in items.iter().enumerate() {
        write!(f, "{}", if i == 0 { before } else { ", " })?;
        item(f, x)?;
    }
    Ok(())
}
