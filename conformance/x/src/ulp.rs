//! `cargo x ulp`: measures the errors of the mathematical functions on this machine; `--report` keeps what was found
//! beside the other reports.

use std::process::Command as Process;
use std::time::{SystemTime, UNIX_EPOCH};

use lexopt::prelude::*;

use crate::workspace::Workspace;
use crate::{Command, Outcome, child, setup};

pub const COMMAND: Command = Command {
    name: "ulp",
    usage: "[--full] [--op NAME] [--dtype NAME] [--json FILE] [--report]",
    about: "measure the errors of the mathematical functions (--full: every f32)",
    run,
};

fn run(workspace: &Workspace, parser: lexopt::Parser) -> Outcome {
    let date = today();
    let commit = commit(workspace);
    let mut arguments = arguments(workspace, parser, &date).map_err(|error| error.to_string())?;
    arguments.extend(["--date", &date, "--commit", &commit].map(String::from));
    let built = setup::ensure()?.build(workspace, "kiln-ulp")?;
    child::run(Process::new(built).args(arguments))
}

fn arguments(workspace: &Workspace, mut parser: lexopt::Parser, date: &str) -> Result<Vec<String>, lexopt::Error> {
    let mut arguments = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("full") => arguments.push("--full".into()),
            Long(name @ ("op" | "dtype" | "json")) => {
                arguments.push(format!("--{name}"));
                arguments.push(parser.value()?.string()?);
            }
            Long("report") => {
                for (option, ending) in [("--json", "json"), ("--page", "md")] {
                    let path = workspace.root.join(format!("conformance/reports/{date}-ulp.{ending}"));
                    arguments.extend([option.into(), path.to_string_lossy().into_owned()]);
                }
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(arguments)
}

/// The commit that is checked out; `+` where the folder differs from it.
pub fn commit(workspace: &Workspace) -> String {
    let git = Process::new("git").args(["describe", "--always", "--dirty=+"]).current_dir(&workspace.root).output();
    match git {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".into(),
    }
}

fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    civil((seconds / 86400) as i64)
}

/// Days since 1970 as a date (H. Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> String {
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{of_month:02}", year + era * 400 + next)
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_are_dates() {
        for (days, date) in [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_787, "2026-11-30"), (20_818, "2026-12-31")]
        {
            assert_eq!(civil(days), date);
        }
    }
}
