//! `portability`: every kernel of the suite on every target that this machine has, and compiled for those that it has not.

mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use kiln_conformance::ladder::Setting;
use kiln_conformance::targets::{FOR_THREADS, FOR_VECTORS};
use kiln_conformance::threads;
use kiln_conformance::witness::{Outcome, Witness};
use kiln_lowering::graph::arbitrary::Case;
use kiln_suite::kernels;
use lexopt::prelude::*;

use crate::Command;
use table::Table;

pub const COMMAND: Command = Command {
    name: "portability",
    usage: "[--filter TEXT] [--json FILE] [--html FILE]",
    about: "run every kernel of the suite on every target, and compare",
    run,
};

struct Options {
    filter: String,
    json: Option<PathBuf>,
    html: Option<PathBuf>,
}

fn run(words: Vec<String>) -> Result<ExitCode, String> {
    let options = parse(lexopt::Parser::from_args(words)).map_err(|error| error.to_string())?;
    let mut cases = kernels::cases()?;
    cases.retain(|(name, _)| name.contains(&options.filter));
    let witness = Witness::default();
    let broken = hear(&cases, &witness);
    let table = Table { findings: witness.findings(), broken };
    print!("{}", table.text());
    let written = [(options.json, format!("{:#}\n", table.json())), (options.html, table.html())];
    for (file, text) in written {
        if let Some(file) = file {
            std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    let unequal = |outcome: &Outcome| !outcome.is_well();
    let bad = table.findings.iter().any(|finding| finding.outcomes.iter().any(unequal));
    Ok(if bad || !table.broken.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs all cases, cut for processors and for GPUs; gives those that did not come to an end, with why.
fn hear(cases: &[(String, Case)], witness: &Witness) -> Vec<(String, String)> {
    threads::filter_map(cases, |(name, case)| {
        let run = |grain| {
            let setting = Setting { grain, ..Setting::default() };
            setting.run(case, &case.graph, true, &witness.of(name)).err().map(|error| (name.clone(), error))
        };
        run(FOR_VECTORS).or(run(FOR_THREADS))
    })
}

fn parse(mut parser: lexopt::Parser) -> Result<Options, lexopt::Error> {
    let mut options = Options { filter: String::new(), json: None, html: None };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("filter") => options.filter = parser.value()?.string()?,
            Long("json") => options.json = Some(parser.value()?.into()),
            Long("html") => options.html = Some(parser.value()?.into()),
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}
