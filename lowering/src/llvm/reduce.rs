//! Reductions: halve the axis until one element is left, `x[i] ∘ x[i + n/2]`.
//!
//! The upper half of an axis is where its highest bit is set.  If that is a register bit, registers are combined with
//! each other; if it is a lane bit, each register is combined with itself, the lanes shuffled.  Lanes of the upper half
//! then hold nothing of use; they are filled at the end, once.  What several warps hold of an axis is brought together first,
//! in lanes that hold copies or in registers: warps that meet once wait less than those that meet for each bit.

use super::lower::Lower;
use super::value::{Form, Reg, Tile};
use crate::layout::{Layout, Linear};
use crate::tile::{Block, Op, Value};

/// Most registers of a thread for what several warps held.
const MOST: usize = 8;

/// Operands on their way to one element along an axis.
struct Halves<'c> {
    /// Where their elements are.
    layout: Layout,
    /// The registers of each operand.
    tiles: Vec<Vec<Reg<'c>>>,
    /// Whether lanes of upper halves hold nothing of use.
    vacant: bool,
}

/// Which elements take no part: those of warps that are not there.
struct Absent {
    /// Warp to coordinate.
    warp: Linear,
    /// How many there are.
    present: u32,
}

impl Absent {
    /// Whether nobody holds the element of that coordinate.
    fn has(&self, coordinate: u32) -> bool {
        let bits = self.warp.bases().iter().enumerate();
        bits.fold(0, |warp, (i, &base)| if coordinate & base == 0 { warp } else { warp | 1 << i }) >= self.present
    }
}

