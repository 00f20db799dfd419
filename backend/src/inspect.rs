//! What happened on a device, as numbers.

use crate::run::Machine;

/// Runs `f` with fusing on or off for what this thread records in it.
pub fn with_fusing<T>(fuse: bool, f: impl FnOnce() -> T) -> T {
    crate::record::stream::with_fusing(fuse, f)
}

pub(crate) fn write_stats(_machine: &Machine) {}
