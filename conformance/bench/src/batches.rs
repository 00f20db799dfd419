//! The clock for devices that work beside the caller: batches of calls, each handed over as it is made, closed by one
//! wait.  What a call costs is then what the slower of the two needs for it, and a batch is long enough that the wait does
//! not show.

use std::time::Instant;

use burn::tensor::Device;
use serde_json::{Value, json};

use crate::digest::digest;
use crate::workload::{Step, Workload};

/// Calls before the first that count; the first of them compiles, the others find every plan and every buffer.
const WARM_UP: usize = 4;
/// Batches that are timed.
const BATCHES: usize = 7;
/// Calls of a batch, at least, so that neither the wait nor the head start of whoever records shows, and at most.
const LEAST: f64 = 8.0;
const MOST: f64 = 400.0;

/// Calls that are waited for one by one.
const ALONE: usize = 7;

/// Sets a workload up and times it for about `seconds`: `first_ms` (the first call, compiling included), `median_ms` and
/// `least_ms` (over batches, a call), `calls` (of a batch), `alone_ms` (the median of calls each of which is waited for), and
/// a digest of the result.
pub fn measure(workload: &Workload, device: &Device, seconds: f64) -> Result<Value, String> {
    let mut run = Run { step: (workload.prepare)(device), device: device.clone() };
    run.sync()?;
    let first = run.batch(1)?;
    let digest = digest((run.step)().data());
    run.batch(WARM_UP)?;
    let one = run.batch(1)?;
    let calls = (seconds / BATCHES as f64 * 1e3 / one).clamp(LEAST, MOST) as usize;
    let mut times = (0..BATCHES).map(|_| run.batch(calls)).collect::<Result<Vec<_>, _>>()?;
    times.sort_by(f64::total_cmp);
    let mut alone = (0..ALONE).map(|_| run.batch(1)).collect::<Result<Vec<_>, _>>()?;
    alone.sort_by(f64::total_cmp);
    Ok(json!({
        "first_ms": first, "median_ms": times[BATCHES / 2], "least_ms": times[0], "calls": calls,
        "alone_ms": alone[ALONE / 2], "digest": digest,
    }))
}

struct Run {
    step: Step,
    device: Device,
}

impl Run {
    /// Milliseconds a call.
    fn batch(&mut self, calls: usize) -> Result<f64, String> {
        let start = Instant::now();
        for _ in 0..calls {
            let outcome = (self.step)();
            // What is dropped before it is handed over would never be computed.
            self.device.flush().map_err(|error| error.to_string())?;
            drop(outcome);
        }
        self.sync()?;
        Ok(start.elapsed().as_secs_f64() * 1e3 / calls as f64)
    }

    fn sync(&self) -> Result<(), String> {
        self.device.sync().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::step;
    use burn::tensor::Tensor;

    #[test]
    fn every_call_of_a_batch_is_computed() {
        static CALLS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let workload = Workload::new("a", "t", 8, |device| {
            let x = Tensor::<1>::ones([1000], device);
            step(move || {
                CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                x.clone() + 1.0
            })
        });
        let measured = measure(&workload, &Device::default(), 0.01).expect("it runs");
        assert_eq!(measured["digest"]["sum"], 2000.0);
        let calls = measured["calls"].as_u64().expect("a number") as usize;
        assert_eq!(CALLS.load(std::sync::atomic::Ordering::Relaxed), 1 + 1 + WARM_UP + 1 + BATCHES * calls + ALONE);
    }
}
