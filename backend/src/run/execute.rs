//! Runs a plan's steps.  Knows buffers and kernels, not what was recorded: failures name the step, and the runner says
//! which operation that was.

use std::cell::RefMut;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use kiln_lowering::schedule::{Arg, Buf, Gemm, Plan, Sort, Step, Tail};

use super::engine::{Checked, Engine, Launch, Memory, Ticket, places};
use super::explain;
use super::fate::{touched, written};
use super::gather::{self, Asked, Gather};
use super::hold::Hold;
use super::kernels::Kernel;
use super::machine::Machine;
use super::memory::Buffer;
use super::parts::Part;
use super::place::Place;
use super::plans::Ready;
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
    /// The memory of the plan's buffers, if it was to be kept.
    pub(super) held: Option<Hold>,
    /// Values that lie elsewhere than their outputs, by their number among the wanted ones.
    pub(super) stayed: Vec<(usize, Place)>,
}

/// A buffer during a run.
#[derive(Clone, Default)]
struct Slot {
    memory: Option<Arc<Buffer>>,
    /// The failure that spoilt it.
    failed: Option<usize>,
    /// Whether the plan has no use for it any more.
    done: bool,
}

/// How far the run of a plan has come.
#[derive(Default)]
pub(super) struct Progress {
    slots: Vec<Slot>,
    failures: Vec<Broken>,
    open: Vec<(usize, Ticket)>,
    /// How many parts were asked for.
    parts: usize,
    /// Whether something was left out or asked for early, so that what the engine remembers of the parts does not fit.
    uneven: bool,
}

struct Run<'a> {
    machine: &'static Machine,
    engine: &'a dyn Engine,
    plan: &'a Plan,
    parts: &'a [Part],
    kernels: &'a [Result<Kernel, String>],
    scalars: &'a [u64],
    at: Progress,
    /// Whether work is asked for in parts.
    gathers: bool,
    gather: Gather<'a>,
    /// What the engine remembers of the plan's parts.
    memory: Option<RefMut<'a, Vec<Memory>>>,
    hold: Option<Hold>,
}

/// Runs a plan, or what is left of it; `operands` are the graph's inputs, `scalars` its slots.  With `keep`, nobody else
/// gets its memory.
pub(super) fn run(
    machine: &'static Machine,
    engine: &dyn Engine,
    ready: &Ready,
    (operands, scalars): (&[Option<Place>], &[u64]),
    (begun, keep): (Option<Progress>, bool),
) -> Outcome {
    let timed = explain::wanted();
    let mut run = Run::new(machine, engine, ready, (operands, scalars), begun.unwrap_or_default());
    run.gathers &= !timed;
    if keep {
        let mut hold = Hold::new(run.plan.buffers.len());
        let inputs = run.plan.buffers.keys().zip(&run.at.slots);
        inputs.for_each(|(buf, slot)| slot.memory.iter().for_each(|memory| hold.note(buf, memory)));
        run.hold = Some(hold);
    }
    if let Err(message) = engine.begin() {
        return run.give_up(message);
    }
    let mut nanos = Vec::new();
    while let Some(part) = run.parts.get(run.at.parts) {
        run.part(part, timed.then_some(&mut nanos));
    }
    run.finish(nanos)
}

/// Begins with the plan of a segment that is still being recorded: runs the parts for which all is known that they want,
/// `nodes` nodes of the graph and the operands and scalars that are there.  `None` if something was in the way: then all of
/// it was thrown away.  Operands are as they were, one way or the other.
pub(super) fn begin(
    machine: &'static Machine,
    engine: &dyn Engine,
    ready: &Ready,
    (operands, scalars, nodes): (&[Option<Place>], &[u64], usize),
    begun: Progress,
) -> Option<Progress> {
    let mut run = Run::new(machine, engine, ready, (operands, scalars), begun);
    let is_known = |part: &&Part| part.is_known(nodes, operands.len(), scalars.len());
    while let Some(part) = run.parts.get(run.at.parts).filter(is_known) {
        let ran = engine.begin().map(|()| run.part(part, None));
        if ran.is_err() || !run.at.failures.is_empty() {
            run.at.forget(engine);
            return None;
        }
    }
    let mut at = run.at;
    // Operands are named again when it goes on: until then they may turn out to be others'.
    let inputs = ready.plan.buffers.values().zip(&mut at.slots).filter(|(data, _)| data.input.is_some());
    inputs.for_each(|(_, slot)| slot.memory = None);
    Some(at)
}

