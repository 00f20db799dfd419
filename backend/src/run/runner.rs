//! Runs segments: finds or makes the plan, runs it, and gives every wanted value its place or its failure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use kiln_lowering::graph::{Graph, Node, Op};
use kiln_lowering::schedule::{Absorbs, Gemm, InputData, Options, Step};

use super::ahead::Beginnings;
use super::capture::Capture;
use super::engine::{Start, Ticket};
use super::execute::{self, Broken, Outcome, Progress};
use super::explain;
use super::failure::Failure;
use super::fate::Fate;
use super::flight::{Awaited, Flight, Flights, Source};
use super::graph::Graphs;
use super::kernels::{Effort, Kernels};
use super::machine::Machine;
use super::place::Place;
use super::plans::{Plans, Ready};
use super::profile::Windows;
use super::records::Records;
use super::stay::{Heir, heirs, keeps, stay};
use super::tune::Tried;
use crate::inspect::Segment;
use crate::knobs;
use crate::record::{OpMark, Work};

/// What the device's thread keeps between segments.
pub(super) struct Runner {
    pub(super) machine: &'static Machine,
    pub(super) kernels: Kernels,
    pub(super) plans: Plans,
    /// What was measured.
    pub(super) records: Records,
    pub(super) beginnings: Beginnings,
    pub(super) flights: Flights,
    pub(super) captures: Vec<Capture>,
    pub(super) graphs: Graphs,
    pub(super) windows: Windows,
}

impl Runner {
    /// An empty one.
    pub(super) fn new(machine: &'static Machine, start: Start) -> Runner {
        let (kernels, folder) = (Kernels::new(start()), knobs::get().cache_dir.as_deref());
        Runner {
            machine,
            records: Records::open(folder.filter(|_| kernels.engine.remembers()), &kernels.identity()),
            kernels,
            plans: Plans::default(),
            beginnings: Beginnings::new(machine),
            flights: Flights::default(),
            captures: Vec::new(),
            graphs: Graphs::default(),
            windows: Windows::default(),
        }
    }

