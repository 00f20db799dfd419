//! `example`: the programs of `examples/`, with their own options.

use std::process::ExitCode;

use crate::{Command, device};

pub const COMMAND: Command = Command {
    name: "example",
    usage: "digits|gpt|minilm|chain [ARGUMENTS]",
    about: "run an example (`example gpt --help` for its options)",
    run,
};

type Example = (&'static str, fn(lexopt::Parser) -> ExitCode);

const EXAMPLES: &[Example] =
    &[("digits", digits::run), ("gpt", gpt::run), ("minilm", minilm::run), ("chain", |_| chain::main())];

fn run(words: Vec<String>) -> Result<ExitCode, String> {
    let known: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
    let Some((name, arguments)) = words.split_first() else {
        return Err(format!("wanted one of {}", known.join(", ")));
    };
    match EXAMPLES.iter().find(|(known, _)| known == name) {
        Some((_, run)) => {
            device::require()?;
            Ok(run(lexopt::Parser::from_args(arguments)))
        }
        None => Err(format!("there is no example `{name}`, only {}", known.join(", "))),
    }
}