impl Progress {
    /// How many parts were asked for.
    pub(super) fn parts(&self) -> usize {
        self.parts
    }

    /// Gives up what was begun: the device comes past its checks, and nobody hears of them.
    pub(super) fn forget(&mut self, engine: &dyn Engine) {
        // A device that has stopped says so to whoever reads.
        let _ = pass(engine, std::mem::take(&mut self.open));
    }
}

/// Has the device come past checks that nobody is to hear of.
///
/// # Errors
///
/// If it has stopped.
pub(super) fn pass(engine: &dyn Engine, open: Vec<(usize, Ticket)>) -> Result<(), String> {
    if open.is_empty() {
        return Ok(());
    }
    if let Some(mark) = engine.mark()? {
        engine.reach(mark, true)?;
    }
    // A check that failed would be heard by whoever is lent its ticket next.
    open.into_iter().for_each(|(_, ticket)| _ = engine.verdict(ticket));
    Ok(())
}

impl<'a> Run<'a> {
    fn new(
        machine: &'static Machine,
        engine: &'a dyn Engine,
        ready: &'a Ready,
        (operands, scalars): (&[Option<Place>], &'a [u64]),
        mut at: Progress,
    ) -> Run<'a> {
        let plan = &ready.plan;
        at.slots.resize(plan.buffers.len(), Slot::default());
        for (data, slot) in plan.buffers.values().zip(&mut at.slots) {
            if let Some(Some(place)) = data.input.map(|number| operands.get(number as usize)).filter(|_| !slot.done) {
                slot.memory = place.as_ref().map(|place| Arc::clone(&place.buffer));
            }
        }
        let gathers = engine.gathers();
        let memory = if gathers && !at.uneven { ready.memory.try_borrow_mut().ok() } else { None };
        let (kernels, parts, gather, hold) = (&ready.kernels[..], &ready.parts[..], Gather::default(), None);
        Run { machine, engine, plan, parts, kernels, scalars, at, gathers, gather, memory, hold }
    }

    /// Runs the steps of a part; with `nanos`, one after the other, for the time that each takes.
    fn part(&mut self, part: &Part, mut nanos: Option<&mut Vec<(usize, u64)>>) {
        let plan = self.plan;
        let mut number = part.steps.start;
        while number < part.steps.end {
            let step = &plan.steps[number];
            let started = (nanos.is_some() && !matches!(step, Step::Free(_))).then(Instant::now);
            let ran = self.steps(number, step);
            if let (Some(nanos), Some(started)) = (&mut nanos, started) {
                // What fails here is reported by whoever waits next.
                let _ = self.engine.synchronise();
                nanos.push((number, started.elapsed().as_nanos() as u64));
            }
            number += ran;
        }
        self.submit();
        self.at.parts += 1;
    }

    /// Runs a step, and a product's tail with it where the machine has use for that; gives how many steps that was.
    fn steps(&mut self, number: usize, step: &'a Step) -> usize {
        if let Step::Gemm(gemm) = step
            && let (Some(cut), Some(next)) = (gemm.tail, self.plan.steps.get(number + 1))
            && let Step::Launch { program, grid, args, checks, .. } = next
            && let Ok(kernel) = &self.kernels[*program]
            && self.engine.finishes()
            && !grid.contains(&0)
            && self.at.failures.is_empty()
        {
            let launch = (*grid, &args[..], &checks[..]);
            let done = catch_unwind(AssertUnwindSafe(|| self.product((gemm, cut), kernel, launch)));
            if let Err(message) = done.unwrap_or_else(|panic| Err(message_of(&*panic))) {
                let cause = self.fail(number + 1, message);
                [step, next].into_iter().for_each(|step| self.spoil(step, cause));
            }
            return 2;
        }
        self.step(number, step);
        1
    }

    /// Runs a product and its tail.
    fn product(
        &mut self,
        (gemm, cut): (&Gemm, Tail),
        kernel: &Kernel,
        (grid, args, checks): ([u32; 3], &[Arg], &[String]),
    ) -> Result<(), String> {
        let at = places(gemm, |buf| self.address(buf))?;
        self.gather.words.clear();
        self.bind(args)?;
        self.machine.counters.gemms.fetch_add(1, Relaxed);
        let launch = Launch { plan: self.plan, grid, args, params: &self.gather.words, checks: !checks.is_empty() };
        // SAFETY: the plan passes a word per parameter; its buffers hold all elements that the program accesses or the
        // product names, are aligned to 64 bytes, and belong to this run alone where they are written.
        let checked = unsafe { self.engine.finish((gemm, cut, at), &**kernel, &launch) };
        self.gather.words.clear();
        match checked? {
            Checked::Now(0) => Ok(()),
            Checked::Now(code) => Err(meaning(checks, code)),
            Checked::Later(_) => unreachable!("what is finished part by part is done when it returns"),
        }
    }

