//! Child processes: cargo itself, and a line-by-line watch over what a program prints.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::workspace::Workspace;

/// How a watched program ended.
pub struct Watched {
    /// Its exit status.
    pub status: ExitStatus,
    /// From start to end.
    pub time: Duration,
    /// The largest resident memory seen, in bytes; `None` where the system does not tell.
    pub peak_memory: Option<u64>,
}

/// A cargo call in the workspace, by the cargo that runs us.
pub fn cargo(workspace: &Workspace, arguments: &[&str]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&workspace.root);
    // Cargo sets these for the package it runs; they are about kiln-x and would only mislead a build below.
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") {
            command.env_remove(name);
        }
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
    command
}

/// Runs to the end; anything but success is an error that names the call.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", shown(command))) }
}

/// Runs to the end and hands over each line of standard output as it comes.
pub fn watch(command: &mut Command, mut line_seen: impl FnMut(&str)) -> Result<Watched, String> {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(command, &error))?;
    let memory = thread::spawn({
        let id = child.id();
        move || watch_memory(id)
    });
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        while output.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            line_seen(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']));
            bytes.clear();
        }
    }
    let status = child.wait().map_err(|error| format!("`{}`: {error}", shown(command)))?;
    let time = start.elapsed();
    Ok(Watched { status, time, peak_memory: memory.join().ok().flatten() })
}

/// Polls the high-water mark that Linux keeps until the process is gone.
fn watch_memory(id: u32) -> Option<u64> {
    let mut peak = None;
    while let Some(bytes) = fs::read_to_string(format!("/proc/{id}/status")).ok().as_deref().and_then(high_water) {
        peak = peak.max(Some(bytes));
        thread::sleep(Duration::from_millis(20));
    }
    peak
}

/// `VmHWM:   123 kB`; a process that has ended but was not waited for has no such line.
fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start `{}`: {error}", command.get_program().to_string_lossy())
}

fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut text = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text += &argument.to_string_lossy();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_water_mark_is_read() {
        assert_eq!(high_water("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 10 kB\n"), Some(2048 * 1024));
        assert_eq!(high_water("Name:\tx\nState:\tZ (zombie)\n"), None);
    }
}
