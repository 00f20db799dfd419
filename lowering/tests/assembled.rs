//! Every program that plans of many graphs consist of, as a code object for each of AMD's GPUs: assembled, linked, taken
//! apart and checked by structure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kiln_lowering::graph::arbitrary::{Wishes, case};
use kiln_lowering::graph::{Graph, Op};
use kiln_lowering::schedule::{Grain, InputData, Layout, Options, plan};
use kiln_lowering::target::amd::{Compiler, Inspection, Linker, spec};
use kiln_lowering::target::nvidia;
use kiln_lowering::tile::Program;

/// Random graphs to take programs from.
const GRAPHS: u64 = 24;

/// The graphs that a folder keeps.
fn files(folder: &str) -> Vec<Graph> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|path| std::fs::read_to_string(path).unwrap().parse().unwrap()).collect()
}

/// Different programs, by their text; a warp keeps so many queries of an attention.
fn programs(queries: u32) -> BTreeMap<String, Program> {
    let random = (0..GRAPHS).map(|seed| case(seed, &Wishes { nodes: 10, elements: 5000, ..Wishes::default() }).graph);
    let mut programs = BTreeMap::new();
    let conformance = files("../conformance/graphs").into_iter().chain(random).map(|graph| (graph, None));
    // What is one kernel unless numerics are strict, products that are too small for a library among it.
    let own = files("tests/graph").into_iter().map(|graph| (graph, Some(u64::MAX)));
    for (graph, gemm_from) in conformance.chain(own) {
        let inputs = graph.nodes.values().filter(|data| matches!(data.op, Op::Input(_))).map(|data| InputData {
            layout: Layout::contiguous(&data.dims),
            buffer_len: data.len(),
            donated: false,
        });
        let inputs: Vec<InputData> = inputs.collect();
        let options = Options::new(true, gemm_from, Grain::of_threads(1000).with_queries(queries));
        let plan = plan(&graph, &inputs, &options);
        programs.extend(plan.programs.into_iter().map(|program| (program.to_string(), program)));
    }
    programs
}

fn assemble(name: &str, queries: u32) {
    let machine = spec(name).unwrap();
    let compiler = Compiler::new(&machine, Linker::new(None));
    let programs = programs(queries);
    assert!(programs.len() > 100, "{}", programs.len());
    let mut report = String::new();
    for (text, program) in &programs {
        let object = compiler.compile(program, &mut |_, _| {}).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let violations = Inspection::of(program, &machine, &object).unwrap().violations;
        if !violations.is_empty() {
            report += &format!("{violations:#?}\n{text}\n");
        }
    }
    assert!(report.is_empty(), "{name}, of {} programs:\n{report}", programs.len());
}

#[test]
fn plans_for_gfx90a() {
    assemble("gfx90a", 32);
}

#[test]
fn plans_for_gfx942() {
    assemble("gfx942", 32);
}

/// Its matrix instructions want each operand twice, in either half of a wave.
#[test]
fn plans_for_gfx1100() {
    assemble("gfx1100", 16);
}

#[test]
fn plans_for_gfx1201() {
    assemble("gfx1201", 32);
}

/// What LLVM is told once holds for all targets, whichever is the first that a process uses: here it is AMD's.
#[test]
fn code_is_the_same_whatever_was_compiled_before() {
    let compiler = Compiler::new(&spec("gfx942").unwrap(), Linker::new(None));
    let programs = programs(32);
    let objects =
        || programs.values().step_by(8).map(|p| compiler.compile(p, &mut |_, _| {}).unwrap()).collect::<Vec<_>>();
    let before = objects();
    let other = nvidia::Compiler::new(&nvidia::spec("sm_80", 80).unwrap());
    programs.values().take(1).for_each(|p| drop(other.compile(p, &mut |_, _| {}).unwrap()));
    assert!(objects() == before);
}
