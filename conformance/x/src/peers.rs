//! `cargo x peers`: what `kiln-conformance bench` and `conformance/peers/peers.py` measured on one machine, side by side.

mod page;
mod row;

use std::fs;
use std::path::{Path, PathBuf};

use lexopt::prelude::*;
use serde_json::{Value, json};

use crate::bars::{Bar, Chart};
use crate::workspace::Workspace;
use crate::{Command, Outcome};
use row::Row;

pub const COMMAND: Command = Command {
    name: "peers",
    usage: "OURS.json PEERS.json [--json FILE] [--md FILE] [--svg FILE]",
    about: "lay Kiln's measurements on a GPU beside its peers'",
    run,
};

/// Two runs on one machine.
pub struct Both {
    ours: Value,
    peers: Value,
    rows: Vec<Row>,
}

fn run(_: &Workspace, parser: lexopt::Parser) -> Outcome {
    let options = parse(parser).map_err(|error| error.to_string())?;
    let [ours, peers] = options.inputs.map(|file| read(&file));
    let both = Both::new(ours?, peers?)?;
    let page = page::render(&both);
    println!("{page}");
    let kept = json!({ "kiln": without_digests(&both.ours), "peers": without_digests(&both.peers) });
    let written = [(options.md, page), (options.svg, both.svg()?), (options.json, format!("{kept:#}\n"))];
    for (file, text) in written {
        if let Some(file) = file {
            fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    // A peer that is faster is a finding; a wrong result is a failure.
    match both.rows.iter().filter(|row| row.difference.is_some()).count() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} results differ from the peers'")),
    }
}

struct Options {
    inputs: [PathBuf; 2],
    json: Option<PathBuf>,
    md: Option<PathBuf>,
    svg: Option<PathBuf>,
}

/// A report without the digests of the results, which have done their work.
fn without_digests(report: &Value) -> Value {
    match report {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| *name != "digest");
            Value::Object(kept.map(|(name, value)| (name.clone(), without_digests(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_digests).collect(),
        other => other.clone(),
    }
}

fn parse(mut parser: lexopt::Parser) -> Result<Options, lexopt::Error> {
    let (mut inputs, mut json, mut md, mut svg) = (Vec::new(), None, None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Value(file) => inputs.push(PathBuf::from(file)),
            Long("json") => json = Some(parser.value()?.into()),
            Long("md") => md = Some(parser.value()?.into()),
            Long("svg") => svg = Some(parser.value()?.into()),
            other => return Err(other.unexpected()),
        }
    }
    let inputs = inputs.try_into().map_err(|got: Vec<PathBuf>| format!("wanted two files, got {}", got.len()))?;
    Ok(Options { inputs, json, md, svg })
}

fn read(file: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
}

impl Both {
    /// A row for each workload of ours; the peers' by name.
    fn new(ours: Value, peers: Value) -> Result<Both, String> {
        let list = |value: &Value| value["workloads"].as_array().cloned().ok_or("a report lacks `workloads`");
        let theirs = list(&peers)?;
        let rows = list(&ours)?
            .iter()
            .map(|own| Row::new(own, theirs.iter().find(|peer| peer["workload"] == own["workload"])))
            .collect();
        Ok(Both { ours, peers, rows })
    }

    /// How fast the machine copies: the peers' driver's own copy, or our kernel's, whichever is faster.
    fn copy(&self) -> f64 {
        let rate = |value: &Value| value["copy_gigabytes_per_second"].as_f64().unwrap_or(0.0);
        rate(&self.ours).max(rate(&self.peers))
    }

    fn svg(&self) -> Result<String, String> {
        let bar = |row: &Row| {
            let ratio = row.ratio()?;
            Some(Bar { name: row.name.clone(), ratio, mark: 1.0, reached: ratio >= 1.0 && row.difference.is_none() })
        };
        let bars: Vec<Bar> = self.rows.iter().filter_map(bar).collect();
        let device = self.peers["device"].as_str().unwrap_or("?");
        let caption = format!("Times as fast as the best of its peers: {device}");
        let axis = "ratio to the fastest peer (logarithmic); the mark is a tie";
        Chart { caption: &caption, axis, names: 260, bars: &bars }.svg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(kiln: Value) -> Both {
        let digest = json!({ "shape": [1], "sum": 2.0, "magnitude": 2.0, "weighted": -2.0, "samples": [2.0, 2.0] });
        let mut kiln = kiln;
        kiln["digest"] = digest.clone();
        let ours = json!({
            "program": "kiln 1", "device": "cuda:0", "copy_gigabytes_per_second": 100.0,
            "workloads": [{
                "workload": "a", "title": "t", "bytes": 50_000_000, "flops": 0, "tolerance": 0.01, "by": { "kiln": kiln },
            }],
        });
        let peers = json!({
            "program": "torch 1", "device": "a GPU", "copy_gigabytes_per_second": 90.0,
            "workloads": [{ "workload": "a", "by": {
                "eager": { "median_ms": 4.0, "bench_ms": 3.5, "first_ms": 1.0, "digest": digest },
                "compile": { "median_ms": 2.0, "bench_ms": 1.5, "first_ms": 900.0, "digest": digest },
            } }],
        });
        Both::new(ours, peers).expect("both are whole")
    }

    #[test]
    fn the_fastest_peer_is_what_counts() {
        let both = both(json!({ "median_ms": 1.0, "first_ms": 30.0 }));
        assert_eq!(both.rows[0].ratio(), Some(2.0));
        assert_eq!(both.rows[0].difference, None);
        let page = page::render(&both);
        assert!(page.contains("| a        |  1.0000 | 4.0000 |  2.0000 |"), "{page}");
        assert!(page.contains("2.00x") && page.contains("50 %"), "{page}");
        let svg = both.svg().expect("a chart can be drawn");
        assert!(svg.contains("2.00x") && svg.contains("a GPU"));
    }

    #[test]
    fn a_workload_that_failed_has_no_ratio_and_its_words() {
        let both = both(json!({ "error": "out of memory" }));
        assert_eq!(both.rows[0].ratio(), None);
        assert!(page::render(&both).contains("a: out of memory"));
    }
}
