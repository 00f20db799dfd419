//! Gives each value of a program its layout.
//!
//! Memory is accessed with the lanes along the axis that the access is contiguous along, or where there is none, along
//! the axis that most accesses of tiles of that shape are; what is computed from loaded tiles stays where they are;
//! reduced tiles are slices of what they were.  Values that cost
//! next to nothing to compute are *cheap*: they have a layout too, but whoever wants them elsewhere computes them
//! again, so they decide nothing.

mod products;

use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::fragment::{Matrix, Tiling};
use super::place::bits_of;
use super::{Layout, Linear};
use crate::analysis::axis::{Axis, Info};
use crate::op::Pointwise;
use crate::spec::Spec;
use crate::tile::{Block, Inst, Op, Program, Shape, Value};

/// The layout of each value.
pub struct Assignment {
    layouts: SecondaryMap<Value, Option<Layout>>,
    defining: SecondaryMap<Value, Option<Inst>>,
    cheap: SecondaryMap<Value, bool>,
    /// By shape, where the accesses do not say better.
    usual: FxHashMap<Shape, Layout>,
    /// By offsets.
    memory: FxHashMap<Value, Layout>,
    /// Of what the places of factors are computed from.
    placed: FxHashMap<Value, Layout>,
    /// By shape, how many bits of its elements a lane holds side by side, where that is not 0.
    packed: FxHashMap<Shape, u32>,
    /// The products that matrix instructions compute, by result.
    products: FxHashMap<Value, (&'static Matrix, Tiling)>,
    lane_bits: u32,
    warp_bits: u32,
    load_bytes: u32,
    /// Warps that multiply together; 0 for none.
    group: u32,
}

impl std::ops::Index<Value> for Assignment {
    type Output = Layout;

    fn index(&self, value: Value) -> &Layout {
        match &self.layouts[value] {
            Some(layout) => layout,
            None => panic!("bug in the lowering: {value} has no layout"),
        }
    }
}

/// A row that costs more than this many additions, together with the rows it is computed from, is not done twice.
const CHEAP: u32 = 8;

impl Assignment {
    /// Decides on every value of `program`.
    pub fn new(program: &Program, infos: &SecondaryMap<Value, Info>, spec: &Spec) -> Assignment {
        let lane_bits = spec.lane_bits();
        let mut assignment = Assignment {
            layouts: SecondaryMap::new(),
            defining: SecondaryMap::new(),
            cheap: SecondaryMap::new(),
            usual: FxHashMap::default(),
            memory: FxHashMap::default(),
            placed: FxHashMap::default(),
            packed: FxHashMap::default(),
            products: FxHashMap::default(),
            lane_bits,
            warp_bits: spec.warps.trailing_zeros(),
            load_bytes: spec.load_bytes,
            group: spec.group,
        };
        for (inst, data) in &program.insts {
            data.results.iter().for_each(|&r| assignment.defining[r] = Some(inst));
        }
        assignment.find_packed(program, infos);
        assignment.find_memory(program, infos);
        assignment.find_products(program, infos, spec.matrices);
        assignment.find_cheap(program, program.body, &mut SecondaryMap::new());
        assignment.block(program, program.body);
        assignment
    }

    /// The layout in which memory is accessed through these offsets.
    pub fn memory(&self, program: &Program, offsets: Value) -> Layout {
        self.memory.get(&offsets).cloned().unwrap_or_else(|| self.of_shape(&program.ty(offsets).shape))
    }

    /// The layout in which a value is written through offsets.  What warps multiplied together is written from where it
    /// is: pairs of neighbours, which any other layout would have to be brought together from.
    pub fn written(&self, program: &Program, value: Value, offsets: Value) -> Layout {
        let home = self.layouts[value].as_ref().filter(|home| self.is_together(home));
        home.cloned().unwrap_or_else(|| self.memory(program, offsets))
    }

    /// Whether warps leave in this layout what they multiply together.
    fn is_together(&self, layout: &Layout) -> bool {
        self.products.values().any(|(_, tiling)| tiling.panels.is_some() && tiling.c == *layout)
    }

