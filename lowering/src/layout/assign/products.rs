//! Which products matrix instructions compute, and how their operands get there: loaded to where an instruction wants
//! them, or through scratch memory.

use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};

use super::{Assignment, aligned};
use crate::analysis::axis::{Axis, Info};
use crate::layout::Layout;
use crate::layout::fragment::{Matrix, Split, Tiling, choose};
use crate::layout::panels::Panels;
use crate::tile::{Inst, Op, Program, Value};

/// Most columns of a product that warps compute together.
const WIDEST: u32 = 256;

impl Assignment {
    /// Products by matrix instructions.  An operand that is loaded for it is loaded to where the instruction wants it, and
    /// the order of the terms and columns is such that wide loads do that.
    pub(super) fn find_products(
        &mut self,
        program: &Program,
        infos: &SecondaryMap<Value, Info>,
        matrices: &'static [Matrix],
    ) {
        // A product of a product has its rows where that has them.
        let dots = || program.insts.values().filter(|data| matches!(data.op, Op::Dot(_)));
        let chained = dots().any(|data| self.loaded(program, infos, data.args[0]).is_none());
        let split = if chained { Split::Rows } else { Split::Sides };
        let staged = in_stages(program);
        for (inst, data) in &program.insts {
            let (Op::Dot(precision), &[a, b, _], &[result]) = (&data.op, &data.args[..], &data.results[..]) else {
                continue;
            };
            let (left, sums) = (program.ty(a), program.ty(result));
            let extents = [sums.shape[0], sums.shape[1], left.shape[1]];
            let found = choose(matrices, [left.dtype, sums.dtype], *precision, extents, (self.warp_bits, split));
            let Some((matrix, tiling)) = found else { continue };
            let [from_a, from_b] = [a, b].map(|x| self.loaded(program, infos, x));
            let along = |loaded: &Option<Loaded>, axis: usize| loaded.as_ref().map_or(1, |l| l.run_along(axis));
            // Neighbours along the terms, and along rows or columns; of a first factor that is loaded for a loop with
            // stages, in the loop or ahead of it.
            let staged = from_a.is_some() && staged.contains(&inst);
            let runs_a = [1, 0].map(|axis| if staged { along(&from_a, axis) } else { 0 });
            let runs = [0, 1].map(|axis| along(&from_b, axis));
            // Terms in another order must be in that order in both operands; in scratch memory they are in none.
            let tiling = match self.together(matrix, extents, [runs_a, runs]) {
                Some(together) => together,
                None => tiling.in_runs(along(&from_a, 1).min(runs[0]), runs[1]),
            };
            for (loaded, layout, panels) in [(from_a, &tiling.a, tiling.left), (from_b, &tiling.b, tiling.panels)] {
                // What several warps want alike is loaded once, and handed on through scratch memory.
                let shared = layout.warp.bases().contains(&0);
                let Some(loaded) = loaded else { continue };
                let place = match panels {
                    Some(_) => {
                        let place = self.in_pieces(program, &loaded);
                        let data = &program.insts[loaded.inst];
                        data.args.iter().take(2).for_each(|&x| self.place_as(program, x, &place));
                        place
                    }
                    None if !shared => layout.transposed(&loaded.perm).neighbours_first(loaded.axis),
                    None => continue,
                };
                self.memory.insert(loaded.offsets, place);
            }
            self.products.insert(result, (matrix, tiling));
        }
    }

    /// The cover of a product whose second factor a group of warps reads from scratch memory: it is loaded in whole pieces.
    /// So is the first, if it is loaded for a loop with stages.  `runs` are the neighbours that one access reaches of either factor,
    /// along the terms and along the other axis.
    fn together(&self, matrix: &Matrix, [m, n, k]: [u32; 3], [left, right]: [[u32; 2]; 2]) -> Option<Tiling> {
        let bytes = matrix.operand.bytes() as u32;
        if bytes != 2 || n > WIDEST {
            return None;
        }
        let tiling = matrix.tiling_together([m, n, k], self.warp_bits, self.group)?;
        let panels = |runs: [u32; 2], across: u32| {
            let axis = runs.iter().position(|&run| run >= self.load_bytes / bytes)?;
            Panels::of([k, across], axis, bytes)
        };
        let panels_b = panels(right, n)?;
        Some(Tiling { panels: Some(panels_b), left: panels(left, m), ..tiling })
    }