    fn step(&mut self, number: usize, step: &'a Step) {
        if let Step::Free(buf) = step {
            let slot = self.slot(*buf);
            slot.done = true;
            let freed = slot.memory.take();
            if self.gathers || self.hold.is_some() {
                self.gather.keep(freed);
            }
            return;
        }
        // Without failures nobody need look what a step touches.
        if !self.at.failures.is_empty()
            && let Some(cause) = touched(step).iter().find_map(|&b| self.at.slots[b.as_u32() as usize].failed)
        {
            return self.spoil(step, cause);
        }
        let done = catch_unwind(AssertUnwindSafe(|| match step {
            Step::Launch { program, grid, args, checks, .. } => self.launch(number, (*program, *grid), args, checks),
            Step::Gemm(gemm) => self.gemm(number, gemm),
            Step::Sort(sort) => self.sort(sort),
            Step::Free(_) => Ok(()),
        }));
        if let Err(message) = done.unwrap_or_else(|panic| Err(message_of(&*panic))) {
            let cause = self.fail(number, message);
            self.spoil(step, cause);
        }
    }

    /// Notes that a step failed; gives the failure's number.  What depends on it is left out, so that no part is what it was
    /// the other times.
    fn fail(&mut self, step: usize, message: String) -> usize {
        self.at.failures.push(Broken { step, message });
        (self.memory, self.at.uneven) = (None, true);
        self.at.failures.len() - 1
    }

    /// Marks what a step writes.
    fn spoil(&mut self, step: &Step, cause: usize) {
        for buf in written(self.plan, step) {
            self.slot(buf).failed.get_or_insert(cause);
        }
    }

    fn slot(&mut self, buf: Buf) -> &mut Slot {
        &mut self.at.slots[buf.as_u32() as usize]
    }

    /// The memory of a buffer, which is found at its first use.
    fn memory(&mut self, buf: Buf) -> Result<&Arc<Buffer>, String> {
        let at = buf.as_u32() as usize;
        if self.at.slots[at].memory.is_none() {
            let data = &self.plan.buffers[buf];
            let bytes =
                usize::try_from(data.len).ok().and_then(|n| n.checked_mul(data.dtype.bytes())).unwrap_or(usize::MAX);
            let mut inherited = data.takes.and_then(|old| self.slot(old).memory.take());
            if inherited.as_ref().is_some_and(|m| m.len() < bytes) {
                self.gather.keep(inherited.take());
            }
            let memory = match inherited.or_else(|| self.gather.reuse(bytes)) {
                Some(memory) => memory,
                None => self.allocate(bytes)?,
            };
            self.hold.iter_mut().for_each(|hold| hold.note(buf, &memory));
            self.at.slots[at].memory = Some(memory);
        }
        match &self.at.slots[at].memory {
            Some(memory) => Ok(memory),
            None => unreachable!("the memory was just found"),
        }
    }

    fn address(&mut self, buf: Buf) -> Result<u64, String> {
        self.memory(buf).map(|memory| memory.address().expose_provenance() as u64)
    }

    /// Memory from the pool.  What is kept for the rest of the plan goes back where that helps.
    fn allocate(&mut self, bytes: usize) -> Result<Arc<Buffer>, String> {
        match self.machine.pool.allocate(bytes) {
            Err(_) if !self.gather.asked.is_empty() => {
                (self.memory, self.at.uneven) = (None, true);
                self.submit();
                self.machine.pool.allocate(bytes)
            }
            Err(_) if self.hold.is_none() => {
                drop(self.gather.spare());
                self.machine.pool.allocate(bytes)
            }
            other => other,
        }
    }

