//! Captures: what a stream sends runs as ever, and its plans are kept with the memory that they ran on.

use std::rc::Rc;
use std::sync::{Arc, Weak};

use burn_backend::ExecutionError;
use kiln_lowering::graph::Dims;
use kiln_lowering::schedule::{Buf, Layout};

use super::failure::Failure;
use super::fate::Fate;
use super::flight::Source;
use super::graph::Graph;
use super::hold::Hold;
use super::memory::Buffer;
use super::place::Place;
use super::plans::Ready;
use super::runner::Runner;
use super::stay::Copy;
use crate::record::graph::Captured;
use crate::record::line::Line;
use crate::record::value::Value;
use crate::record::{Operand, Work};

/// A capture that goes on.
pub(super) struct Capture {
    stream: u64,
    /// Number of the first segment that belongs to it.
    first: u64,
    pub(super) plans: Vec<Kept>,
    pub(super) inputs: Vec<Input>,
    /// How many elements each draw of random numbers takes.
    pub(super) draws: Vec<u64>,
    /// What the checks of its values will say.
    fates: Vec<Arc<Fate>>,
    failed: Option<Failure>,
}

/// A plan that ran, with what it ran on.
pub(super) struct Kept {
    pub(super) ready: Rc<Ready>,
    pub(super) source: Rc<Source>,
    pub(super) scalars: Vec<u64>,
    /// The memory of its buffers.
    pub(super) bound: Vec<Option<Arc<Buffer>>>,
    /// Buffers that are inputs of the capture, with their numbers.
    pub(super) inputs: Vec<(Buf, usize)>,
    /// What is done after it.
    pub(super) copies: Vec<Copy>,
    /// Slots of its draws, in the order of the capture's.
    pub(super) draws: Vec<u32>,
}

/// A tensor from before the capture.
pub(super) struct Input {
    pub(super) line: Arc<Line>,
    /// Where the graph reads it.
    pub(super) memory: Arc<Buffer>,
    pub(super) layout: Layout,
    pub(super) dims: Dims,
    /// Bytes of an element.
    pub(super) width: usize,
    /// Whether nobody outside the graph counts on what lies there.
    pub(super) own: bool,
    /// The value that lies there.
    pub(super) holds: Weak<Value>,
    /// The value that has taken its place.
    pub(super) latest: Option<Arc<Value>>,
}

impl Capture {
    /// Whether an operand was recorded during the capture.
    fn made(&self, operand: &Operand) -> bool {
        operand.value.stream.number == self.stream && operand.value.segment >= self.first
    }

    /// Keeps a plan that has run.
    pub(super) fn add(
        &mut self,
        work: &Work,
        (ready, held, copies): (&Rc<Ready>, Hold, Vec<Copy>),
        operands: &[Option<Place>],
    ) {
        let mut inputs = Vec::new();
        for (buf, data) in &ready.plan.buffers {
            let number = data.input.map(|number| number as usize);
            if let Some((number, place)) = number.and_then(|n| Some((n, operands[n].as_ref()?)))
                && !self.made(&work.operands[number])
                && let Some(at) = self.input(&work.operands[number].value, place)
            {
                inputs.push((buf, at));
            }
        }
        self.draws.extend(work.draws.iter().map(|(_, count)| *count));
        self.plans.push(Kept {
            ready: Rc::clone(ready),
            source: Rc::new(Source { graph: work.graph.clone(), ops: work.ops.clone() }),
            scalars: work.scalars.clone(),
            bound: held.bound(),
            inputs,
            copies,
            draws: work.draws.iter().map(|(slot, _)| *slot).collect(),
        });
    }

    /// The number of an input, unless it never changes.
    fn input(&mut self, value: &Arc<Value>, place: &Place) -> Option<usize> {
        let Some(Some(line)) = value.line.get() else { return None };
        if let Some(known) = self.inputs.iter().position(|i| std::ptr::eq(i.holds.as_ptr(), Arc::as_ptr(value))) {
            return Some(known);
        }
        line.begin(value);
        self.inputs.push(Input {
            line: Arc::clone(line),
            memory: Arc::clone(&place.buffer),
            layout: place.layout.clone(),
            dims: value.shape.iter().map(|&n| n as u64).collect(),
            width: crate::dtype::to_kiln(value.dtype).bytes(),
            own: false,
            holds: Arc::downgrade(value),
            latest: None,
        });
        Some(self.inputs.len() - 1)
    }

    /// What went wrong, if anything did.
    fn failure(&self) -> Option<Failure> {
        let late = || self.fates.iter().find_map(|fate| fate.known().flatten().cloned());
        self.failed.clone().or_else(late)
    }
}

impl Runner {
    /// Starts one.
    pub(super) fn capture(&mut self, stream: u64, first: u64) {
        let (plans, inputs, draws, fates) = Default::default();
        self.captures.push(Capture { stream, first, plans, inputs, draws, fates, failed: None });
    }

    /// That of a stream.
    pub(super) fn capture_of(&mut self, stream: u64) -> Option<&mut Capture> {
        self.captures.iter_mut().find(|capture| capture.stream == stream)
    }

    /// Ends one without a graph.
    pub(super) fn abandon(&mut self, stream: u64) {
        self.captures.retain(|capture| capture.stream != stream);
    }

    /// The values that a capture depends on, before they are there.
    pub(super) fn watch(&mut self, work: &Work) -> Vec<Arc<Value>> {
        let values = work.outputs.iter().chain(&work.aliases).map(|(_, value)| Arc::clone(value));
        self.capture_of(work.stream).map(|_| values.collect()).unwrap_or_default()
    }

    /// Looks what became of them.
    pub(super) fn watched(&mut self, stream: u64, values: Vec<Arc<Value>>) {
        let Some(capture) = self.capture_of(stream) else { return };
        for value in values {
            match value.place.get() {
                Some(Ok(place)) => capture.fates.extend(place.fates()),
                Some(Err(failure)) => _ = capture.failed.get_or_insert(failure.clone()),
                None => {}
            }
        }
    }

    /// Takes care that a captured plan gives the memory of an input to a result only if another value comes in its place:
    /// then that is brought there before each replay.
    pub(super) fn spare_inputs(&mut self, work: &mut Work) {
        let Some(capture) = self.capture_of(work.stream) else { return };
        for operand in &mut work.operands {
            let moved = || match operand.value.line.get() {
                Some(Some(line)) => line.leaves(&operand.value),
                _ => false,
            };
            operand.dead = operand.dead && (capture.made(operand) || moved());
        }
    }

    /// Ends one: waits for its work, and keeps it as a graph.
    ///
    /// # Errors
    ///
    /// If some of the work has failed.
    pub(super) fn captured(&mut self, stream: u64) -> Result<Captured, ExecutionError> {
        let at = self.captures.iter().position(|capture| capture.stream == stream);
        let capture = at.map(|at| self.captures.swap_remove(at));
        let capture = capture.ok_or_else(|| ExecutionError::with_context("nothing was captured"))?;
        let settled = self.settle();
        if let Some(failure) = capture.failure() {
            return Err(self.machine.take(&failure));
        }
        settled.and_then(|()| self.graphs.keep(Graph::new(capture)?)).map_err(ExecutionError::with_context)
    }
}