impl<'c> Lower<'_, 'c> {
    /// One result per operand.
    pub fn reduce(&mut self, args: &[Value], results: &[Value], axis: u8, combine: Block) {
        let mut layout = self.layouts[args[0]].clone();
        let mut bases = layout.register.bases().iter().chain(layout.lane.bases()).chain(layout.warp.bases());
        if !bases.all(|b| b.count_ones() <= 1) {
            layout = Layout::row_major(&layout.shape, layout.lane.bits(), layout.warp.bits());
        }
        let absent = Absent { warp: layout.warp.clone(), present: self.spec.present() };
        if self.thread().is_some() {
            let most = if self.spec.absent > 0 { usize::MAX } else { MOST };
            layout = brought_together(&layout, axis as usize, most).unwrap_or(layout);
        }
        let sliced = layout.sliced(axis as usize);
        let axis = layout.axis_bits(axis as usize);
        let tiles = args.iter().map(|&a| self.tile(a, &layout).regs).collect();
        let mut halves = Halves { layout, tiles, vacant: false };
        for bit in axis.clone().rev() {
            self.halve(&mut halves, combine, (bit, axis.start), &absent);
        }
        let Halves { layout, tiles, vacant } = halves;
        let used =
            layout.lane.bases().iter().enumerate().fold(0, |used, (i, &b)| if b == 0 { used } else { used | 1 << i });
        let fill: Vec<u32> = (0..1u32 << layout.lane.bits()).map(|l| l & used).collect();
        for (&result, regs) in results.iter().zip(tiles) {
            let regs: Vec<Reg<'c>> =
                regs.into_iter().map(|r| if vacant { self.lanes_from(r, &fill) } else { r }).collect();
            let tile = Tile { layout: sliced.clone(), regs };
            let home = self.layouts[result].clone();
            let tile = if tile.layout == home { tile } else { self.convert(&tile, &home) };
            self.tiles.insert(result, tile);
        }
    }

    /// Combines what has a bit of its coordinate set with what has it clear; the axis has the bits from `start` on.
    fn halve(&self, halves: &mut Halves<'c>, combine: Block, (bit, start): (u32, u32), absent: &Absent) {
        let owner = |map: &Linear| map.bases().iter().position(|&b| b == 1 << bit);
        // Elements that nobody holds are behind the highest bit of the warps.
        let missing = self.spec.absent > 0 && absent.warp.bases().last() == Some(&(1 << bit));
        let lower = |base: u32| base != 0 && (start..bit).contains(&base.trailing_zeros());
        let spare = halves.layout.register.bases().iter().position(|&base| lower(base));
        match (owner(&halves.layout.register), owner(&halves.layout.lane), owner(&halves.layout.warp)) {
            (Some(i), ..) => self.halve_registers(halves, combine, i, missing.then_some(absent)),
            (_, Some(i), _) => match (self.thread(), spare) {
                // Threads that have other terms of the axis hand half of them over, and need only the others' other half.
                (Some(thread), Some(j)) if !missing => {
                    let exchange = |regs: &Vec<_>| self.exchange_threads(thread, regs, j as u32, i as u32);
                    halves.tiles = halves.tiles.iter().map(exchange).collect();
                    halves.layout = exchanged(&halves.layout, j, i);
                    self.halve_registers(halves, combine, j, None);
                }
                _ => self.halve_lanes(halves, combine, i, missing.then_some(absent)),
            },
            (.., Some(i)) => self.halve_warps(halves, combine, i),
            _ => panic!("bug in the lowering: bit {bit} is in no register, no lane and no warp"),
        }
    }

    fn halve_registers(&self, halves: &mut Halves<'c>, combine: Block, i: usize, absent: Option<&Absent>) {
        let Halves { layout, tiles, .. } = &*halves;
        let low = (0..1u32 << layout.register.bits()).filter(|r| r >> i & 1 == 0);
        let pairs = low.map(|r| {
            let upper = r | 1 << i;
            let side = |r: u32| tiles.iter().map(|t| t[r as usize]).collect::<Vec<_>>();
            let (left, right) = (side(r), side(upper));
            let both = self.combine(combine, layout, &left, &right);
            let Some(absent) = absent else { return both };
            let alone = self.lanes_where(layout, |lane| absent.has(layout.at(upper, lane)));
            self.in_lanes(layout, alone, &left, &both)
        });
        let pairs = pairs.collect();
        halves.tiles = transposed(pairs, halves.tiles.len());
        let kept = halves.layout.register.bases().iter().enumerate().filter(|&(j, _)| j != i).map(|(_, &b)| b);
        halves.layout.register = Linear::new(kept);
    }

    fn halve_lanes(&self, halves: &mut Halves<'c>, combine: Block, i: usize, absent: Option<&Absent>) {
        let Halves { layout, tiles, .. } = &*halves;
        // Where lanes are threads, exchanging the halves is one instruction.
        let partner = |lane: u32| if self.thread().is_some() { lane ^ 1 << i } else { lane | 1 << i };
        let from: Vec<u32> = (0..1u32 << layout.lane.bits()).map(partner).collect();
        let registers = 0..1u32 << layout.register.bits();
        let pairs = registers.map(|r| {
            let left: Vec<Reg<'c>> = tiles.iter().map(|t| self.unramped(layout, t[r as usize])).collect();
            let right: Vec<Reg<'c>> = left.iter().map(|&x| self.lanes_from(x, &from)).collect();
            let both = self.combine(combine, layout, &left, &right);
            let Some(absent) = absent else { return both };
            let nobody = |lane: u32| absent.has(layout.at(r, lane));
            let alone = self.lanes_where(layout, |lane| nobody(partner(lane)));
            let both = self.in_lanes(layout, alone, &left, &both);
            self.in_lanes(layout, self.lanes_where(layout, nobody), &right, &both)
        });
        let pairs = pairs.collect();
        halves.tiles = transposed(pairs, halves.tiles.len());
        halves.vacant |= self.thread().is_none() || !self.commutes(combine);
        halves.layout.lane = freed(&halves.layout.lane, i);
    }

    fn halve_warps(&self, halves: &mut Halves<'c>, combine: Block, i: usize) {
        let Some(thread) = self.thread() else { panic!("bug in the lowering: warps whose lanes are no threads") };
        let Halves { layout, tiles, .. } = &*halves;
        let registers = 0..1usize << layout.register.bits();
        let pairs = registers.map(|r| {
            let sides = tiles.iter().map(|t| self.halves_of_warps(thread, layout, t[r], i as u32));
            let (left, right): (Vec<Reg<'c>>, Vec<Reg<'c>>) = sides.unzip();
            self.combine(combine, layout, &left, &right)
        });
        let pairs = pairs.collect();
        halves.tiles = transposed(pairs, halves.tiles.len());
        halves.layout.warp = freed(&halves.layout.warp, i);
    }

    /// The lanes of a warp for which something holds.
    fn lanes_where(&self, layout: &Layout, holds: impl Fn(u32) -> bool) -> u64 {
        (0..1u32 << layout.lane.bits()).filter(|&lane| holds(lane)).fold(0, |set, lane| set | 1 << lane)
    }

    /// `these` in the lanes of a set, elsewhere `others`; where lanes are threads.
    fn in_lanes(&self, layout: &Layout, set: u64, these: &[Reg<'c>], others: &[Reg<'c>]) -> Vec<Reg<'c>> {
        let (Some(thread), true) = (self.thread(), set != 0) else { return others.to_vec() };
        let here = self.is_lane_in(thread, set, 1 << layout.lane.bits());
        let pairs = these.iter().zip(others);
        pairs.map(|(&x, &y)| Reg::Vector(self.ir.select(here, self.first(x), self.first(y)))).collect()
    }

    /// Whether a block combines the same two elements either way to the same: then both lanes of an exchange have the result.
    fn commutes(&self, combine: Block) -> bool {
        let data = &self.program.blocks[combine];
        let [inst] = data.insts[..] else { return false };
        let inst = &self.program.insts[inst];
        let Op::Map(op) = inst.op else { return false };
        inst.args[..] == data.params[..] && inst.results[..] == data.yields[..] && op.row().commutes
    }

    /// A register that does not depend on where its layout puts the lanes.
    pub fn unramped(&self, layout: &Layout, reg: Reg<'c>) -> Reg<'c> {
        match reg {
            Reg::Ramp(_) => Reg::new(Form::Vector, self.vector(layout, reg)),
            reg => reg,
        }
    }
}

