//! Builds programs of the workspace on stock burn-flex: a package of its own under the build folder, outside the
//! workspace, so that the root's patch does not reach it. The source, the locked versions and the optimisation are the
//! same.

use std::fs;
use std::path::{Path, PathBuf};

use crate::child;
use crate::workspace::Workspace;

/// The release that Kiln stands in for.
pub const FLEX_VERSION: &str = "0.22.1";

/// A package of the workspace whose library has the whole program as `main`.
pub struct Program {
    /// The package.
    pub package: &'static str,
    /// Its folder below the root.
    pub folder: &'static str,
}

/// Writes the package in the folder `name`, builds it in release and returns the folder of its programs, each named after
/// its package with `-stock` behind it.
pub fn build(workspace: &Workspace, name: &str, programs: &[Program]) -> Result<PathBuf, String> {
    let folder = workspace.target.join(name);
    write(&folder.join("Cargo.toml"), &manifest(name, &workspace.root, programs))?;
    for Program { package, .. } in programs {
        let library = package.replace('-', "_");
        let main = format!(
            "//! The program, built outside the workspace.\n\n\
             fn main() -> std::process::ExitCode {{\n    {library}::main()\n}}\n"
        );
        write(&folder.join(format!("src/bin/{package}-stock.rs")), &main)?;
    }
    // The same versions of everything; cargo drops what this package does not use and adds burn-flex itself.
    let lock = workspace.root.join("Cargo.lock");
    let locked = fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    write(&folder.join("Cargo.lock"), &without_package(&locked, "burn-flex"))?;

    let mut build = child::cargo(workspace, &["build", "--release"]);
    // One build folder for both, so that what does not depend on the backend is compiled once.
    build.current_dir(&folder).env("CARGO_TARGET_DIR", &workspace.target);
    child::run(&mut build)?;
    Ok(workspace.target.join("release"))
}

fn manifest(name: &str, root: &Path, programs: &[Program]) -> String {
    let paths: String = programs
        .iter()
        .map(|program| format!("{} = {{ path = '{}' }}\n", program.package, root.join(program.folder).display()))
        .collect();
    format!(
        "[package]\n\
         name = \"{name}\"\n\
         version = \"0.0.0\"\n\
         edition = \"2024\"\n\
         publish = false\n\n\
         [workspace]\n\n\
         [dependencies]\n\
         {paths}\n\
         [profile.release]\n\
         debug = \"line-tables-only\"\n"
    )
}

/// A lock file's text without one package: the patched entry has no source, and must be looked up afresh.
fn without_package(lock: &str, name: &str) -> String {
    let entry = format!("name = \"{name}\"\n");
    let mut parts = lock.split("[[package]]\n");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts.filter(|part| !part.starts_with(&entry)) {
        text += "[[package]]\n";
        text += part;
    }
    text
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    // An unchanged file keeps its time, and cargo rebuilds nothing.
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patched_package_leaves_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n\
                    [[package]]\nname = \"burn-flex\"\nversion = \"0.22.1\"\n\n[[package]]\nname = \"c\"\n";
        assert_eq!(
            without_package(lock, "burn-flex"),
            "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"c\"\n"
        );
    }
}
