//! A step as JSON, for other programs.

use serde_json::{Value as Json, json};

use super::record::{Edge, Kernel, Value};
use super::step::Step;

/// The step as text in JSON.
pub fn print(step: &Step) -> String {
    format!("{:#}\n", value(step))
}

fn value(step: &Step) -> Json {
    let [kernels, products, sorts] = step.counts();
    let blocks = step.blocks.iter().map(|b| json!({ "start": b.start, "kernels": b.len, "times": b.times }));
    json!({
        "example": step.example,
        "operations": step.ops,
        "rows": step.rows(),
        "kernels": kernels,
        "products": products,
        "epilogues": step.epilogues(),
        "sorts": sorts,
        "bytes": step.bytes(),
        "bytes_unfused": step.alone(),
        "microseconds": step.micros(),
        "compiled": step.compiled,
        "from_disk": step.from_disk,
        "compile_seconds": step.compile_seconds,
        "plans": step.plans.iter().map(|(number, runs)| json!({ "plan": number, "runs": runs })).collect::<Vec<_>>(),
        "plans_made": step.planned,
        "plan_runs": step.runs,
        "steps": step.kernels.iter().map(kernel).collect::<Vec<_>>(),
        "boundaries": step.edges.iter().map(edge).collect::<Vec<_>>(),
        "repeated": blocks.collect::<Vec<_>>(),
        "plan_begins_at": step.cuts,
    })
}

fn kernel(kernel: &Kernel) -> Json {
    let tensors = |values: &[Value]| values.iter().map(tensor).collect::<Vec<_>>();
    json!({
        "kind": kernel.kind,
        "name": kernel.name,
        "epilogue": kernel.tail,
        "operations": kernel.ops,
        "rows": kernel.rows,
        "reads": tensors(&kernel.reads),
        "writes": tensors(&kernel.writes),
        "bytes_unfused": kernel.alone,
        "microseconds": kernel.micros,
    })
}

fn edge(edge: &Edge) -> Json {
    json!({
        "from": edge.from,
        "to": edge.to,
        "tensor": tensor(&edge.value),
        "reason": edge.reason,
        "says": edge.says,
        "in_memory_because": edge.kept,
    })
}

fn tensor(value: &Value) -> Json {
    json!({ "dtype": value.dtype, "dims": value.dims, "bytes": value.bytes, "wanted": value.wanted })
}

#[cfg(test)]
mod tests {
    use super::super::step::tests::sample;
    use super::*;

    /// Names that readers rely on: a change here is one of the format.
    #[test]
    fn names_stay() {
        let json = value(&sample());
        let names = |json: &Json| json.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(
            names(&json),
            "boundaries bytes bytes_unfused compile_seconds compiled epilogues example from_disk kernels microseconds operations \
             plan_begins_at plan_runs plans plans_made products repeated rows sorts steps"
        );
        assert_eq!(
            names(&json["steps"][1]),
            "bytes_unfused epilogue kind microseconds name operations reads rows writes"
        );
        assert_eq!(names(&json["boundaries"][0]), "from in_memory_because reason says tensor to");
        assert_eq!(names(&json["steps"][0]["reads"][0]), "bytes dims dtype wanted");
        assert_eq!(json["bytes_unfused"], 2_500_800);
    }
}
