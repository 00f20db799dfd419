//! Runs a plan's steps.  Knows buffers and kernels, not what was recorded: failures name the step, and the runner says
//! which operation that was.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use kiln_lowering::schedule::{Arg, Buf, Gemm, Plan, Sort, Step};

use super::engine::{Checked, Engine, Launch, Ticket};
use super::explain;
use super::fate::{touched, written};
use super::kernels::Kernel;
use super::machine::Machine;
use super::memory::Buffer;
use super::place::Place;
use super::runner::message_of;

/// A step that failed, and what it says.
pub(super) struct Broken {
    pub(super) step: usize,
    pub(super) message: String,
}

/// What came of a plan: a place per output, or the number of the failure it depends on.
pub(super) struct Outcome {
    pub(super) outputs: Vec<Result<Place, usize>>,
    pub(super) failures: Vec<Broken>,
    /// Steps whose checks answer later.
    pub(super) open: Vec<(usize, Ticket)>,
    /// Steps that computed something and the nanoseconds each took, where explanations are wanted.
    pub(super) nanos: Vec<(usize, u64)>,
}

/// A buffer during a run.
#[derive(Clone, Default)]
struct Slot {
    memory: Option<Arc<Buffer>>,
    /// The failure that spoilt it.
    failed: Option<usize>,
}

struct Run<'a> {
    machine: &'static Machine,
    engine: &'a dyn Engine,
    plan: &'a Plan,
    kernels: &'a [Result<Kernel, String>],
    scalars: &'a [u64],
    slots: Vec<Slot>,
    failures: Vec<Broken>,
    open: Vec<(usize, Ticket)>,
    params: Vec<u64>,
}

/// Runs a plan; `operands` are the graph's inputs, `scalars` its slots.
pub(super) fn run(
    machine: &'static Machine,
    engine: &dyn Engine,
    (plan, kernels): (&Plan, &[Result<Kernel, String>]),
    operands: &[Option<Place>],
    scalars: &[u64],
) -> Outcome {
    let slots = plan
        .buffers
        .values()
        .map(|data| Slot {
            memory: data.input.and_then(|number| operands[number as usize].as_ref()).map(|p| Arc::clone(&p.buffer)),
            failed: None,
        })
        .collect();
    let (failures, open, params) = (Vec::new(), Vec::new(), Vec::new());
    let mut run = Run { machine, engine, plan, kernels, scalars, slots, failures, open, params };
    if let Err(message) = engine.begin() {
        return run.give_up(message);
    }
    let (timed, mut nanos) = (explain::wanted(), Vec::new());
    for (number, step) in plan.steps.iter().enumerate() {
        let started = (timed && !matches!(step, Step::Free(_))).then(Instant::now);
        run.step(number, step);
        if started.is_some() {
            // What fails here is reported by whoever waits next.
            let _ = engine.synchronise();
        }
        nanos.extend(started.map(|started| (number, started.elapsed().as_nanos() as u64)));
    }
    run.finish(nanos)
}

