//! Measures in which way products and their tails are computed best, where a segment that is planned for the first time
//! leaves that open.  Knows plans and clocks: what the ways are, plans say.
//!
//! A trial is the whole segment, on the operands that it has: nothing is written to them, for none is given away, and
//! results go to memory of their own, where nothing is left of an earlier trial.  The two ways must agree.  One that gives
//! something else is left out for good, and why is kept; of one that could not run, as for want of memory, nothing is
//! kept, and the model's choice holds as long as the process does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use kiln_lowering::DType;
use kiln_lowering::graph::Dims;
use kiln_lowering::graph::number::to_f64;
use kiln_lowering::schedule::{Class, InputData, Options, Way};

use super::engine::Engine;
use super::execute;
use super::explain;
use super::kernels::Effort;
use super::machine::Machine;
use super::place::{Place, gather_bytes};
use super::plans::Ready;
use super::records::Record;
use super::runner::{Runner, message_of};
use super::warn::warn;
use crate::record::Work;

/// Times that both ways are measured, in turn.
const ROUNDS: usize = 7;

/// How long a measurement should take at least, and how many runs it may have.
const SPAN: Duration = Duration::from_millis(2);
const RUNS: u32 = 32;

/// Bytes at the beginning of a result that are compared, and as many at its end.
const COMPARED: u64 = 1 << 20;

/// How far results of one product may be apart, in parts of the largest of them: sums have another order, and what is
/// rounded in between is rounded elsewhere.
const APART: f64 = 1.0 / 64.0;

/// One in how many elements may be further apart: what is nearly equal may be ordered otherwise.
const FEW: usize = 64;

/// A segment to try ways on.
#[derive(Clone, Copy)]
pub(super) struct Tried<'a> {
    pub(super) work: &'a Work,
    pub(super) operands: &'a [Option<Place>],
    /// How they lie.
    pub(super) inputs: &'a [InputData],
    pub(super) options: &'a Options,
}

/// What came of a trial: beginnings and ends of results.
type Results = Vec<(DType, Vec<u8>)>;

/// What a comparison has found.
enum Found {
    /// Something to keep.
    Kept(Record),
    /// Nothing but why.
    Nothing(String),
}

impl Runner {
    /// Decides what a plan leaves to be decided, if anything, and gives what making the plans took.
    pub(super) fn tune(&mut self, tried: Tried<'_>, decided: &[(Class, Way)]) -> Option<Effort> {
        let engine = &self.kernels.engine;
        // What is explained is run step by step, and what is captured keeps all memory of its plan.
        let may = engine.tunes() && !explain::wanted() && self.capture_of(tried.work.stream).is_none();
        if !may || self.machine.pool.is_short() {
            return None;
        }
        let open: Vec<_> = decided.iter().filter(|(c, _)| self.records.choices().get(c).is_none()).copied().collect();
        if open.is_empty() {
            return None;
        }
        // What is given away would be written to.
        let inputs: Vec<InputData> =
            tried.inputs.iter().map(|input| InputData { donated: false, ..input.clone() }).collect();
        let counters = &self.machine.counters;
        let asked = [&counters.launches, &counters.gemms];
        let before = asked.map(|counter| counter.load(Relaxed));
        let mut effort = Effort::default();
        for (class, modelled) in open {
            match self.compare(Tried { inputs: &inputs, ..tried }, (class, modelled), &mut effort) {
                Found::Kept(record) => {
                    if let Some(why) = &record.excluded {
                        warn(&format!("a way to compute `{class}` is left out: {why}"));
                    }
                    counters.tuned.fetch_add(1, Relaxed);
                    self.records.add(&record);
                }
                Found::Nothing(why) => {
                    warn(&format!("`{class}` could not be measured: {why}"));
                    self.records.assume(class, modelled);
                }
            }
        }
        // Trials are nobody's work.
        asked.iter().zip(before).for_each(|(counter, before)| counter.store(before, Relaxed));
        Some(effort)
    }

