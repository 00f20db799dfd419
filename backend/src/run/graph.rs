//! Captured graphs: plans with the memory they name, and how the inputs among it are brought up to date.

use std::sync::{Arc, Weak};

use rustc_hash::{FxHashMap, FxHashSet};

use super::capture::{Capture, Input, Kept};
use super::engine::Memory;
use super::failure::Failure;
use super::fate::{Fate, Renewal, written};
use super::machine::Machine;
use super::memory::Buffer;
use super::place::Place;
use super::stay::bring;
use crate::record::graph::{Captured, Replay};
use crate::record::value::Value;

/// The graphs of a device.
#[derive(Default)]
pub(super) struct Graphs {
    pub(super) list: FxHashMap<u64, Graph>,
    made: u64,
}

/// A captured graph.
pub(super) struct Graph {
    pub(super) plans: Vec<Kept>,
    inputs: Vec<Input>,
    /// All memory that it names, by address.
    memory: FxHashMap<*mut u8, Arc<Buffer>>,
    /// Elements of each draw of random numbers.
    draws: Vec<u64>,
    /// What the engine remembers of each part that is asked for as a whole.
    pub(super) parts: Vec<Memory>,
    /// What became of the last replay.
    pub(super) renewal: Arc<Renewal>,
}

/// Why a replay does not run.
pub(super) enum Stale {
    /// A value that it reads failed.
    Failed(Failure),
    /// An input can't be brought up to date.
    Stuck(String),
}

impl From<String> for Stale {
    fn from(message: String) -> Stale {
        Stale::Stuck(message)
    }
}

/// An input whose memory holds another value than counts.
struct Job {
    input: usize,
    value: Weak<Value>,
    from: Place,
}

impl Graphs {
    /// Keeps a graph.
    pub(super) fn keep(&mut self, graph: Graph) -> Result<Captured, String> {
        self.made += 1;
        let captured = Captured {
            number: self.made,
            inputs: graph.inputs.iter().map(|i| (Arc::clone(&i.line), Weak::clone(&i.holds))).collect(),
            draws: graph.draws.clone(),
        };
        self.list.insert(self.made, graph);
        Ok(captured)
    }
}

impl Graph {
    /// The graph of a capture whose work is done.  From now on its memory is given to no result.
    ///
    /// # Errors
    ///
    /// If it changes an input that does not fill its memory.
    pub(super) fn new(capture: Capture) -> Result<Graph, String> {
        let Capture { plans, mut inputs, draws, .. } = capture;
        let renewal = Arc::<Renewal>::default();
        let written: FxHashSet<*mut u8> = plans.iter().flat_map(Kept::written).map(|m| m.address()).collect();
        for input in &mut inputs {
            input.own = written.contains(&input.memory.address());
            if input.own && input.line.latest(&input.holds).is_some() {
                input.fills()?;
            }
        }
        let mut memory: FxHashMap<*mut u8, Arc<Buffer>> = FxHashMap::default();
        for kept in &plans {
            let named = kept.bound.iter().flatten().chain(kept.copies.iter().map(|copy| &copy.to.buffer));
            memory.extend(named.map(|m| (m.address(), Arc::clone(m))));
        }
        for (address, memory) in &memory {
            memory.pin();
            if written.contains(address) {
                memory.renewed_by(&renewal);
            }
        }
        Ok(Graph { plans, inputs, memory, draws, parts: Vec::new(), renewal })
    }

    /// Brings inputs and numbers up to date; gives what is not yet known of the values that it reads.
    pub(super) fn refresh(&mut self, machine: &Machine, replay: &Replay) -> Result<Vec<Arc<Fate>>, Stale> {
        for (at, value) in &replay.moved {
            self.inputs[*at].latest = Some(Arc::clone(value));
        }
        let mut draws = replay.draws.iter();
        for kept in &mut self.plans {
            for (slot, (seed, start)) in kept.draws.iter().zip(&mut draws) {
                kept.scalars[*slot as usize] = *seed;
                kept.scalars[*slot as usize + 1] = *start;
            }
        }
        let (mut jobs, mut parents) = (Vec::new(), Vec::new());
        for (at, input) in self.inputs.iter().enumerate() {
            let fates = match input.source() {
                Some(Err(failure)) => return Err(Stale::Failed(failure.clone())),
                Some(Ok((value, place))) => {
                    if input.is_stale(value, place) {
                        jobs.push(Job { input: at, value: Arc::downgrade(value), from: place.clone() });
                    }
                    place.fates().into_vec()
                }
                None => input.memory.renewals(),
            };
            for fate in fates {
                match fate.known() {
                    Some(Some(failure)) => return Err(Stale::Failed(failure.clone())),
                    Some(None) => {}
                    None => parents.push(fate),
                }
            }
        }
        self.bring(machine, jobs)?;
        Ok(parents)
    }

