//! Writes the text of stages into a folder, where `KILN_DUMP` asks for it.

use std::path::PathBuf;
use std::sync::OnceLock;

use kiln_lowering::tile::Program;

use super::warn::warn;
use crate::knobs::{self, Stage};

/// Whether a stage is wanted for something of this name.
pub(crate) fn wants(stage: Stage, name: &str) -> bool {
    let knobs = knobs::get();
    knobs.dump.contains(&stage) && knobs.dump_filter.as_ref().is_none_or(|text| name.contains(text.as_str()))
}

/// A program's name in dumps: what it does, and which of those that do so.
pub(crate) fn label(program: &Program) -> String {
    let hash = blake3::hash(program.to_string().as_bytes()).to_hex();
    format!("{}-{}", program.name, &hash[..8])
}

/// Writes `text()` to `name.stage`, if it is wanted.
pub(crate) fn write(stage: Stage, name: &str, text: impl FnOnce() -> String) {
    if !wants(stage, name) {
        return;
    }
    let suffix = Stage::ALL.iter().find(|(_, s)| *s == stage).map_or("txt", |(name, _)| name);
    let folder: &PathBuf = &knobs::get().dump_dir;
    let written =
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(folder.join(format!("{name}.{suffix}")), text()));
    if let Err(error) = written {
        static ONCE: OnceLock<()> = OnceLock::new();
        ONCE.get_or_init(|| warn(&format!("cannot write dumps to {}: {error}", folder.display())));
    }
}