    /// Whether nothing but reductions moves elements between so many warps: each has a part of its own of one axis, or copies.
    pub fn keeps_to_warps(&self, program: &Program, warps: u32) -> bool {
        let parts = |layout: &Layout| {
            let of_axis = |axis: usize| {
                let bits = layout.axis_bits(axis).map(|bit| 1 << bit);
                layout.shape[axis] == warps && layout.warp.bases().iter().copied().eq(bits)
            };
            layout.warp.bases().iter().all(|&base| base == 0) || (0..layout.shape.len()).any(of_axis)
        };
        let moves = |op: &Op| matches!(op, Op::Dot(_) | Op::Scan { .. } | Op::Gather(_));
        // What is cheap is computed where it is wanted.
        let kept =
            self.layouts.iter().filter(|(value, _)| !self.cheap[*value]).filter_map(|(_, layout)| layout.as_ref());
        !program.insts.values().any(|inst| moves(&inst.op)) && kept.chain(self.memory.values()).all(parts)
    }

    /// The matrix instruction for the product whose result this is, and how it covers the product.
    pub fn product(&self, result: Value) -> Option<&(&'static Matrix, Tiling)> {
        self.products.get(&result)
    }

    /// The instruction that a value is a result of, if it is one.
    pub fn definition(&self, value: Value) -> Option<Inst> {
        self.defining[value]
    }

    /// The instruction to run once more for a value that is wanted in another layout.
    pub fn again(&self, program: &Program, value: Value) -> Option<Inst> {
        let inst = self.defining[value]?;
        let op = &program.insts[inst].op;
        let moves = matches!(op, Op::Broadcast | Op::ExpandDims(_) | Op::Reshape | Op::Trans(_))
            || *op == Op::Map(Pointwise::Bitcast);
        (moves || self.cheap[value] || self.is_widened(program, value, CHEAP)).then_some(inst)
    }

    /// Whether a value is a narrower one behind rows that cost no more than `most` together: it moves as it was before.
    fn is_widened(&self, program: &Program, value: Value, most: u32) -> bool {
        let Some(data) = self.defining[value].map(|inst| &program.insts[inst]) else { return false };
        let Op::Map(op) = data.op else { return false };
        let mut dear = data.args.iter().filter(|&&arg| !self.cheap[arg]);
        let (Some(&from), None, Some(rest)) = (dear.next(), dear.next(), most.checked_sub(op.row().cost)) else {
            return false;
        };
        let bytes = |value: Value| program.ty(value).dtype.bytes();
        bytes(from) < bytes(value) || bytes(from) == bytes(value) && self.is_widened(program, from, rest)
    }

    fn of_shape(&self, shape: &Shape) -> Layout {
        match self.usual.get(shape) {
            Some(layout) => layout.clone(),
            None => self.along(shape, shape.len().saturating_sub(1)),
        }
    }

    /// Lanes lie along the axis that an access counts up along for a whole vector; each such access has a vote on where
    /// the lanes of other tiles of its shape lie.
    fn find_memory(&mut self, program: &Program, infos: &SecondaryMap<Value, Info>) {
        let mut votes: FxHashMap<Shape, SmallVec<[u32; 4]>> = FxHashMap::default();
        for data in program.insts.values() {
            let (Op::Load(_) | Op::Store(..) | Op::Atomic(..)) = data.op else { continue };
            let (offsets, shape) = (data.args[0], &program.ty(data.args[0]).shape);
            let axes = &infos[offsets].axes;
            if shape.len() < 2 || axes.len() != shape.len() {
                continue;
            }
            let run = |a: usize| axes[a].contiguity.min(1 << self.lane_bits);
            let Some(best) = (0..shape.len()).max_by_key(|&a| run(a)).filter(|&a| run(a) > 1) else { continue };
            votes.entry(shape.clone()).or_insert_with(|| smallvec![0; shape.len()])[best] += 1;
            if run(best) == 1 << self.lane_bits {
                self.memory.insert(offsets, self.along(shape, best));
            }
        }
        for (shape, votes) in votes {
            let best = (0..shape.len()).max_by_key(|&a| votes[a]).unwrap_or(0);
            let layout = self.along(&shape, best);
            self.usual.insert(shape, layout);
        }
    }

