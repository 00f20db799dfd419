//! `cargo x dist`: the binary to carry, with LLVM linked in, packed with xz. Nothing has to be installed where it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use crate::workspace::Workspace;
use crate::{Command, Outcome, child, no_arguments, setup, ulp};

pub const COMMAND: Command = Command {
    name: "dist",
    usage: "",
    about: "build kiln-conformance to carry to another machine, with LLVM inside",
    run,
};

const PACKAGE: &str = "kiln-suite";
const PROGRAM: &str = "kiln-conformance";

/// Bytes that the packed binary may have, so that it travels with what else has to.
const MOST: u64 = 40 << 20;

fn run(workspace: &Workspace, parser: lexopt::Parser) -> Outcome {
    no_arguments(parser)?;
    let llvm = setup::ensure()?;
    // A folder of its own: other features would have the rest of the workspace built anew, back and forth.
    let target = workspace.target.join("dist-build");
    let arguments = ["build", "--profile", "dist", "--package", PACKAGE, "--features", "static-llvm"];
    let mut build = child::cargo(workspace, &arguments);
    build.arg("--target-dir").arg(&target).env("SUITE_COMMIT", ulp::commit(workspace));
    child::run(llvm.point(&mut build))?;

    let folder = workspace.target.join("dist");
    let explain = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(explain)?;
    let program = folder.join(PROGRAM);
    fs::copy(target.join("dist").join(PROGRAM), &program).map_err(explain)?;
    let packed = pack(&program)?;
    let bytes = |path: &Path| fs::metadata(path).map(|data| data.len()).map_err(explain);
    let (plain, small) = (bytes(&program)?, bytes(&packed)?);
    println!("{}: {:.1} MB, packed {:.1} MB", packed.display(), plain as f64 / 1e6, small as f64 / 1e6);
    if small > MOST { Err(format!("{small} bytes, {MOST} allowed")) } else { Ok(()) }
}

/// Packs a file and leaves it as it is.
fn pack(program: &Path) -> Result<PathBuf, String> {
    let mut xz = Process::new("xz");
    child::run(xz.args(["--keep", "--force", "--threads=0", "-6"]).arg(program)).map_err(|error| {
        format!("{error}; {} is not packed, for which Debian's xz-utils is needed", program.display())
    })?;
    Ok(program.with_extension("xz"))
}
