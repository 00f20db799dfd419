//! `cargo x doc`: the reference pages of all crates, warnings denied.

use crate::workspace::Workspace;
use crate::{Command, Outcome, child, no_arguments, setup};

pub const COMMAND: Command =
    Command { name: "doc", usage: "", about: "reference pages of all crates, warnings denied", run };

fn run(workspace: &Workspace, parser: lexopt::Parser) -> Outcome {
    no_arguments(parser)?;
    let llvm = setup::ensure()?;
    let mut doc = child::cargo(workspace, &["doc", "--workspace", "--no-deps"]);
    child::run(llvm.point(doc.env("RUSTDOCFLAGS", "-D warnings")))
}
