//! AMD's machines: numbers only.
//!
//! Source: the ISA guides of CDNA2, CDNA3, RDNA3 and RDNA4.

use super::matrix;
use crate::layout::fragment::Matrix;
use crate::spec::{Family, Spec};

/// One machine.
struct Row {
    name: &'static str,
    lanes: u32,
    matrices: &'static [Matrix],
}

const ROWS: &[Row] = &[
    Row { name: "gfx90a", lanes: 64, matrices: matrix::CDNA2 },
    Row { name: "gfx942", lanes: 64, matrices: matrix::CDNA3 },
    Row { name: "gfx1100", lanes: 32, matrices: matrix::RDNA3 },
    Row { name: "gfx1201", lanes: 32, matrices: matrix::RDNA4 },
];

/// Names of the machines that there are rows for.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// The machine of that name, as LLVM and HIP call it: `gfx942`.
pub fn spec(name: &str) -> Option<Spec> {
    let row = ROWS.iter().find(|row| row.name == name)?;
    Some(Spec {
        name: row.name.into(),
        family: Family::Amd,
        lanes: row.lanes,
        warps: 1,
        absent: 0,
        tile: 512,
        load_bytes: 16,
        shared_bytes: SHARED,
        matrices: row.matrices,
        group: 0,
        boxes: false,
        triple: "amdgcn-amd-amdhsa".into(),
        cpu: row.name.into(),
        features: String::new(),
    })
}

/// Bytes of shared memory (LDS) that a work-group may have.
const SHARED: u32 = 64 << 10;
