//! Runs of pointwise rows, one register after the other, where lanes are threads.
//!
//! Row by row, each row would go through all registers of a tile before the next one starts, and in the middle of a
//! sine each of them would have all its intermediate values alive: LLVM finds no order of so many instructions that
//! fits a register file.  Register by register it starts from the one that needs the least, and overlaps as much as fits.

use rustc_hash::FxHashMap;

use super::lower::Lower;
use super::value::{Form, Reg, Tile};
use crate::layout::Layout;
use crate::op::Pointwise;
use crate::tile::{Inst, Op, Value};

/// A row of a run.
struct Link {
    inst: Inst,
    result: Value,
    op: Pointwise,
    form: Form,
    /// Bits of a register's number that change what it holds.
    distinct: usize,
}

impl<'c> Lower<'_, 'c> {
    /// Lowers the rows that `insts` begin with, as far as they lie in one layout, and what stands between them without
    /// depending on them; gives the number of instructions, 0 where there is no run.
    pub fn chain(&mut self, insts: &[Inst]) -> usize {
        let program = self.program;
        let home = |inst: Inst| program.insts[inst].results.first().map(|&result| (result, &program.insts[inst].op));
        let Some((first, Op::Map(_))) = insts.first().and_then(|&inst| home(inst)) else { return 0 };
        let layout = self.layouts[first].clone();
        if layout.registers() == 1 {
            return 0;
        }
        let (mut links, mut inside, mut count) = (Vec::new(), FxHashMap::default(), 0);
        for &inst in insts {
            let depends = program.insts[inst].args.iter().any(|arg| inside.contains_key(arg));
            match home(inst) {
                Some((result, &Op::Map(op))) if self.layouts[result] == layout => {
                    inside.insert(result, links.len());
                    let (form, distinct) = (self.form(result, &layout), self.distinct(result, &layout));
                    links.push(Link { inst, result, op, form, distinct });
                }
                Some((_, op)) if !depends && is_pure(op) => self.inst(inst),
                _ => break,
            }
            count += 1;
        }
        self.links(&links, &inside, &layout);
        count
    }

    fn links(&mut self, links: &[Link], inside: &FxHashMap<Value, usize>, layout: &Layout) {
        let program = self.program;
        let args = |link: &Link| &program.insts[link.inst].args;
        let mut outside: FxHashMap<Value, Tile<'c>> = FxHashMap::default();
        for &arg in links.iter().flat_map(args) {
            if !inside.contains_key(&arg) && !outside.contains_key(&arg) {
                let tile = self.tile(arg, layout);
                self.emit.end_of_instruction();
                outside.insert(arg, tile);
            }
        }
        let mut columns: Vec<Vec<Reg<'c>>> = links.iter().map(|_| Vec::with_capacity(layout.registers())).collect();
        for r in 0..layout.registers() {
            for (i, link) in links.iter().enumerate() {
                if r & link.distinct < r {
                    let equal = columns[i][r & link.distinct];
                    columns[i].push(equal);
                    continue;
                }
                let regs: Vec<Reg<'c>> = args(link)
                    .iter()
                    .map(|arg| inside.get(arg).map_or_else(|| outside[arg].regs[r], |&j| columns[j][r]))
                    .collect();
                let from = args(link).last().map_or(self.ty(link.result).dtype, |&last| self.ty(last).dtype);
                let reg = match self.infos[link.result].constant {
                    Some(bits) => Reg::Uniform(self.ir.constant(self.ty(link.result).dtype, bits as u64)),
                    None => self.map_reg(link.op, (from, self.ty(link.result).dtype), layout, link.form, &regs),
                };
                columns[i].push(reg);
            }
        }
        for (link, regs) in links.iter().zip(columns) {
            self.tiles.insert(link.result, Tile { layout: layout.clone(), regs });
        }
    }
}

/// Whether it makes no difference how often and when an instruction is done.
fn is_pure(op: &Op) -> bool {
    matches!(
        op,
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
