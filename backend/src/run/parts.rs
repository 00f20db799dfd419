//! The parts of a plan that are asked for together: enough to be worth a call, and few enough that a device starts with the
//! first while the rest is gathered, or is not even recorded yet.

use std::ops::Range;

use kiln_lowering::schedule::{Arg, Buf, Plan, Step};
use rustc_hash::FxHashSet;

use super::fate::{touched, written};

/// Things that are asked for together at most: in the first parts, which a device waits for, and in later ones, when it has
/// enough to do.
const PART: usize = if cfg!(test) { 4 } else { 32 };
const LATER: usize = if cfg!(test) { 4 } else { 128 };
const FIRST: usize = 8;

/// One part, and what it and all parts before it take.
pub(super) struct Part {
    pub(super) steps: Range<usize>,
    /// How many of the graph's nodes, from the first, say what they compute: a hint, for a segment that begins so is this
    /// plan's for certain only when it is whole.
    nodes: usize,
    /// How many of its inputs they read.
    inputs: usize,
    /// How many of its slots.
    slots: usize,
    /// Whether the memory of the inputs is left as it is.
    spares: bool,
}

impl Part {
    /// Whether it takes no more than so many nodes, inputs and slots, and can be thrown away again.
    pub(super) fn is_known(&self, nodes: usize, inputs: usize, slots: usize) -> bool {
        self.spares && self.nodes <= nodes && self.inputs <= inputs && self.slots <= slots
    }
}

/// The parts of a plan, in order.  A sort, which waits for the device, begins one.
pub(super) fn parts(plan: &Plan) -> Vec<Part> {
    // What lies where an input did.
    let mut inherited: FxHashSet<Buf> = FxHashSet::default();
    let is_input = |buf: &Buf| plan.buffers[*buf].input.is_some();
    for (buf, data) in &plan.buffers {
        if data.takes.is_some_and(|from| is_input(&from) || inherited.contains(&from)) {
            inherited.insert(buf);
        }
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut known = Part { steps: 0..0, nodes: 0, inputs: 0, slots: 0, spares: true };
    let mut asked = 0;
    for (number, step) in plan.steps.iter().enumerate() {
        let is_sort = matches!(step, Step::Sort(_)) && number > known.steps.start;
        // A product and its tail stay together.
        let is_tail = number > 0 && matches!(&plan.steps[number - 1], Step::Gemm(gemm) if gemm.tail.is_some());
        // What was freed last serves the next part: it is free by then.
        let is_free = matches!(step, Step::Free(_));
        let most = if parts.len() < FIRST { PART } else { LATER };
        if asked >= most && !is_tail && !is_free || is_sort {
            let next = Part { steps: number..number, ..known };
            parts.push(std::mem::replace(&mut known, next));
            asked = 0;
        }
        known.steps.end = number + 1;
        asked += usize::from(!is_free);
        known.nodes = known.nodes.max(plan.known.get(number).map_or(usize::MAX, |&nodes| nodes as usize));
        for buf in touched(step) {
            known.inputs = known.inputs.max(plan.buffers[buf].input.map_or(0, |input| input as usize + 1));
            known.spares &= !inherited.contains(&buf);
        }
        if let Step::Launch { args, .. } = step {
            let slots = args.iter().map(|arg| if let Arg::Slot(slot) = arg { slot.as_u32() as usize + 1 } else { 0 });
            known.slots = known.slots.max(slots.max().unwrap_or(0));
        }
        known.spares &= !written(plan, step).iter().any(is_input);
    }
    if !plan.steps.is_empty() {
        parts.push(known);
    }
    parts
}
