//! `info`: what this binary is, what it was built with, and which machines it finds.

use std::process::ExitCode;

use burn_kiln::knobs;
use kiln_conformance::targets;
use kiln_lowering::target::host;

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
    let spec = host::spec();
    println!("kiln-conformance {} ({COMMIT})", env!("CARGO_PKG_VERSION"));
    println!("device     {} (chosen by {} or --device)", knobs.device, knobs::KILN_DEVICE);
    println!("processor  {}, {} lanes, {} threads", spec.cpu, spec.lanes, knobs.threads);
    for target in targets::TARGETS {
        let state = if (target.machine)().is_some() { "found" } else { "built in, no device" };
        println!("target     {}: {state}", target.name);
    }
    let cache = knobs.cache_dir.as_ref().map_or("off".into(), |folder| folder.display().to_string());
    println!("cache      {cache}");
    Ok(ExitCode::SUCCESS)
}
