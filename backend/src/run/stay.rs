//! What is changed in place stays in place where a graph writes: the program and the graph go on with the same memory.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use kiln_lowering::graph::Dims;
use kiln_lowering::schedule::{BufferData, Plan};

use super::execute::Outcome;
use super::place::{Place, gather_bytes};
use crate::record::value::Value;
use crate::record::{Operand, Work};

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

/// A dead operand in a graph's memory, by its number, and that of the wanted value which could have been made in its place.
pub(super) struct Heir {
    pub(super) operand: usize,
    value: usize,
}

/// All there are.
pub(super) fn heirs(work: &Work, operands: &[Option<Place>]) -> Vec<Heir> {
    let heir = |(number, (operand, place)): (usize, (&Operand, &Option<Place>))| {
        let place = place.as_ref().filter(|place| operand.dead && place.is_renewed())?;
        let line = operand.value.line.get()?.as_ref()?;
        let at = |value: &_| work.outputs.iter().position(|(_, output)| Arc::ptr_eq(output, value));
        let value = line.heir(&operand.value, at)?;
        let dims = dims(&operand.value);
        // Views of it stay what they are; that it is dead itself may not be counted yet.
        let own = u32::from(operand.value.lodges());
        let alone = place.buffer.lodgers.load(SeqCst) <= own && place.layout.is_contiguous(&dims);
        (alone && !dims.contains(&0)).then_some(Heir { operand: number, value })
    };
    work.operands.iter().zip(operands).enumerate().filter_map(heir).collect()
}

/// Whether a plan gives the operands' memory to nobody but their heirs.
pub(super) fn keeps(plan: &Plan, work: &Work, heirs: &[Heir]) -> bool {
    heirs.iter().all(|heir| {
        let of_operand = |data: &BufferData| data.input == Some(heir.operand as u32);
        let Some((first, _)) = plan.buffers.iter().find(|(_, data)| of_operand(data)) else { return true };
        let mut last = first;
        while let Some((taker, _)) = plan.buffers.iter().find(|(_, data)| data.takes == Some(last)) {
            last = taker;
        }
        last == first || last == plan.outputs[work.outputs[heir.value].0].buffer
    })
}

/// Brings each heir to where its operand lay, unless it is there.  Gives what was copied.
pub(super) fn stay(work: &Work, operands: &[Option<Place>], outcome: &mut Outcome) -> Vec<Copy> {
    let mut copies = Vec::new();
    for heir in heirs(work, operands) {
        let (Some(to), Ok(from)) = (&operands[heir.operand], &outcome.outputs[work.outputs[heir.value].0]) else {
            continue;
        };
        // It is there, or another result is.
        if outcome.outputs.iter().flatten().any(|other| Arc::ptr_eq(&other.buffer, &to.buffer)) {
            continue;
        }
        let value = &work.operands[heir.operand].value;
        let width = crate::dtype::to_kiln(value.dtype).bytes();
        let copy = Copy { from: from.clone(), to: to.clone(), dims: dims(value), width };
        if copy.run().is_ok() {
            outcome.stayed.push((heir.value, to.clone()));
            copies.push(copy);
        }
    }
    copies
}

fn dims(value: &Value) -> Dims {
    value.shape.iter().map(|&n| n as u64).collect()
}
