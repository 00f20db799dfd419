//! What is changed in place stays in place where a graph writes: the program and the graph go on with the same memory.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use kiln_lowering::graph::Dims;

use super::execute::Outcome;
use super::place::{Place, gather_bytes};
use crate::record::Work;

/// A value that goes where another one lay.
pub(super) struct Copy {
    pub(super) from: Place,
    pub(super) to: Place,
    dims: Dims,
    /// Bytes of an element.
    width: usize,
}

impl Copy {
    /// Copies it, after all work asked for so far.
    pub(super) fn run(&self) -> Result<(), String> {
        bring(&self.from, &self.to, &self.dims, self.width)
    }
}

/// Copies a value to a place where its elements lie side by side.
pub(super) fn bring(from: &Place, to: &Place, dims: &[u64], width: usize) -> Result<(), String> {
    let bytes = dims.iter().product::<u64>() as usize * width;
    match from.layout.is_contiguous(dims) {
        true if Arc::ptr_eq(&from.buffer, &to.buffer) => Ok(()),
        true => to.buffer.copy_from(&from.buffer, bytes),
        false => to.buffer.fill_from(&gather_bytes(from, width, dims)?),
    }
}

/// Brings each result that was made of a dead operand in a graph's memory, and could have been made in place, there.
/// Gives what was copied.
pub(super) fn stay(work: &Work, operands: &[Option<Place>], outcome: &mut Outcome) -> Vec<Copy> {
    let mut copies = Vec::new();
    for (operand, to) in work.operands.iter().zip(operands) {
        let Some(to) = to.as_ref().filter(|to| operand.dead && to.is_renewed()) else { continue };
        let Some(Some(line)) = operand.value.line.get() else { continue };
        let at = |value: &_| work.outputs.iter().position(|(_, output)| Arc::ptr_eq(output, value));
        let Some(number) = line.heir(&operand.value, at) else { continue };
        let index = work.outputs[number].0;
        let Ok(from) = &outcome.outputs[index] else { continue };
        let dims: Dims = operand.value.shape.iter().map(|&n| n as u64).collect();
        let width = crate::dtype::to_kiln(operand.value.dtype).bytes();
        let in_the_way = outcome.outputs.iter().flatten().any(|other| Arc::ptr_eq(&other.buffer, &to.buffer));
        if in_the_way || to.buffer.shared.load(Relaxed) || !to.layout.is_contiguous(&dims) || dims.contains(&0) {
            continue;
        }
        let copy = Copy { from: from.clone(), to: to.clone(), dims, width };
        if copy.run().is_ok() {
            outcome.stayed.push((number, to.clone()));
            copies.push(copy);
        }
    }
    copies
}
