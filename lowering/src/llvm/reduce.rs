//! Reductions: halve the axis until one element is left, `x[i] ∘ x[i + n/2]`.
//!
//! The upper half of an axis is where its highest bit is set.  If that is a register bit, registers are combined with
//! each other; if it is a lane bit, each register is combined with itself, the lanes shuffled.  Lanes of the upper half
//! then hold nothing of use; they are filled at the end, once.

use super::lower::Lower;
use super::value::{Form, Reg, Tile};
use crate::layout::{Layout, Linear};
use crate::tile::{Block, Value};

impl<'c> Lower<'_, 'c> {
    /// One result per operand.
    pub fn reduce(&mut self, args: &[Value], results: &[Value], axis: u8, combine: Block) {
        let mut layout = self.layouts[args[0]].clone();
        let mut bases = layout.register.bases().iter().chain(layout.lane.bases()).chain(layout.warp.bases());
        if !bases.all(|b| b.count_ones() <= 1) {
            layout = Layout::row_major(&layout.shape, layout.lane.bits(), layout.warp.bits());
        }
        let sliced = layout.sliced(axis as usize);
        // One list of registers per operand.
        let mut tiles: Vec<Vec<Reg<'c>>> = args.iter().map(|&a| self.tile(a, &layout).regs).collect();
        let mut vacant = false;
        for bit in layout.axis_bits(axis as usize).rev() {
            let owner = |map: &Linear| map.bases().iter().position(|&b| b == 1 << bit);
            if let Some(i) = owner(&layout.register) {
                let low = (0..1usize << layout.register.bits()).filter(|r| r >> i & 1 == 0);
                let pairs: Vec<Vec<Reg<'c>>> = low
                    .map(|r| {
                        let side = |r: usize| tiles.iter().map(|t| t[r]).collect::<Vec<_>>();
                        self.combine(combine, &layout, &side(r), &side(r | 1 << i))
                    })
                    .collect();
                tiles = transposed(pairs, args.len());
                let kept = layout.register.bases().iter().enumerate().filter(|&(j, _)| j != i).map(|(_, &b)| b);
                layout.register = Linear::new(kept);
            } else if let Some(i) = owner(&layout.lane) {
                // Where lanes are threads, exchanging the halves is one instruction.
                let from = |l: u32| if self.thread().is_some() { l ^ 1 << i } else { l | 1 << i };
                let from: Vec<u32> = (0..1u32 << layout.lane.bits()).map(from).collect();
                let registers = 0..1usize << layout.register.bits();
                let halves: Vec<Vec<Reg<'c>>> = registers
                    .map(|r| {
                        let left: Vec<Reg<'c>> = tiles.iter().map(|t| self.unramped(&layout, t[r])).collect();
                        let right: Vec<Reg<'c>> = left.iter().map(|&x| self.lanes_from(x, &from)).collect();
                        self.combine(combine, &layout, &left, &right)
                    })
                    .collect();
                tiles = transposed(halves, args.len());
                vacant = true;
                let freed = layout.lane.bases().iter().enumerate().map(|(j, &b)| if j == i { 0 } else { b });
                layout.lane = Linear::new(freed);
            } else if let (Some(i), Some(thread)) = (owner(&layout.warp), self.thread()) {
                let registers = 0..1usize << layout.register.bits();
                let halves: Vec<Vec<Reg<'c>>> = registers
                    .map(|r| {
                        let sides = tiles.iter().map(|t| self.halves_of_warps(thread, &layout, t[r], i as u32));
                        let (left, right): (Vec<Reg<'c>>, Vec<Reg<'c>>) = sides.unzip();
                        self.combine(combine, &layout, &left, &right)
                    })
                    .collect();
                tiles = transposed(halves, args.len());
                let freed = layout.warp.bases().iter().enumerate().map(|(j, &b)| if j == i { 0 } else { b });
                layout.warp = Linear::new(freed);
            } else {
                panic!("bug in the lowering: bit {bit} is in no register, no lane and no warp");
            }
        }
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

    /// A register that does not depend on where its layout puts the lanes.
    pub fn unramped(&self, layout: &Layout, reg: Reg<'c>) -> Reg<'c> {
        match reg {
            Reg::Ramp(_) => Reg::new(Form::Vector, self.vector(layout, reg)),
            reg => reg,
        }
    }
}

/// Lists by operand out of lists by register.
pub(super) fn transposed<'c>(by_register: Vec<Vec<Reg<'c>>>, operands: usize) -> Vec<Vec<Reg<'c>>> {
    (0..operands).map(|i| by_register.iter().map(|regs| regs[i]).collect()).collect()
}
