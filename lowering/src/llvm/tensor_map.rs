//! What a copy engine is told of a buffer before a kernel starts, so that one instruction takes a box of rows to scratch
//! memory.
//!
//! The buffer is taken for a tensor of three axes: elements of a row of the box, rows, and pieces of 16 bytes, one of which
//! is where a box begins.  The last axis lies over the other two, so boxes may begin at any piece whatever the distance of
//! the rows.  What is beyond the extents of the first two axes is 0 in scratch memory; those are a box's own, and a box of
//! which less is wanted begins as much further in.  So that it never begins before the buffer, the tensor does, by one box.

use crate::tile::{Inst, Op, Param, Program};

/// Bytes of the steps between which a box may begin.
pub const STEP: u32 = 16;

/// Rows that a box has at most.
pub const MOST: u32 = 256;

/// Distance of the rows of a buffer, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stride {
    /// This number.
    Constant(u32),
    /// The value of a parameter, or a number that is greater.
    AtLeast(Param, u32),
}

/// Boxes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// The buffer.
    pub buffer: Param,
    /// Bytes of an element.
    pub bytes: u32,
    /// From a row to the next.
    pub stride: Stride,
    /// Rows of a box.
    pub rows: u32,
    /// Elements of a row of a box, which is as long as that of a panel.
    pub width: u32,
}

/// The tensor of a map for a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Address of its first element.
    pub start: u64,
    /// Bytes of an element.
    pub bytes: u32,
    /// Bytes from a row to the next.
    pub stride: u64,
    /// Elements of a row, and rows.
    pub extents: [u32; 2],
}

impl TensorMap {
    /// The tensor, given a kernel's words: addresses and scalars.
    pub fn tensor(&self, words: &[u64]) -> Tensor {
        let word = |param: Param| words[param.as_u32() as usize];
        let stride = match self.stride {
            Stride::Constant(stride) => stride,
            Stride::AtLeast(param, least) => (word(param) as i32).max(least as i32) as u32,
        };
        let stride = u64::from(stride) * u64::from(self.bytes);
        let whole = u64::from(self.rows) * stride + u64::from(self.width * self.bytes);
        Tensor {
            start: word(self.buffer).wrapping_sub(whole),
            bytes: self.bytes,
            stride,
            extents: [self.width, self.rows],
        }
    }
}

/// How many maps a kernel has at most: one for each tile that a loop with stages loads.
pub fn most(program: &Program) -> u32 {
    let loads = program.insts.values().filter_map(|data| match data.op {
        Op::For { body, stages: 2.. } => Some(program.blocks[body].insts.iter()),
        _ => None,
    });
    let is_factor = |inst: &&Inst| {
        let data = &program.insts[**inst];
        matches!(data.op, Op::Load(_)) && program.ty(data.results[0]).shape.len() == 2
    };
    loads.flatten().filter(is_factor).count() as u32
}

#[cfg(test)]
mod tests {
    use cranelift_entity::EntityRef;

    use super::*;

    #[test]
    fn a_tensor_begins_one_box_before_its_buffer() {
        let [buffer, stride] = [0, 1].map(Param::new);
        let map = TensorMap { buffer, bytes: 2, stride: Stride::AtLeast(stride, 16), rows: 8, width: 64 };
        let tensor = Tensor { start: 4096 - 8 * 200 - 128, bytes: 2, stride: 200, extents: [64, 8] };
        assert_eq!(map.tensor(&[4096, 100]), tensor);
        // What no row can be apart never reaches an engine.
        assert_eq!(map.tensor(&[4096, u64::from((-100i32) as u32)]).stride, 32);
        assert_eq!(TensorMap { stride: Stride::Constant(100), ..map }.tensor(&[4096]), tensor);
    }
}