    /// Waits until everything asked for so far is done, and says what became of it.
    ///
    /// # Errors
    ///
    /// If the device has stopped.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        let engine = &*self.kernels.engine;
        let done = engine.synchronise();
        self.flights.settle(self.machine, engine, true).and(done)
    }

    /// Runs a segment.  Whatever goes wrong ends in the values that depend on it.
    pub(super) fn run(&mut self, mut work: Work) {
        let watched = self.watch(&work);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            self.machine.counters.segments.fetch_add(1, Relaxed);
            // That the device has stopped is found again, and said, where this segment begins.
            let _ = self.flights.settle(self.machine, &*self.kernels.engine, false);
            let operands = self.bind(&mut work);
            self.spare_inputs(&mut work);
            if !work.outputs.is_empty() {
                self.compute(&mut work, &operands);
            }
        }));
        if let Err(panic) = ran {
            let message = message_of(&*panic);
            self.fail(&work, &message);
        }
        // Whatever was begun is done with now.
        self.beginnings.forget(work.segment, &*self.kernels.engine);
        self.watched(work.stream, watched);
    }

    fn compute(&mut self, work: &mut Work, operands: &[Option<Place>]) {
        let planned = catch_unwind(AssertUnwindSafe(|| self.plan(work, operands)));
        let (ready, effort) = match planned {
            Ok(found) => found,
            Err(panic) if work.graph.outputs.len() > 1 => {
                // One output that cannot be planned must not take the others along.
                let _ = panic;
                return (0..work.graph.outputs.len())
                    .for_each(|index| self.compute(&mut single(work, index), operands));
            }
            Err(panic) => return self.fail(work, &message_of(&*panic)),
        };
        let clock = self.windows.clock(work.stream);
        let keep = self.capture_of(work.stream).is_some();
        let engine = &*self.kernels.engine;
        let begun = self.beginnings.take(work, &ready, engine);
        let ahead = begun.as_ref().map_or(0, Progress::parts);
        self.machine.counters.ahead.fetch_add(ahead as u64, Relaxed);
        let mut outcome = execute::run(self.machine, engine, &ready, (operands, &work.scalars), (begun, keep));
        self.windows.add(work.stream, clock);
        if effort.is_none() && !keep {
            self.beginnings.learn(&work.beginnings, &ready);
        }
        let copies = stay(work, operands, &mut outcome);
        if let (Some(held), Some(capture)) = (outcome.held.take(), self.capture_of(work.stream)) {
            capture.add(work, (&ready, held, copies), operands);
        }
        self.report(work, &ready, effort);
        if !outcome.nanos.is_empty() {
            explain::run(ready.number, &outcome.nanos);
        }
        self.publish(work, ready, outcome, operands);
    }

    fn plan(&mut self, work: &Work, operands: &[Option<Place>]) -> (Rc<Ready>, Option<Effort>) {
        let heirs = heirs(work, operands);
        let (ready, effort) = self.plan_giving(work, operands, &heirs);
        if keeps(&ready.plan, work, &heirs) {
            return (ready, effort);
        }
        let (ready, other) = self.plan_giving(work, operands, &[]);
        (ready, other.or(effort))
    }

    /// Plans with memory of graphs given to those that stay there.
    fn plan_giving(&mut self, work: &Work, operands: &[Option<Place>], heirs: &[Heir]) -> (Rc<Ready>, Option<Effort>) {
        let given = |number| heirs.iter().any(|heir| heir.operand == number);
        let nodes = work.graph.nodes.values().filter(|n| matches!(n.op, Op::Input(_)));
        let inputs: Vec<InputData> = nodes
            .zip(operands.iter().zip(&work.operands).enumerate())
            .map(|(node, (number, (place, operand)))| match place {
                Some(place) => InputData {
                    layout: place.layout.clone(),
                    buffer_len: place.len / node.dtype.bytes() as u64,
                    donated: operand.dead && place.buffer.is_writable() || given(number),
                },
                // Nothing that is wanted depends on it.
                None => InputData {
                    layout: kiln_lowering::schedule::Layout::contiguous(&node.dims),
                    buffer_len: node.len(),
                    donated: false,
                },
            })
            .collect();
        let gemm_from = self.kernels.engine.gemm_from().filter(|_| !work.strict);
        let mut options = Options::new(work.fuse, gemm_from, self.kernels.engine.grain());
        options.choices = self.records.choices().clone();
        let graph = (work.hash, &work.graph);
        let (mut ready, mut effort) = self.plans.get(&mut self.kernels, graph, &inputs, &options);
        if let Some(effort) = &mut effort
            && let Some(tried) =
                self.tune(Tried { work, operands, inputs: &inputs, options: &options }, &ready.plan.decided)
        {
            options.choices = self.records.choices().clone();
            let (tuned, more) = self.plans.get(&mut self.kernels, graph, &inputs, &options);
            ready = tuned;
            *effort += tried;
            *effort += more.unwrap_or_default();
        }
        if let Some(effort) = effort.filter(|_| explain::wanted()) {
            let absorbs = &|gemm: &Gemm| self.kernels.engine.absorbs(gemm);
            let (program, options) = ((&work.graph, &work.ops[..]), (&options, absorbs as Absorbs<'_>));
            explain::plan(ready.number, program, &inputs, options, &ready.plan, effort);
        }
        (ready, effort)
    }

    /// The places of the operands.  Values that depend on a failed operand fail with it and are no longer outputs.
    fn bind(&self, work: &mut Work) -> Vec<Option<Place>> {
        let places: Vec<Result<Place, Failure>> = work
            .operands
            .iter()
            .map(|operand| match operand.value.place.get() {
                Some(Ok(place)) => match place.fates().iter().find_map(|f| f.known().flatten().cloned()) {
                    Some(failure) => Err(failure),
                    None => Ok(place.clone()),
                },
                Some(Err(failure)) => Err(failure.clone()),
                None => Err(Failure::new(work.stream, "an operand was never computed".into())),
            })
            .collect();
        for (number, value) in work.aliases.drain(..) {
            if let Ok(place) = &places[number] {
                place.buffer.shared.store(true, Relaxed);
            }
            value.settle(places[number].clone());
        }
        if places.iter().any(Result::is_err) {
            spread(work, &places);
        }
        places.into_iter().map(Result::ok).collect()
    }

    /// Gives every wanted value its place or its failure.
    fn publish(&mut self, work: &mut Work, ready: Rc<Ready>, outcome: Outcome, operands: &[Option<Place>]) {
        let Outcome { mut outputs, failures, open, stayed, .. } = outcome;
        // An operation that changes nothing gives a value of its own for the same node.
        let mut values = vec![0; outputs.len()];
        work.outputs.iter().for_each(|(index, _)| values[*index] += 1);
        for (index, place) in outputs.iter().enumerate() {
            let Ok(place) = place else { continue };
            let of_operand = |p: &Place| Arc::ptr_eq(&p.buffer, &place.buffer);
            let kept = operands.iter().zip(&work.operands).any(|(p, o)| !o.dead && p.as_ref().is_some_and(of_operand));
            let twice = outputs[..index].iter().flatten().any(of_operand);
            if kept || twice || values[index] > 1 {
                place.buffer.shared.store(true, Relaxed);
            }
        }
        let failures: Vec<Failure> = failures
            .iter()
            .enumerate()
            .map(|(number, broken)| {
                let hit: Vec<usize> =
                    (0..outputs.len()).filter(|&i| outputs[i].as_ref().err() == Some(&number)).collect();
                self.failure(work, describe((&work.graph, &work.ops), &hit, rows(&ready, broken), &broken.message))
            })
            .collect();
        self.follow(work, ready, &mut outputs, open, operands);
        for (number, (index, value)) in work.outputs.iter().enumerate() {
            let stayed = stayed.iter().find(|(stayed, _)| *stayed == number);
            value.settle(match &outputs[*index] {
                Ok(place) => Ok(stayed.map_or(place, |(_, stayed)| stayed).clone().with_fate(place)),
                Err(cause) => Err(failures[*cause].clone()),
            });
        }
    }

    /// Marks what the device has been asked for, and remembers which outputs wait for its checks.
    fn follow(
        &mut self,
        work: &mut Work,
        ready: Rc<Ready>,
        outputs: &mut [Result<Place, usize>],
        open: Vec<(usize, Ticket)>,
        operands: &[Option<Place>],
    ) {
        // A device that has stopped says so to whoever reads.
        let Ok(Some(mark)) = self.kernels.engine.mark() else {
            return open.into_iter().for_each(|(_, ticket)| _ = self.kernels.engine.verdict(ticket));
        };
        let waiting = |place: &Option<Place>| {
            place.iter().flat_map(Place::fates).filter(|fate| fate.known().is_none()).collect::<Vec<_>>()
        };
        let parents: Vec<(usize, Arc<Fate>)> = operands
            .iter()
            .enumerate()
            .flat_map(|(n, place)| waiting(place).into_iter().map(move |fate| (n, fate)))
            .collect();
        if open.is_empty() && parents.is_empty() {
            return;
        }
        let mut awaited = Vec::new();
        for ((output, place), sources) in outputs.iter_mut().enumerate().zip(ready.sources()) {
            let Ok(place) = place else { continue };
            let of_operands = parents.iter().filter(|(n, _)| sources.operands.contains(*n));
            let parents: Vec<Arc<Fate>> = of_operands.map(|(_, fate)| Arc::clone(fate)).collect();
            if !parents.is_empty() || open.iter().any(|(step, _)| sources.checks.contains(*step)) {
                let fate = Arc::new(Fate::default());
                place.fate = Some(Arc::clone(&fate));
                awaited.push(Awaited { output: Some(output), fate, parents });
            }
        }
        let source = Rc::new(Source { graph: std::mem::take(&mut work.graph), ops: std::mem::take(&mut work.ops) });
        self.flights.push(Flight { mark, stream: work.stream, source, ready, open, awaited });
    }

    fn failure(&self, work: &Work, message: String) -> Failure {
        self.machine.failure(work.stream, message)
    }

    /// Fails every value that is not there yet.
    fn fail(&self, work: &Work, message: &str) {
        let failure = self.failure(work, describe((&work.graph, &work.ops), &[0], None, message));
        for (_, value) in work.outputs.iter().chain(&work.aliases) {
            value.settle(Err(failure.clone()));
        }
    }

    fn report(&self, work: &Work, ready: &Ready, effort: Option<Effort>) {
        let counters = &self.machine.counters;
        if let Some(effort) = effort {
            counters.planned.fetch_add(1, Relaxed);
            counters.compiled.fetch_add(effort.compiled, Relaxed);
            counters.cache_hits.fetch_add(effort.cache_hits, Relaxed);
            counters.compile_nanos.fetch_add(effort.nanos, Relaxed);
        }
        let made = effort.unwrap_or_default();
        self.machine.log(Segment {
            stream: work.stream,
            ops: work.ops.iter().map(|mark| mark.name).collect(),
            shape: Arc::clone(&ready.shape),
            plan_known: effort.is_none(),
            compiled: made.compiled,
            cache_hits: made.cache_hits,
            compile_time: std::time::Duration::from_nanos(made.nanos),
        });
    }
}

/// The same work for one output alone.
fn single(work: &Work, index: usize) -> Work {
    let mut graph = work.graph.clone();
    let node = graph.outputs[index];
    graph.outputs = vec![node];
    Work {
        stream: work.stream,
        segment: 0,
        beginnings: Vec::new(),
        hash: work.hash.rotate_left(23) ^ u64::from(node.as_u32()),
        graph,
        scalars: work.scalars.clone(),
        operands: work
            .operands
            .iter()
            .map(|o| crate::record::Operand { value: Arc::clone(&o.value), dead: false })
            .collect(),
        outputs: work.outputs.iter().filter(|(i, _)| *i == index).map(|(_, v)| (0, Arc::clone(v))).collect(),
        aliases: Vec::new(),
        ops: work.ops.clone(),
        fuse: work.fuse,
        strict: work.strict,
        draws: work.draws.clone(),
    }
}

/// Fails what depends on a failed operand, and takes it out of the graph's outputs.
fn spread(work: &mut Work, places: &[Result<Place, Failure>]) {
    let mut failed: Vec<Option<Failure>> = Vec::with_capacity(work.graph.nodes.len());
    for node in work.graph.nodes.values() {
        let own = match node.op {
            Op::Input(number) => places[number as usize].as_ref().err().cloned(),
            _ => node.args.iter().find_map(|a| failed[a.as_u32() as usize].clone()),
        };
        failed.push(own);
    }
    let old = std::mem::take(&mut work.graph.outputs);
    let mut kept: Vec<Option<usize>> = Vec::new();
    for &node in &old {
        kept.push(failed[node.as_u32() as usize].is_none().then(|| {
            work.graph.outputs.push(node);
            work.graph.outputs.len() - 1
        }));
    }
    work.outputs.retain_mut(|(index, value)| match kept[*index] {
        Some(new) => {
            *index = new;
            true
        }
        None => {
            if let Some(failure) = failed[old[*index].as_u32() as usize].clone() {
                value.settle(Err(failure));
            }
            false
        }
    });
    // Another program than the one that was hashed.
    work.hash = work
        .graph
        .outputs
        .iter()
        .fold(work.hash.rotate_left(17), |h, n| (h ^ u64::from(n.as_u32())).wrapping_mul(0x100_0000_01b3));
}

/// The operation that a node belongs to.
fn op_of(ops: &[OpMark], node: Node) -> &'static str {
    let after = ops.partition_point(|mark| mark.first <= node.as_u32());
    after.checked_sub(1).map_or("?", |i| ops[i].name)
}

