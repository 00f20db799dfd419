//! Runs a graph again: the steps of its plans, on the memory that they ran on before.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use kiln_lowering::schedule::{Arg, Gemm, Sort, Step};

use super::capture::Kept;
use super::engine::{At, Checked, Engine, Launch, Memory, Ticket, places};
use super::execute::{Broken, meaning};
use super::failure::Failure;
use super::fate::Fate;
use super::flight::{Awaited, Flight};
use super::gather::{self, Asked};
use super::graph::{Graph, Stale};
use super::machine::{Counters, Machine};
use super::memory::Buffer;
use super::runner::{Runner, describe, message_of, rows};
use super::stay::Copy;
use crate::record::graph::Replay;

/// A step that failed, with the number of its plan.
type Fault = (usize, Broken);

/// Steps whose checks answer later, with the numbers of their plans.
type Open = Vec<(usize, usize, Ticket)>;

struct Again<'a> {
    engine: &'a dyn Engine,
    counters: &'a Counters,
    parts: &'a mut Vec<Memory>,
    /// Parts that were asked for.
    sent: usize,
    /// Numbers of plan and step of what is gathered.
    steps: Vec<(usize, usize)>,
    asked: Vec<Asked<'a>>,
    words: Vec<u64>,
    open: Open,
}

impl Runner {
    /// Runs a graph again.  What goes wrong is told to whoever reads what the graph writes.
    pub(super) fn replay(&mut self, replay: Replay) {
        let engine = &*self.kernels.engine;
        // That the device has stopped is found again, and said, where the replay begins.
        let _ = self.flights.settle(self.machine, engine, false);
        let Some(graph) = self.graphs.list.get_mut(&replay.number) else { return };
        let machine = self.machine;
        let parents = match graph.refresh(machine, &replay) {
            Ok(parents) => parents,
            Err(Stale::Failed(failure)) => return graph.fail(failure),
            Err(Stale::Stuck(why)) => {
                return graph.fail(machine.failure(replay.stream, format!("the replay of a graph: {why}")));
            }
        };
        let clock = self.windows.clock(replay.stream);
        let ran = catch_unwind(AssertUnwindSafe(|| run(machine, engine, graph)));
        self.windows.add(replay.stream, clock);
        let ran = ran.unwrap_or_else(|panic| Err((0, Broken { step: usize::MAX, message: message_of(&*panic) })));
        match ran {
            Ok(open) => self.expect(&replay, open, parents),
            Err((plan, broken)) => graph.fail(machine.failure(replay.stream, told(&graph.plans[plan], &broken))),
        }
    }

    /// Marks what the device has been asked for, and remembers what the results of the replay wait for.
    fn expect(&mut self, replay: &Replay, open: Open, parents: Vec<Arc<Fate>>) {
        let Some(graph) = self.graphs.list.get_mut(&replay.number) else { return };
        // A device that has stopped says so to whoever reads.
        let Ok(Some(mark)) = self.kernels.engine.mark() else {
            open.into_iter().for_each(|(_, _, ticket)| _ = self.kernels.engine.verdict(ticket));
            return graph.renewal.renew(None);
        };
        let (mut parents, mut last) = (parents, None);
        for (number, kept) in graph.plans.iter().enumerate() {
            let own = open.iter().filter(|(plan, ..)| *plan == number);
            let own: Vec<(usize, Ticket)> = own.map(|(_, step, ticket)| (*step, *ticket)).collect();
            if own.is_empty() && parents.is_empty() {
                continue;
            }
            let fate = Arc::new(Fate::default());
            let awaited =
                vec![Awaited { output: None, fate: Arc::clone(&fate), parents: std::mem::take(&mut parents) }];
            let (source, ready) = (Rc::clone(&kept.source), Rc::clone(&kept.ready));
            self.flights.push(Flight { mark, stream: replay.stream, source, ready, open: own, awaited });
            // All results depend on all plans: the last fate is that of the whole.
            last = Some(Arc::clone(&fate));
            parents.push(fate);
        }
        graph.renewal.renew(last);
    }

