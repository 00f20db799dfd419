//! Measures in which way products and their tails are computed best, where a segment that is planned for the first time
//! leaves that open.  Knows plans and clocks: what the ways are, plans say.
//!
//! A trial is the whole segment, on the operands that it has: nothing is written to them, for none is given away, and
//! results go to memory of their own, in which nothing is left that could be taken for a result.  The two ways must agree;
//! one that fails, or gives something else than what the model chose, is left out, and why is kept.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use kiln_lowering::DType;
use kiln_lowering::graph::Dims;
use kiln_lowering::graph::number::to_f64;
use kiln_lowering::schedule::{Class, InputData, Options, Way};

use super::engine::Engine;
use super::execute;
use super::machine::Machine;
use super::place::{Place, gather_bytes};
use super::plans::Ready;
use super::records::Record;
use super::runner::Runner;
use super::warn::warn;
use crate::record::Work;

/// Times that both ways are measured, in turn.
const ROUNDS: usize = 7;

/// How long a measurement should take at least, and how many runs it may have.
const SPAN: Duration = Duration::from_millis(2);
const RUNS: u32 = 32;

/// What the other way must save to be chosen: less is noise.
const WORTH: f64 = 0.99;

/// Bytes at the beginning of a result that are compared, and as many at its end: whole rows, one at least.
const COMPARED: u64 = 1 << 20;

/// How far results of one product may be apart, in parts of the largest of them: sums have another order, and what is
/// rounded in between is rounded elsewhere.
const APART: f64 = 1.0 / 64.0;

/// A segment to try ways on.
#[derive(Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) work: &'a Work,
    pub(super) operands: &'a [Option<Place>],
    /// How they lie.
    pub(super) inputs: &'a [InputData],
    pub(super) options: &'a Options,
}

/// What came of a trial: beginnings and ends of results.
type Results = Vec<(DType, Vec<u8>)>;

impl Runner {
    /// Decides what a plan leaves to be decided; whether there was anything.
    pub(super) fn tune(&mut self, segment: Segment<'_>, decided: &[(Class, Way)]) -> bool {
        let open: Vec<_> = decided.iter().filter(|(c, _)| self.records.choices().get(c).is_none()).copied().collect();
        // What is given away would be written to.
        let inputs: Vec<InputData> =
            segment.inputs.iter().map(|input| InputData { donated: false, ..input.clone() }).collect();
        for &(class, modelled) in &open {
            let record = self.compare(Segment { inputs: &inputs, ..segment }, class, modelled);
            self.machine.counters.tuned.fetch_add(1, Relaxed);
            self.records.add(&record);
        }
        !open.is_empty()
    }

    /// Measures both ways of a class, first the one that the model has chosen.
    fn compare(&mut self, segment: Segment<'_>, class: Class, modelled: Way) -> Record {
        let ways = [modelled, modelled.other()];
        let plans = ways.map(|way| {
            let choices = self.records.choices().with(class, way);
            let options = Options { choices, ..segment.options.clone() };
            let graph = (segment.work.hash, &segment.work.graph);
            self.plans.get(&mut self.kernels, graph, segment.inputs, &options).0
        });
        let trials = Trials { machine: self.machine, engine: &*self.kernels.engine, segment };
        let tried = plans.each_ref().map(|ready| trials.results(ready));
        let named = |at: usize, why: &String| format!("{}: {why}", ways[at]);
        let (way, excluded) = match &tried {
            [Err(own), Ok(_)] => (ways[1], Some(named(0, own))),
            [_, Err(other)] => (ways[0], Some(named(1, other))),
            [Ok(own), Ok(other)] => (ways[0], agree(own, other).err().map(|why| named(1, &why))),
        };
        let unknown = Record { class, way, micros: ways.map(|way| (way, None)), excluded };
        if let Some(why) = &unknown.excluded {
            warn(&format!("a way to compute `{class}` is left out: {why}"));
            return unknown;
        }
        match trials.times(&plans) {
            Err(why) => Record { excluded: Some(why), ..unknown },
            Ok([own, other]) => {
                let way = if other < own * WORTH { ways[1] } else { ways[0] };
                Record { way, micros: [(ways[0], Some(own)), (ways[1], Some(other))], ..unknown }
            }
        }
    }
}

/// Runs of a segment that nobody gets results of.
struct Trials<'a> {
    machine: &'static Machine,
    engine: &'a dyn Engine,
    segment: Segment<'a>,
}

