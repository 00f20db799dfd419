//! Factors that lie in rows which are evenly apart: an engine copies them to scratch memory box by box, and no thread
//! computes where an element lies.
//!
//! What a box needs is the place of the tile's first element and how many rows and columns are wanted, from the first one
//! on; all are scalars that follow from those that the loop's body computes.

use inkwell::IntPredicate;
use inkwell::values::{InstructionOpcode as I, PointerValue};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::factors::Factor;
use super::ir::Any;
use super::lower::Lower;
use super::tensor_map::{MOST, STEP, Stride, TensorMap};
use crate::dtype::DType;
use crate::op::Pointwise;
use crate::tile::{Op, Value};

/// A factor in boxes.
pub(super) struct Boxes {
    /// The number of its map.
    map: u32,
    bytes: u32,
    stride: Stride,
    /// The tile's axis along which a row of a box runs.
    along: usize,
    /// Rows of a box, its width, and the boxes beside each other.
    rows: u32,
    width: u32,
    count: u32,
    offsets: Value,
    limits: Vec<Limit>,
}

/// A part of what a mask says.
#[derive(Clone, Copy)]
enum Limit {
    /// What holds throughout the tile, or does not.
    All(Value),
    /// An index that counts up along an axis is below a bound.
    Below { axis: usize, index: Value, bound: Value },
}

/// By how much a value grows from an element to the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Known(i64),
    /// By a scalar.
    Scalar(Value),
}

/// The axes of the tile that those of a value are, where it has several elements along them.
type Axes = SmallVec<[Option<usize>; 4]>;

/// What was found out about values along their axes.
type Steps = FxHashMap<(Value, usize), Option<Step>>;

