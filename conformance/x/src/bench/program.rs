//! One of the two programs: started once, it keeps its workload ready between rounds and answers each request by a line.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A program that is started when it is first asked, and again after it died.
pub struct Program {
    path: PathBuf,
    running: Option<Running>,
}

struct Running {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Starts nothing yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.into(), running: None }
    }

    /// The workloads that the program holds, one JSON object each.
    pub fn list(&self) -> Result<Vec<Value>, String> {
        let output = Command::new(&self.path).arg("--list").output().map_err(|error| self.failed(&error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(|line| serde_json::from_str(line).map_err(|error| self.failed(&error))).collect()
    }

    /// Sends a request and waits for its answer. A program that dies instead takes its error to the terminal; the next
    /// request starts a new one.
    pub fn ask(&mut self, request: &str) -> Result<Value, String> {
        let answer = self.try_ask(request);
        if answer.is_err()
            && let Some(mut dead) = self.running.take()
        {
            // It may be alive and out of step: whatever it is, it goes.
            drop(dead.child.kill());
            drop(dead.child.wait());
        }
        answer
    }

    fn try_ask(&mut self, request: &str) -> Result<Value, String> {
        let path = self.path.clone();
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(start(&self.path).map_err(|error| failed(&error))?),
        };
        let mut line = String::new();
        writeln!(running.requests, "{request}")
            .and_then(|()| running.requests.flush())
            .and_then(|()| running.answers.read_line(&mut line))
            .map_err(|error| failed(&error))?;
        if line.is_empty() {
            return Err(failed(&format!("ended at `{request}`")));
        }
        serde_json::from_str(&line).map_err(|error| failed(&error))
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> String {
        format!("{}: {error}", self.path.display())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(Running { mut child, requests, .. }) = self.running.take() {
            // The end of its input is the end of the program.
            drop(requests);
            drop(child.wait());
        }
    }
}

fn start(path: &Path) -> std::io::Result<Running> {
    let mut child = Command::new(path).arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let missing = || std::io::Error::other("no pipe to it");
    let requests = child.stdin.take().ok_or_else(missing)?;
    let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?);
    Ok(Running { child, requests, answers })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_that_dies_is_started_again() {
        let path = std::env::temp_dir().join(format!("kiln-x-program-{}", std::process::id()));
        let script = "#!/bin/sh\nwhile read a b; do [ $a = die ] && exit 1; echo \"{\\\"is\\\":\\\"$a\\\"}\"; done\n";
        std::fs::write(&path, script).expect("a temporary file can be written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
        let mut program = Program::new(&path);
        assert_eq!(program.ask("one 1").expect("it answers")["is"], "one");
        assert!(program.ask("die now").is_err_and(|error| error.contains("ended at `die now`")));
        assert_eq!(program.ask("two 2").expect("a new one answers")["is"], "two");
        drop(program);
        std::fs::remove_file(&path).expect("it is there");
    }
}
