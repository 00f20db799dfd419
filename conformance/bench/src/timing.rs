//! The clock. An iteration is timed from its first call to the end of a device sync, freeing its result included.

use std::time::Instant;

use burn::tensor::Device;
use serde_json::{Value, json};

use crate::digest::digest;
use crate::workload::{Step, Workload};

/// Iterations before the first timed round; the last one's result is what is compared.
const WARM_UP: usize = 3;
/// Iterations of a round, at least.
const FEWEST: usize = 3;

/// A workload whose inputs lie on the device.
pub struct Prepared {
    step: Step,
    device: Device,
}

impl Prepared {
    /// Makes the inputs and runs the warm-up; also tells the first iteration's milliseconds, compiling included, and a
    /// digest of the result.
    pub fn new(workload: &Workload, device: &Device) -> Result<(Self, Value), String> {
        let mut prepared = Self { step: (workload.prepare)(device), device: device.clone() };
        prepared.sync()?;
        let mut first = None;
        for _ in 1..WARM_UP {
            let time = prepared.iterate()?;
            first.get_or_insert(time);
        }
        let digest = digest((prepared.step)().data());
        Ok((prepared, json!({ "first_ms": first, "digest": digest })))
    }

    /// Iterations for at least `seconds`, and their median and least milliseconds.
    pub fn round(&mut self, seconds: f64) -> Result<Value, String> {
        let start = Instant::now();
        let mut times = Vec::new();
        while times.len() < FEWEST || start.elapsed().as_secs_f64() < seconds {
            times.push(self.iterate()?);
        }
        times.sort_by(f64::total_cmp);
        Ok(json!({ "median_ms": times[times.len() / 2], "least_ms": times[0], "iterations": times.len() }))
    }

    fn iterate(&mut self) -> Result<f64, String> {
        let start = Instant::now();
        let outcome = (self.step)();
        self.sync()?;
        drop(outcome);
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }

    fn sync(&self) -> Result<(), String> {
        self.device.sync().map_err(|error| error.to_string())
    }
}