impl Trials<'_> {
    /// What a plan gives where nothing is left that could be taken for its results.
    fn results(&self, ready: &Ready) -> Result<Results, String> {
        self.machine.pool.poison()?;
        let places = self.run(ready)?;
        let graph = &self.segment.work.graph;
        let outputs = graph.outputs.iter().map(|&node| (graph.dtype(node), graph.dims(node)));
        outputs.zip(places).map(|((dtype, dims), place)| Ok((dtype, ends(place, dims, dtype.bytes())?))).collect()
    }

    /// Runs a plan, and hears its checks.
    fn run(&self, ready: &Ready) -> Result<Vec<Place>, String> {
        let known = (self.segment.operands, &self.segment.work.scalars[..]);
        let outcome = execute::run(self.machine, self.engine, ready, known, (None, false));
        if !outcome.open.is_empty() {
            if let Some(mark) = self.engine.mark()? {
                self.engine.reach(mark, true)?;
            }
            // What fails here fails again when the segment runs, and is told of there.
            outcome.open.into_iter().for_each(|(_, ticket)| _ = self.engine.verdict(ticket));
        }
        match outcome.failures.into_iter().next() {
            Some(broken) => Err(broken.message),
            None => Ok(outcome.outputs.into_iter().flatten().collect()),
        }
    }

    /// The medians of what two plans take, in microseconds, measured in turn.
    fn times(&self, plans: &[Rc<Ready>; 2]) -> Result<[f64; 2], String> {
        // By now all that is needed is there.
        let first = self.span(&plans[0], 1)?.max(Duration::from_nanos(1));
        let runs = (SPAN.as_nanos() / first.as_nanos()).clamp(1, RUNS.into()) as u32;
        let mut times = [[0.0; ROUNDS]; 2];
        for round in 0..ROUNDS {
            for (ready, times) in plans.iter().zip(&mut times) {
                times[round] = self.span(ready, runs)?.as_secs_f64() * 1e6 / f64::from(runs);
            }
        }
        Ok(times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        }))
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

/// The first and the last rows of a result, as many as are compared, in row-major order.
fn ends(mut place: Place, dims: &[u64], width: usize) -> Result<Vec<u8>, String> {
    let mut dims = Dims::from_slice(dims);
    let Some(rows) = dims.first().copied().filter(|_| !dims.contains(&0)) else {
        return Ok(gather_bytes(&place, width, &dims)?.to_vec());
    };
    let row = dims[1..].iter().product::<u64>() * width as u64;
    dims[0] = (COMPARED / row).clamp(1, rows);
    let first = gather_bytes(&place, width, &dims)?;
    place.layout.offset += (rows - dims[0]) as i64 * place.layout.strides[0];
    Ok([&first[..], &gather_bytes(&place, width, &dims)?[..]].concat())
}

/// Whether two ways gave the same, as far as they can.
fn agree(own: &Results, other: &Results) -> Result<(), String> {
    for (number, ((dtype, own), (_, other))) in own.iter().zip(other).enumerate() {
        if own.len() != other.len() {
            return Err(format!("result {number} has {} bytes, not {}", other.len(), own.len()));
        }
        if !dtype.is_float() {
            if own != other {
                return Err(format!("result {number}, of {dtype}, is another one"));
            }
            continue;
        }
        let size = dtype.bytes();
        let values = |bytes: &[u8]| bytes.chunks_exact(size).map(|x| value(*dtype, x)).collect::<Vec<f64>>();
        let (own, other) = (values(own), values(other));
        let largest = own.iter().filter(|x| x.is_finite()).fold(0.0f64, |most, x| most.max(x.abs()));
        let same = |x: f64, y: f64| x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= largest * APART;
        if let Some(at) = (0..own.len()).find(|&at| !same(own[at], other[at])) {
            return Err(format!("result {number} has {} at {at}, not {}", other[at], own[at]));
        }
    }
    Ok(())
}

/// A float from its bytes.
fn value(dtype: DType, bytes: &[u8]) -> f64 {
    let bits = bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
    to_f64(dtype, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(values: &[f32]) -> Results {
        vec![(DType::F32, values.iter().flat_map(|x| x.to_le_bytes()).collect())]
    }

    #[test]
    fn rounding_is_agreement_and_poison_is_not() {
        let own = results(&[1.0, -4.0, f32::NAN, f32::INFINITY]);
        assert_eq!(agree(&own, &results(&[1.01, -4.0, f32::NAN, f32::INFINITY])), Ok(()));
        for other in [[1.2, -4.0, f32::NAN, f32::INFINITY], [f32::NAN; 4], [1.0, -4.0, 0.0, f32::INFINITY]] {
            assert!(agree(&own, &results(&other)).is_err(), "{other:?}");
        }
        let ints = |x: i32| vec![(DType::I32, x.to_le_bytes().to_vec())];
        assert_eq!(agree(&ints(3), &ints(3)), Ok(()));
        assert!(agree(&ints(3), &ints(4)).is_err());
    }
}
