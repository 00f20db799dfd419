//! Segments that a device was asked for and has not come past: which of their values wait for checks, and what is needed
//! to say what failed.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use kiln_lowering::graph::Graph;
use kiln_lowering::schedule::Step;

use super::engine::{Engine, Mark, Ticket};
use super::execute::{Broken, meaning};
use super::failure::Failure;
use super::fate::Fate;
use super::machine::Machine;
use super::plans::Ready;
use super::runner::{describe, rows};
use crate::record::OpMark;

/// What was recorded, for saying what failed.
pub(super) struct Source {
    pub(super) graph: Graph,
    pub(super) ops: Vec<OpMark>,
}

/// A segment that the device is at.
pub(super) struct Flight {
    pub(super) mark: Mark,
    pub(super) stream: u64,
    pub(super) source: Rc<Source>,
    pub(super) ready: Rc<Ready>,
    /// Steps whose checks answer later.
    pub(super) open: Vec<(usize, Ticket)>,
    pub(super) awaited: Vec<Awaited>,
}

/// An output that depends on checks; or all of them, which depend on every check.
pub(super) struct Awaited {
    pub(super) output: Option<usize>,
    pub(super) fate: Arc<Fate>,
    /// Those of operands that it is computed from.
    pub(super) parents: Vec<Arc<Fate>>,
}

/// Segments in the order in which they were asked for.
#[derive(Default)]
pub(super) struct Flights(VecDeque<Flight>);

impl Flights {
    /// Adds the latest.
    pub(super) fn push(&mut self, flight: Flight) {
        self.0.push_back(flight);
    }

    /// Says of all values that the device has come past what became of them; with `wait`, of all there are.
    ///
    /// # Errors
    ///
    /// If the device has stopped: then no value is to be had any more.
    pub(super) fn settle(&mut self, machine: &Machine, engine: &dyn Engine, wait: bool) -> Result<(), String> {
        while let Some(flight) = self.0.front() {
            let reached = engine.reach(flight.mark, wait);
            if let Ok(false) = reached {
                return Ok(());
            }
            if let Some(flight) = self.0.pop_front() {
                flight.land(machine, engine, reached.map(|_| ()));
            }
        }
        Ok(())
    }
}

impl Flight {
    /// Settles what waited for it.
    fn land(self, machine: &Machine, engine: &dyn Engine, reached: Result<(), String>) {
        let mut broken: Vec<Broken> = Vec::new();
        for (step, ticket) in self.open {
            let code = engine.verdict(ticket);
            if code != 0
                && let Step::Launch { checks, .. } = &self.ready.plan.steps[step]
            {
                broken.push(Broken { step, message: meaning(checks, code) });
            }
        }
        if let Err(message) = reached {
            let failure = machine.failure(self.stream, message);
            return self.awaited.iter().for_each(|a| a.fate.settle(Some(failure.clone())));
        }
        // What an output fails with: an operand's failure, or else that of the first step that failed under it.
        let sources = self.ready.sources();
        let cause = |a: &Awaited| {
            let spoils = |b: &Broken| a.output.is_none_or(|output| sources[output].checks.contains(b.step));
            broken.iter().position(spoils)
        };
        let failures: Vec<Failure> = broken
            .iter()
            .enumerate()
            .map(|(number, broken)| {
                let spoilt = self.awaited.iter().filter(|a| cause(a) == Some(number));
                let mut hit: Vec<usize> = spoilt.filter_map(|a| a.output).collect();
                if hit.is_empty() {
                    hit.extend((0..sources.len()).filter(|&output| sources[output].checks.contains(broken.step)));
                }
                let (source, rows) = (&self.source, rows(&self.ready, broken));
                machine.failure(self.stream, describe((&source.graph, &source.ops), &hit, rows, &broken.message))
            })
            .collect();
        for awaited in &self.awaited {
            let inherited = awaited.parents.iter().find_map(|p| p.known().flatten().cloned());
            awaited.fate.settle(inherited.or_else(|| cause(awaited).map(|number| failures[number].clone())));
        }
    }
}
