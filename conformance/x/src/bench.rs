//! `cargo x bench`: one source of workloads with and without the patch, the two programs in turn, and how they compare.

mod compare;
mod copy;
mod machine;
mod measure;
mod options;
mod picture;
mod program;
mod report;
mod row;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use crate::stock::{self, Program};
use crate::workspace::Workspace;
use crate::{Command, Outcome, setup};
use report::Report;

pub use compare::difference;

pub const COMMAND: Command = Command {
    name: "bench",
    usage: "[--filter NAME] [--rounds N] [--json FILE] [--svg FILE]",
    about: "time workloads on Kiln and on stock burn-flex, in turn (`bench --help` for more)",
    run,
};

const PROGRAM: Program = Program { package: "kiln-bench", folder: "conformance/bench" };

fn run(workspace: &Workspace, parser: lexopt::Parser) -> Outcome {
    let Some(options) = options::parse(parser)? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    let kiln = match &options.kiln {
        Some(built) => built.clone(),
        None => build_kiln(workspace)?,
    };
    let stock = match &options.stock {
        Some(built) => built.clone(),
        None => build_stock(workspace)?,
    };
    let machine = machine::describe();
    let copy = copy::measure();
    println!("machine: {machine}\n{copy}");
    let rows = measure::all(&kiln, &stock, &options)?;
    let report = Report { machine, copy, rounds: options.rounds, seconds: options.seconds, rows };
    println!("\n{}", table::render(&report));
    if let Some(file) = &options.json {
        write(file, &format!("{:#}\n", report.json()))?;
    }
    if let Some(file) = &options.svg {
        write(file, &picture::draw(&report)?)?;
    }
    // A floor that is not reached is a finding; a wrong result is a failure.
    match report.wrong() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} of {} workloads failed or gave a wrong result", report.rows.len())),
    }
}

fn build_kiln(workspace: &Workspace) -> Result<PathBuf, String> {
    println!("== building the workloads on Kiln");
    setup::ensure()?.build(workspace, PROGRAM.package)
}

fn build_stock(workspace: &Workspace) -> Result<PathBuf, String> {
    println!("== building the workloads on stock burn-flex {}", stock::FLEX_VERSION);
    let folder = stock::build(workspace, "stock-bench", &[PROGRAM])?;
    Ok(folder.join(format!("{}-stock", PROGRAM.package)))
}

fn write(file: &Path, text: &str) -> Outcome {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
