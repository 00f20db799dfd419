//! What becomes of values whose work was asked for but is not done: which checks each depends on, and what they said.
//! Only a device that works by itself leaves that open; on the processor a value that can be read has passed.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kiln_lowering::schedule::{Arg, Buf, Plan, Step};
use kiln_lowering::tile::ParamKind;

use super::failure::Failure;

/// What the checks that a value depends on say, once that is known.
#[derive(Default)]
pub(crate) struct Fate(OnceLock<Option<Failure>>);

impl Fate {
    /// The failure, or that there is none; nothing while the device is not there yet.
    pub(crate) fn known(&self) -> Option<Option<&Failure>> {
        self.0.get().map(Option::as_ref)
    }

    /// Says how it ended, once.
    pub(super) fn settle(&self, failure: Option<Failure>) {
        let _ = self.0.set(failure);
    }
}

/// What becomes of the last replay of a graph, for whoever reads what it writes.
#[derive(Default)]
pub(crate) struct Renewal(Mutex<Option<Arc<Fate>>>);

impl Renewal {
    /// That of the last replay, if anything may go wrong with it.
    pub(super) fn fate(&self) -> Option<Arc<Fate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the last replay is known to have gone well.
    pub(super) fn is_well(&self) -> bool {
        self.fate().is_none_or(|fate| matches!(fate.known(), Some(None)))
    }

    /// Takes the place of the one before.
    pub(super) fn renew(&self, fate: Option<Arc<Fate>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fate;
    }
}

/// A set of small numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers(Vec<u64>);

impl Numbers {
    fn insert(&mut self, number: usize) {
        if self.0.len() <= number / 64 {
            self.0.resize(number / 64 + 1, 0);
        }
        self.0[number / 64] |= 1 << (number % 64);
    }

    fn join(&mut self, other: &Numbers) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(own, its)| *own |= its);
    }

    /// Whether the number is in it.
    pub(super) fn contains(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// What an output of a plan is computed from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sources {
    /// Inputs of the graph.
    pub(super) operands: Numbers,
    /// Steps that check something.
    pub(super) checks: Numbers,
}

impl Sources {
    fn join(&mut self, other: &Sources) {
        self.operands.join(&other.operands);
        self.checks.join(&other.checks);
    }
}

/// Every buffer that a step names.
pub(super) fn touched(step: &Step) -> Vec<Buf> {
    match step {
        Step::Launch { args, .. } => {
            args.iter().filter_map(|a| if let Arg::Buffer(buf) = a { Some(*buf) } else { None }).collect()
        }
        Step::Gemm(gemm) => gemm.buffers().into_vec(),
        Step::Sort(sort) => vec![sort.input, sort.output],
        Step::Free(_) => Vec::new(),
    }
}

/// Every buffer that a step writes.
pub(super) fn written(plan: &Plan, step: &Step) -> Vec<Buf> {
    match step {
        Step::Launch { program, args, .. } => {
            let params = plan.programs[*program].params.values();
            let pairs = args.iter().zip(params);
            pairs
                .filter_map(|(arg, param)| match (arg, &param.kind) {
                    (Arg::Buffer(buf), ParamKind::Buffer { written: true }) => Some(*buf),
                    _ => None,
                })
                .collect()
        }
        Step::Gemm(gemm) => vec![gemm.c.buffer],
        Step::Sort(sort) => vec![sort.output],
        Step::Free(_) => Vec::new(),
    }
}

/// What each output of a plan is computed from.
pub(super) fn sources(plan: &Plan) -> Vec<Sources> {
    let mut known: Vec<Sources> = plan
        .buffers
        .values()
        .map(|data| {
            let mut sources = Sources::default();
            data.input.iter().for_each(|&number| sources.operands.insert(number as usize));
            sources
        })
        .collect();
    for (number, step) in plan.steps.iter().enumerate() {
        let mut of_step = Sources::default();
        for buf in touched(step) {
            // Whose memory it takes over, with what is in it.
            if let Some(old) = plan.buffers[buf].takes {
                let inherited = known[old.as_u32() as usize].clone();
                known[buf.as_u32() as usize].join(&inherited);
            }
            of_step.join(&known[buf.as_u32() as usize]);
        }
        if matches!(step, Step::Launch { checks, .. } if !checks.is_empty()) {
            of_step.checks.insert(number);
        }
        for buf in written(plan, step) {
            known[buf.as_u32() as usize].join(&of_step);
        }
    }
    plan.outputs.iter().map(|output| known[output.buffer.as_u32() as usize].clone()).collect()
}

#[cfg(test)]
mod tests {
    use kiln_lowering::DType;
    use kiln_lowering::graph::{Graph, Index, Reduction};
    use kiln_lowering::op::Pointwise;
    use kiln_lowering::schedule::{self, Grain, InputData, Layout, Options};

    use super::*;

    /// Two outputs, one of which gathers: the other one does not depend on its check, and neither on its operands.
    #[test]
    fn outputs_depend_on_what_they_are_computed_from() {
        let mut graph = Graph::new();
        let (x, i) = (graph.input(DType::F32, &[8, 4]), graph.input(DType::I32, &[2, 4]));
        let y = graph.input(DType::F32, &[100, 3]);
        let rows = graph.gather(Index::Elements, x, 0, i);
        let gathered = graph.map(Pointwise::Exp, &[rows]);
        let sum = graph.reduce(Reduction::Sum, y, &[0], DType::F32);
        graph.outputs.extend([gathered, sum]);
        let input = |dims: &[u64]| InputData {
            layout: Layout::contiguous(dims),
            buffer_len: dims.iter().product(),
            donated: false,
        };
        let inputs = [input(&[8, 4]), input(&[2, 4]), input(&[100, 3])];
        let plan = schedule::plan(&graph, &inputs, &Options::new(true, None, Grain::of_vectors(4)));
        let [gathered, sum] = &sources(&plan)[..] else { panic!("two outputs") };
        let operands = |s: &Sources| (0..3).map(|n| s.operands.contains(n)).collect::<Vec<_>>();
        assert_eq!(operands(gathered), [true, true, false]);
        assert_eq!(operands(sum), [false, false, true]);
        let checked = |s: &Sources| (0..plan.steps.len()).filter(|&n| s.checks.contains(n)).count();
        assert_eq!((checked(gathered), checked(sum)), (1, 0));
    }
}
