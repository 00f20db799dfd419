//! The binary that is carried to machines without a toolchain: tests, measurements, examples and what there is.  One file
//! a command, this list; the tests themselves are the library's.

mod bench;
mod device;
mod example;
mod info;
mod portability;
mod test;

use std::process::ExitCode;

/// A command.  `Err` is what went wrong, printed behind its name.
struct Command {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    run: fn(Vec<String>) -> Result<ExitCode, String>,
}

const COMMANDS: &[Command] = &[test::COMMAND, bench::COMMAND, portability::COMMAND, example::COMMAND, info::COMMAND];

fn main() -> ExitCode {
    // A child of a test has its task and no arguments.
    if let Some(code) = kiln_suite::child::serve() {
        return code;
    }
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = device::choose(&mut words).and_then(|()| match words.first() {
        None => Err(String::new()),
        Some(name) if matches!(name.as_str(), "-h" | "--help" | "help") => {
            print!("{}", help());
            Ok(ExitCode::SUCCESS)
        }
        Some(name) => match COMMANDS.iter().find(|command| command.name == name) {
            None => Err(format!("there is no command `{name}`")),
            Some(command) => (command.run)(words.split_off(1)).map_err(|error| format!("{}: {error}", command.name)),
        },
    });
    outcome.unwrap_or_else(|error| {
        eprint!("{}", if error.is_empty() { help() } else { format!("kiln-conformance: {error}\n") });
        ExitCode::from(2)
    })
}

fn help() -> String {
    let mut text = String::from("Usage: kiln-conformance [--device cpu|cuda:N|hip:N|interp] COMMAND\n\n");
    for command in COMMANDS {
        let call = format!("{} {}", command.name, command.usage);
        text += &format!("  {:<58} {}\n", call.trim_end(), command.about);
    }
    text
}
