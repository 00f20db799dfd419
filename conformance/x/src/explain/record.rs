//! The file that Kiln writes under `KILN_DUMP=explain`, read. Knows its keys, and nothing of what is made of them.

use serde_json::Value as Json;

/// Everything that Kiln wrote down.
#[derive(Debug, Default)]
pub struct Record {
    /// Plans, in the order in which they were made.
    pub segments: Vec<Segment>,
    /// Runs, in order.
    pub runs: Vec<Run>,
}

/// A plan: what a stretch of the program became.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// Its number.
    pub number: u64,
    /// Names of recorded operations.
    pub ops: Vec<String>,
    /// What it does, in order.
    pub kernels: Vec<Kernel>,
    /// Values that one kernel stores and another one loads, by kernels' places in the list.
    pub edges: Vec<Edge>,
    /// Kernels compiled for it, and taken from the disk.
    pub compiled: u64,
    pub from_disk: u64,
    pub compile_seconds: f64,
}

/// A kernel, a product or a sort.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Its number in the plan.
    pub number: u64,
    /// `kernel`, `gemm` or `sort`.
    pub kind: String,
    pub name: String,
    /// The name of the kernel that finishes it, part by part, if it is a product that has one.
    pub tail: Option<String>,
    /// Recorded operations that it computes, or parts of.
    pub ops: Vec<String>,
    /// The last of them, by its place among the plan's.
    pub last_op: usize,
    /// Rows that it computes.
    pub rows: Vec<String>,
    pub reads: Vec<Value>,
    pub writes: Vec<Value>,
    /// Bytes that its rows would move one by one.
    pub alone: u64,
    /// Median time of a run, in microseconds.
    pub micros: f64,
}

/// A tensor in memory.
#[derive(Clone, Debug, Default)]
pub struct Value {
    pub name: String,
    pub dtype: String,
    pub dims: Vec<u64>,
    pub bytes: u64,
    /// Whether it outlives the plan.
    pub wanted: bool,
}

/// A boundary that is left.
#[derive(Clone, Debug, Default)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub value: Value,
    /// A short name, a sentence, and why the value is in memory.
    pub reason: String,
    pub says: String,
    pub kept: String,
}

/// A run of a plan.
#[derive(Debug)]
pub struct Run {
    /// The plan's number.
    pub segment: u64,
    /// Pairs of a kernel's number and nanoseconds.
    pub nanos: Vec<(u64, u64)>,
}

impl Value {
    /// `f32[64, 512]`
    pub fn shape(&self) -> String {
        let dims: Vec<String> = self.dims.iter().map(u64::to_string).collect();
        format!("{}[{}]", self.dtype, dims.join(", "))
    }
}

impl Record {
    /// From the file's text. Times of runs are entered into the kernels.
    pub fn parse(text: &str) -> Result<Record, String> {
        let mut record = Record::default();
        for (number, line) in text.lines().enumerate() {
            // The last line is cut where the program was.
            let Ok(json) = serde_json::from_str::<Json>(line) else { continue };
            let read = match json["kind"].as_str() {
                Some("segment") => segment(&json).map(|s| record.segments.push(s)),
                Some("run") => run(&json).map(|r| record.runs.push(r)),
                _ => None,
            };
            read.ok_or_else(|| format!("explain.jsonl:{}: wanted a segment or a run, got `{line:.80}`", number + 1))?;
        }
        record.enter_times();
        Ok(record)
    }

    fn enter_times(&mut self) {
        for segment in &mut self.segments {
            let runs: Vec<&Run> = self.runs.iter().filter(|r| r.segment == segment.number).collect();
            for kernel in &mut segment.kernels {
                let pairs = runs.iter().flat_map(|r| &r.nanos).filter(|(number, _)| *number == kernel.number);
                let mut times: Vec<u64> = pairs.map(|pair| pair.1).collect();
                times.sort_unstable();
                kernel.micros = times.get(times.len() / 2).map_or(0.0, |&nanos| nanos as f64 / 1e3);
            }
        }
    }
}

fn run(json: &Json) -> Option<Run> {
    let pairs = json["nanos"].as_array()?.iter().map(|pair| Some((pair[0].as_u64()?, pair[1].as_u64()?)));
    Some(Run { segment: json["segment"].as_u64()?, nanos: pairs.collect::<Option<_>>()? })
}

fn segment(json: &Json) -> Option<Segment> {
    let kernels: Vec<Kernel> = json["steps"].as_array()?.iter().map(kernel).collect::<Option<_>>()?;
    let place = |step: &Json| kernels.iter().position(|k| Some(k.number) == step.as_u64());
    let edge = |json: &Json| {
        let (from, to) = (place(&json["from"])?, place(&json["to"])?);
        let name = json["value"].as_str()?;
        Some(Edge {
            from,
            to,
            value: kernels[to].reads.iter().find(|value| value.name == name)?.clone(),
            reason: text(&json["reason"])?,
            says: text(&json["says"])?,
            kept: text(&json["kept"])?,
        })
    };
    let edges = json["edges"].as_array()?.iter().map(edge).collect::<Option<_>>()?;
    Some(Segment {
        number: json["segment"].as_u64()?,
        ops: json["ops"].as_array()?.iter().map(|op| text(&op["name"])).collect::<Option<_>>()?,
        edges,
        compiled: json["compiled"].as_u64()?,
        from_disk: json["from_disk"].as_u64()?,
        compile_seconds: json["compile_seconds"].as_f64()?,
        kernels,
    })
}

fn kernel(json: &Json) -> Option<Kernel> {
    let texts = |json: &Json| json.as_array()?.iter().map(text).collect::<Option<Vec<String>>>();
    let values = |json: &Json| json.as_array()?.iter().map(value).collect::<Option<Vec<Value>>>();
    Some(Kernel {
        number: json["step"].as_u64()?,
        kind: text(&json["kind"])?,
        name: text(&json["name"])?,
        tail: text(&json["tail"]),
        ops: texts(&json["ops"])?,
        last_op: json["last_op"].as_u64()? as usize,
        rows: texts(&json["rows"])?,
        reads: values(&json["reads"])?,
        writes: values(&json["writes"])?,
        alone: json["bytes_unfused"].as_u64()?,
        micros: 0.0,
    })
}

fn value(json: &Json) -> Option<Value> {
    Some(Value {
        name: text(&json["value"])?,
        dtype: text(&json["dtype"])?,
        dims: json["dims"].as_array()?.iter().map(Json::as_u64).collect::<Option<_>>()?,
        bytes: json["bytes"].as_u64()?,
        wanted: json["wanted"].as_bool()?,
    })
}

fn text(json: &Json) -> Option<String> {
    json.as_str().map(str::to_owned)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Two plans: a product and a softmax that reads it, run three times in turn with an update.
    pub const TEXT: &str = include_str!("sample.jsonl");

    #[test]
    fn plans_runs_and_their_times_are_read() {
        let record = Record::parse(TEXT).expect("the file is whole");
        assert_eq!((record.segments.len(), record.runs.len()), (2, 7));
        let softmax = &record.segments[0].kernels[1];
        assert_eq!((softmax.kind.as_str(), softmax.micros), ("kernel", 20.0));
        let edge = &record.segments[0].edges[0];
        assert_eq!((edge.from, edge.to, edge.value.shape().as_str()), (0, 1, "f32[64, 512]"));
    }

    #[test]
    fn a_foreign_line_is_named() {
        let error = Record::parse("{\"kind\":\"run\"}").expect_err("there are no times");
        assert!(error.contains("explain.jsonl:1"), "{error}");
    }
}
