//! Random valid tile programs with arguments to launch them on, the same ones for the same seed.
//!
//! Programs are deterministic by construction: no two programs of a launch store to one element, which NaN a row gives
//! reaches no integer, and atomics commute.  Fewer steps give a smaller program that makes the same choices first, which
//! is how a failure is shrunk.

mod case;
mod generator;
mod random;
mod steps;

pub use case::{Case, Data, Difference};
pub use random::Random;

use crate::dtype::DType;
use crate::op::Pointwise;

/// What programs may contain.
#[derive(Clone, Debug)]
pub struct Features {
    /// Number of steps at the outermost level; each adds a few instructions.
    pub steps: usize,
    /// Element types of buffers and casts.
    pub dtypes: Vec<DType>,
    /// Pointwise rows.
    pub rows: Vec<Pointwise>,
    /// Dots; their order of additions is that of the definition.
    pub dots: bool,
    /// Atomics.
    pub atomics: bool,
    /// Loops and branches.
    pub control: bool,
    /// Most elements of a tile.
    pub elements: u32,
}

impl Default for Features {
    fn default() -> Self {
        Features {
            steps: 12,
            dtypes: DType::ALL.to_vec(),
            rows: Pointwise::ALL.to_vec(),
            dots: true,
            atomics: true,
            control: true,
            elements: 256,
        }
    }
}

/// The program of that seed.
pub fn program(seed: u64, features: &Features) -> Case {
    generator::Generator::new(seed, features).case()
}

#[cfg(test)]
mod tests;