    /// Asks for what was gathered.
    fn submit(&mut self) {
        let mut gather = std::mem::take(&mut self.gather);
        if !gather.asked.is_empty() {
            let memory = self.memory.as_deref_mut().map(|parts| {
                parts.resize_with(parts.len().max(self.at.parts + 1), || None);
                &mut parts[self.at.parts]
            });
            // SAFETY: each thing was gathered where it could have been asked for, and its memory was kept.
            match unsafe { self.engine.submit(&gather.asked, &gather.words, memory) } {
                Ok(open) => self.at.open.extend(open.into_iter().map(|(at, ticket)| (gather.steps[at], ticket))),
                Err((at, message)) => {
                    let (plan, cause) = (self.plan, self.fail(gather.steps[at], message));
                    gather.steps[at..].iter().for_each(|&number| self.spoil(&plan.steps[number], cause));
                }
            }
        }
        // What a graph names goes to nobody else, and serves the rest of its plan.
        let spare = if self.hold.is_some() { gather.spare() } else { Vec::new() };
        gather.clear();
        spare.into_iter().for_each(|memory| gather.keep(Some(memory)));
        self.gather = gather;
    }

    fn launch(
        &mut self,
        step: usize,
        (program, grid): (usize, [u32; 3]),
        args: &'a [Arg],
        checks: &[String],
    ) -> Result<(), String> {
        let kernel = self.kernels[program].as_ref().map_err(String::clone)?;
        if self.gathers {
            // Memory that is short has all work before asked for, and its words go: no words of this one may be there.
            args.iter()
                .try_for_each(|arg| if let Arg::Buffer(buf) = arg { self.memory(*buf).map(|_| ()) } else { Ok(()) })?;
        }
        let first = self.gather.words.len();
        self.bind(args)?;
        self.machine.counters.launches.fetch_add(1, Relaxed);
        if grid.contains(&0) {
            return Ok(());
        }
        let params = first..self.gather.words.len();
        let asked = Asked::Launch { kernel, plan: self.plan, grid, args, params, checks: !checks.is_empty() };
        self.ask(step, asked, checks)
    }

    /// Adds a launch's words to those that are gathered.
    fn bind(&mut self, args: &[Arg]) -> Result<(), String> {
        for arg in args {
            let word = match arg {
                Arg::Buffer(buf) => self.address(*buf)?,
                Arg::Slot(slot) => self.scalars[slot.as_u32() as usize],
                Arg::Literal(bits) => *bits,
            };
            self.gather.words.push(word);
        }
        Ok(())
    }

    /// Asks for the work of a step, or keeps it until a part of the plan is.
    fn ask(&mut self, step: usize, asked: Asked<'a>, checks: &[String]) -> Result<(), String> {
        if self.gathers {
            self.gather.push(step, asked);
            return Ok(());
        }
        // SAFETY: the plan passes a word per parameter; its buffers hold all elements that the program accesses or the
        // product names, are aligned to 64 bytes, and belong to this run alone where they are written.
        let checked = unsafe { gather::ask(self.engine, &asked, &self.gather.words) };
        self.gather.words.clear();
        match checked? {
            Checked::Now(0) => Ok(()),
            Checked::Now(code) => Err(meaning(checks, code)),
            Checked::Later(ticket) => {
                self.at.open.push((step, ticket));
                Ok(())
            }
        }
    }

    /// Bytes of a buffer's elements.
    fn length(&self, buf: Buf) -> usize {
        let data = &self.plan.buffers[buf];
        data.len as usize * data.dtype.bytes()
    }

    fn gemm(&mut self, step: usize, gemm: &'a Gemm) -> Result<(), String> {
        let at = places(gemm, |buf| self.address(buf))?;
        self.machine.counters.gemms.fetch_add(1, Relaxed);
        self.ask(step, Asked::Product { gemm, at }, &[])
    }

    fn sort(&mut self, sort: &Sort) -> Result<(), String> {
        self.submit();
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
            held: None,
            stayed: Vec::new(),
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
                        self.at.failures.push(Broken { step: plan.steps.len(), message: m });
                        self.at.failures.len() - 1
                    }),
            };
            outputs.push(place);
        }
        let mut held = self.hold;
        if let Some(hold) = &mut held {
            hold.keep(self.gather.spare());
            hold.keep(self.at.slots.drain(..).filter_map(|slot| slot.memory));
        }
        Outcome { outputs, failures: self.at.failures, open: self.at.open, nanos, held, stayed: Vec::new() }
    }
}

/// What it means that a check failed.
pub(super) fn meaning(checks: &[String], code: u32) -> String {
    checks.get(code as usize - 1).cloned().unwrap_or_else(|| format!("check {code} failed"))
}
