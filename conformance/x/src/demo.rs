//! `cargo x demo`: trains `examples/digits` on Kiln; with `--compare` also on stock burn-flex, from the same source, and
//! times `examples/chain` on both.

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
    let stock = stock::build(workspace)?;
    let flex = measured(Process::new(stock.join("digits-stock")).args(&options.arguments))?;
    println!("\n== ten pointwise operations over 4 Mi f32");
    child::run(llvm.point(&mut child::cargo(workspace, &["build", "--release", "--package", "chain"])))?;
    let programs = [workspace.target.join("release/chain"), stock.join("chain-stock")];
    let chains =
        programs.map(|program| last_line(&mut Process::new(program)).and_then(|line| report::chain(&line.text)));
    let [kiln_chain, flex_chain] = chains;
    println!("\n{}", report::side_by_side(&kiln, &flex));
    println!("{}", report::chains(kiln_chain?, flex_chain?));
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

/// What a run of `digits` reports.
fn measured(program: &mut Process) -> Result<Report, String> {
    let line = last_line(program)?;
    Report::parse(&line.text, line.peak_memory)
}

/// The JSON line at the end of a program's output.
struct LastLine {
    text: String,
    peak_memory: Option<u64>,
}

/// Runs an example, shows what it prints, and keeps the JSON line at its end.
fn last_line(program: &mut Process) -> Result<LastLine, String> {
    let mut last = String::new();
    let watched = child::watch(program, |line| {
        if !line.starts_with('{') {
            println!("{line}");
        }
        line.clone_into(&mut last);
    })?;
    if !watched.status.success() {
        return Err(format!("{} ended with {}", program.get_program().to_string_lossy(), watched.status));
    }
    Ok(LastLine { text: last, peak_memory: watched.peak_memory })
}
