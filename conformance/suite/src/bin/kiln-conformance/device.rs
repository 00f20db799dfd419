//! `--device`: the machine that everything in the process is meant for.  It has to be known before anything starts, and
//! [`KILN_DEVICE`] is the one place that names it: where that says something else, this process starts itself anew.

use std::process::Command;

use burn_kiln::KilnDevice;
use burn_kiln::inspect::{self, About};
use burn_kiln::knobs::KILN_DEVICE;

/// Takes `--device NAME` or `--device=NAME` out of the arguments and sees to it that it is in force.
pub fn choose(words: &mut Vec<String>) -> Result<(), String> {
    let Some(name) = take(words)? else { return Ok(()) };
    if std::env::var(KILN_DEVICE).is_ok_and(|current| current == name) {
        return Ok(());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let error = start_anew(Command::new(own).args(words).env(KILN_DEVICE, name));
    Err(format!("cannot start again with {KILN_DEVICE} set: {error}"))
}

/// Whether the chosen machine is there; if not, the reason in one line.
pub fn require() -> Result<(), String> {
    let chosen = KilnDevice::default();
    let kind = match chosen {
        KilnDevice::Cuda(_) => "cuda",
        KilnDevice::Hip(_) => "hip",
        _ => return Ok(()),
    };
    let devices = inspect::devices();
    let of_kind = |about: &&About| about.device.split(':').next() == Some(kind);
    let about = devices.iter().find(|about| about.device == chosen.to_string());
    match about.or(devices.iter().find(of_kind)) {
        None => Err(format!("no {chosen} device")),
        Some(about) => match about.facts.iter().find(|(name, _)| *name == "unavailable") {
            Some((_, why)) => Err(format!("no {chosen} device: {why}")),
            None if about.device == chosen.to_string() => Ok(()),
            None => Err(format!("no {chosen} device, only {}", about.device)),
        },
    }
}

/// Comes back only if it cannot be done.
#[cfg(unix)]
fn start_anew(command: &mut Command) -> std::io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

#[cfg(not(unix))]
fn start_anew(command: &mut Command) -> std::io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

fn take(words: &mut Vec<String>) -> Result<Option<String>, String> {
    let Some(at) = words.iter().position(|word| word == "--device" || word.starts_with("--device=")) else {
        return Ok(None);
    };
    let word = words.remove(at);
    let name = match word.strip_prefix("--device=") {
        Some(name) => name.to_owned(),
        None if at < words.len() => words.remove(at),
        None => return Err("--device wants a machine".into()),
    };
    match KilnDevice::parse(&name) {
        Some(_) => Ok(Some(name)),
        None => Err(format!("--device takes cpu, cuda:N, hip:N or interp, got `{name}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(line: &str) -> (Result<Option<String>, String>, String) {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let device = take(&mut words);
        (device, words.join(" "))
    }

    #[test]
    fn the_device_may_stand_anywhere() {
        for line in ["--device cuda:0 test rows", "test --device=cuda:0 rows", "test rows --device cuda:0"] {
            assert_eq!(taken(line), (Ok(Some("cuda:0".into())), "test rows".into()), "{line}");
        }
        assert_eq!(taken("info"), (Ok(None), "info".into()));
        assert!(taken("--device gpu test").0.is_err() && taken("test --device").0.is_err());
    }
}
