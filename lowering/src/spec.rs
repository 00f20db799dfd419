//! What the compiler is told about a machine.  Never asks the machine itself: a target's `object.rs` fills the row in.

use std::fmt;

use crate::layout::fragment::Matrix;
use crate::tile::Program;

/// Which family of code a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// A processor: one program instance on one thread, lanes are the elements of its vectors.
    Host,
    /// NVIDIA, through PTX.
    Nvidia,
    /// AMD, through a code object.
    Amd,
}

/// One machine, as far as code generation needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Short name: `host`, `sm_90a`, `gfx942`.
    pub name: String,
    /// Family of code.
    pub family: Family,
    /// Lanes that move together: vector elements on a processor (one number for all element types), threads of a warp
    /// on a GPU.  A power of two.
    pub lanes: u32,
    /// Warps per program instance; 1 on a processor.
    pub warps: u32,
    /// How many of them, the last ones, are not started.
    pub absent: u32,
    /// Elements that a pointwise tile should have.
    pub tile: u32,
    /// Bytes of the widest load of one lane: an element on a processor, 16 on a GPU.
    pub load_bytes: u32,
    /// Bytes of shared memory per program; 0 where a program has one thread.
    pub shared_bytes: u32,
    /// Its matrix instructions, the preferred ones first.
    pub matrices: &'static [Matrix],
    /// Warps that multiply together, each its rows by what all of them have in scratch memory; 0 for none.
    pub group: u32,
    /// Whether an engine copies boxes of rows to scratch memory.
    pub boxes: bool,
    /// LLVM's triple.
    pub triple: String,
    /// LLVM's name of the processor.
    pub cpu: String,
    /// LLVM's feature list, `+avx2,-avx512f,…`.
    pub features: String,
}

impl Spec {
    /// A processor.  The vector width follows from the features: the elements are counted in f32, so that a vector of
    /// them fills one register, and narrower or wider types take a part of one or several.
    pub fn host(triple: &str, cpu: &str, features: &str) -> Spec {
        let has = |name: &str| features.split(',').any(|f| f.strip_prefix('+') == Some(name));
        let lanes = if has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl") {
            16
        } else if has("avx2") {
            8
        } else {
            4
        };
        Spec {
            name: "host".into(),
            family: Family::Host,
            lanes,
            warps: 1,
            absent: 0,
            // Four independent vectors hide the latency of one chain of additions.
            tile: 4 * lanes,
            load_bytes: 0,
            shared_bytes: 0,
            matrices: &[],
            group: 0,
            boxes: false,
            triple: triple.into(),
            cpu: cpu.into(),
            features: features.into(),
        }
    }

    /// The machine as a program uses it: with as many warps for an instance as it asks for.
    pub fn running(&self, program: &Program) -> Spec {
        match self.family {
            Family::Host => self.clone(),
            _ => Spec { warps: self.warps.max(program.warps), absent: program.absent, ..self.clone() },
        }
    }

    /// Warps of a program instance that are started.
    pub fn present(&self) -> u32 {
        self.warps - self.absent
    }

    /// Logarithm of the number of lanes.
    pub fn lane_bits(&self) -> u32 {
        self.lanes.trailing_zeros()
    }
}

/// Everything that generated code may depend on, for cache keys.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec {
            name,
            family,
            lanes,
            warps,
            absent,
            tile,
            load_bytes,
            shared_bytes,
            matrices,
            group,
            boxes,
            triple,
            cpu,
            features,
        } = self;
        write!(
            f,
            "{name} {family:?} lanes={lanes} warps={warps}-{absent} tile={tile} load={load_bytes} shared={shared_bytes} "
        )?;
        for matrix in *matrices {
            write!(f, "{} ", matrix.name)?;
        }
        write!(f, "group={group} boxes={boxes} {triple} {cpu} {features}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_width_follows_the_features() {
        let lanes = |features| Spec::host("x86_64-unknown-linux-gnu", "generic", features).lanes;
        assert_eq!(lanes("+sse4.2,-avx2"), 4);
        assert_eq!(lanes("+avx2,+fma"), 8);
        assert_eq!(lanes("+avx2,+avx512f,-avx512bw"), 8);
        assert_eq!(lanes("+avx512bw,+avx512dq,+avx512f,+avx512vl"), 16);
    }
}
