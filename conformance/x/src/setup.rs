//! `cargo x setup`, and the first step of every command that builds Kiln: LLVM 22, lld 22 and a C++ compiler.
//! What to do is decided by [`plan`] from a description of the system; here it is only carried out.

mod plan;
mod probe;

use std::path::PathBuf;
use std::process::Command as Process;

use crate::workspace::Workspace;
use crate::{Command, Outcome, child, no_arguments};
use plan::Plan;

pub const COMMAND: Command = Command {
    name: "setup",
    usage: "",
    about: "find LLVM 22, lld 22 and a C++ compiler, or install them (demo and test do it too)",
    run,
};

/// The variable by which builds find an LLVM 22.1 in an unusual place.
pub const PREFIX_VARIABLE: &str = "LLVM_SYS_221_PREFIX";

/// An LLVM that builds can use.
pub struct Llvm {
    prefix: PathBuf,
}

impl Llvm {
    /// Lets a cargo call and what it starts find this LLVM.
    pub fn point<'a>(&self, command: &'a mut Process) -> &'a mut Process {
        command.env(PREFIX_VARIABLE, &self.prefix)
    }

    /// Builds a program of the workspace on Kiln, in release, and tells where it lies.
    pub fn build(&self, workspace: &Workspace, package: &str) -> Result<PathBuf, String> {
        child::run(self.point(&mut child::cargo(workspace, &["build", "--release", "--package", package])))?;
        Ok(workspace.target.join("release").join(package))
    }
}

fn run(_: &Workspace, parser: lexopt::Parser) -> Outcome {
    no_arguments(parser)?;
    let llvm = ensure()?;
    println!("LLVM {} in {}", plan::VERSION, llvm.prefix.display());
    Ok(())
}

/// Finds what builds need, installs it where the system lets us, else says what to install.
pub fn ensure() -> Result<Llvm, String> {
    let system = probe::system();
    let (steps, instructions) = match plan::decide(&system) {
        Plan::Ready(prefix) => return Ok(Llvm { prefix }),
        Plan::Tell(text) => return Err(text),
        Plan::Install { steps, otherwise } => (steps, otherwise),
    };
    for step in steps {
        println!("cargo x: {}", step.join(" "));
        let Some((program, arguments)) = step.split_first() else {
            continue;
        };
        let mut process = Process::new(program);
        process.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        child::run(&mut process).map_err(|error| format!("{error}\n\n{instructions}"))?;
    }
    match plan::decide(&probe::system()) {
        Plan::Ready(prefix) => Ok(Llvm { prefix }),
        Plan::Install { .. } | Plan::Tell(_) => {
            Err(format!("the packages are installed, yet LLVM or lld is not found\n\n{instructions}"))
        }
    }
}
