//! How places move with a loop's index: where each step moves all of them by one distance, they are computed once, ahead of
//! the loop, and moved.

use inkwell::values::InstructionOpcode as I;

use super::ir::Any;
use super::lower::Lower;
use crate::op::Pointwise;
use crate::tile::{Block, Op, Value};

impl<'c> Lower<'_, 'c> {
    /// By how much a value grows when the index of a loop grows by one, wherever in the tile and from whatever index on: a
    /// number of the index's type that is known before the loop.  Nothing where that is not so.
    pub fn slope(&mut self, body: Block, value: Value) -> Option<Any<'c>> {
        let program = self.program;
        let index = program.blocks[body].params[0];
        let one = |l: &Self, x: i64| l.ir.constant(program.ty(index).dtype, x as u64);
        if value == index {
            return Some(one(self, 1));
        }
        if !self.depends(body, value) {
            return Some(one(self, 0));
        }
        let inst = self.layouts.definition(value)?;
        let data = &program.insts[inst];
        match (&data.op, &data.args[..]) {
            (Op::Broadcast | Op::ExpandDims(_) | Op::Reshape | Op::Trans(_), &[x]) => self.slope(body, x),
            (Op::Map(Pointwise::Cast), &[x]) if program.ty(x).dtype == program.ty(value).dtype => self.slope(body, x),
            (Op::Map(op @ (Pointwise::Add | Pointwise::Sub)), &[x, y]) => {
                let (x, y) = (self.slope(body, x)?, self.slope(body, y)?);
                Some(self.ir.binary(if *op == Pointwise::Add { I::Add } else { I::Sub }, x, y))
            }
            (Op::Map(Pointwise::Mul), &[x, y]) => {
                let (moving, factor) = if self.depends(body, x) { (x, y) } else { (y, x) };
                let factor = self.everywhere(body, factor)?;
                let slope = self.slope(body, moving)?;
                Some(self.ir.binary(I::Mul, slope, factor))
            }
            _ => None,
        }
    }

    /// The one element of a value that does not depend on a loop's index.
    fn everywhere(&mut self, body: Block, value: Value) -> Option<Any<'c>> {
        if self.depends(body, value) {
            return None;
        }
        if self.ty(value).is_scalar() {
            return Some(self.scalar(value));
        }
        let data = &self.program.insts[self.layouts.definition(value)?];
        match (&data.op, &data.args[..]) {
            (Op::Constant(bits), _) => Some(self.ir.constant(self.ty(value).dtype, *bits)),
            (Op::Broadcast | Op::ExpandDims(_) | Op::Reshape, &[x]) => self.everywhere(body, x),
            _ => None,
        }
    }

    /// Whether a value depends on what a loop's body is given, or is computed by more than pure rows there.
    fn depends(&self, body: Block, value: Value) -> bool {
        let block = &self.program.blocks[body];
        if block.params.contains(&value) {
            return true;
        }
        let Some(inst) = self.layouts.definition(value).filter(|inst| block.insts.contains(inst)) else { return false };
        self.program.insts[inst].args.iter().any(|&arg| self.depends(body, arg))
    }
}
