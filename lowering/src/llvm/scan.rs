//! Inclusive prefixes in the order of Hillis and Steele: at each doubling distance `d`, `x[i] = x[i − d] ∘ x[i]`.

use super::lower::Lower;
use super::reduce::transposed;
use super::value::{Reg, Tile};
use crate::tile::{Block, Value};

impl<'c> Lower<'_, 'c> {
    /// One result per operand; `reverse` runs from the end, `x[i] = x[i + d] ∘ x[i]`.
    pub fn scan(&mut self, args: &[Value], results: &[Value], axis: u8, reverse: bool, combine: Block) {
        let axis = axis as usize;
        let layout = self.layouts[args[0]].within_warps(axis);
        let (extent, step) = (layout.shape[axis], 1u32 << layout.axis_bits(axis).start);
        let lanes = 0..1u32 << layout.lane.bits();
        let tiles = args.iter().map(|&a| self.tile(a, &layout).regs);
        let mut tiles: Vec<Vec<Reg<'c>>> = tiles
            .collect::<Vec<_>>()
            .into_iter()
            .map(|regs| regs.iter().map(|&r| self.unramped(&layout, r)).collect())
            .collect();
        let mut distance = 1;
        while distance < extent {
            let next: Vec<Vec<Reg<'c>>> = (0..layout.registers() as u32)
                .map(|r| {
                    let old: Vec<Reg<'c>> = tiles.iter().map(|t| t[r as usize]).collect();
                    // For each lane, whether it has a predecessor at that distance, and where it is.
                    let before = lanes.clone().map(|lane| {
                        let at = layout.at(r, lane);
                        let i = layout.along(at, axis);
                        let has = if reverse { i + distance < extent } else { i >= distance };
                        let source = if reverse { at + distance * step } else { at.wrapping_sub(distance * step) };
                        has.then(|| layout.find(source)).flatten()
                    });
                    let before: Vec<Option<(u32, u32)>> = before.collect();
                    let Some(&some) = before.iter().flatten().next() else { return old };
                    let thread = self.thread();
                    let left: Vec<Reg<'c>> = match thread {
                        Some(thread) => tiles.iter().map(|t| self.pick_threads(thread, t, &before)).collect(),
                        None => {
                            let sources: Vec<(u32, u32)> = before.iter().map(|b| b.unwrap_or(some)).collect();
                            tiles.iter().map(|t| self.pick(t, &sources)).collect()
                        }
                    };
                    let combined = self.combine(combine, &layout, &left, &old);
                    if before.iter().all(Option::is_some) {
                        return combined;
                    }
                    let has = || before.iter().map(|b| u64::from(b.is_some()));
                    let mask = match thread {
                        Some(thread) => {
                            let set = has().zip(0..).fold(0, |set, (has, lane)| set | has << lane);
                            self.is_lane_in(thread, set, before.len() as u32)
                        }
                        None => self.ir.ints(self.ir.context.bool_type().into(), has()),
                    };
                    let chosen = combined.iter().zip(&old).map(|(&new, &old)| {
                        Reg::Vector(self.ir.select(mask, self.vector(&layout, new), self.vector(&layout, old)))
                    });
                    chosen.collect()
                })
                .collect();
            tiles = transposed(next, args.len());
            distance *= 2;
        }
        for (&result, regs) in results.iter().zip(tiles) {
            let home = self.layouts[result].clone();
            let tile = self.convert(&Tile { layout: layout.clone(), regs }, &home);
            self.tiles.insert(result, tile);
        }
    }
}