    /// Where lanes load several elements at once, they hold as many side by side as the widest element type of the
    /// accesses of a shape allows, if any access can make use of it, and lanes are left with none.
    fn find_packed(&mut self, program: &Program, infos: &SecondaryMap<Value, Info>) {
        let mut widest: FxHashMap<&Shape, (u32, (u32, usize))> = FxHashMap::default();
        for data in program.insts.values() {
            let (value, offsets) = match data.op {
                Op::Load(_) => (data.results[0], data.args[0]),
                Op::Store(..) => (data.args[1], data.args[0]),
                _ => continue,
            };
            let ty = program.ty(value);
            let runs = infos[offsets].axes.iter().map(|axis| axis.contiguity.min(aligned(axis)));
            let run = runs.zip(0..).max().unwrap_or((1, 0));
            let (bytes, runs) = widest.entry(&program.ty(offsets).shape).or_default();
            *bytes = (*bytes).max(ty.dtype.bytes() as u32);
            *runs = (*runs).max(run);
        }
        // Tiles that are taken apart keep their lanes along the last axis, so that nothing moves; those that lie along
        // another one are turned anyway.
        let apart = program.insts.values().filter(|data| matches!(data.op, Op::Split));
        let apart: Vec<u32> = apart.map(|data| bits_of(&program.ty(data.args[0]).shape)).collect();
        for (shape, (bytes, (run, axis))) in widest {
            let all = bits_of(shape);
            let place = match shape.last() {
                Some(last) if axis + 1 == shape.len() && apart.iter().any(|&bits| bits <= all) => last.trailing_zeros(),
                _ => all,
            };
            // Warps may lie along another axis.
            let spare = place.saturating_sub(self.lane_bits).min(all.saturating_sub(self.lane_bits + self.warp_bits));
            let packed = (self.load_bytes / bytes).max(1).min(run).ilog2().min(spare);
            if packed > 0 {
                self.packed.insert(shape.clone(), packed);
            }
        }
    }

    /// Lanes along one axis, then along the others, the last one first.
    fn along(&self, shape: &[u32], axis: usize) -> Layout {
        let others = (0..shape.len()).rev().filter(|&a| a != axis);
        let axes: Vec<usize> = shape.get(axis).map(|_| axis).into_iter().chain(others).collect();
        let packed = self.packed.get(shape).copied().unwrap_or(0);
        Layout::packed(shape, &axes, packed, self.lane_bits, self.warp_bits)
    }

    fn find_cheap(&mut self, program: &Program, block: Block, costs: &mut SecondaryMap<Value, u32>) {
        for &inst in &program.blocks[block].insts {
            let data = &program.insts[inst];
            data.op.blocks().iter().for_each(|&b| self.find_cheap(program, b, costs));
            let below: u32 = data.args.iter().map(|&a| if self.cheap[a] { costs[a] } else { CHEAP + 1 }).sum();
            let cost = match &data.op {
                Op::Constant(_) | Op::Scalar(_) | Op::ProgramId(_) | Op::NumPrograms(_) | Op::Arange => 0,
                Op::Broadcast if program.ty(data.args[0]).is_scalar() => 0,
                Op::Broadcast | Op::ExpandDims(_) | Op::Reshape | Op::Trans(_) => below,
                Op::Map(op) => below + op.row().cost,
                _ => CHEAP + 1,
            };
            for &result in &data.results {
                self.cheap[result] = cost <= CHEAP;
                costs[result] = cost;
            }
        }
    }

    fn block(&mut self, program: &Program, block: Block) {
        for &inst in &program.blocks[block].insts {
            self.inst(program, inst);
        }
    }

    fn inst(&mut self, program: &Program, inst: Inst) {
        let data = &program.insts[inst];
        let (first, result) = (data.args.first().copied(), data.results.first().copied());
        let layout = match (&data.op, first, result) {
            (Op::For { body, .. }, ..) => return self.for_loop(program, inst, *body),
            (Op::If { then, other }, ..) => {
                self.block(program, *then);
                self.block(program, *other);
                let yields = program.blocks[*then].yields.iter().zip(&program.blocks[*other].yields);
                for (&r, (&a, &b)) in data.results.iter().zip(yields) {
                    let layout = self.fixed(a).or(self.fixed(b)).cloned();
                    self.layouts[r] = Some(layout.unwrap_or_else(|| self.of_shape(&program.ty(r).shape)));
                }
                return;
            }
            (Op::Reduce { axis, .. }, Some(x), _) => self.home(program, x).sliced(*axis as usize),
            (Op::Scan { .. }, Some(x), _) => self.home(program, x),
            (Op::ExpandDims(_) | Op::Reshape, Some(x), Some(r)) => self.home(program, x).reshaped(&program.ty(r).shape),
            (Op::Load(_) | Op::Atomic(..), Some(offsets), _) => self.memory(program, offsets),
            (Op::Trans(perm), Some(x), _) => self.home(program, x).transposed(perm),
            (Op::Join, Some(x), _) => joined(&self.home(program, x)),
            (Op::Split, Some(x), _) => self.half(&self.home(program, x)),
            (Op::Map(_), _, Some(r)) if let Some(layout) = self.placed.get(&r) => layout.clone(),
            (Op::Map(_) | Op::Exp2Approx, _, Some(r)) => {
                let shape = &program.ty(r).shape;
                let Some(layout) = data.args.iter().find_map(|&a| self.fixed(a)).cloned() else {
                    // Computed from cheap values and undecided ones: itself undecided as long as one of them is.
                    let decided = data.args.iter().all(|&a| self.layouts[a].is_some());
                    self.layouts[r] = decided.then(|| self.of_shape(shape));
                    return;
                };
                // What is computed from what warps multiplied together is written from where that is.
                let mut fixed = data.args.iter().filter_map(|&a| self.fixed(a));
                let together = fixed.find(|home| self.is_together(home)).cloned();
                // Of operands that lie along different axes, those decide that lie as most accesses do.
                let usual = self.of_shape(shape);
                let is_usual = |&a: &Value| self.fixed(a) == Some(&usual);
                let is_along = || (0..shape.len()).any(|axis| self.along(shape, axis) == layout);
                match together {
                    Some(together) => together,
                    None if data.args.iter().any(is_usual) && is_along() => usual,
                    None => layout,
                }
            }
            (Op::Dot(_), _, Some(r)) => match self.products.get(&r) {
                Some((_, tiling)) => tiling.c.clone(),
                None => self.of_shape(&program.ty(r).shape),
            },
            (_, _, Some(r)) => self.of_shape(&program.ty(r).shape),
            (_, _, None) => return,
        };
        for &r in &data.results {
            self.layouts[r] = Some(layout.clone());
        }
    }

