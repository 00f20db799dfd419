//! The project's own commands: `cargo x COMMAND`. One file a command, this list, and nothing of Kiln itself:
//! the package has to build where LLVM is still missing.

mod bars;
mod bench;
mod child;
mod demo;
mod dist;
mod doc;
mod explain;
mod knobs;
mod lint;
mod median;
mod peers;
mod setup;
mod stock;
mod test;
mod tidy;
mod ulp;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

/// What a command ends with: what went wrong is printed after the command's name.
type Outcome = Result<(), String>;

struct Command {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    run: fn(&Workspace, lexopt::Parser) -> Outcome,
}

const COMMANDS: &[Command] = &[
    demo::COMMAND,
    bench::COMMAND,
    explain::COMMAND,
    test::COMMAND,
    ulp::COMMAND,
    dist::COMMAND,
    peers::COMMAND,
    setup::COMMAND,
    knobs::COMMAND,
    tidy::COMMAND,
    lint::COMMAND,
    doc::COMMAND,
];

fn main() -> ExitCode {
    let mut parser = lexopt::Parser::from_env();
    let name = match parser.next() {
        Ok(Some(lexopt::Arg::Value(name))) => name.to_string_lossy().into_owned(),
        Ok(None | Some(lexopt::Arg::Long("help") | lexopt::Arg::Short('h'))) => {
            print!("{}", help());
            return ExitCode::SUCCESS;
        }
        Ok(Some(other)) => return fail("cargo x", &other.unexpected().to_string()),
        Err(error) => return fail("cargo x", &error.to_string()),
    };
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprint!("{}", help());
        return fail("cargo x", &format!("there is no command `{name}`"));
    };
    let outcome = Workspace::find().and_then(|workspace| (command.run)(&workspace, parser));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cargo x {}", command.name), &error),
    }
}

fn fail(who: &str, why: &str) -> ExitCode {
    eprintln!("{who}: {why}");
    ExitCode::FAILURE
}

fn help() -> String {
    let mut text = String::from("Usage: cargo x COMMAND\n\n");
    for command in COMMANDS {
        let call = format!("{} {}", command.name, command.usage);
        text += &format!("  {:<34} {}\n", call.trim_end(), command.about);
    }
    text
}

/// For commands that take no arguments.
fn no_arguments(mut parser: lexopt::Parser) -> Outcome {
    match parser.next().map_err(|error| error.to_string())? {
        None => Ok(()),
        Some(argument) => Err(argument.unexpected().to_string()),
    }
}