    /// Where what goes to panels is loaded to: lanes have whole pieces, side by side.
    fn in_pieces(&self, program: &Program, loaded: &Loaded) -> Layout {
        let ty = program.ty(loaded.offsets);
        let bytes = program.ty(program.insts[loaded.inst].results[0]).dtype.bytes() as u32;
        let packed = (self.load_bytes / bytes).ilog2();
        Layout::packed(&ty.shape, &[loaded.axis, 1 - loaded.axis], packed, self.lane_bits, self.warp_bits)
    }

    /// What is computed for places and masks lies as they do, so that nothing moves between threads in each iteration: all
    /// that share a row of a tile compute what is the same along it.
    fn place_as(&mut self, program: &Program, value: Value, layout: &Layout) {
        let Some(inst) = self.defining[value].filter(|_| !program.ty(value).is_scalar()) else { return };
        let data = &program.insts[inst];
        match (&data.op, &data.args[..]) {
            (Op::Broadcast, &[x]) if !program.ty(x).is_scalar() => {
                self.place_as(program, x, &layout.squeezed(&program.ty(x).shape))
            }
            (Op::Map(_), args) if !self.placed.contains_key(&value) => {
                self.placed.insert(value, layout.clone());
                args.iter().for_each(|&x| self.place_as(program, x, layout));
            }
            _ => {}
        }
    }

    /// The load that a tile of two axes comes from.
    fn loaded(&self, program: &Program, infos: &SecondaryMap<Value, Info>, x: Value) -> Option<Loaded> {
        let inst = self.defining[x]?;
        let data = &program.insts[inst];
        match &data.op {
            Op::Load(_) => {
                let (offsets, bytes) = (data.args[0], program.ty(x).dtype.bytes() as u32);
                let run = |axis: &Axis| axis.contiguity.min(aligned(axis)).min((self.load_bytes / bytes).max(1));
                let runs: SmallVec<[u32; 2]> = infos[offsets].axes.iter().map(run).collect();
                let axis = (0..runs.len()).max_by_key(|&axis| runs[axis])?;
                Some(Loaded { inst, offsets, perm: smallvec![0, 1], axis, run: runs[axis] })
            }
            Op::Trans(perm) => {
                let loaded = self.loaded(program, infos, data.args[0])?;
                // Axis `i` of the tile is axis `perm[i]` of what is below.
                let below = |axis: u8| perm.iter().position(|&p| p == axis).unwrap_or(0) as u8;
                Some(Loaded { perm: loaded.perm.iter().map(|&axis| below(axis)).collect(), ..loaded })
            }
            _ => None,
        }
    }
}

/// What the bodies of loops that have stages do.
fn in_stages(program: &Program) -> FxHashSet<Inst> {
    let bodies = program.insts.values().filter_map(|data| match data.op {
        Op::For { body, stages } if stages > 1 => Some(body),
        _ => None,
    });
    bodies.flat_map(|body| program.blocks[body].insts.iter().copied()).collect()
}

/// A load that an operand of a product comes from.
struct Loaded {
    inst: Inst,
    /// The places it reads.
    offsets: Value,
    /// Axis `i` of the loaded tile is axis `perm[i]` of the operand.
    perm: SmallVec<[u8; 2]>,
    /// The axis of the loaded tile along which neighbours lie side by side in memory.
    axis: usize,
    /// How many of them one access can reach.
    run: u32,
}

impl Loaded {
    /// How many neighbours along an axis of the operand one access reaches.
    fn run_along(&self, axis: usize) -> u32 {
        if usize::from(self.perm[self.axis]) == axis { self.run } else { 1 }
    }
}
