//! Workloads that any Burn program could hold, and a clock around each. Names no backend: the device is Burn's default
//! one, and what that is decides the package that builds this source. Compares nothing: `cargo x bench` does.

pub mod batches;
mod command;
pub mod digest;
pub mod numbers;
mod timing;
pub mod workload;
pub mod workloads;

use std::process::ExitCode;

/// Runs the command line.
///
/// `--list` prints one JSON object a workload, `--workload NAME` times one and prints one JSON object, and `--serve`
/// takes requests line by line from standard input, so that two programs can take turns (see `command.rs`).
pub fn main() -> ExitCode {
    match command::run(lexopt::Parser::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kiln-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
