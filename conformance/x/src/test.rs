//! `cargo x test`: every test of the workspace, then one page that says what ran. A test that is ignored, or a run
//! without tests, is a failure.

mod report;
mod tally;

use std::fs;

use crate::workspace::Workspace;
use crate::{Command, Outcome, child, setup};
use report::Report;
use tally::Tally;

pub const COMMAND: Command = Command {
    name: "test",
    usage: "[CARGO TEST ARGUMENTS]",
    about: "run every test of the workspace and say what ran",
    run,
};

/// Names the file to which tests append what they covered.
///
/// One JSON object a line: `{"kind":"rows"|"dtypes"|"programs","name":"…","count":N}`.
pub const REPORT_VARIABLE: &str = "KILN_TEST_REPORT";

fn run(workspace: &Workspace, mut parser: lexopt::Parser) -> Outcome {
    let rest: Vec<String> = parser
        .raw_args()
        .map_err(|error| error.to_string())?
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let llvm = setup::ensure()?;

    let file = workspace.target.join("test-report.jsonl");
    fs::create_dir_all(&workspace.target)
        .and_then(|()| fs::write(&file, ""))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let mut call = child::cargo(workspace, &["test", "--no-fail-fast"]);
    if rest.is_empty() {
        call.arg("--workspace");
    }
    call.args(&rest).env(REPORT_VARIABLE, &file);

    let mut tally = Tally::default();
    let watched = child::watch(llvm.point(&mut call), |line| {
        println!("{line}");
        tally.read(line);
    })?;
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let report = Report::parse(&text)?;

    println!("\n{report}{}", tally.page(watched.time));
    tally.verdict(watched.status.success())
}
