//! `info`: what this binary is, what it was built with, and which machines it finds.

use std::process::ExitCode;

use burn_kiln::inspect::{self, About};
use burn_kiln::knobs;
use kiln_conformance::assemble::ASSEMBLERS;
use kiln_conformance::targets::TARGETS;

use crate::Command;

pub const COMMAND: Command =
    Command { name: "info", usage: "", about: "versions, machines found, targets built in", run };

/// The commit that the binary was built from, where `cargo x dist` built it.
pub const COMMIT: &str = match option_env!("SUITE_COMMIT") {
    Some(commit) => commit,
    None => "unknown commit",
};

fn run(words: Vec<String>) -> Result<ExitCode, String> {
    if let Some(word) = words.first() {
        return Err(format!("takes no `{word}`"));
    }
    let knobs = knobs::get();
    println!("kiln-conformance {} ({COMMIT})", env!("CARGO_PKG_VERSION"));
    println!("chosen     {} (by {} or --device)", knobs.device, knobs::KILN_DEVICE);
    for About { device, facts } in inspect::devices() {
        let facts: Vec<String> = facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
        println!("device     {device}: {}", facts.join(", "));
    }
    for target in TARGETS {
        let state = if (target.machine)().is_some() { "runs here" } else { "built in, no device" };
        println!("target     {}: {state}", target.name);
    }
    let assembled: Vec<&str> = ASSEMBLERS.iter().map(|assembler| assembler.name).collect();
    println!("code for   {}", assembled.join(", "));
    let cache = knobs.cache_dir.as_ref().map_or("off".into(), |folder| folder.display().to_string());
    println!("cache      {cache}");
    Ok(ExitCode::SUCCESS)
}
