//! Child processes of a test: this binary again, with variables of its own, to do one task.

use std::process::{Child, Command, ExitCode, Output, Stdio};

use burn_kiln::knobs::KILN_CACHE_DIR;

use crate::kernels;
use crate::tests::{burn, process};

/// Names what a child process is to do.
const TASK: &str = "SUITE_TASK";

/// A task with its name.
pub type Task = (&'static str, fn());

/// Does the task that the parent has named, if there is one.
pub fn serve() -> Option<ExitCode> {
    let wanted = std::env::var(TASK).ok()?;
    let mut known = [process::TASKS, burn::faults::TASKS, kernels::TASKS].into_iter().flatten();
    match known.find(|(name, _)| *name == wanted) {
        Some((_, run)) => {
            run();
            Some(ExitCode::SUCCESS)
        }
        None => {
            eprintln!("{TASK} names no task: `{wanted}`");
            Some(ExitCode::FAILURE)
        }
    }
}

/// Starts a child, which keeps no kernels on disk unless the variables say where.
///
/// # Panics
///
/// If this binary cannot be started again.
pub fn start(task: &str, variables: &[(&str, &str)]) -> Child {
    let own = std::env::current_exe().expect("a running binary has a path");
    let mut command = Command::new(own);
    command
        .env(TASK, task)
        .env(KILN_CACHE_DIR, "off")
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("this binary can be started again")
}

/// Starts a child and waits for its end.
///
/// # Panics
///
/// As [`start`].
pub fn run(task: &str, variables: &[(&str, &str)]) -> Output {
    start(task, variables).wait_with_output().expect("a child that was started ends")
}

/// What a process said.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
