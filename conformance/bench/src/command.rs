//! The command line and the requests of `--serve`, each answered by one line of JSON:
//!
//! ```text
//! prepare NAME    makes the inputs and warms up     {"first_ms":…,"digest":{…}}
//! round SECONDS   times what is prepared            {"median_ms":…,"least_ms":…,"iterations":…}
//! ```

use std::io::{self, BufRead, Write};

use burn::tensor::Device;
use lexopt::prelude::*;
use serde_json::{Value, json};

use crate::timing::Prepared;
use crate::workload::Workload;
use crate::workloads;

const HELP: &str = "Usage: kiln-bench --list | --serve | [--workload NAME]... [--seconds S] [--digest]\n";
const SECONDS: f64 = 1.0;

/// Reads the arguments and does what they say.
pub fn run(mut arguments: lexopt::Parser) -> Result<(), String> {
    let (mut names, mut seconds, mut with_digest) = (Vec::new(), SECONDS, false);
    while let Some(argument) = arguments.next().map_err(|error| error.to_string())? {
        match argument {
            Long("list") => return workloads::all().try_for_each(|workload| say(&workload.describe())),
            Long("serve") => return serve(io::stdin().lock()),
            Long("workload") => names.push(text(&mut arguments)?),
            Long("seconds") => seconds = number(&text(&mut arguments)?)?,
            Long("digest") => with_digest = true,
            Long("help") | Short('h') => return write(HELP),
            other => return Err(format!("{}\n{HELP}", other.unexpected())),
        }
    }
    let device = Device::default();
    let chosen = names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?;
    let chosen = if chosen.is_empty() { workloads::all().collect() } else { chosen };
    for workload in chosen {
        let (mut prepared, mut report) = Prepared::new(workload, &device)?;
        let round = prepared.round(seconds)?;
        if !with_digest {
            report = json!({ "first_ms": report["first_ms"] });
        }
        report["workload"] = json!(workload.name);
        for key in ["median_ms", "least_ms", "iterations"] {
            report[key] = round[key].clone();
        }
        say(&report)?;
    }
    Ok(())
}

fn serve(requests: impl BufRead) -> Result<(), String> {
    let device = Device::default();
    let mut current: Option<Prepared> = None;
    for request in requests.lines() {
        let request = request.map_err(|error| error.to_string())?;
        match request.split_once(' ') {
            Some(("prepare", name)) => {
                // The one before goes first: two workloads never lie in memory together.
                drop(current.take());
                let (prepared, report) = Prepared::new(find(name)?, &device)?;
                current = Some(prepared);
                say(&report)?;
            }
            Some(("round", seconds)) => {
                let prepared = current.as_mut().ok_or("`round` wants a workload that is prepared")?;
                say(&prepared.round(number(seconds)?)?)?;
            }
            _ => return Err(format!("wanted `prepare NAME` or `round SECONDS`, got `{request}`")),
        }
    }
    Ok(())
}

fn find(name: &str) -> Result<&'static Workload, String> {
    workloads::all().find(|workload| workload.name == name).ok_or_else(|| format!("there is no workload `{name}`"))
}

fn text(arguments: &mut lexopt::Parser) -> Result<String, String> {
    arguments.value().and_then(|value| value.parse()).map_err(|error| error.to_string())
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("wanted a number of seconds, got `{text}`"))
}

fn say(value: &Value) -> Result<(), String> {
    write(&format!("{value}\n"))
}

fn write(text: &str) -> Result<(), String> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| error.to_string())
}
