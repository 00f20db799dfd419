//! How places move with a loop's index: where each step moves all of them by one distance, they are computed once, ahead of
//! the loop, and moved.

use inkwell::values::InstructionOpcode as I;
use rustc_hash::FxHashMap;

use super::ir::Any;
use super::lower::Lower;
use crate::op::Pointwise;
use crate::tile::{Inst, Op, Value};

/// By how much values grow that do not stand still; nothing where that is not the same everywhere.
type Slopes<'c> = FxHashMap<Value, Option<Any<'c>>>;

impl<'c> Lower<'_, 'c> {
    /// By how much a value grows when the index of a loop grows by one, wherever in the tile and from whatever index on: a
    /// number of the index's type.  Nothing where that is not so.  `places` compute the value, in order, and were computed
    /// for some index.
    pub fn slope(&mut self, index: Value, places: &[Inst], value: Value) -> Option<Any<'c>> {
        let program = self.program;
        let one = self.ir.constant(program.ty(index).dtype, 1);
        let mut slopes = Slopes::from_iter([(index, Some(one))]);
        for &inst in places {
            let data = &program.insts[inst];
            if data.args.iter().any(|arg| slopes.contains_key(arg)) {
                let slope = self.slope_of(inst, &slopes);
                slopes.extend(data.results.iter().map(|&result| (result, slope)));
            }
        }
        slopes.get(&value).copied().unwrap_or_else(|| Some(self.ir.int_like(one, 0)))
    }

    /// That of what an instruction gives of which an operand does not stand still.
    fn slope_of(&mut self, inst: Inst, slopes: &Slopes<'c>) -> Option<Any<'c>> {
        let program = self.program;
        let data = &program.insts[inst];
        let dtype = |value: Value| program.ty(value).dtype;
        let moving = |value: &Value| slopes.get(value).copied();
        match (&data.op, &data.args[..]) {
            (Op::Broadcast | Op::ExpandDims(_) | Op::Reshape | Op::Trans(_), [x]) => moving(x)?,
            (Op::Map(Pointwise::Cast), [x]) if dtype(*x) == dtype(data.results[0]) => moving(x)?,
            (Op::Map(op @ (Pointwise::Add | Pointwise::Sub)), [x, y]) => {
                let minus = *op == Pointwise::Sub;
                match (moving(x), moving(y)) {
                    (Some(x), None) => x,
                    (None, Some(y)) if !minus => y,
                    (x, y) => {
                        let (x, y) = (x.unwrap_or_else(|| Some(self.ir.int_like(y??, 0)))?, y??);
                        Some(self.ir.binary(if minus { I::Sub } else { I::Add }, x, y))
                    }
                }
            }
            (Op::Map(Pointwise::Mul), &[x, y]) => {
                let (slope, factor) = match (moving(&x), moving(&y)) {
                    (Some(slope), None) => (slope?, y),
                    (None, Some(slope)) => (slope?, x),
                    _ => return None,
                };
                let factor = self.everywhere(factor)?;
                Some(self.ir.binary(I::Mul, slope, factor))
            }
            _ => None,
        }
    }

    /// The one element of a value that stands still.
    fn everywhere(&mut self, value: Value) -> Option<Any<'c>> {
        if self.ty(value).is_scalar() {
            return Some(self.scalar(value));
        }
        let data = &self.program.insts[self.layouts.definition(value)?];
        match (&data.op, &data.args[..]) {
            (Op::Constant(bits), _) => Some(self.ir.constant(self.ty(value).dtype, *bits)),
            (Op::Broadcast | Op::ExpandDims(_) | Op::Reshape, &[x]) => self.everywhere(x),
            _ => None,
        }
    }
}