    /// Lets go of a graph.
    pub(super) fn forget(&mut self, number: u64) {
        self.graphs.list.remove(&number);
    }
}

impl Graph {
    /// Fails what it writes.
    fn fail(&self, failure: Failure) {
        let fate = Fate::default();
        fate.settle(Some(failure));
        self.renewal.renew(Some(Arc::new(fate)));
    }
}

/// What failed, in the program's words.
fn told(kept: &Kept, broken: &Broken) -> String {
    let sources = kept.ready.sources().iter().enumerate();
    let mut hit: Vec<usize> = sources.filter(|(_, s)| s.checks.contains(broken.step)).map(|(at, _)| at).collect();
    if hit.is_empty() {
        hit.push(0);
    }
    describe((&kept.source.graph, &kept.source.ops), &hit, rows(&kept.ready, broken), &broken.message)
}

/// Runs all plans; stops at the first step that fails.
fn run(machine: &Machine, engine: &dyn Engine, graph: &mut Graph) -> Result<Open, Fault> {
    engine.begin().map_err(|message| (0, Broken { step: usize::MAX, message }))?;
    let Graph { plans, parts, .. } = graph;
    let (steps, asked, words, open) = Default::default();
    let mut again = Again { engine, counters: &machine.counters, parts, sent: 0, steps, asked, words, open };
    for (plan, kept) in plans.iter().enumerate() {
        let mut number = 0;
        while let Some(step) = kept.ready.plan.steps.get(number) {
            let ran = again.step((plan, number), kept, step);
            number += ran.map_err(|message| (plan, Broken { step: number, message }))?;
        }
        if !kept.copies.is_empty() {
            again.submit()?;
            let copied = kept.copies.iter().try_for_each(Copy::run);
            copied.map_err(|message| (plan, Broken { step: usize::MAX, message }))?;
        }
    }
    again.submit()?;
    Ok(again.open)
}

impl<'a> Again<'a> {
    /// Runs a step, or gathers it; gives how many steps that was.
    fn step(&mut self, at: (usize, usize), kept: &'a Kept, step: &'a Step) -> Result<usize, String> {
        match step {
            Step::Launch { grid, args, .. } => {
                self.counters.launches.fetch_add(1, Relaxed);
                if !grid.contains(&0) {
                    let asked = self.launch(kept, step, args)?;
                    self.ask(at, kept, asked)?;
                }
            }
            Step::Gemm(gemm) => {
                self.counters.gemms.fetch_add(1, Relaxed);
                let places = kept.places(gemm)?;
                if let Some(next) = kept.tail(gemm, at.1 + 1).filter(|_| self.engine.finishes()) {
                    return self.finish(kept, (gemm, places), next).map(|()| 2);
                }
                self.ask(at, kept, Asked::Product { gemm, at: places })?;
            }
            Step::Sort(sort) => self.sort(kept, sort)?,
            Step::Free(_) => {}
        }
        Ok(1)
    }

