//! Brings a value into the layout that its user wants.

use super::ir::Any;
use super::lower::Lower;
use super::value::{Form, Reg, Tile};
use crate::layout::Layout;
use crate::layout::convert::{Plan, Step, plan};
use crate::tile::Value;

impl<'c> Lower<'_, 'c> {
    /// A value in a layout: as it is, computed again where that is cheaper than moving it, or converted.
    pub fn tile(&mut self, value: Value, layout: &Layout) -> Tile<'c> {
        if let Some(tile) = self.tiles.get(&value).filter(|t| t.layout == *layout) {
            return tile.clone();
        }
        if let Some((_, tile)) = self.again.iter().find(|(v, t)| *v == value && t.layout == *layout) {
            return tile.clone();
        }
        let program = self.program;
        let tile = match self.layouts.again(program, value) {
            Some(inst) => {
                let data = &program.insts[inst];
                self.pure(value, &data.op, &data.args, layout.clone())
            }
            None => match self.tiles.get(&value).cloned() {
                Some(tile) => self.convert(&tile, layout),
                None => panic!("bug in the lowering: {value} is used before it is computed"),
            },
        };
        self.again.push((value, tile.clone()));
        tile
    }

    /// Moves the elements of a tile to where `layout` wants them.
    pub fn convert(&self, tile: &Tile<'c>, layout: &Layout) -> Tile<'c> {
        let mut tile = tile.clone();
        let steps = match (plan(&tile.layout, layout), self.thread()) {
            (Plan::Steps(steps), None) => steps,
            (Plan::Steps(steps), Some(_)) if is_cheap_for_threads(&steps) => steps,
            (_, Some(thread)) => return self.through_scratch(thread, &tile, layout),
            (Plan::Shared, None) => panic!("bug in the lowering: a conversion between warps"),
        };
        // From here on lanes are no longer where the old layout has them, and a ramp would mean something else.
        for reg in &mut tile.regs {
            if let Reg::Ramp(_) = reg {
                *reg = Reg::new(Form::Vector, self.vector(&tile.layout, *reg));
            }
        }
        let mut regs = tile.regs;
        for step in &steps {
            regs = match step {
                Step::Move(from) => from.iter().map(|(r, lanes)| self.lanes_from(regs[*r as usize], lanes)).collect(),
                Step::Exchange { register, lane } => self.exchange(&regs, *register, *lane),
                Step::Pick(from) => from.iter().map(|lanes| self.pick(&regs, lanes)).collect(),
            };
        }
        Tile { layout: layout.clone(), regs }
    }

    /// A register whose lane `i` is lane `from[i]` of `reg`.
    pub fn lanes_from(&self, reg: Reg<'c>, from: &[u32]) -> Reg<'c> {
        match reg {
            Reg::Vector(x) if let Some(thread) = self.thread() => {
                let table: Vec<Option<u32>> = from.iter().copied().map(Some).collect();
                let same = from.iter().all(|&l| l == from[0]);
                self.one(self.of_lanes(thread, x, &table), same)
            }
            Reg::Vector(_) if from.iter().all(|&l| l == from[0]) => {
                Reg::Uniform(self.ir.extract(self.whole(reg), from[0]))
            }
            Reg::Vector(v) => Reg::Vector(self.emit.shuffle(self.ir, v, from)),
            reg => reg,
        }
    }

    fn exchange(&self, regs: &[Reg<'c>], register: u32, lane: u32) -> Vec<Reg<'c>> {
        if let Some(thread) = self.thread() {
            return self.exchange_threads(thread, regs, register, lane);
        }
        let width = self.emit.width();
        let half = |set: u32| -> Vec<u32> {
            // Lanes with the bit clear come from the first register of the pair, those with the bit set from the second.
            (0..width).map(|l| (l & !(1 << lane)) | set << lane | if l >> lane & 1 == 1 { width } else { 0 }).collect()
        };
        let mut result = regs.to_vec();
        for r in (0..regs.len()).filter(|r| r >> register & 1 == 0) {
            let pair = r | 1 << register;
            if let (Reg::Uniform(x), Reg::Uniform(y)) = (regs[r], regs[pair])
                && x == y
            {
                continue;
            }
            let (x, y) = (self.whole(regs[r]), self.whole(regs[pair]));
            result[r] = Reg::Vector(self.ir.shuffle2(x, y, &half(0)));
            result[pair] = Reg::Vector(self.ir.shuffle2(x, y, &half(1)));
        }
        result
    }

    /// A register whose lanes come from any lanes of any registers.
    pub fn pick(&self, regs: &[Reg<'c>], from: &[(u32, u32)]) -> Reg<'c> {
        if let Some(thread) = self.thread() {
            return self.pick_threads(thread, regs, &from.iter().copied().map(Some).collect::<Vec<_>>());
        }
        let (ir, width) = (self.ir, self.emit.width());
        let mut sources: Vec<u32> = from.iter().map(|&(r, _)| r).collect();
        sources.sort_unstable();
        sources.dedup();
        if let [r] = sources[..] {
            return self.lanes_from(regs[r as usize], &from.iter().map(|&(_, l)| l).collect::<Vec<_>>());
        }
        let scalars = sources.iter().all(|&r| matches!(regs[r as usize], Reg::Uniform(_)));
        let mut whole: Option<Any<'c>> = None;
        if scalars {
            // One insertion per run of equal lanes would be no cheaper: vectors are built lane by lane anyway.
            for (lane, &(r, _)) in from.iter().enumerate() {
                let x = self.first(regs[r as usize]);
                let vector = whole.unwrap_or_else(|| ir.poison(ir.wide(x.get_type(), width)));
                whole = Some(ir.insert(vector, x, lane as u32));
            }
        } else {
            for &r in &sources {
                let x = self.whole(regs[r as usize]);
                let lane = |i: u32| match from[i as usize] {
                    (source, l) if source == r => width + l,
                    _ => i,
                };
                whole = Some(match whole {
                    None => ir.shuffle(x, &from.iter().map(|&(s, l)| if s == r { l } else { 0 }).collect::<Vec<_>>()),
                    Some(sofar) => ir.shuffle2(sofar, x, &(0..width).map(lane).collect::<Vec<_>>()),
                });
            }
        }
        match whole {
            Some(vector) => Reg::Vector(vector),
            None => panic!("bug in the lowering: a register without lanes"),
        }
    }

    /// All lanes of a register that is not a ramp.
    fn whole(&self, reg: Reg<'c>) -> Any<'c> {
        match reg {
            Reg::Vector(v) => v,
            Reg::Uniform(x) | Reg::Ramp(x) => self.ir.splat(x, self.emit.width()),
        }
    }
}

/// Whether threads do these steps faster than they write all elements to memory and read them again: each exchange
/// moves half of the registers.
fn is_cheap_for_threads(steps: &[Step]) -> bool {
    steps.iter().filter(|step| !matches!(step, Step::Move(_))).count() <= 1
        && !steps.iter().any(|step| matches!(step, Step::Pick(_)))
}
