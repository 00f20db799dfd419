//! Embeds sentences with the weights of all-MiniLM-L6-v2 and ranks them by a query, as any Burn program would.
//! Names no backend: the device is Burn's default one, and Cargo.toml decides what that is.

mod bert;
mod embed;
mod folder;
mod options;
mod report;
mod tokens;
mod weights;

use std::process::ExitCode;

use burn::tensor::Device;

pub use bert::{Bert, Config};
pub use embed::Embedder;
pub use tokens::{Tokenizer, Tokens};
pub use weights::load;

/// Runs the command line: embeds the query and the sentences, and prints the sentences by their likeness to it.
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
            eprintln!("minilm: {error}");
            eprint!("{}", options::HELP);
            return ExitCode::from(2);
        }
    };
    match report::run(&run, &Device::default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("minilm: {error}");
            ExitCode::FAILURE
        }
    }
}