    /// A launch with its words.
    fn launch(&mut self, kept: &'a Kept, step: &'a Step, args: &'a [Arg]) -> Result<Asked<'a>, String> {
        let Step::Launch { program, grid, checks, .. } = step else { unreachable!("a launch was asked for") };
        let kernel = kept.ready.kernels[*program].as_ref().map_err(String::clone)?;
        let first = self.words.len();
        for arg in args {
            self.words.push(match arg {
                Arg::Buffer(buf) => kept.memory(buf.as_u32())?.address().expose_provenance() as u64,
                Arg::Slot(slot) => kept.scalars[slot.as_u32() as usize],
                Arg::Literal(bits) => *bits,
            });
        }
        let params = first..self.words.len();
        Ok(Asked::Launch { kernel, plan: &kept.ready.plan, grid: *grid, args, params, checks: !checks.is_empty() })
    }

    /// Asks for something, or gathers it.
    fn ask(&mut self, at: (usize, usize), kept: &Kept, asked: Asked<'a>) -> Result<(), String> {
        if self.engine.gathers() {
            self.steps.push(at);
            self.asked.push(asked);
            return Ok(());
        }
        // SAFETY: the plan ran with these words; its memory was kept, and nobody else writes it.
        let checked = unsafe { gather::ask(self.engine, &asked, &self.words) };
        self.words.clear();
        match checked? {
            Checked::Now(0) => Ok(()),
            Checked::Now(code) => Err(kept.meaning(at.1, code)),
            Checked::Later(ticket) => {
                self.open.push((at.0, at.1, ticket));
                Ok(())
            }
        }
    }

    /// Runs a product and its tail.
    fn finish(
        &mut self,
        kept: &'a Kept,
        (gemm, places): (&Gemm, At),
        (number, next, args): (usize, &'a Step, &'a [Arg]),
    ) -> Result<(), String> {
        self.counters.launches.fetch_add(1, Relaxed);
        let Asked::Launch { kernel, plan, grid, params, checks, .. } = self.launch(kept, next, args)? else {
            unreachable!("a launch was asked for")
        };
        let Some(cut) = gemm.tail else { unreachable!("the product has a tail") };
        let launch = Launch { plan, grid, args, params: &self.words[params], checks };
        // SAFETY: as in `ask`.
        let checked = unsafe { self.engine.finish((gemm, cut, places), &**kernel, &launch) };
        self.words.clear();
        match checked? {
            Checked::Now(0) => Ok(()),
            Checked::Now(code) => Err(kept.meaning(number, code)),
            Checked::Later(_) => unreachable!("what is finished part by part is done when it returns"),
        }
    }

    fn sort(&mut self, kept: &Kept, sort: &Sort) -> Result<(), String> {
        self.submit().map_err(|(_, broken)| broken.message)?;
        let [input, output] = [sort.input, sort.output].map(|buf| kept.memory(buf.as_u32()));
        // SAFETY: as in `ask`.
        unsafe { self.engine.sort(sort, input?, output?) }
    }

    /// Asks for what was gathered.
    fn submit(&mut self) -> Result<(), Fault> {
        if self.asked.is_empty() {
            return Ok(());
        }
        if self.parts.len() <= self.sent {
            self.parts.push(self.engine.expect());
        }
        // SAFETY: as in `ask`.
        let sent = unsafe { self.engine.submit(&self.asked, &self.words, Some(&mut self.parts[self.sent])) };
        let steps = std::mem::take(&mut self.steps);
        self.asked.clear();
        self.words.clear();
        self.sent += 1;
        match sent {
            Ok(open) => self.open.extend(open.into_iter().map(|(at, ticket)| (steps[at].0, steps[at].1, ticket))),
            Err((at, message)) => return Err((steps[at].0, Broken { step: steps[at].1, message })),
        }
        Ok(())
    }
}

impl Kept {
    fn memory(&self, buf: u32) -> Result<&Arc<Buffer>, String> {
        self.bound[buf as usize].as_ref().ok_or_else(|| format!("buffer {buf} of a captured plan has no memory"))
    }

    fn places(&self, gemm: &Gemm) -> Result<At, String> {
        places(gemm, |buf| self.memory(buf.as_u32()).map(|m| m.address().expose_provenance() as u64))
    }

    /// The launch that finishes a product, if that is step `number`.
    fn tail(&self, gemm: &Gemm, number: usize) -> Option<(usize, &Step, &[Arg])> {
        let next = self.ready.plan.steps.get(number).filter(|_| gemm.tail.is_some())?;
        match next {
            Step::Launch { grid, args, .. } if !grid.contains(&0) => Some((number, next, args)),
            _ => None,
        }
    }

    /// What it means that a check of a step failed.
    fn meaning(&self, step: usize, code: u32) -> String {
        match &self.ready.plan.steps[step] {
            Step::Launch { checks, .. } => meaning(checks, code),
            _ => format!("check {code} failed"),
        }
    }
}