impl<'c> Lower<'_, 'c> {
    /// The boxes of a factor, if it lies so and the machine has an engine for them.
    pub fn boxes(&self, factor: &Factor) -> Option<Boxes> {
        if !self.spec.boxes {
            return None;
        }
        let data = &self.program.insts[factor.way[0]];
        let Op::Load(buffer) = data.op else { return None };
        let (offsets, bytes) = (data.args[0], self.ty(data.results[0]).dtype.bytes() as u32);
        let (along, panels) = (factor.along?, factor.lie.panels());
        // Nothing but scalars is computed for it.
        let is_scalar = |value: &Value| self.ty(*value).is_scalar();
        let insts = factor.places.iter().map(|&inst| &self.program.insts[inst]);
        let mut scalars = insts.filter(|data| data.results.iter().all(is_scalar));
        if !scalars.all(|data| data.args.iter().all(is_scalar)) {
            return None;
        }
        let across = 1 - along;
        let whole = self.infos[offsets].axes[along].contiguity == self.ty(offsets).shape[along];
        if self.ty(offsets).dtype != DType::I32 || !whole || !self.has_corner(offsets) {
            return None;
        }
        let stride = self.stride(self.step(offsets, across, &mut Steps::default())?, bytes)?;
        let mut limits = Vec::new();
        if let Some(&mask) = data.args.get(1) {
            self.limits(mask, &[Some(0), Some(1)], &mut limits)?;
        }
        let (rows, width) = (panels.rows, panels.width);
        if rows > MOST {
            return None;
        }
        let map = self.emit.tensor_map(&TensorMap { buffer, bytes, stride, rows, width })?;
        let count = self.ty(offsets).shape[along] / width;
        Some(Boxes { map, bytes, stride, along, rows, width, count, offsets, limits })
    }

    /// The distance of rows that an engine takes.
    fn stride(&self, step: Step, bytes: u32) -> Option<Stride> {
        let fits =
            |n: i64| n > 0 && n <= i64::from(i32::MAX) && (n as u64 * u64::from(bytes)).is_multiple_of(STEP.into());
        match step {
            Step::Known(n) => fits(n).then_some(Stride::Constant(n as u32)),
            Step::Scalar(value) => {
                let data = &self.program.insts[self.layouts.definition(value)?];
                let (Op::Map(Pointwise::Max), &[x, least]) = (&data.op, &data.args[..]) else { return None };
                let Op::Scalar(param) = self.program.insts[self.layouts.definition(x)?].op else { return None };
                let least = self.infos[least].constant?;
                let divides = self.infos[x].axes[0].divisor_at(1).saturating_mul(bytes.into()) >= STEP.into();
                (fits(least) && divides).then_some(Stride::AtLeast(param, least as u32))
            }
        }
    }

    /// By how much a value grows along an axis, if that is the same everywhere.
    fn step(&self, value: Value, axis: usize, known: &mut Steps) -> Option<Step> {
        if let Some(&step) = known.get(&(value, axis)) {
            return step;
        }
        let step = self.step_of(value, axis, known);
        known.insert((value, axis), step);
        step
    }

    fn step_of(&self, value: Value, axis: usize, known: &mut Steps) -> Option<Step> {
        let ty = self.ty(value);
        if ty.shape.get(axis).is_none_or(|&n| n == 1) || self.infos[value].constant.is_some() {
            return Some(Step::Known(0));
        }
        let data = &self.program.insts[self.layouts.definition(value)?];
        match (&data.op, &data.args[..]) {
            (Op::Arange, _) => Some(Step::Known(1)),
            (Op::Broadcast, &[x]) => self.step(x, axis, known),
            (&Op::ExpandDims(at), &[x]) => self.step(x, if axis > at.into() { axis - 1 } else { axis }, known),
            (Op::Trans(perm), &[x]) => self.step(x, perm[axis].into(), known),
            (Op::Map(op), args) => {
                let steps: Option<Vec<Step>> = args.iter().map(|&x| self.step(x, axis, known)).collect();
                match (op, &steps?[..]) {
                    (_, steps) if steps.iter().all(|&step| step == Step::Known(0)) => Some(Step::Known(0)),
                    (Pointwise::Add, &[step, Step::Known(0)] | &[Step::Known(0), step]) => Some(step),
                    (Pointwise::Add, &[Step::Known(x), Step::Known(y)]) => Some(Step::Known(x.checked_add(y)?)),
                    (Pointwise::Sub, &[step, Step::Known(0)]) => Some(step),
                    (Pointwise::Mul, &[Step::Known(n), Step::Known(0)]) => self.times(n, args[1]),
                    (Pointwise::Mul, &[Step::Known(0), Step::Known(n)]) => self.times(n, args[0]),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// `n` times the one element of a value.
    fn times(&self, n: i64, factor: Value) -> Option<Step> {
        if let Some(constant) = self.infos[factor].constant {
            return n.checked_mul(constant).map(Step::Known);
        }
        if self.ty(factor).is_scalar() {
            return (n == 1).then_some(Step::Scalar(factor));
        }
        let data = &self.program.insts[self.layouts.definition(factor)?];
        match (&data.op, &data.args[..]) {
            (Op::Broadcast | Op::ExpandDims(_) | Op::Reshape, &[x]) => self.times(n, x),
            _ => None,
        }
    }

    /// What a mask says, if it says so of whole rows and columns: `axes` are those of its tile.
    fn limits(&self, mask: Value, axes: &[Option<usize>], found: &mut Vec<Limit>) -> Option<()> {
        if self.infos[mask].constant == Some(1) {
            return Some(());
        }
        let shape = &self.ty(mask).shape;
        let axes: Axes = axes.iter().zip(shape).map(|(&axis, &n)| axis.filter(|_| n > 1)).collect();
        if axes.iter().all(Option::is_none) {
            return self.has_corner(mask).then(|| found.push(Limit::All(mask)));
        }
        let data = &self.program.insts[self.layouts.definition(mask)?];
        match (&data.op, &data.args[..]) {
            (Op::Map(Pointwise::And), &[x, y]) => {
                self.limits(x, &axes, found)?;
                self.limits(y, &axes, found)
            }
            (Op::Broadcast, &[x]) if self.ty(x).is_scalar() => self.limits(x, &[], found),
            (Op::Broadcast, &[x]) => self.limits(x, &axes, found),
            (&Op::ExpandDims(at), &[x]) => {
                let mut inner = axes.clone();
                inner.remove(at.into());
                self.limits(x, &inner, found)
            }
            (Op::Trans(perm), &[x]) => {
                let mut inner: Axes = SmallVec::from_elem(None, perm.len());
                perm.iter().zip(&axes).for_each(|(&from, &axis)| inner[from as usize] = axis);
                self.limits(x, &inner, found)
            }
            (Op::Map(Pointwise::Lt), &[index, bound]) => {
                let mut several = axes.iter().enumerate().filter_map(|(own, axis)| axis.map(|axis| (own, axis)));
                let (Some((own, axis)), None) = (several.next(), several.next()) else { return None };
                let step = |value| self.step(value, own, &mut Steps::default());
                let counts = step(index)? == Step::Known(1) && step(bound)? == Step::Known(0);
                let told = self.ty(index).dtype == DType::I32 && self.has_corner(index) && self.has_corner(bound);
                (counts && told).then(|| found.push(Limit::Below { axis, index, bound }))
            }
            _ => None,
        }
    }

    /// Whether [`corner`](Self::corner) can tell a value's first element.
    fn has_corner(&self, value: Value) -> bool {
        self.has_corner_behind(value, &mut FxHashSet::default())
    }

    fn has_corner_behind(&self, value: Value, seen: &mut FxHashSet<Value>) -> bool {
        if self.ty(value).is_scalar() || self.infos[value].constant.is_some() || !seen.insert(value) {
            return true;
        }
        let Some(inst) = self.layouts.definition(value) else { return false };
        let data = &self.program.insts[inst];
        let follows =
            matches!(data.op, Op::Arange | Op::Broadcast | Op::ExpandDims(_) | Op::Reshape | Op::Trans(_) | Op::Map(_));
        follows && data.args.iter().all(|&x| self.has_corner_behind(x, seen))
    }

    /// The first element of a tile, from scalars that were computed; `known` are those of others.
    fn corner(&mut self, value: Value, known: &mut FxHashMap<Value, Any<'c>>) -> Any<'c> {
        if let Some(&corner) = known.get(&value) {
            return corner;
        }
        let corner = self.corner_of(value, known);
        known.insert(value, corner);
        corner
    }

    fn corner_of(&mut self, value: Value, known: &mut FxHashMap<Value, Any<'c>>) -> Any<'c> {
        let ty = self.ty(value);
        if let Some(constant) = self.infos[value].constant {
            return self.ir.constant(ty.dtype, constant as u64);
        }
        if ty.is_scalar() {
            return self.scalar(value);
        }
        let inst = self.layouts.definition(value).expect("what has a corner is computed by an instruction");
        let data = &self.program.insts[inst];
        match &data.op {
            Op::Arange => self.ir.constant(ty.dtype, 0),
            Op::Map(op) => {
                let (from, to) = (self.ty(data.args[data.args.len() - 1]).dtype, ty.dtype);
                let args: Vec<Any<'c>> = data.args.iter().map(|&x| self.corner(x, known)).collect();
                self.row(*op, from, to, &args)
            }
            _ => self.corner(data.args[0], known),
        }
    }

    /// Has the engine copy a factor to its part of a slot, which begins at `to`; on one thread.
    pub fn copy_boxes(&mut self, boxes: &Boxes, to: PointerValue<'c>, gate: Option<PointerValue<'c>>) {
        let ir = self.ir;
        let &Boxes { along, rows, width, bytes, .. } = boxes;
        let known = &mut FxHashMap::default();
        let mut wanted = [ir.i32(rows); 2];
        wanted[along] = ir.i32(width * boxes.count);
        for &limit in &boxes.limits {
            match limit {
                Limit::All(condition) => {
                    let condition = self.corner(condition, known);
                    wanted[along] = ir.select(condition, wanted[along], ir.i32(0));
                }
                Limit::Below { axis, index, bound } => {
                    let (first, bound) = (self.corner(index, known), self.corner(bound, known));
                    let left = ir.binary(I::Sub, bound, first);
                    wanted[axis] = self.clamped(left, wanted[axis]);
                }
            }
        }
        let long = |x: Any<'c>| ir.convert(I::SExt, x, ir.context.i64_type().into());
        let corner = self.corner(boxes.offsets, known);
        let stride = match boxes.stride {
            Stride::Constant(stride) => ir.i32(stride),
            Stride::AtLeast(param, least) => {
                let stride = self.emit.scalar(ir, param);
                self.clamped_below(stride, ir.i32(least))
            }
        };
        let down = ir.binary(I::Mul, long(wanted[1 - along]), long(stride));
        let start = ir.binary(I::Add, long(corner), down);
        for number in 0..boxes.count {
            let before = ir.i32(number * width);
            let own = self.clamped(ir.binary(I::Sub, wanted[along], before), ir.i32(width));
            let place = ir.binary(I::Add, start, long(ir.binary(I::Add, own, before)));
            let steps = ir.binary(I::AShr, place, ir.int_like(place, i64::from((STEP / bytes).ilog2())));
            let at = [
                ir.binary(I::Sub, ir.i32(width), own),
                ir.binary(I::Sub, ir.i32(rows), wanted[1 - along]),
                ir.convert(I::Trunc, steps, ir.context.i32_type().into()),
            ];
            let to = self.emit.address(ir, to, DType::U8, ir.i32(number * rows * width * bytes));
            self.emit.copy_box(ir, boxes.map, at, to, gate);
        }
    }

    /// A number in `0..=most`.
    fn clamped(&self, x: Any<'c>, most: Any<'c>) -> Any<'c> {
        let x = self.clamped_below(x, self.ir.i32(0));
        let less = self.ir.icmp(IntPredicate::SLT, x, most);
        self.ir.select(less, x, most)
    }

    fn clamped_below(&self, x: Any<'c>, least: Any<'c>) -> Any<'c> {
        let more = self.ir.icmp(IntPredicate::SGT, x, least);
        self.ir.select(more, x, least)
    }
}
