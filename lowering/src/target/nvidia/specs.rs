//! The machines, as rows of numbers.
//!
//! Shared memory per block: CUDA C++ Programming Guide, "Compute Capabilities", table of technical specifications.

use super::matrix;
use crate::spec::{Family, Spec};

/// Name, LLVM's name, bytes of shared memory that a block may have.
const ROWS: &[(&str, u32)] = &[
    ("sm_80", 163 << 10),
    ("sm_86", 99 << 10),
    ("sm_89", 99 << 10),
    ("sm_90", 227 << 10),
    ("sm_90a", 227 << 10),
    ("sm_100", 227 << 10),
];

/// Names of the machines that there are rows for.
pub const NAMES: &[&str] = &["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100"];

/// A machine by its name, with the version of PTX that its driver takes: 86 for 8.6.
pub fn spec(name: &str, ptx_version: u32) -> Option<Spec> {
    let &(name, shared_bytes) = ROWS.iter().find(|row| row.0 == name)?;
    Some(Spec {
        name: name.into(),
        family: Family::Nvidia,
        lanes: 32,
        warps: 1,
        tile: 512,
        load_bytes: 16,
        shared_bytes,
        matrices: matrix::AMPERE,
        triple: "nvptx64-nvidia-cuda".into(),
        cpu: name.into(),
        features: format!("+ptx{ptx_version}"),
    })
}