/// The layout with all that warps hold of an axis in every warp, if that takes `most` registers or no more than before.
fn brought_together(layout: &Layout, axis: usize, most: usize) -> Option<Layout> {
    let along = |base: u32| layout.along(base, axis) != 0;
    let moving: Vec<u32> = layout.warp.bases().iter().copied().filter(|&base| along(base)).collect();
    if moving.is_empty() {
        return None;
    }
    let mut moving = moving.into_iter();
    let warp = Linear::new(layout.warp.bases().iter().map(|&base| if along(base) { 0 } else { base }));
    let lane =
        Linear::new(layout.lane.bases().iter().map(|&base| if base == 0 { moving.next().unwrap_or(0) } else { base }));
    let register = layout.register.beside(&Linear::new(moving));
    let whole = Layout { shape: layout.shape.clone(), register, lane, warp };
    (whole.registers() <= most.max(layout.registers())).then_some(whole)
}

/// A map one of whose bits moves along nothing any more.
fn freed(map: &Linear, bit: usize) -> Linear {
    Linear::new(map.bases().iter().enumerate().map(|(i, &base)| if i == bit { 0 } else { base }))
}

/// The layout after registers that differ in a bit have exchanged what lanes that differ in a bit hold.
fn exchanged(layout: &Layout, register: usize, lane: usize) -> Layout {
    let (mut registers, mut lanes) = (layout.register.bases().to_vec(), layout.lane.bases().to_vec());
    std::mem::swap(&mut registers[register], &mut lanes[lane]);
    Layout { register: Linear::new(registers), lane: Linear::new(lanes), ..layout.clone() }
}

/// Lists by operand out of lists by register.
pub(super) fn transposed<'c>(by_register: Vec<Vec<Reg<'c>>>, operands: usize) -> Vec<Vec<Reg<'c>>> {
    (0..operands).map(|i| by_register.iter().map(|regs| regs[i]).collect()).collect()
}
