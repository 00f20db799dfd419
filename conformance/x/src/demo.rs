//! `cargo x demo`: runs an example on Kiln; with `--compare` also on stock burn-flex, from the same source, side by side.

mod digits;
mod gpt;
mod minilm;
mod ran;
mod table;

use std::process::Command as Process;

use crate::setup::{self, Llvm};
use crate::stock::{self, Program};
use crate::workspace::Workspace;
use crate::{Command, Outcome};
use ran::Ran;

pub const COMMAND: Command = Command {
    name: "demo",
    usage: "[digits|gpt|minilm] [--compare] [ARGUMENTS]",
    about: "run an example on Kiln (and on stock burn-flex, side by side)",
    run,
};

/// Where Kiln writes what it did, one JSON object a line.
const STATS_VARIABLE: &str = "KILN_STATS";

/// The examples; the first is run if none is named.
const EXAMPLES: &[Example] = &[digits::EXAMPLE, gpt::EXAMPLE, minilm::EXAMPLE];

/// A program of `examples` whose runs can be laid side by side.
struct Example {
    program: Program,
    /// What it is run with besides the user's arguments, given the build folder and which backend it is.
    arguments: fn(&Workspace, Backend) -> Vec<String>,
    /// Prints both runs; an error if they differ by more than they may.
    compare: fn(&Bench, &Ran, &Ran) -> Outcome,
}

/// What an example runs on.
#[derive(Clone, Copy, PartialEq)]
enum Backend {
    Kiln,
    Stock,
}

/// Builds and runs.
struct Bench<'a> {
    workspace: &'a Workspace,
    llvm: Llvm,
}

fn run(workspace: &Workspace, mut parser: lexopt::Parser) -> Outcome {
    let words = parser.raw_args().map_err(|error| error.to_string())?;
    let wanted = wanted(words.map(|word| word.to_string_lossy().into_owned()).collect())?;
    let example = wanted.example;
    let name = example.program.package;
    let bench = Bench { workspace, llvm: setup::ensure()? };
    println!("== {name} on Kiln");
    let kiln = bench.on_kiln(&example.program, &example.call(workspace, Backend::Kiln, &wanted.arguments))?;
    if let Some(stats) = &kiln.stats {
        println!("{stats}");
    }
    if !wanted.compare {
        return Ok(());
    }
    println!("\n== {name} on stock burn-flex {}", stock::FLEX_VERSION);
    let flex = bench.on_stock(&example.program, &example.call(workspace, Backend::Stock, &wanted.arguments))?;
    println!();
    (example.compare)(&bench, &kiln, &flex)
}

impl Example {
    fn call(&self, workspace: &Workspace, backend: Backend, arguments: &[String]) -> Vec<String> {
        [(self.arguments)(workspace, backend), arguments.to_vec()].concat()
    }
}

struct Wanted {
    example: &'static Example,
    compare: bool,
    /// For the example.
    arguments: Vec<String>,
}

fn wanted(mut words: Vec<String>) -> Result<Wanted, String> {
    let named = words.iter().position(|word| word != "--compare").filter(|&at| !words[at].starts_with('-'));
    let example = match named.map(|at| words.remove(at)) {
        None => &EXAMPLES[0],
        Some(name) => EXAMPLES.iter().find(|example| example.program.package == name).ok_or_else(|| {
            let names: Vec<&str> = EXAMPLES.iter().map(|example| example.program.package).collect();
            format!("there is no example `{name}`, only {}", names.join(", "))
        })?,
    };
    let before = words.len();
    words.retain(|word| word != "--compare");
    Ok(Wanted { example, compare: words.len() < before, arguments: words })
}

impl Bench<'_> {
    /// Builds and runs a program of the workspace, and keeps what Kiln says of itself.
    fn on_kiln(&self, program: &Program, arguments: &[String]) -> Result<Ran, String> {
        let name = program.package;
        let built = self.llvm.build(self.workspace, name)?;
        let stats = self.workspace.target.join(format!("{name}-stats.jsonl"));
        // A file of an earlier run must not be taken for this one's.
        drop(std::fs::remove_file(&stats));
        Ran::of(Process::new(built).args(arguments).env(STATS_VARIABLE, &stats))?.with_stats(&stats)
    }

    /// The same on stock burn-flex.
    fn on_stock(&self, program: &Program, arguments: &[String]) -> Result<Ran, String> {
        let name = program.package;
        let folder = stock::build(self.workspace, &format!("stock-{name}"), std::slice::from_ref(program))?;
        Ran::of(Process::new(folder.join(format!("{name}-stock"))).args(arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<(&'static str, bool, Vec<String>), String> {
        let wanted = wanted(words.iter().map(|&word| word.to_owned()).collect())?;
        Ok((wanted.example.program.package, wanted.compare, wanted.arguments))
    }

    #[test]
    fn what_is_not_ours_goes_to_the_example() {
        assert_eq!(read(&[]), Ok(("digits", false, vec![])));
        assert_eq!(read(&["--compare", "--epochs", "3"]), Ok(("digits", true, vec!["--epochs".into(), "3".into()])));
        assert_eq!(read(&["gpt", "--steps", "9"]), Ok(("gpt", false, vec!["--steps".into(), "9".into()])));
        assert_eq!(read(&["--compare", "minilm", "folder"]), Ok(("minilm", true, vec!["folder".into()])));
        assert_eq!(read(&["dogs"]), Err("there is no example `dogs`, only digits, gpt, minilm".into()));
    }
}