/// The rows of a step that failed.
pub(super) fn rows(ready: &Ready, broken: &Broken) -> Option<Vec<&'static str>> {
    match ready.plan.steps.get(broken.step)? {
        Step::Launch { rows, .. } => Some(rows.clone()),
        Step::Gemm(_) => Some(vec!["contract"]),
        Step::Sort(_) => Some(vec!["sort"]),
        Step::Free(_) => None,
    }
}

/// A failure's message: the operation and its shapes.  What failed is the operation whose row the step ran and on which
/// the spoilt outputs depend; where several could be meant, the first recorded one.
pub(super) fn describe(
    (graph, ops): (&Graph, &[OpMark]),
    spoilt: &[usize],
    rows: Option<Vec<&'static str>>,
    message: &str,
) -> String {
    let nodes = &graph.nodes;
    let mut needed = vec![false; nodes.len()];
    let spoilt: Vec<Node> = spoilt.iter().filter_map(|&i| graph.outputs.get(i).copied()).collect();
    for node in &spoilt {
        needed[node.as_u32() as usize] = true;
    }
    for node in nodes.keys().rev() {
        if needed[node.as_u32() as usize] {
            nodes[node].args.iter().for_each(|a| needed[a.as_u32() as usize] = true);
        }
    }
    let is_indexed = |node: &Node| matches!(nodes[*node].op, Op::Gather(..) | Op::Scatter(..));
    let indexing = rows.as_ref().is_some_and(|r| r.iter().any(|n| n.contains("gather") || n.contains("scatter")));
    let guess = nodes.keys().filter(|n| needed[n.as_u32() as usize]).find(|n| indexing && is_indexed(n));
    let Some(node) = guess.or_else(|| spoilt.first().copied()) else { return message.into() };
    let shape = |n: Node| format!("{:?} {}", nodes[n].dims.as_slice(), nodes[n].dtype);
    let args: Vec<String> = nodes[node].args.iter().map(|&a| shape(a)).collect();
    let from = if args.is_empty() { String::new() } else { format!(" from {}", args.join(", ")) };
    format!("`{}` giving {}{from}: {message}", op_of(ops, node), shape(node))
}

/// What a panic said.
pub(super) fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a bug in Kiln: panic without a message".into())
}