    /// Brings values to where the graph looks for them.
    fn bring(&mut self, machine: &Machine, mut jobs: Vec<Job>) -> Result<(), String> {
        // What lies where another value is about to go is set aside first.
        for at in 0..jobs.len() {
            let from = &jobs[at].from.buffer;
            let others = jobs.iter().enumerate().filter(|(other, _)| *other != at);
            if others.into_iter().any(|(_, job)| Arc::ptr_eq(&self.inputs[job.input].memory, from)) {
                let aside = machine.pool.allocate(from.len())?;
                aside.copy_from(from, from.len())?;
                jobs[at].from.buffer = aside;
            }
        }
        for Job { input: at, value, from } in jobs {
            if !self.inputs[at].own {
                self.move_input(machine, at)?;
            }
            let input = &mut self.inputs[at];
            input.take(&from)?;
            input.holds = value;
        }
        Ok(())
    }

    /// Gives an input memory of its own: others read where it lay.
    fn move_input(&mut self, machine: &Machine, at: usize) -> Result<(), String> {
        let input = &mut self.inputs[at];
        input.fills()?;
        let memory = machine.pool.allocate(input.bytes())?;
        memory.pin();
        self.memory.insert(memory.address(), Arc::clone(&memory));
        for kept in &mut self.plans {
            for (buf, _) in kept.inputs.iter().filter(|(_, number)| *number == at) {
                kept.bound[buf.as_u32() as usize] = Some(Arc::clone(&memory));
            }
        }
        input.own = true;
        let old = std::mem::replace(&mut input.memory, memory);
        let is_named = self.plans.iter().any(|kept| kept.bound.iter().flatten().any(|m| Arc::ptr_eq(m, &old)));
        if !is_named && self.memory.remove(&old.address()).is_some() {
            old.unpin();
        }
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        for memory in self.memory.values() {
            memory.unpin();
            // What failed stays so.
            if self.renewal.is_well() {
                memory.left_by(&self.renewal);
            }
        }
    }
}

impl Input {
    /// The value that counts, and where it lies, if it is another one than at the capture.
    fn source(&self) -> Option<Result<(&Arc<Value>, &Place), &Failure>> {
        let value = self.latest.as_ref()?;
        Some(value.place.get()?.as_ref().map(|place| (value, place)))
    }

    /// Whether its memory holds something else.  What a graph writes is another thing each time.
    fn is_stale(&self, value: &Arc<Value>, place: &Place) -> bool {
        let is_there = Arc::ptr_eq(&place.buffer, &self.memory) && place.layout == self.layout;
        let is_held = std::ptr::eq(self.holds.as_ptr(), Arc::as_ptr(value));
        !is_there && (!is_held || place.is_renewed()) && self.bytes() > 0
    }

    fn bytes(&self) -> usize {
        self.dims.iter().product::<u64>() as usize * self.width
    }

    /// That its elements lie side by side.
    fn fills(&self) -> Result<(), String> {
        match self.layout.is_contiguous(&self.dims) {
            true => Ok(()),
            false => Err("a graph reads a view of a tensor, and what changes in place since is not the tensor".into()),
        }
    }

    /// Copies a value to where the graph looks for it.
    fn take(&self, from: &Place) -> Result<(), String> {
        self.fills()?;
        let (buffer, layout) = (Arc::clone(&self.memory), self.layout.clone());
        bring(from, &Place { buffer, layout, len: self.bytes() as u64, fate: None }, &self.dims, self.width)
    }
}

impl Kept {
    /// Memory that it writes.
    fn written(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        let plan = &self.ready.plan;
        let bufs = plan.steps.iter().flat_map(|step| written(plan, step));
        let memory = bufs.filter_map(|buf| self.bound[buf.as_u32() as usize].as_ref());
        memory.chain(self.copies.iter().map(|copy| &copy.to.buffer))
    }
}
