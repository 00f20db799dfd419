//! Which products matrix instructions compute, and how their operands get there: loaded to where an instruction wants
//! them, or through scratch memory.

use cranelift_entity::SecondaryMap;
use smallvec::{SmallVec, smallvec};

use super::{Assignment, aligned};
use crate::analysis::axis::{Axis, Info};
use crate::dtype::DType;
use crate::layout::fragment::{Matrix, Split, Tiling, choose};
use crate::layout::panels::Panels;
use crate::tile::{Op, Program, Value};

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
        for data in program.insts.values() {
            let (Op::Dot(precision), &[a, b, _], &[result]) = (&data.op, &data.args[..], &data.results[..]) else {
                continue;
            };
            let (left, sums) = (program.ty(a), program.ty(result));
            let extents = [sums.shape[0], sums.shape[1], left.shape[1]];
            let found = choose(matrices, [left.dtype, sums.dtype], *precision, extents, (self.warp_bits, split));
            let Some((matrix, tiling)) = found else { continue };
            let [from_a, from_b] = [a, b].map(|x| self.loaded(program, infos, x));
            let along = |loaded: &Option<Loaded>, axis: usize| loaded.as_ref().map_or(1, |l| l.run_along(axis));
            // Terms in another order must be in that order in both operands; in scratch memory they are in none.
            let runs = [0, 1].map(|axis| along(&from_b, axis));
            let tiling = match self.panels(&tiling, [extents[2], extents[1]], runs, left.dtype) {
                panels @ Some(_) => Tiling { panels, ..tiling },
                None => tiling.in_runs(along(&from_a, 1).min(runs[0]), runs[1]),
            };
            for (loaded, layout) in [(from_a, &tiling.a), (from_b, &tiling.b)] {
                // What several warps want alike is loaded once, and handed on through scratch memory.
                let shared = layout.warp.bases().contains(&0);
                if let Some(loaded) = loaded.filter(|_| !shared) {
                    self.memory.insert(loaded.offsets, layout.transposed(&loaded.perm).neighbours_first(loaded.axis));
                }
            }
            self.products.insert(result, (matrix, tiling));
        }
    }

    /// How the second factor of a product lies in scratch memory, if a group of warps reads it from there: all of them want
    /// all of it, and it is loaded in whole pieces.
    fn panels(&self, tiling: &Tiling, extents: [u32; 2], runs: [u32; 2], dtype: DType) -> Option<Panels> {
        let group = self.group > 0 && 1 << self.warp_bits >= self.group && dtype.bytes() == 2;
        let shared = tiling.b.warp.bases().iter().all(|&b| b == 0) && tiling.c.warp.is_injective();
        let piece = self.load_bytes / dtype.bytes() as u32;
        let axis = runs.iter().position(|&run| run >= piece)?;
        if !group || !shared || extents[1] > WIDEST {
            return None;
        }
        Panels::of(extents, axis, dtype.bytes() as u32)
    }

    /// The load that a tile of two axes comes from.
    fn loaded(&self, program: &Program, infos: &SecondaryMap<Value, Info>, x: Value) -> Option<Loaded> {
        let data = &program.insts[self.defining[x]?];
        match &data.op {
            Op::Load(_) => {
                let (offsets, bytes) = (data.args[0], program.ty(x).dtype.bytes() as u32);
                let run = |axis: &Axis| axis.contiguity.min(aligned(axis)).min((self.load_bytes / bytes).max(1));
                let runs: SmallVec<[u32; 2]> = infos[offsets].axes.iter().map(run).collect();
                let axis = (0..runs.len()).max_by_key(|&axis| runs[axis])?;
                Some(Loaded { offsets, perm: smallvec![0, 1], axis, run: runs[axis] })
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

/// A load that an operand of a product comes from.
struct Loaded {
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