    /// Measures both ways of a class, first the one that the model has chosen.
    fn compare(&mut self, tried: Tried<'_>, (class, modelled): (Class, Way), effort: &mut Effort) -> Found {
        let ways = [modelled, modelled.other()];
        let mut plan = |way: Way| {
            let options = Options { choices: self.records.choices().with(class, way), ..tried.options.clone() };
            let graph = (tried.work.hash, &tried.work.graph);
            let made = || self.plans.make(&mut self.kernels, graph, tried.inputs, &options);
            let made = catch_unwind(AssertUnwindSafe(made)).map_err(|panic| message_of(&*panic));
            made.map(|(ready, more)| {
                *effort += more;
                ready
            })
        };
        let unknown = Record { class, way: modelled, micros: ways.map(|way| (way, None)), excluded: None };
        let plans = match ways.map(&mut plan) {
            [Ok(own), Ok(other)] => [own, other],
            [Err(why), _] => return Found::Nothing(format!("{}: {why}", ways[0])),
            // It would be a bug, and one again the next time.
            [_, Err(why)] => return Found::Kept(Record { excluded: Some(format!("{}: {why}", ways[1])), ..unknown }),
        };
        let trials = Trials { machine: self.machine, engine: &*self.kernels.engine, tried };
        let mut results = Vec::with_capacity(2);
        for (way, ready) in ways.iter().zip(&plans) {
            match trials.results(ready) {
                Ok(own) => results.push(own),
                Err(why) => return Found::Nothing(format!("{way}: {why}")),
            }
        }
        if let Err((faulty, why)) = agree(&results[0], &results[1]) {
            let excluded = Some(format!("{}: {why}", ways[faulty]));
            return Found::Kept(Record { way: ways[1 - faulty], excluded, ..unknown });
        }
        match trials.times(&plans) {
            Err(why) => Found::Nothing(why),
            Ok(times) => {
                let micros = [0, 1].map(|at| (ways[at], Some(times[at][ROUNDS / 2])));
                Found::Kept(Record { way: ways[usize::from(is_faster(&times[1], &times[0]))], micros, ..unknown })
            }
        }
    }
}

/// Whether all but the extremes of some times are below all but the extremes of others; both in ascending order.
fn is_faster(times: &[f64; ROUNDS], others: &[f64; ROUNDS]) -> bool {
    times[ROUNDS - 2] < others[1]
}

/// Runs of a segment that nobody gets results of.
struct Trials<'a> {
    machine: &'static Machine,
    engine: &'a dyn Engine,
    tried: Tried<'a>,
}

impl Trials<'_> {
    /// What a plan gives where nothing is left of an earlier one.
    fn results(&self, ready: &Ready) -> Result<Results, String> {
        self.machine.pool.poison()?;
        let places = self.run(ready)?;
        let graph = &self.tried.work.graph;
        let outputs = graph.outputs.iter().map(|&node| (graph.dtype(node), graph.dims(node)));
        outputs.zip(places).map(|((dtype, dims), place)| Ok((dtype, ends(place, dims, dtype.bytes())?))).collect()
    }

    /// Runs a plan.  What its checks say the segment's own run says again.
    fn run(&self, ready: &Ready) -> Result<Vec<Place>, String> {
        let known = (self.tried.operands, &self.tried.work.scalars[..]);
        let outcome = execute::run(self.machine, self.engine, ready, known, (None, false));
        execute::pass(self.engine, outcome.open)?;
        match outcome.failures.into_iter().next() {
            Some(broken) => Err(broken.message),
            None => Ok(outcome.outputs.into_iter().flatten().collect()),
        }
    }

    /// What two plans take, in microseconds, measured in turn; in ascending order.
    fn times(&self, plans: &[Rc<Ready>; 2]) -> Result<[[f64; ROUNDS]; 2], String> {
        // By now all that is needed is there.
        let first = self.span(&plans[0], 1)?.max(Duration::from_nanos(1));
        let runs = (SPAN.as_nanos() / first.as_nanos()).clamp(1, RUNS.into()) as u32;
        let mut times = [[0.0; ROUNDS]; 2];
        for round in 0..ROUNDS {
            for (ready, times) in plans.iter().zip(&mut times) {
                times[round] = self.span(ready, runs)?.as_secs_f64() * 1e6 / f64::from(runs);
            }
        }
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        Ok(times)
    }

    /// How long the device is at so many runs: by its own clock, if it has one.
    fn span(&self, ready: &Ready, runs: u32) -> Result<Duration, String> {
        self.engine.synchronise()?;
        let (start, before) = (Instant::now(), self.engine.stamp()?);
        (0..runs).try_for_each(|_| self.run(ready).map(drop))?;
        match (before, self.engine.stamp()?) {
            (Some(before), Some(after)) => after.since(&*before),
            _ => {
                self.engine.synchronise()?;
                Ok(start.elapsed())
            }
        }
    }
}

/// The beginning and the end of a result, in row-major order; all of one that is short.
fn ends(mut place: Place, dims: &[u64], width: usize) -> Result<Vec<u8>, String> {
    let (mut part, mut rest) = (Dims::from_slice(dims), dims.iter().product::<u64>());
    let mut left = COMPARED / width as u64;
    for own in part.iter_mut().filter(|own| **own > 0) {
        rest /= *own;
        *own = (left / rest.max(1)).clamp(1, *own);
        left /= *own;
    }
    let first = gather_bytes(&place, width, &part)?;
    if part[..] == *dims {
        return Ok(first.to_vec());
    }
    let strides = place.layout.strides.iter().zip(dims.iter().zip(&part));
    place.layout.offset += strides.map(|(stride, (n, own))| stride * (n - own) as i64).sum::<i64>();
    Ok([&first[..], &gather_bytes(&place, width, &part)?[..]].concat())
}

