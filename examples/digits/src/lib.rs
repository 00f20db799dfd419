//! Trains a convolutional classifier on 8×8 images of handwritten digits, as any Burn program would.
//! Names no backend: the device is Burn's default one, and Cargo.toml decides what that is.

mod data;
mod model;
mod options;
mod train;

use std::process::ExitCode;

pub use options::Run;
pub use train::{Outcome, run as train};

/// Runs the command line: trains, measures the accuracy on held-out images and prints both.
///
/// The last line of output is one JSON object: `accuracy` in 0..=1, `epoch_seconds` (one number an epoch),
/// `total_seconds`.
pub fn main() -> ExitCode {
    run(lexopt::Parser::from_env())
}

/// The same with arguments of another program, which holds this one.
pub fn run(arguments: lexopt::Parser) -> ExitCode {
    let run = match options::parse(arguments) {
        Ok(options::Command::Run(run)) => run,
        Ok(options::Command::Help) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("digits: {error}");
            eprint!("{}", options::HELP);
            return ExitCode::from(2);
        }
    };
    match train::run(&run) {
        Ok(outcome) => {
            outcome.print();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("digits: {error}");
            ExitCode::FAILURE
        }
    }
}
