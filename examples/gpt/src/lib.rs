//! Trains a small character transformer on a novel and lets it write, as any Burn program would.
//! Names no backend: the device is Burn's default one, and Cargo.toml decides what that is.

mod model;
mod options;
mod random;
mod report;
mod sample;
mod text;
mod train;

use std::process::ExitCode;

use burn::tensor::Device;

pub use model::{Gpt, Size};
pub use options::Run;
pub use random::Random;
pub use sample::{Style, write};
pub use text::{Alphabet, Text};
pub use train::Training;

/// Runs the command line: trains, measures the loss on held-out text, writes a sample.
///
/// The last line of output is one JSON object: see `report.rs`.
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
            eprintln!("gpt: {error}");
            eprint!("{}", options::HELP);
            return ExitCode::from(2);
        }
    };
    match report::run(&run, &Device::default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpt: {error}");
            ExitCode::FAILURE
        }
    }
}