/// Whether two ways gave the same, as far as they can; else which of the two is at fault, and what it gave.
fn agree(own: &Results, other: &Results) -> Result<(), (usize, String)> {
    for (number, ((dtype, own), (_, other))) in own.iter().zip(other).enumerate() {
        let (size, dtype) = (dtype.bytes(), *dtype);
        let value = |bytes: &[u8]| {
            let bits = bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
            if dtype.is_float() { to_f64(dtype, bits) } else { bits as f64 }
        };
        let values = || own.chunks_exact(size).map(value).zip(other.chunks_exact(size).map(value));
        let finite = values().map(|(own, _)| own.abs()).filter(|x| x.is_finite() && dtype.is_float());
        let reach = finite.fold(0.0, f64::max) * APART;
        let same = |x: f64, y: f64| x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= reach;
        let apart = values().filter(|(x, y)| !same(*x, *y)).count();
        if let Some((at, (x, y))) = values().enumerate().find(|(_, (x, y))| !same(*x, *y))
            && apart * FEW > values().count()
        {
            // What was not written at all is no number.
            let nothing = |value: fn((f64, f64)) -> f64| values().filter(|pair| value(*pair).is_nan()).count();
            let faulty = usize::from(nothing(|(own, _)| own) <= nothing(|(_, other)| other));
            let (got, wanted) = if faulty == 0 { (x, y) } else { (y, x) };
            return Err((
                faulty,
                format!("result {number} differs in {apart} places, as at {at}: {got}, not {wanted}"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kiln_lowering::schedule::Layout;

    use super::super::memory::Pool;
    use super::*;

    fn results(values: &[f32]) -> Results {
        vec![(DType::F32, values.iter().flat_map(|x| x.to_le_bytes()).collect())]
    }

    fn faulty(own: &Results, other: &Results) -> Option<usize> {
        agree(own, other).err().map(|(faulty, _)| faulty)
    }

    #[test]
    fn rounding_is_agreement_and_poison_is_not() {
        let own = results(&[1.0, -4.0, f32::NAN, f32::INFINITY]);
        assert_eq!(faulty(&own, &results(&[1.01, -4.0, f32::NAN, f32::INFINITY])), None);
        for other in [[1.2, -4.0, f32::NAN, f32::INFINITY], [f32::NAN; 4], [1.0, -4.0, 0.0, f32::INFINITY]] {
            assert!(faulty(&own, &results(&other)).is_some(), "{other:?}");
        }
        // Whoever left nothing is at fault.
        let (whole, nothing) = (results(&[1.0; 4]), results(&[f32::NAN; 4]));
        assert_eq!([faulty(&whole, &nothing), faulty(&nothing, &whole)], [Some(1), Some(0)]);
    }

    /// Of what is nearly equal another one may be the greatest.
    #[test]
    fn few_whole_numbers_may_differ() {
        let numbers = |odd: usize| {
            let number = |at: usize| if at < odd { 7i32 } else { 3 };
            vec![(DType::I32, (0..1000).flat_map(|at| number(at).to_le_bytes()).collect())]
        };
        assert_eq!([faulty(&numbers(0), &numbers(15)), faulty(&numbers(0), &numbers(16))], [None, Some(1)]);
    }

    /// However the elements are spread over the axes, no more than some of either end are looked at.
    #[test]
    fn ends_are_short() {
        let pool = Pool::new(None);
        let numbers: Vec<u8> = (0..1u32 << 20).flat_map(u32::to_le_bytes).collect();
        for dims in [vec![1, 1, 1 << 20], vec![1 << 20, 1], vec![1 << 4, 1 << 16], vec![1 << 10, 1 << 10]] {
            let buffer = pool.allocate(numbers.len()).expect("room");
            buffer.fill_from(&numbers).expect("it fits");
            let place = Place { buffer, layout: Layout::contiguous(&dims), len: numbers.len() as u64, fate: None };
            let got = ends(place, &dims, 4).expect("inside");
            let half = got.len() / 2;
            assert!(got.len() as u64 <= 2 * COMPARED, "{dims:?}");
            assert!(numbers.starts_with(&got[..half]) && numbers.ends_with(&got[half..]), "{dims:?}");
        }
        let buffer = pool.allocate(8).expect("room");
        buffer.fill_from(&[1; 8]).expect("it fits");
        let place = Place { buffer, layout: Layout::contiguous(&[2]), len: 8, fate: None };
        assert_eq!(ends(place, &[2], 4), Ok(vec![1; 8]));
    }

    #[test]
    fn noise_is_not_faster() {
        let times = |first: f64| std::array::from_fn(|round| first + round as f64);
        assert!(is_faster(&times(1.0), &times(10.0)));
        assert!(!is_faster(&times(1.0), &times(5.0)) && !is_faster(&times(1.0), &times(1.0)));
    }
}
