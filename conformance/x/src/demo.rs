//! `cargo x demo`: trains `examples/digits` on Kiln; with `--compare` also on stock burn-flex, from the same source.

mod report;
mod stock;

use std::process::Command as Process;

use lexopt::prelude::*;

use crate::setup::Llvm;
use crate::workspace::Workspace;
use crate::{Command, Outcome, child, setup};
use report::{Report, Stats};

pub const COMMAND: Command = Command {
    name: "demo",
    usage: "[--compare] [--epochs N]",
    about: "train a digit classifier on Kiln (and on stock burn-flex, side by side)",
    run,
};

/// Largest difference of the two accuracies, in percentage points.
const ACCURACY_TOLERANCE: f64 = 1.0;

/// Where Kiln writes what it did, one JSON object a line.
const STATS_VARIABLE: &str = "KILN_STATS";

struct Options {
    compare: bool,
    arguments: Vec<String>,
}

fn run(workspace: &Workspace, parser: lexopt::Parser) -> Outcome {
    let options = options(parser).map_err(|error| error.to_string())?;
    let llvm = setup::ensure()?;
    println!("== digits on Kiln");
    let kiln = on_kiln(workspace, &llvm, &options.arguments)?;
    if !options.compare {
        return Ok(());
    }
    println!("\n== digits on stock burn-flex {}", stock::FLEX_VERSION);
    let flex = on_stock(workspace, &options.arguments)?;
    println!("\n{}", report::side_by_side(&kiln, &flex));
    let apart = 100.0 * (kiln.run.accuracy - flex.run.accuracy).abs();
    if apart > ACCURACY_TOLERANCE {
        return Err(format!("the accuracies are {apart:.2} percentage points apart, {ACCURACY_TOLERANCE} allowed"));
    }
    Ok(())
}

fn options(mut parser: lexopt::Parser) -> Result<Options, lexopt::Error> {
    let mut options = Options { compare: false, arguments: Vec::new() };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("compare") => options.compare = true,
            Long("epochs") => {
                let epochs: u32 = parser.value()?.parse()?;
                options.arguments.extend(["--epochs".into(), epochs.to_string()]);
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

fn on_kiln(workspace: &Workspace, llvm: &Llvm, arguments: &[String]) -> Result<Report, String> {
    child::run(llvm.point(&mut child::cargo(workspace, &["build", "--release", "--package", "digits"])))?;
    let stats = workspace.target.join("demo-stats.jsonl");
    // A file of an earlier run must not be taken for this one's.
    drop(std::fs::remove_file(&stats));
    let mut digits = Process::new(workspace.target.join("release/digits"));
    let mut report = measured(digits.args(arguments).env(STATS_VARIABLE, &stats))?;
    let text = std::fs::read_to_string(&stats)
        .map_err(|error| format!("Kiln left no statistics ({error}): did the program run on Kiln?"))?;
    let stats = Stats::parse(&text)?;
    println!("{stats}");
    report.stats = Some(stats);
    Ok(report)
}

fn on_stock(workspace: &Workspace, arguments: &[String]) -> Result<Report, String> {
    let program = stock::build(workspace)?;
    measured(Process::new(program).args(arguments))
}

/// Runs the example, shows what it prints, and keeps the JSON line at its end.
fn measured(program: &mut Process) -> Result<Report, String> {
    let mut last = String::new();
    let watched = child::watch(program, |line| {
        if !line.starts_with('{') {
            println!("{line}");
        }
        line.clone_into(&mut last);
    })?;
    if !watched.status.success() {
        return Err(format!("digits ended with {}", watched.status));
    }
    Report::parse(&last, watched.peak_memory)
}
