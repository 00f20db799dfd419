//! Where the workspace and its build folder lie. Starts nothing and reads no file's content but the root manifest's.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The checkout that the command works on.
pub struct Workspace {
    /// The folder with the root manifest.
    pub root: PathBuf,
    /// Where cargo puts what it builds.
    pub target: PathBuf,
}

impl Workspace {
    /// Looks upwards from this package's manifest (cargo names it when it runs us), else from the current folder.
    pub fn find() -> Result<Self, String> {
        let here = env::current_dir().map_err(|error| format!("current folder: {error}"))?;
        let start = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| here.clone(), PathBuf::from);
        let root = start
            .ancestors()
            .find(|folder| is_root(folder))
            .ok_or("found no Cargo.toml with [workspace] here or above")?
            .to_path_buf();
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| here.join(dir));
        Ok(Self { root, target })
    }
}

fn is_root(folder: &Path) -> bool {
    fs::read_to_string(folder.join("Cargo.toml"))
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]"))
}
