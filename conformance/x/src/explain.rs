//! `cargo x explain EXAMPLE`: what one step of an example became: the operations recorded, the kernels, what fused into
//! each and why a neighbour did not, bytes, times, compilation. As text, JSON and a picture.

mod fold;
mod json;
mod period;
mod picture;
mod record;
mod step;
mod svg;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use lexopt::prelude::*;

use crate::workspace::Workspace;
use crate::{Command, Outcome, child, setup};
use record::Record;
use step::Step;

pub const COMMAND: Command = Command {
    name: "explain",
    usage: "EXAMPLE|FILE [--json] [--svg FILE] [--only A-B] [-- …]",
    about: "show what one step of an example became, or of any program run under KILN_DUMP=explain",
    run,
};

/// Arguments that make a run short, where none are given: a few steps show what all do.
const SHORT: &[(&str, &[&str])] = &[("digits", &["--epochs", "3"]), ("gpt", &["--steps", "8", "--length", "1"])];

struct Options {
    example: String,
    json: bool,
    svg: Option<PathBuf>,
    /// Numbers of the first and the last kernel that are shown, from 1.
    only: Option<(usize, usize)>,
    arguments: Vec<String>,
}

fn run(workspace: &Workspace, parser: lexopt::Parser) -> Outcome {
    let options = options(parser).map_err(|error| error.to_string())?;
    let record = recorded(workspace, &options)?;
    let name = Path::new(&options.example).file_stem().unwrap_or_default().to_string_lossy();
    let mut step = Step::of(&name, &record)?;
    if let Some((first, last)) = options.only {
        let count = step.kernels.len();
        step = step.part(first, last).ok_or(format!("--only wants kernels of 1-{count}, got {first}-{last}"))?;
    }
    if let Some(path) = &options.svg {
        fs::write(path, picture::draw(&step)).map_err(|error| format!("{}: {error}", path.display()))?;
        eprintln!("cargo x explain: wrote {}", path.display());
    }
    print!("{}", if options.json { json::print(&step) } else { table::print(&step) });
    Ok(())
}

fn options(mut parser: lexopt::Parser) -> Result<Options, lexopt::Error> {
    let (mut example, mut json, mut svg, mut only, mut arguments) = (None, false, None, None, Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Value(name) if example.is_none() => example = Some(name.string()?),
            Long("json") => json = true,
            Long("svg") => svg = Some(PathBuf::from(parser.value()?)),
            Long("only") => only = Some(range(&parser.value()?.string()?)?),
            Value(value) => arguments.push(value.string()?),
            other => return Err(other.unexpected()),
        }
    }
    let example = example.ok_or("wants the name of an example, as in `cargo x explain digits`")?;
    if arguments.is_empty() {
        let short = SHORT.iter().find(|(name, _)| *name == example).map_or(&[][..], |(_, short)| short);
        arguments = short.iter().map(|&argument| argument.to_owned()).collect();
    }
    Ok(Options { example, json, svg, only, arguments })
}

/// `4-11`
fn range(text: &str) -> Result<(usize, usize), lexopt::Error> {
    let numbers = text.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    numbers.ok_or(format!("--only wants numbers of kernels, as in `--only 4-11`, got `{text}`").into())
}

fn examples(workspace: &Workspace) -> String {
    let entries = fs::read_dir(workspace.root.join("examples")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.join(", ")
}

/// What Kiln wrote down: a file of an earlier run, or that of the example, which is built and run for it.
fn recorded(workspace: &Workspace, options: &Options) -> Result<Record, String> {
    let example = &options.example;
    if example.ends_with(".jsonl") {
        let text = fs::read_to_string(example).map_err(|error| format!("{example}: {error}"))?;
        return Record::parse(&text);
    }
    if !workspace.root.join("examples").join(example).join("Cargo.toml").is_file() {
        return Err(format!("there is no example `{example}`; there are {}", examples(workspace)));
    }
    let built = setup::ensure()?.build(workspace, example)?;
    let folder = workspace.target.join("explain").join(example);
    let file = folder.join("explain.jsonl");
    // A file of an earlier run must not be taken for this one's.
    drop(fs::remove_file(&file));
    let mut program = Process::new(built);
    program.args(&options.arguments).env("KILN_DUMP", "explain").env("KILN_DUMP_DIR", &folder);
    eprintln!("cargo x explain: runs {example} {}", options.arguments.join(" "));
    child::run(program.current_dir(&workspace.root).stdout(Stdio::null()))?;
    let text = fs::read_to_string(&file)
        .map_err(|error| format!("Kiln left no explanation ({error}): did the program run on Kiln?"))?;
    Record::parse(&text)
}
