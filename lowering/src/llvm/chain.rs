//! Runs of pointwise rows, one register after the other, where lanes are threads.
//!
//! Row by row, each row would go through all registers of a tile before the next one starts, and in the middle of a
//! sine each of them would have all its intermediate values alive: LLVM finds no order of so many instructions that
//! fits a register file.  Register by register it starts from the one that needs the least, and overlaps as much as fits.
//! Where there is a division or a root, some registers go up to it, through it and on together.

use rustc_hash::FxHashMap;

use super::lower::Lower;
use super::value::{Form, Reg, Tile};
use crate::dtype::DType;
use crate::layout::Layout;
use crate::op::Pointwise;
use crate::tile::{Inst, Op, Value};

/// Registers that are [divided](super::divide) together, or whose [roots](super::root) are taken together.
const TOGETHER: usize = 8;

/// A row of a run.
struct Link {
    inst: Inst,
    result: Value,
    /// What it computes; a power of two by approximation where it is none of the rows.
    op: Option<Pointwise>,
    /// Element type of the last operand.
    from: DType,
    form: Form,
    /// Bits of a register's number that change what it holds.
    distinct: usize,
}

impl Link {
    /// Whether several registers may cost less together than one after the other.
    fn is_joint(&self) -> bool {
        let op = matches!(self.op, Some(Pointwise::Div | Pointwise::Sqrt));
        op && (self.from, self.form) == (DType::F32, Form::Vector)
    }
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
                Some((result, op @ (Op::Map(_) | Op::Exp2Approx))) if self.layouts[result] == layout => {
                    let op = if let Op::Map(op) = op { Some(*op) } else { None };
                    inside.insert(result, links.len());
                    let from =
                        program.insts[inst].args.last().map_or(self.ty(result).dtype, |&last| self.ty(last).dtype);
                    let (form, distinct) = (self.form(result, &layout), self.distinct(result, &layout));
                    links.push(Link { inst, result, op, from, form, distinct });
                }
                Some((_, op)) if !depends && op.is_pure() => self.inst(inst),
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
        let operands = |columns: &[Vec<Reg<'c>>], link: &Link, r: usize| -> Vec<Reg<'c>> {
            let operand = |arg| inside.get(arg).map_or_else(|| outside[arg].regs[r], |&j: &usize| columns[j][r]);
            args(link).iter().map(operand).collect()
        };
        let together = if links.iter().any(Link::is_joint) { TOGETHER } else { 1 };
        for start in (0..layout.registers()).step_by(together) {
            let registers = start..layout.registers().min(start + together);
            let mut done = 0;
            while done < links.len() {
                let stretch = links[done..].iter().take_while(|link| !link.is_joint()).count();
                for r in registers.clone() {
                    for (i, link) in links.iter().enumerate().skip(done).take(stretch) {
                        let reg = match r & link.distinct {
                            equal if equal < r => columns[i][equal],
                            _ => self.link(link, layout, &operands(&columns, link, r)),
                        };
                        columns[i].push(reg);
                    }
                }
                done += stretch;
                if let Some(link) = links.get(done) {
                    let regs: Vec<Vec<Reg<'c>>> = registers.clone().map(|r| operands(&columns, link, r)).collect();
                    let one_by_one = || regs.iter().map(|regs| self.link(link, layout, regs)).collect();
                    let together = link.op.and_then(|op| self.together(op, &regs));
                    columns[done].extend(together.unwrap_or_else(one_by_one));
                    done += 1;
                }
            }
        }
        for (link, regs) in links.iter().zip(columns) {
            self.tiles.insert(link.result, Tile { layout: layout.clone(), regs });
        }
    }

    /// Some registers of a row that is computed on several at once, if it is here.
    pub(super) fn together(&self, op: Pointwise, regs: &[Vec<Reg<'c>>]) -> Option<Vec<Reg<'c>>> {
        match op {
            Pointwise::Div => self.divide_by_approximation(regs),
            Pointwise::Sqrt => self.roots_by_approximation(&regs.concat()),
            _ => None,
        }
    }

    /// One register of a row.
    fn link(&self, link: &Link, layout: &Layout, regs: &[Reg<'c>]) -> Reg<'c> {
        let to = self.ty(link.result).dtype;
        match self.infos[link.result].constant {
            Some(bits) => Reg::Uniform(self.ir.constant(to, bits as u64)),
            None => match link.op {
                Some(op) => self.map_reg(op, (link.from, to), layout, link.form, regs),
                None => self.exp2_of(layout, regs[0]),
            },
        }
    }
}
