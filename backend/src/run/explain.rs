//! Writes down what became of each segment, as JSON, where `KILN_DUMP=explain` asks for it: a line per plan with its
//! steps, bytes and boundaries, and a line per run with the time of each step.  `cargo x explain` reads it.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use kiln_lowering::graph::{Graph, Op};
use kiln_lowering::schedule::explain::{Explained, Explanation, Value};
use kiln_lowering::schedule::{Absorbs, Gemm, InputData, Options, Plan, Step, explain};
use serde_json::{Value as Json, json};

use super::dump;
use super::kernels::Effort;
use super::warn::warn;
use crate::knobs::{self, Stage};
use crate::record::OpMark;

/// Name of the file in the folder of dumps.
const FILE: &str = "explain.jsonl";

/// Whether explanations are wanted.
pub(super) fn wanted() -> bool {
    knobs::get().dump.contains(&Stage::Explain)
}

/// Writes down what a plan is, which gets `number`.
pub(super) fn plan(
    number: u64,
    (graph, ops): (&Graph, &[OpMark]),
    inputs: &[InputData],
    (options, absorbs): (&Options, Absorbs<'_>),
    plan: &Plan,
    effort: Effort,
) {
    let told = explain(graph, inputs, options, absorbs);
    write(&described(number, (graph, ops), plan, &told, effort));
}

/// Writes down that a plan ran, and how many nanoseconds each of its steps took.
pub(super) fn run(number: u64, nanos: &[(usize, u64)]) {
    let steps: Vec<Json> = nanos.iter().map(|&(step, nanos)| json!([step, nanos])).collect();
    write(&json!({ "kind": "run", "segment": number, "nanos": steps }));
}

fn described(number: u64, (graph, ops): (&Graph, &[OpMark]), plan: &Plan, told: &Explanation, effort: Effort) -> Json {
    let rows = |i: usize| {
        let end = ops.get(i + 1).map_or(graph.nodes.len(), |next| next.first as usize);
        let nodes = graph.nodes.values().skip(ops[i].first as usize).take(end - ops[i].first as usize);
        nodes.filter(|n| !n.op.is_free()).count()
    };
    let recorded = ops.iter().enumerate().map(|(i, op)| json!({ "name": op.name, "rows": rows(i) }));
    let edges = told.edges.iter().map(|edge| {
        json!({
            "from": edge.from,
            "to": edge.to,
            "value": edge.node.to_string(),
            "reason": edge.reason.name(),
            "says": edge.reason.says(),
            "kept": edge.kept.says(),
        })
    });
    json!({
        "kind": "segment",
        "segment": number,
        "ops": recorded.collect::<Vec<_>>(),
        "rows": graph.nodes.values().filter(|n| !n.op.is_free()).count(),
        "inputs": graph.nodes.values().filter(|n| matches!(n.op, Op::Input(_))).count(),
        "outputs": graph.outputs.len(),
        "steps": told.steps.iter().map(|s| step(s, ops, plan)).collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
        "bytes": told.bytes(),
        "bytes_unfused": told.alone(),
        "kernels": plan.programs.len(),
        "compiled": effort.compiled,
        "from_disk": effort.cache_hits,
        "compile_seconds": effort.nanos as f64 / 1e9,
    })
}

fn step(told: &Explained, ops: &[OpMark], plan: &Plan) -> Json {
    let (kind, name, grid) = match &plan.steps[told.step] {
        Step::Launch { program, grid, .. } => {
            let program = &plan.programs[*program];
            ("kernel", dump::label(program), grid.to_vec())
        }
        Step::Gemm(g) => {
            let batch: u64 = g.batch.iter().product();
            let times = if batch > 1 { format!("{batch}×") } else { String::new() };
            ("gemm", format!("gemm {times}{}×{}×{}", g.m, g.n, g.k), Vec::new())
        }
        Step::Sort(s) => ("sort", format!("sort axis {}", s.axis), Vec::new()),
        Step::Free(_) => ("free", String::new(), Vec::new()),
    };
    let tail = match (&plan.steps[told.step], told.tail.map(|tail| &plan.steps[tail])) {
        (_, Some(Step::Launch { program, .. })) => Some(dump::label(&plan.programs[*program])),
        (Step::Gemm(Gemm { epilogue: Some(_), .. }), _) => Some("the library's own".into()),
        _ => None,
    };
    // The operations that these rows come from, each named once where it begins.
    let mut numbers: Vec<usize> =
        told.rows.iter().map(|row| ops.partition_point(|mark| mark.first <= row.origin.as_u32())).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let numbers: Vec<usize> = numbers.into_iter().filter_map(|n| n.checked_sub(1)).collect();
    let names: Vec<&str> = numbers.iter().map(|&n| ops[n].name).collect();
    json!({
        "step": told.step,
        "kind": kind,
        "name": name,
        "tail": tail,
        "grid": grid,
        "ops": names,
        "last_op": numbers.last().copied().unwrap_or(0),
        "rows": told.rows.iter().map(|r| r.name).collect::<Vec<_>>(),
        "reads": told.reads.iter().map(value).collect::<Vec<_>>(),
        "writes": told.writes.iter().map(value).collect::<Vec<_>>(),
        "bytes_unfused": told.alone,
    })
}

fn value(value: &Value) -> Json {
    json!({
        "value": value.node.to_string(),
        "dtype": value.dtype.to_string(),
        "dims": value.dims.as_slice(),
        "bytes": value.bytes,
        "from": value.from,
        "wanted": value.wanted,
    })
}

/// Adds a line to the file, which is begun anew by each process.
fn write(line: &Json) {
    static FILES: OnceLock<Mutex<Option<File>>> = OnceLock::new();
    let file = FILES.get_or_init(|| {
        let folder: &Path = &knobs::get().dump_dir;
        let opened = std::fs::create_dir_all(folder).and_then(|()| File::create(folder.join(FILE)));
        if let Err(error) = &opened {
            warn(&format!("cannot write dumps to {}: {error}", folder.display()));
        }
        Mutex::new(opened.ok())
    });
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(open) = file.as_mut()
        && let Err(error) = writeln!(open, "{line}")
    {
        warn(&format!("cannot go on writing {FILE}: {error}"));
        *file = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_lowering::DType;
    use kiln_lowering::op::Pointwise;
    use kiln_lowering::schedule::Grain;
    use kiln_lowering::schedule::{self, Layout};

    /// `cargo x explain` and others read these keys: they stay.
    #[test]
    fn a_plan_is_described_under_fixed_names() {
        let mut graph = Graph::new();
        let (x, w) = (graph.input(DType::F32, &[8, 32]), graph.input(DType::F32, &[32, 16]));
        let last = graph.input(DType::F32, &[16, 4]);
        let product = graph.contract(x, w);
        let exp = graph.map(Pointwise::Exp, &[product]);
        let result = graph.contract(exp, last);
        graph.outputs.push(result);
        let mark = |name, first| OpMark { name, first };
        let ops = [mark("float_matmul", 3), mark("float_exp", 4), mark("float_matmul", 5)];
        let input = |dims: &[u64]| InputData {
            layout: Layout::contiguous(dims),
            buffer_len: dims.iter().product(),
            donated: false,
        };
        let inputs = [input(&[8, 32]), input(&[32, 16]), input(&[16, 4])];
        let options = Options::new(true, Some(1), Grain::of_vectors(4));
        let plan = schedule::plan(&graph, &inputs, &options);
        let effort = Effort { compiled: 1, cache_hits: 0, nanos: 2_000_000 };
        let told = described(3, (&graph, &ops), &plan, &explain(&graph, &inputs, &options, &|_| false), effort);
        let names = |json: &Json| -> String {
            json.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>().join(" ")).unwrap_or_default()
        };
        assert_eq!(
            names(&told),
            "bytes bytes_unfused compile_seconds compiled edges from_disk inputs kernels kind ops outputs rows segment steps"
        );
        let steps = &told["steps"];
        assert_eq!(names(&steps[0]), "bytes_unfused grid kind last_op name ops reads rows step tail writes");
        assert_eq!(names(&steps[0]["reads"][0]), "bytes dims dtype from value wanted");
        assert_eq!(names(&told["edges"][0]), "from kept reason says to value");
        assert_eq!(
            [&steps[0]["name"], &steps[0]["ops"][1], &steps[1]["ops"][0], &told["edges"][0]["reason"]],
            ["gemm 8×16×32", "float_exp", "float_matmul", "operand of BLAS"]
        );
        // The first product and its epilogue read 8·32 + 32·16 elements and write 8·16, which the other one reads.
        assert_eq!(told["bytes"], 4 * (256 + 512 + 128 + 128 + 16 * 4 + 8 * 4));
        assert_eq!((&told["compiled"], &told["compile_seconds"]), (&json!(1), &json!(0.002)));
    }
}
