//! Runs segments: finds or makes the plan, runs it, and gives every wanted value its place or its failure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;

use kiln_lowering::graph::{Node, Op};

use super::failure::Failure;
use super::machine::Machine;
use super::oracle;
use super::place::Place;
use crate::record::Work;

/// What the device's thread keeps between segments.
pub(super) struct Runner {
    machine: &'static Machine,
}

impl Runner {
    /// An empty one.
    pub(super) fn new(machine: &'static Machine) -> Runner {
        Runner { machine }
    }

    /// Runs a segment.  Whatever goes wrong ends in the values that depend on it.
    pub(super) fn run(&mut self, mut work: Work) {
        self.machine.counters.segments.fetch_add(1, Relaxed);
        let operands = self.bind(&mut work);
        if work.outputs.is_empty() {
            return;
        }
        let ran = catch_unwind(AssertUnwindSafe(|| {
            oracle::run(&self.machine.pool, &work, &operands)
        }));
        let places = ran.unwrap_or_else(|panic| Err(message_of(&*panic)));
        let places = places.map_err(|message| {
            let failure = Failure::new(work.stream, describe(&work, &message));
            self.machine.keep(&failure);
            failure
        });
        for (index, value) in &work.outputs {
            let _ = value.place.set(match &places {
                Ok(places) => Ok(places[*index].clone()),
                Err(failure) => Err(failure.clone()),
            });
        }
    }

    /// The places of the operands.  Values that depend on a failed operand fail with it and are no longer outputs.
    fn bind(&self, work: &mut Work) -> Vec<Option<Place>> {
        let places: Vec<Result<Place, Failure>> = work
            .operands
            .iter()
            .map(|operand| match operand.value.place.get() {
                Some(place) => place.clone(),
                None => Err(Failure::new(
                    work.stream,
                    "an operand was never computed".into(),
                )),
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
}

/// Fails what depends on a failed operand, and takes it out of the graph's outputs.
fn spread(work: &mut Work, places: &[Result<Place, Failure>]) {
    let mut failed: Vec<Option<Failure>> = Vec::with_capacity(work.graph.nodes.len());
    for node in work.graph.nodes.values() {
        let own = match node.op {
            Op::Input(number) => places[number as usize].as_ref().err().cloned(),
            _ => node
                .args
                .iter()
                .find_map(|a| failed[a.as_u32() as usize].clone()),
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
    work.outputs
        .retain_mut(|(index, value)| match kept[*index] {
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
    work.hash = work.hash.rotate_left(17)
        ^ work
            .graph
            .outputs
            .iter()
            .fold(1, |h, n| h * 31 + u64::from(n.as_u32()));
}

/// The operation that a node belongs to.
fn op_of(work: &Work, node: Node) -> &'static str {
    let after = work.ops.partition_point(|mark| mark.first <= node.as_u32());
    after.checked_sub(1).map_or("?", |i| work.ops[i].name)
}

/// A failure's message: the operation and its shapes.
fn describe(work: &Work, message: &str) -> String {
    match work.graph.outputs.first() {
        Some(&node) => {
            let data = &work.graph.nodes[node];
            format!(
                "`{}` giving {:?} {}: {message}",
                op_of(work, node),
                data.dims.as_slice(),
                data.dtype
            )
        }
        None => message.to_string(),
    }
}

/// What a panic said.
fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a bug in Kiln: panic without a message".into())
}
