//! Reductions and scans.  A combine block is run on all pairs of a step at once, as if its scalars were long tiles.

use std::rc::Rc;

use super::machine::{Machine, Tile};
use crate::op::scalar;
use crate::tile::{Block, Op, Value};

impl Machine<'_, '_> {
    /// `left ∘ right`, element by element.
    fn combine(&mut self, block: Block, left: Vec<Vec<u64>>, right: Vec<Vec<u64>>) -> Vec<Tile> {
        let program = self.program;
        let data = &program.blocks[block];
        let len = left[0].len();
        for (&param, elements) in data.params.iter().zip(left.into_iter().chain(right)) {
            self.set(param, Rc::new(elements));
        }
        for &inst in &data.insts {
            let inst = &program.insts[inst];
            let elements = match &inst.op {
                Op::Constant(bits) => vec![*bits; len],
                Op::Scalar(param) => vec![self.scalar(*param); len],
                Op::Map(row) => {
                    let args: Vec<Tile> = inst.args.iter().map(|&a| self.get(a)).collect();
                    let from = program.ty(inst.args[inst.args.len() - 1]).dtype;
                    let to = program.ty(inst.results[0]).dtype;
                    scalar::map(*row, from, to, &args.iter().map(|a| a.as_slice()).collect::<Vec<_>>())
                }
                other => unreachable!("verified: a combine block has no `{}`", other.name()),
            };
            self.set(inst.results[0], Rc::new(elements));
        }
        data.yields.iter().map(|&y| self.get(y)).collect()
    }

    /// `x[i] ∘ x[i + n/2]` until one is left.
    pub(super) fn reduce(&mut self, results: &[Value], args: Vec<Tile>, shape: &[u32], axis: usize, block: Block) {
        let inner: usize = shape[axis + 1..].iter().map(|&n| n as usize).product();
        let mut n = shape[axis] as usize;
        let mut tiles = args;
        while n > 1 {
            // Each outer row holds `n · inner` elements: first those of the left operands, then those of the right.
            let half = n / 2 * inner;
            let part = |from: usize| -> Vec<Vec<u64>> {
                tiles
                    .iter()
                    .map(|t| t.chunks(2 * half).flat_map(|row| &row[from..from + half]).copied().collect())
                    .collect()
            };
            let (left, right) = (part(0), part(half));
            tiles = self.combine(block, left, right);
            n /= 2;
        }
        results.iter().zip(tiles).for_each(|(&r, tile)| self.set(r, tile));
    }

    /// At each doubling distance `d`, all at once: `x[i] = x[i − d] ∘ x[i]`; mirrored if `reverse`.
    pub(super) fn scan(
        &mut self,
        results: &[Value],
        args: Vec<Tile>,
        shape: &[u32],
        axis: usize,
        reverse: bool,
        block: Block,
    ) {
        let inner: usize = shape[axis + 1..].iter().map(|&n| n as usize).product();
        let n = shape[axis] as usize;
        let mut tiles = args;
        let mut d = 1;
        while d < n {
            let (kept, shift) = (n * inner - d * inner, d * inner);
            let part = |from: usize| -> Vec<Vec<u64>> {
                tiles
                    .iter()
                    .map(|t| t.chunks(n * inner).flat_map(|row| &row[from..from + kept]).copied().collect())
                    .collect()
            };
            let (near, far) = (part(0), part(shift));
            let combined = if reverse { self.combine(block, far, near) } else { self.combine(block, near, far) };
            let to = if reverse { 0 } else { shift };
            tiles = tiles
                .iter()
                .zip(combined)
                .map(|(old, new)| {
                    let mut next = old.to_vec();
                    for (row, new) in next.chunks_mut(n * inner).zip(new.chunks(kept)) {
                        row[to..to + kept].copy_from_slice(new);
                    }
                    Rc::new(next)
                })
                .collect();
            d *= 2;
        }
        results.iter().zip(tiles).for_each(|(&r, tile)| self.set(r, tile));
    }
}
