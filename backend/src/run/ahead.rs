//! Beginning with a segment while it is still being recorded: what was recorded so far is the beginning of a segment whose
//! plan is known, so the parts of that plan which take no more than is there are run.  If the rest turns out as it was
//! before, the plan is run to its end; if not, what was begun is thrown away.  It has changed no operand.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use kiln_lowering::DType;
use kiln_lowering::schedule::InputData;
use rustc_hash::FxHashMap;

use super::engine::Engine;
use super::execute::{self, Progress};
use super::explain;
use super::machine::Machine;
use super::parts::Part;
use super::place::Place;
use super::plans::Ready;
use super::runner::Runner;
use crate::record::{Beginning, Value, Work};

/// Beginnings that are known at most; beyond, all are forgotten.
const KNOWN: usize = 4096;

/// Trust in a plan at most, and what a beginning that was thrown away costs of it.
const MOST_LUCK: i32 = 16;
const LOSS: i32 = 4;

/// What a segment that is being recorded has come to.
pub(crate) struct Ahead {
    pub(crate) stream: u64,
    /// The segment's number.
    pub(crate) segment: u64,
    /// Hash of what was recorded so far.
    pub(crate) hash: u64,
    /// How many nodes that is.
    pub(crate) nodes: usize,
    /// How many operands and scalars were told of before.
    pub(crate) told: [usize; 2],
    /// Its operands from there on.
    pub(crate) operands: Vec<Arc<Value>>,
    /// Its scalars, likewise.
    pub(crate) scalars: Vec<u64>,
}

/// A segment that was begun with.
struct Begun {
    segment: u64,
    operands: Vec<Arc<Value>>,
    scalars: Vec<u64>,
    /// The plan that it is taken for, and how far that has come.
    run: Option<(Rc<Ready>, Progress)>,
    /// Whether something was in the way.
    stopped: bool,
}

/// What the device's thread knows of segments that are being recorded.
pub(super) struct Beginnings {
    machine: &'static Machine,
    /// Plans, by the hashes of their segments' beginnings.
    plans: FxHashMap<u64, Rc<Ready>>,
    begun: Vec<Begun>,
}

impl Beginnings {
    /// Nothing.
    pub(super) fn new(machine: &'static Machine) -> Beginnings {
        Beginnings { machine, plans: FxHashMap::default(), begun: Vec::new() }
    }

    /// Remembers where one more part of this plan can run, as its segments are recorded, and has recorders know.  The last
    /// beginning comes too late to be worth telling of.
    pub(super) fn learn(&mut self, beginnings: &[Beginning], ready: &Rc<Ready>) {
        let Some((_, early)) = beginnings.split_last().filter(|_| ready.luck.get() >= 0) else { return };
        let first = |part: &Part| early.iter().find(|b| part.is_known(b.nodes, b.operands, b.scalars));
        let mut hashes: Vec<u64> = ready.parts.iter().map_while(first).map(|beginning| beginning.hash).collect();
        hashes.dedup();
        hashes.retain(|&hash| !self.leads_to(hash, ready));
        let is_full = self.plans.len() > KNOWN;
        if is_full {
            self.plans.clear();
        }
        hashes.retain(|&hash| self.plans.insert(hash, Rc::clone(ready)).is_none());
        if is_full || !hashes.is_empty() {
            self.machine.change_beginnings(|known| {
                if is_full {
                    known.clear();
                }
                known.extend(hashes);
            });
        }
    }

    fn leads_to(&self, hash: u64, ready: &Rc<Ready>) -> bool {
        self.plans.get(&hash).is_some_and(|known| Rc::ptr_eq(known, ready))
    }

    /// What was begun of a segment that is whole now, if it is this plan's with the operands and scalars that it was begun
    /// with.
    pub(super) fn take(&mut self, work: &Work, ready: &Rc<Ready>, engine: &dyn Engine) -> Option<Progress> {
        let (begun, run) = self.remove(work.segment)?;
        let operands = begun.operands.iter().zip(&work.operands).all(|(value, own)| Arc::ptr_eq(value, &own.value));
        let is_same =
            operands && work.scalars.starts_with(&begun.scalars) && begun.operands.len() <= work.operands.len();
        // A graph that writes to one of them may have run since.
        let is_same = is_same && !begun.operands.iter().any(|value| is_renewed(value));
        let (plan, mut progress) = run;
        if is_same && Rc::ptr_eq(&plan, ready) {
            plan.luck.set((plan.luck.get() + 1).min(MOST_LUCK));
            return Some(progress);
        }
        if progress.parts() > 0 {
            plan.luck.set(plan.luck.get() - LOSS);
        }
        if plan.luck.get() < 0 {
            let lost = self.plans.extract_if(|_, known| Rc::ptr_eq(known, &plan)).map(|(hash, _)| hash);
            self.machine.change_beginnings(|known| lost.for_each(|hash| _ = known.remove(&hash)));
        }
        progress.forget(engine);
        None
    }