impl Run<'_> {
    fn step(&mut self, number: usize, step: &Step) {
        if let Step::Free(buf) = step {
            self.slot(*buf).memory = None;
            return;
        }
        // Without failures nobody need look what a step touches.
        if !self.failures.is_empty()
            && let Some(cause) = touched(step).iter().find_map(|&b| self.slots[b.as_u32() as usize].failed)
        {
            return self.spoil(step, cause);
        }
        let done = catch_unwind(AssertUnwindSafe(|| match step {
            Step::Launch { program, grid, args, checks, .. } => self.launch(number, (*program, *grid), args, checks),
            Step::Gemm(gemm) => self.gemm(gemm),
            Step::Sort(sort) => self.sort(sort),
            Step::Free(_) => Ok(()),
        }));
        if let Err(message) = done.unwrap_or_else(|panic| Err(message_of(&*panic))) {
            self.failures.push(Broken { step: number, message });
            self.spoil(step, self.failures.len() - 1);
        }
    }

    /// Marks what a step writes.
    fn spoil(&mut self, step: &Step, cause: usize) {
        for buf in written(self.plan, step) {
            self.slot(buf).failed.get_or_insert(cause);
        }
    }

    fn slot(&mut self, buf: Buf) -> &mut Slot {
        &mut self.slots[buf.as_u32() as usize]
    }

    /// The memory of a buffer, which is found at its first use.
    fn memory(&mut self, buf: Buf) -> Result<&Arc<Buffer>, String> {
        let at = buf.as_u32() as usize;
        if self.slots[at].memory.is_none() {
            let data = &self.plan.buffers[buf];
            let bytes =
                usize::try_from(data.len).ok().and_then(|n| n.checked_mul(data.dtype.bytes())).unwrap_or(usize::MAX);
            let inherited = data.takes.and_then(|old| self.slot(old).memory.take()).filter(|m| m.len() >= bytes);
            self.slots[at].memory = Some(match inherited {
                Some(memory) => memory,
                None => self.machine.pool.allocate(bytes)?,
            });
        }
        match &self.slots[at].memory {
            Some(memory) => Ok(memory),
            None => unreachable!("the memory was just found"),
        }
    }

    fn launch(
        &mut self,
        step: usize,
        (program, grid): (usize, [u32; 3]),
        args: &[Arg],
        checks: &[String],
    ) -> Result<(), String> {
        let kernels = self.kernels;
        let kernel = kernels[program].as_ref().map_err(String::clone)?;
        let mut params = std::mem::take(&mut self.params);
        params.clear();
        for arg in args {
            params.push(match arg {
                Arg::Buffer(buf) => self.memory(*buf)?.address().addr() as u64,
                Arg::Slot(slot) => self.scalars[slot.as_u32() as usize],
                Arg::Literal(bits) => *bits,
            });
        }
        self.machine.counters.launches.fetch_add(1, Relaxed);
        let launch = Launch { plan: self.plan, grid, args, params: &params, checks: !checks.is_empty() };
        let checked = match grid.contains(&0) {
            true => Checked::Now(0),
            // SAFETY: the plan passes a word per parameter; its buffers hold all elements that the program accesses,
            // are aligned to 64 bytes, and belong to this run alone where they are written.
            false => unsafe { kernel.launch(&launch)? },
        };
        self.params = params;
        match checked {
            Checked::Now(0) => Ok(()),
            Checked::Now(code) => Err(meaning(checks, code)),
            Checked::Later(ticket) => {
                self.open.push((step, ticket));
                Ok(())
            }
        }
    }

    /// Bytes of a buffer's elements.
    fn length(&self, buf: Buf) -> usize {
        let data = &self.plan.buffers[buf];
        data.len as usize * data.dtype.bytes()
    }

    fn gemm(&mut self, gemm: &Gemm) -> Result<(), String> {
        let [a, b, c] = [&gemm.a, &gemm.b, &gemm.c].map(|m| self.memory(m.buffer).map(Arc::clone));
        let (a, b, c) = (a?, b?, c?);
        self.machine.counters.gemms.fetch_add(1, Relaxed);
        // SAFETY: the plan's places lie inside its buffers, and the result has a buffer of its own.
        unsafe { self.engine.product(gemm, [&a, &b, &c]) }
    }

    fn sort(&mut self, sort: &Sort) -> Result<(), String> {
        let [input, output] = [sort.input, sort.output].map(|buf| self.memory(buf).map(Arc::clone));
        // SAFETY: the plan's places lie inside its buffers, and the result has a buffer of its own.
        unsafe { self.engine.sort(sort, &input?, &output?) }
    }

    /// Fails everything.
    fn give_up(self, message: String) -> Outcome {
        let outputs = self.plan.outputs.iter().map(|_| Err(0)).collect();
        Outcome {
            outputs,
            failures: vec![Broken { step: self.plan.steps.len(), message }],
            open: Vec::new(),
            nanos: Vec::new(),
        }
    }

    fn finish(mut self, nanos: Vec<(usize, u64)>) -> Outcome {
        let plan = self.plan;
        let mut outputs = Vec::with_capacity(plan.outputs.len());
        for output in &plan.outputs {
            let place = match self.slot(output.buffer).failed {
                Some(cause) => Err(cause),
                // An output without elements may have no step that writes it.
                None => self
                    .memory(output.buffer)
                    .map(Arc::clone)
                    .map(|buffer| Place {
                        buffer,
                        layout: output.layout.clone(),
                        len: self.length(output.buffer) as u64,
                        fate: None,
                    })
                    .map_err(|m| {
                        self.failures.push(Broken { step: plan.steps.len(), message: m });
                        self.failures.len() - 1
                    }),
            };
            outputs.push(place);
        }
        Outcome { outputs, failures: self.failures, open: self.open, nanos }
    }
}

/// What it means that a check failed.
pub(super) fn meaning(checks: &[String], code: u32) -> String {
    checks.get(code as usize - 1).cloned().unwrap_or_else(|| format!("check {code} failed"))
}
