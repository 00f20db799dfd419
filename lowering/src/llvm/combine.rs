//! Combine blocks, run on registers: `left ∘ right` for all lanes at once.

use rustc_hash::FxHashMap;

use super::lower::Lower;
use super::value::{Form, Reg};
use crate::layout::Layout;
use crate::tile::{Block, Op, Value};

impl<'c> Lower<'_, 'c> {
    /// One register per yielded value.
    pub fn combine(&self, block: Block, layout: &Layout, left: &[Reg<'c>], right: &[Reg<'c>]) -> Vec<Reg<'c>> {
        let program = self.program;
        let data = &program.blocks[block];
        let mut regs: FxHashMap<Value, Reg<'c>> =
            data.params.iter().copied().zip(left.iter().chain(right).copied()).collect();
        for &inst in &data.insts {
            let inst = &program.insts[inst];
            let result = inst.results[0];
            let reg = match &inst.op {
                Op::Constant(bits) => Reg::Uniform(self.ir.constant(self.ty(result).dtype, *bits)),
                Op::Scalar(param) => Reg::Uniform(self.emit.scalar(self.ir, *param)),
                Op::Map(op) => {
                    let args: Vec<Reg<'c>> = inst.args.iter().map(|&a| self.operand(&regs, a)).collect();
                    let from = self.ty(inst.args[inst.args.len() - 1]).dtype;
                    self.map_reg(*op, (from, self.ty(result).dtype), layout, Form::Vector, &args)
                }
                op => panic!("bug in the lowering: {op:?} in a combine block"),
            };
            regs.insert(result, reg);
        }
        data.yields.iter().map(|&y| self.operand(&regs, y)).collect()
    }

    /// A value of the block, or a scalar from around it.
    fn operand(&self, regs: &FxHashMap<Value, Reg<'c>>, value: Value) -> Reg<'c> {
        let outside = || self.tiles.get(&value).map(|tile| tile.regs[0]);
        match regs.get(&value).copied().or_else(outside) {
            Some(reg) => reg,
            None => panic!("bug in the lowering: {value} is used before it is computed"),
        }
    }
}
