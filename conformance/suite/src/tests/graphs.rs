//! The files in `graphs/`: each is printed as it is written, runs on every target, and has the plan that it says.
//!
//! A file may end with lines `# plan: …`, one a step.  Where `UPDATE_EXPECT` is set they are written anew.

use std::path::PathBuf;

use kiln_conformance::graphs::FILES;
use kiln_conformance::ladder::{Setting, assert_case};
use kiln_conformance::report;
use kiln_lowering::graph::arbitrary::{Case, Draws, Fill, fill};
use kiln_lowering::graph::{Graph, Op, verify};
use kiln_lowering::schedule::{Grain, InputData, Layout, Options, Step, plan};

use crate::test::{Test, test};

pub const TESTS: &[Test] = &[test!(files_are_printed_run_and_planned_as_they_say)];

const MARK: &str = "# plan: ";

/// Where the files lie in the checkout that this was built from.
fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../graphs"))
}

fn steps(graph: &Graph) -> Vec<String> {
    let inputs = graph.nodes.values().filter(|data| matches!(data.op, Op::Input(_))).map(|data| InputData {
        layout: Layout::contiguous(&data.dims),
        buffer_len: data.len(),
        donated: false,
    });
    let plan = plan(graph, &inputs.collect::<Vec<_>>(), &Options::new(true, Some(1), Grain::of_vectors(4)));
    let text = |step: &Step, is_tail: bool| match step {
        Step::Launch { rows, .. } if is_tail => Some(format!("  tail {}", rows.join(" "))),
        Step::Launch { rows, .. } => Some(format!("launch {}", rows.join(" "))),
        Step::Gemm(g) => Some(format!("gemm {}x{}x{}", g.m, g.n, g.k)),
        Step::Sort(s) => Some(format!("sort axis {}", s.axis)),
        Step::Free(_) => None,
    };
    let mut is_tail = false;
    let steps = plan.steps.iter().map(|step| {
        let text = text(step, is_tail);
        is_tail = matches!(step, Step::Gemm(gemm) if gemm.tail.is_some());
        text
    });
    steps.flatten().collect()
}

fn files_are_printed_run_and_planned_as_they_say() {
    for &(name, text) in FILES {
        let graph: Graph = text.parse().unwrap_or_else(|error| panic!("{name}:{error}"));
        assert_eq!(verify(&graph), [], "{name}");
        assert!(text.starts_with(&graph.to_string()), "{name} is printed as\n{graph}");

        let planned: String = steps(&graph).iter().map(|step| format!("{MARK}{step}\n")).collect();
        let whole = format!("{graph}{planned}");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(folder().join(name), &whole).unwrap();
        } else {
            assert_eq!(text, whole, "{name}: its plan has changed; set UPDATE_EXPECT to take the new one");
        }

        let mut draws = Draws::new(7);
        let inputs = graph.nodes.values().filter(|data| matches!(data.op, Op::Input(_)));
        let inputs: Vec<_> = inputs.map(|data| fill(&mut draws, data.dtype, &data.dims, Fill::Ordinary)).collect();
        let slots = vec![1234; graph.slots.len()];
        for library in [false, true] {
            let case = Case { graph: graph.clone(), inputs: inputs.clone(), slots: slots.clone() };
            assert_case(case, &Setting { library, ..Setting::default() });
        }
    }
    report::programs("graphs from files", FILES.len());
}
