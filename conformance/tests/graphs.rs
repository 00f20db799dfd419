//! The files in `graphs/`: each is printed as it is written, runs on every target, and has the plan that it says.
//!
//! A file may end with lines `# plan: …`, one a step.  Where `UPDATE_EXPECT` is set they are written anew.

use std::path::PathBuf;

use kiln_conformance::ladder::{Setting, assert_case};
use kiln_conformance::report;
use kiln_lowering::graph::arbitrary::{Case, Draws, Fill, fill};
use kiln_lowering::graph::{Graph, Op, verify};
use kiln_lowering::schedule::{Grain, InputData, Layout, Options, Step, plan};

const MARK: &str = "# plan: ";

fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("graphs");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn steps(graph: &Graph) -> Vec<String> {
    let inputs = graph.nodes.values().filter(|data| matches!(data.op, Op::Input(_))).map(|data| InputData {
        layout: Layout::contiguous(&data.dims),
        buffer_len: data.len(),
        donated: false,
    });
    let plan = plan(
        graph,
        &inputs.collect::<Vec<_>>(),
        &Options { fuse: true, gemm_from: Some(1), grain: Grain::of_vectors(4) },
    );
    let text = |step: &Step| match step {
        Step::Launch { rows, .. } => Some(format!("launch {}", rows.join(" "))),
        Step::Gemm(g) => Some(format!("gemm {}x{}x{}", g.m, g.n, g.k)),
        Step::Sort(s) => Some(format!("sort axis {}", s.axis)),
        Step::Free(_) => None,
    };
    plan.steps.iter().filter_map(text).collect()
}

#[test]
fn files_are_printed_run_and_planned_as_they_say() {
    let files = files();
    for path in &files {
        let text = std::fs::read_to_string(path).unwrap();
        let graph: Graph = text.parse().unwrap_or_else(|error| panic!("{}:{error}", path.display()));
        assert_eq!(verify(&graph), [], "{}", path.display());
        assert!(text.starts_with(&graph.to_string()), "{} is printed as\n{graph}", path.display());

        let planned: String = steps(&graph).iter().map(|step| format!("{MARK}{step}\n")).collect();
        let whole = format!("{graph}{planned}");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, &whole).unwrap();
        } else {
            assert_eq!(text, whole, "{}: its plan has changed; set UPDATE_EXPECT to take the new one", path.display());
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
    report::programs("graphs from files", files.len());
}
