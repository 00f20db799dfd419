//! Kernels as machine code for GPUs that this computer need not have.

use std::collections::BTreeMap;

use kiln_conformance::assemble::{ASSEMBLERS, Assembler, Code, Missed};
use kiln_conformance::targets::FOR_THREADS;
use kiln_conformance::{report, threads};
use kiln_lowering::graph::Op;
use kiln_lowering::graph::arbitrary::Case;
use kiln_lowering::schedule::{InputData, Layout, Options, plan};
use kiln_lowering::tile::Program;

use crate::kernels;
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[test!(kernels_are_assembled_for_every_gpu)];

/// Parts of names of the table's cases that are taken: the others differ in type or in numbers.
const TAKEN: &[&str] = &["f32 Odd", "bf16 Strided", "f32 1025 Ord", "bf16 33 Ord"];

/// How many of the generated graphs are taken; `portability` takes all of everything.
const GRAPHS: usize = 8;

/// The programs of a case, cut for a GPU.
fn programs(case: &Case) -> Vec<Program> {
    let inputs = case.graph.nodes.values().filter(|data| matches!(data.op, Op::Input(_))).map(|data| InputData {
        layout: Layout::contiguous(&data.dims),
        buffer_len: data.len(),
        donated: false,
    });
    let options = Options::new(true, None, FOR_THREADS);
    plan(&case.graph, &inputs.collect::<Vec<_>>(), &options).programs.into_iter().collect()
}

fn kernels_are_assembled_for_every_gpu() {
    let taken = |(name, _): &(String, Case)| TAKEN.iter().any(|part| name.contains(part));
    let mut cases: Vec<(String, Case)> = kernels::of_tables().into_iter().filter(taken).collect();
    let mut graphs = kernels::of_graphs().expect("the files are graphs");
    cases.extend(graphs.drain(GRAPHS.min(graphs.len())..).filter(|(name, _)| name.ends_with(".graph")));
    cases.extend(graphs);
    let mut found = BTreeMap::new();
    for (name, case) in &cases {
        for program in programs(case) {
            found.entry(program.to_string()).or_insert((name, program));
        }
    }
    let found: Vec<(&String, Program)> = found.into_values().collect();
    let failures = threads::filter_map(&found, |(name, program)| {
        let wrong = |assembler: &Assembler| match assembler.assemble(program) {
            Ok(Code { private: 0 }) | Err(Missed::Tool(_)) => None,
            Ok(Code { private }) => Some(format!("{}: {private} bytes beside the registers", assembler.name)),
            Err(Missed::Refused(error)) => Some(format!("{}: {error}", assembler.name)),
        };
        let all: Vec<String> = ASSEMBLERS.iter().filter_map(wrong).collect();
        (!all.is_empty()).then(|| format!("{name}, {}: {}", program.name, all.join("; ")))
    });
    assert!(failures.is_empty(), "{} of {} kernels\n{}", failures.len(), found.len(), failures.join("\n"));
    report::programs("kernels assembled for GPUs", found.len() * ASSEMBLERS.len());
}