    fn remove(&mut self, segment: u64) -> Option<(Begun, (Rc<Ready>, Progress))> {
        let at = self.begun.iter().position(|begun| begun.segment == segment)?;
        let mut begun = self.begun.swap_remove(at);
        let run = begun.run.take()?;
        Some((begun, run))
    }

    /// Forgets what was begun of a segment.
    pub(super) fn forget(&mut self, segment: u64, engine: &dyn Engine) {
        if let Some((_, (_, mut progress))) = self.remove(segment) {
            progress.forget(engine);
        }
    }
}

impl Runner {
    /// Begins, or goes on, with a segment that is still being recorded.  Not while somebody looks at the stream's time, to
    /// which only what was handed over counts; and not where memory may be short.
    pub(super) fn begin(&mut self, ahead: Ahead) {
        let segment = ahead.segment;
        let is_watched = explain::wanted() || self.windows.clock(ahead.stream).is_some();
        if is_watched || self.capture_of(ahead.stream).is_some() || self.machine.pool.is_short() {
            return;
        }
        if catch_unwind(AssertUnwindSafe(|| self.go_on(ahead))).is_err() {
            // Its segment says what is wrong when it runs.
            self.beginnings.begun.iter_mut().filter(|begun| begun.segment == segment).for_each(|begun| {
                (begun.run, begun.stopped) = (None, true);
            });
        }
    }

    fn go_on(&mut self, ahead: Ahead) {
        let Beginnings { plans, begun, .. } = &mut self.beginnings;
        let known = plans.get(&ahead.hash);
        let at = begun.iter().position(|begun| begun.segment == ahead.segment).unwrap_or_else(|| {
            begun.push(Begun {
                segment: ahead.segment,
                operands: Vec::new(),
                scalars: Vec::new(),
                run: None,
                stopped: false,
            });
            begun.len() - 1
        });
        let own = &mut begun[at];
        // Something was not listened to.
        own.stopped |= [own.operands.len(), own.scalars.len()] != ahead.told;
        own.operands.extend(ahead.operands);
        own.scalars.extend(ahead.scalars);
        let is_other = |run: &(Rc<Ready>, Progress)| known.is_none_or(|known| !Rc::ptr_eq(known, &run.0));
        match &own.run {
            // Several plans begin alike: nothing was run yet, and it may still be the other one.
            _ if own.stopped => return,
            Some(run) if is_other(run) && run.1.parts() > 0 => return,
            Some(run) if !is_other(run) => {}
            _ => own.run = known.map(|ready| (Rc::clone(ready), Progress::default())),
        }
        let Some((ready, mut progress)) = own.run.take() else { return };
        let wanted = ready.parts.get(progress.parts());
        if !wanted.is_some_and(|part| part.is_known(ahead.nodes, own.operands.len(), own.scalars.len())) {
            own.run = Some((ready, progress));
            return;
        }
        let engine = &*self.kernels.engine;
        own.run = match places(&own.operands, &ready) {
            Some(operands) => {
                let there = (&operands[..], &own.scalars[..], ahead.nodes);
                execute::begin(self.machine, engine, &ready, there, progress).map(|progress| (ready, progress))
            }
            None => {
                progress.forget(engine);
                None
            }
        };
        own.stopped = own.run.is_none();
    }
}

/// Whether graphs write where a value lies.
fn is_renewed(value: &Value) -> bool {
    value.place.get().is_some_and(|place| place.as_ref().is_ok_and(Place::is_renewed))
}

/// The places of operands, if all lie as the plan takes them to, and nothing will write there.
fn places(operands: &[Arc<Value>], ready: &Ready) -> Option<Vec<Option<Place>>> {
    let lies = |(value, (dtype, input)): (&Arc<Value>, &(DType, InputData))| {
        let place = value.place.get()?.as_ref().ok()?;
        let is_sound = place.fates().iter().all(|fate| fate.known().flatten().is_none());
        let fits = place.layout == input.layout && place.len == input.buffer_len * dtype.bytes() as u64;
        (is_sound && fits && !is_renewed(value)).then(|| Some(place.clone()))
    };
    let fits = operands.len() <= ready.inputs.len();
    fits.then(|| operands.iter().zip(&ready.inputs).map(lies).collect()).flatten()
}
