//! Random valid tile programs with arguments to launch them on, the same ones for the same seed.
//!
//! Programs are deterministic by construction: no two programs of a launch store to one element, which NaN a row gives
//! reaches no integer, and atomics commute.  Fewer steps give a smaller program that makes the same choices first, which
//! is how a failure is shrunk.

mod generator;
mod random;
mod steps;

use std::fmt;

pub use random::Random;

use super::ir::{ParamKind, Program};
use crate::dtype::DType;
use crate::op::{Pointwise, scalar};
use crate::target::interp::{self, Arg, Fault, Options, Report};

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

/// A program and a launch of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The program.
    pub program: Program,
    /// Number of programs along each axis.
    pub grid: [u32; 3],
    /// Arguments; buffers hold what they hold before the launch.
    pub args: Vec<Data>,
}

/// An argument that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// A buffer's bytes, elements in little-endian order.
    Buffer(Vec<u8>),
    /// A scalar's bit pattern.
    Scalar(u64),
}

/// The first element in which two results differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Index of the parameter.
    pub param: usize,
    /// Index of the element.
    pub element: usize,
    /// Element type.
    pub dtype: DType,
    /// Both bit patterns.
    pub bits: [u64; 2],
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.bits;
        write!(f, "element {} of p{} ({}): {a:#x} and {b:#x}", self.element, self.param, self.dtype)
    }
}

/// The program of that seed.
pub fn program(seed: u64, features: &Features) -> Case {
    generator::Generator::new(seed, features).case()
}

impl Case {
    /// Interprets `program`, this case's own or a rewritten one; gives the arguments as they are afterwards.
    pub fn interpret(&self, program: &Program) -> Result<(Vec<Data>, Report), Fault> {
        let mut data = self.args.clone();
        let mut args: Vec<Arg<'_>> = data
            .iter_mut()
            .map(|d| match d {
                Data::Buffer(bytes) => Arg::Buffer(bytes),
                Data::Scalar(bits) => Arg::Scalar(*bits),
            })
            .collect();
        let report = interp::launch_with(program, self.grid, &mut args, Options { races: true, steps: Some(1 << 22) })?;
        Ok((data, report))
    }

    /// The first difference between two results of this case; NaNs are alike.
    pub fn difference(&self, a: &[Data], b: &[Data]) -> Option<Difference> {
        for (param, (data, (a, b))) in self.program.params.values().zip(a.iter().zip(b)).enumerate() {
            let (ParamKind::Buffer { .. }, Data::Buffer(a), Data::Buffer(b)) = (&data.kind, a, b) else { continue };
            let dtype = data.dtype;
            let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            let pairs = a.chunks(dtype.bytes()).zip(b.chunks(dtype.bytes()));
            let differ = |(_, (a, b)): &(usize, (&[u8], &[u8]))| !scalar::same(dtype, word(a), word(b));
            if let Some((element, (a, b))) = pairs.enumerate().find(differ) {
                return Some(Difference { param, element, dtype, bits: [word(a), word(b)] });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
