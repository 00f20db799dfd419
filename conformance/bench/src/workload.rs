//! What a workload is: a name, what it must move and compute at least, how much faster it shall be, and how to set it up.

use burn::tensor::Device;
use serde_json::{Value, json};

use crate::digest::Outcome;

/// One iteration: computes on inputs that were made before, and hands out the result.
pub type Step = Box<dyn FnMut() -> Box<dyn Outcome>>;

/// One row of the table.
pub struct Workload {
    /// The word that chooses it.
    pub name: &'static str,
    /// What it computes, and on which sizes.
    pub title: &'static str,
    /// How many times as fast as stock burn-flex it shall be at least.
    pub reach: f64,
    /// Bytes of inputs and outputs: what has to be moved however well it is fused.
    pub bytes: u64,
    /// Floating-point operations of its matrix products.
    pub flops: u64,
    /// Largest difference to another backend's values, in shares of a value and of the mean magnitude.
    pub tolerance: f64,
    /// Makes the inputs.
    pub prepare: fn(&Device) -> Step,
}

impl Workload {
    /// One that is measured beside peers on other systems, on 16-bit floats unless told otherwise.
    pub const fn new(name: &'static str, title: &'static str, bytes: u64, prepare: fn(&Device) -> Step) -> Workload {
        Workload { name, title, reach: 0.0, bytes, flops: 0, tolerance: 0.02, prepare }
    }

    /// The same, with results that lie so near to another's.
    pub const fn within(self, tolerance: f64) -> Workload {
        Workload { tolerance, ..self }
    }

    /// The same, with so many floating-point operations in its products.
    pub const fn computing(self, flops: u64) -> Workload {
        Workload { flops, ..self }
    }

    /// As `--list` prints it.
    pub fn describe(&self) -> Value {
        json!({
            "workload": self.name, "title": self.title, "reach": self.reach,
            "bytes": self.bytes, "flops": self.flops, "tolerance": self.tolerance,
        })
    }
}

/// A step from a function of inputs that are made once.
pub fn step<O: Outcome + 'static>(mut run: impl FnMut() -> O + 'static) -> Step {
    Box::new(move || Box::new(run()))
}

/// Bytes of so many f32.
pub const fn f32s(count: usize) -> u64 {
    4 * count as u64
}

/// Bytes of so many f16 or bf16.
pub const fn halves(count: usize) -> u64 {
    2 * count as u64
}