    /// What a loop carries starts out where its initial value is.  Where that is cheap, what the body makes of it
    /// decides: the body is gone through once with the carried value undecided.  A loop inside keeps what it decided then.
    fn for_loop(&mut self, program: &Program, inst: Inst, body: Block) {
        let (data, block) = (&program.insts[inst], &program.blocks[body]);
        let (carried, initial) = (&block.params[1..], &data.args[3..]);
        self.layouts[block.params[0]] = Some(self.of_shape(&Shape::new()));
        for (&param, &first) in carried.iter().zip(initial) {
            self.layouts[param] = self.fixed(first).or(self.layouts[param].as_ref()).cloned();
        }
        if carried.iter().any(|&p| self.layouts[p].is_none()) {
            self.block(program, body);
        }
        for (&param, &next) in carried.iter().zip(&block.yields) {
            if self.layouts[param].is_none() {
                let layout = self.fixed(next).cloned().unwrap_or_else(|| self.of_shape(&program.ty(param).shape));
                self.layouts[param] = Some(layout);
            }
        }
        self.block(program, body);
        for (&result, &param) in data.results.iter().zip(carried) {
            self.layouts[result] = self.layouts[param].clone();
        }
    }

    /// The layout of the halves of a tile: lanes that lie along the last axis would be halved too, so they move to the
    /// first one.
    fn half(&self, layout: &Layout) -> Layout {
        let last = layout.shape.len() - 1;
        match layout.lane.bases().iter().any(|&b| layout.along(b, last) != 0) {
            true if last > 0 => self.along(&layout.shape[..last], 0),
            _ => apart(layout).0,
        }
    }

    /// The layout of a value that is not to be computed again.
    fn fixed(&self, value: Value) -> Option<&Layout> {
        self.layouts[value].as_ref().filter(|_| !self.cheap[value])
    }

    /// The layout of a value, the usual one of its shape while it is undecided.
    fn home(&self, program: &Program, value: Value) -> Layout {
        self.layouts[value].clone().unwrap_or_else(|| self.of_shape(&program.ty(value).shape))
    }
}

/// The layout of two tiles side by side along a new last axis: register by register.
pub fn joined(layout: &Layout) -> Layout {
    let up = |map: &Linear| Linear::new(map.bases().iter().map(|b| b << 1));
    let mut shape = layout.shape.clone();
    shape.push(2);
    let register = Linear::new([1]).beside(&up(&layout.register));
    Layout { shape, register, lane: up(&layout.lane), warp: up(&layout.warp) }
}

/// The layout of either half along the last axis, and the nearest layout of the whole that has the halves in different
/// registers.
pub fn apart(layout: &Layout) -> (Layout, Layout) {
    let half = layout.sliced(layout.shape.len() - 1);
    let whole = joined(&half);
    (half, whole)
}

/// What divides the places of runs along an axis, as far as it matters for wide accesses.
fn aligned(axis: &Axis) -> u32 {
    axis.divisor_at(axis.contiguity).min(16) as u32
}
