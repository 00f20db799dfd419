//! Runs segments: finds or makes the plan, runs it, and gives every wanted value its place or its failure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use kiln_lowering::graph::{Node, Op};
use kiln_lowering::schedule::{Grain, InputData, Options, Step};

use super::execute::{self, Broken, Outcome};
use super::explain;
use super::failure::Failure;
use super::kernels::{Effort, Engine, Kernels};
use super::machine::Machine;
use super::place::Place;
use super::plans::{Plans, Ready};
use crate::inspect::Segment;
use crate::knobs;
use crate::record::Work;

/// Products of at least this many multiplications go to the BLAS.  Measured on an AVX-512 machine, alone: 8×8×8 takes
/// 2.3 µs there against 3.4 µs as a kernel, 16×16×16 2.2 against 4.8, 32×32×32 2.7 against 24.  Below the threshold a
/// product may share a kernel with its neighbours, which saves more than that.
const GEMM_FROM: u64 = 16 * 16 * 16;

/// What the device's thread keeps between segments.
pub(super) struct Runner {
    machine: &'static Machine,
    kernels: Kernels,
    plans: Plans,
}

impl Runner {
    /// An empty one.
    pub(super) fn new(machine: &'static Machine) -> Runner {
        Runner { machine, kernels: Kernels::new(machine.device), plans: Plans::default() }
    }

    /// Runs a segment.  Whatever goes wrong ends in the values that depend on it.
    pub(super) fn run(&mut self, mut work: Work) {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            self.machine.counters.segments.fetch_add(1, Relaxed);
            let operands = self.bind(&mut work);
            if !work.outputs.is_empty() {
                self.compute(&work, &operands);
            }
        }));
        if let Err(panic) = ran {
            let message = message_of(&*panic);
            self.fail(&work, &message);
        }
    }

    fn compute(&mut self, work: &Work, operands: &[Option<Place>]) {
        let planned = catch_unwind(AssertUnwindSafe(|| self.plan(work, operands)));
        let (ready, effort) = match planned {
            Ok(found) => found,
            Err(panic) if work.graph.outputs.len() > 1 => {
                // One output that cannot be planned must not take the others along.
                let _ = panic;
                return (0..work.graph.outputs.len()).for_each(|index| self.compute(&single(work, index), operands));
            }
            Err(panic) => return self.fail(work, &message_of(&*panic)),
        };
        let outcome =
            execute::run(self.machine, &self.kernels.engine, (&ready.plan, &ready.kernels), operands, &work.scalars);
        self.report(work, &ready, effort);
        if !outcome.nanos.is_empty() {
            explain::run(ready.number, &outcome.nanos);
        }
        self.publish(work, &ready, outcome, operands);
    }

    fn plan(&mut self, work: &Work, operands: &[Option<Place>]) -> (std::rc::Rc<Ready>, Option<Effort>) {
        let nodes = work.graph.nodes.values().filter(|n| matches!(n.op, Op::Input(_)));
        let inputs: Vec<InputData> = nodes
            .zip(operands.iter().zip(&work.operands))
            .map(|(node, (place, operand))| match place {
                Some(place) => InputData {
                    layout: place.layout.clone(),
                    buffer_len: place.len / node.dtype.bytes() as u64,
                    donated: operand.dead && place.buffer.is_writable(),
                },
                // Nothing that is wanted depends on it.
                None => InputData {
                    layout: kiln_lowering::schedule::Layout::contiguous(&node.dims),
                    buffer_len: node.len(),
                    donated: false,
                },
            })
            .collect();
        let knobs = knobs::get();
        let options = Options {
            fuse: work.fuse,
            gemm_from: (!work.strict).then_some(GEMM_FROM),
            grain: Grain::of_vectors(match self.kernels.engine {
                Engine::Host { .. } => knobs.threads as u32 * 8,
                Engine::Interp => 8,
            }),
        };
        let (ready, effort) = self.plans.get(&mut self.kernels, (work.hash, &work.graph), &inputs, &options);
        if let Some(effort) = effort.filter(|_| explain::wanted()) {
            explain::plan(ready.number, (&work.graph, &work.ops), &inputs, &options, &ready.plan, effort);
        }
        (ready, effort)
    }

    /// The places of the operands.  Values that depend on a failed operand fail with it and are no longer outputs.
    fn bind(&self, work: &mut Work) -> Vec<Option<Place>> {
        let places: Vec<Result<Place, Failure>> = work
            .operands
            .iter()
            .map(|operand| match operand.value.place.get() {
                Some(place) => place.clone(),
                None => Err(Failure::new(work.stream, "an operand was never computed".into())),
            })
            .collect();
        for (number, value) in work.aliases.drain(..) {
            if let Ok(place) = &places[number] {
                place.buffer.shared.store(true, Relaxed);
            }
            let _ = value.place.set(places[number].clone());
        }
        if places.iter().any(Result::is_err) {
            spread(work, &places);
        }
        places.into_iter().map(Result::ok).collect()
    }

    /// Gives every wanted value its place or its failure.
    fn publish(&self, work: &Work, ready: &Ready, outcome: Outcome, operands: &[Option<Place>]) {
        let Outcome { outputs, failures, .. } = outcome;
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
                self.failure(work, describe(work, &hit, rows(ready, broken), &broken.message))
            })
            .collect();
        for (index, value) in &work.outputs {
            let _ = value.place.set(match &outputs[*index] {
                Ok(place) => Ok(place.clone()),
                Err(cause) => Err(failures[*cause].clone()),
            });
        }
    }

    fn failure(&self, work: &Work, message: String) -> Failure {
        let failure = Failure::new(work.stream, message);
        self.machine.keep(&failure);
        failure
    }

    /// Fails every value that is not there yet.
    fn fail(&self, work: &Work, message: &str) {
        let failure = self.failure(work, describe(work, &[0], None, message));
        for (_, value) in work.outputs.iter().chain(&work.aliases) {
            let _ = value.place.set(Err(failure.clone()));
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
                let _ = value.place.set(Err(failure));
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
fn op_of(work: &Work, node: Node) -> &'static str {
    let after = work.ops.partition_point(|mark| mark.first <= node.as_u32());
    after.checked_sub(1).map_or("?", |i| work.ops[i].name)
}

/// The rows of a step that failed.
fn rows(ready: &Ready, broken: &Broken) -> Option<Vec<&'static str>> {
    match ready.plan.steps.get(broken.step)? {
        Step::Launch { rows, .. } => Some(rows.clone()),
        Step::Gemm(_) => Some(vec!["contract"]),
        Step::Sort(_) => Some(vec!["sort"]),
        Step::Free(_) => None,
    }
}

/// A failure's message: the operation and its shapes.  What failed is the operation whose row the step ran and on which
/// the spoilt outputs depend; where several could be meant, the first recorded one.
fn describe(work: &Work, spoilt: &[usize], rows: Option<Vec<&'static str>>, message: &str) -> String {
    let nodes = &work.graph.nodes;
    let mut needed = vec![false; nodes.len()];
    let spoilt: Vec<Node> = spoilt.iter().filter_map(|&i| work.graph.outputs.get(i).copied()).collect();
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
    format!("`{}` giving {}{from}: {message}", op_of(work, node), shape(node))
}

/// What a panic said.
pub(super) fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a bug in Kiln: panic without a message".into())
}
