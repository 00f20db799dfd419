//! The machines, as rows of numbers.
//!
//! Shared memory per block: CUDA C++ Programming Guide, "Compute Capabilities", table of technical specifications.

use super::matrix;
use crate::spec::{Family, Spec};

/// What code is made for.
struct Row {
    /// LLVM's name.
    name: &'static str,
    /// Compute capability of the first devices that run the code.
    capability: (u32, u32),
    /// Whether no others run it.
    alone: bool,
    /// Bytes of shared memory that a block may have.
    shared_bytes: u32,
}

/// From the oldest to the newest, what runs on one kind of device alone behind what later ones run too.
const ROWS: &[Row] = &[
    Row { name: "sm_80", capability: (8, 0), alone: false, shared_bytes: 163 << 10 },
    Row { name: "sm_86", capability: (8, 6), alone: false, shared_bytes: 99 << 10 },
    Row { name: "sm_89", capability: (8, 9), alone: false, shared_bytes: 99 << 10 },
    Row { name: "sm_90", capability: (9, 0), alone: false, shared_bytes: 227 << 10 },
    Row { name: "sm_90a", capability: (9, 0), alone: true, shared_bytes: 227 << 10 },
    Row { name: "sm_100", capability: (10, 0), alone: false, shared_bytes: 227 << 10 },
];

/// Names of the machines that there are rows for.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// A machine by its name, with the version of PTX that its driver takes: 86 for 8.6.
pub fn spec(name: &str, ptx_version: u32) -> Option<Spec> {
    ROWS.iter().find(|row| row.name == name).map(|row| row.spec(ptx_version))
}

/// What makes the best code that a device of this compute capability runs; nothing for those before 8.0.
pub(super) fn best(capability: (u32, u32), ptx_version: u32) -> Option<Spec> {
    let runs = |row: &&Row| if row.alone { row.capability == capability } else { row.capability <= capability };
    ROWS.iter().rev().find(runs).map(|row| row.spec(ptx_version))
}

/// Whether kernels for a processor may begin while the one before ends, and wait for it by themselves: PTX ISA,
/// `griddepcontrol`.
pub(super) fn begins_early(cpu: &str) -> bool {
    ROWS.iter().any(|row| row.name == cpu && row.capability >= (9, 0))
}

impl Row {
    fn spec(&self, ptx_version: u32) -> Spec {
        Spec {
            name: self.name.into(),
            family: Family::Nvidia,
            lanes: 32,
            warps: 1,
            absent: 0,
            tile: 512,
            load_bytes: 16,
            shared_bytes: self.shared_bytes,
            matrices: matrix::AMPERE,
            group: if self.name == "sm_90a" { matrix::GROUP } else { 0 },
            boxes: self.name == "sm_90a",
            triple: "nvptx64-nvidia-cuda".into(),
            cpu: self.name.into(),
            features: format!("+ptx{ptx_version}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_gets_the_best_code_that_it_runs() {
        let named = |major, minor| best((major, minor), 86).map(|spec| spec.name);
        for (major, minor, wanted) in
            [(8, 0, "sm_80"), (8, 7, "sm_86"), (8, 9, "sm_89"), (9, 0, "sm_90a"), (9, 1, "sm_90"), (12, 0, "sm_100")]
        {
            assert_eq!(named(major, minor).as_deref(), Some(wanted), "{major}.{minor}");
        }
        assert_eq!(named(7, 5), None);
    }
}
