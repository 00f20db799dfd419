//! Tiles during code generation: a layout and the registers that hold the elements.

use super::ir::Any;
use crate::analysis::axis::Info;
use crate::layout::Layout;

/// One register of a tile: an element per lane.  Vectors are built where somebody needs one; until then a register that
/// is the same in every lane, or counts up along the lanes, is the scalar it is described by.
#[derive(Clone, Copy, Debug)]
pub enum Reg<'c> {
    /// The same element in every lane.
    Uniform(Any<'c>),
    /// An integer in the first lane, and in lane `i` as much more as lane `i` is further along the axis of the lanes.
    Ramp(Any<'c>),
    /// An element per lane.
    Vector(Any<'c>),
}

/// How the lanes of a value's registers relate, as far as that is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All equal.
    Uniform,
    /// Counting up.
    Ramp,
    /// Any elements.
    Vector,
}

/// A value of the program in registers.
#[derive(Clone, Debug)]
pub struct Tile<'c> {
    /// Which element is where.
    pub layout: Layout,
    /// The registers, in the order of the layout.
    pub regs: Vec<Reg<'c>>,
}

impl<'c> Tile<'c> {
    /// The one element that all lanes of all registers hold.
    pub fn same_everywhere(&self) -> Option<Any<'c>> {
        let Reg::Uniform(first) = self.regs[0] else { return None };
        self.regs.iter().all(|reg| matches!(reg, Reg::Uniform(x) if *x == first)).then_some(first)
    }
}

impl<'c> Reg<'c> {
    /// A register of that form, described by a scalar or vector.
    pub fn new(form: Form, x: Any<'c>) -> Reg<'c> {
        match form {
            Form::Uniform => Reg::Uniform(x),
            Form::Ramp => Reg::Ramp(x),
            Form::Vector => Reg::Vector(x),
        }
    }
}

/// How far along the lanes reach along an axis: the length of the aligned runs that the lanes of a register stay in.
fn reach(layout: &Layout, axis: usize) -> u32 {
    let touched = layout.lane.bases().iter().fold(0, |bits, &b| bits | layout.along(b, axis));
    (touched + 1).next_power_of_two()
}

/// The one axis along which the lanes lie; `None` where there are several.
pub fn lane_axis(layout: &Layout) -> Option<usize> {
    let mut axes = (0..layout.shape.len()).filter(|&a| reach(layout, a) > 1);
    axes.next().filter(|_| axes.next().is_none())
}

/// How far along the lanes' axis each lane is, from the first lane.
pub fn lane_steps(layout: &Layout, width: u32) -> Option<Vec<u32>> {
    let axis = lane_axis(layout)?;
    Some((0..width).map(|lane| layout.along(layout.at(0, lane), axis)).collect())
}

/// The form of a value's registers that its analysis vouches for.
pub fn form(layout: &Layout, info: &Info) -> Form {
    let axes = 0..layout.shape.len();
    if axes.clone().all(|a| reach(layout, a) <= info.axes[a].constancy) {
        return Form::Uniform;
    }
    match lane_axis(layout) {
        Some(axis) if reach(layout, axis) <= info.axes[axis].contiguity => Form::Ramp,
        _ => Form::Vector,
    }
}
