//! `cargo x lint`: the formatter and clippy, warnings denied.

use crate::workspace::Workspace;
use crate::{Command, Outcome, child, no_arguments, setup};

pub const COMMAND: Command =
    Command { name: "lint", usage: "", about: "format check, then clippy with warnings denied", run };

fn run(workspace: &Workspace, parser: lexopt::Parser) -> Outcome {
    no_arguments(parser)?;
    child::run(&mut child::cargo(workspace, &["fmt", "--all", "--check"]))?;
    let llvm = setup::ensure()?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    child::run(llvm.point(&mut child::cargo(workspace, &clippy)))
}
