//! What a launched kernel costs the host, on a plan that is repeated: many kernels that have next to nothing to do.

use std::fs;
use std::time::Instant;

use burn_kiln::{KilnDevice, inspect};
use burn_tensor::{Device, FloatDType, Tensor};
use kiln_bench::numbers::Numbers;
use serde_json::{Value, json};

/// As `--filter` finds it.
pub const NAME: &str = "launches";

/// Kernels of a plan, about: each pair of steps is a sum over a whole tensor and what needs it.
const STEPS: usize = 40;
const PLANS: usize = 200;
const BATCHES: usize = 5;

/// `kernels` (of a plan), `microseconds` (a kernel, from the first call to the end of the last), and
/// `thread_microseconds` (a kernel, of the device's own thread), where the system tells.
pub fn measure(device: &Device) -> Result<Value, String> {
    let x: Tensor<2> = Numbers::new(2).of(FloatDType::F32, [64, 64], -1.0, 1.0, device);
    let plan = |x: Tensor<2>| {
        // A tensor needs the sum of all of the one before: no two of them fit into one kernel.
        (0..STEPS).fold(x, |x, _| x.clone() - x.clone().sum_dim(0) * 1e-3 - x.sum_dim(1) * 1e-3)
    };
    let machine = KilnDevice::default();
    for _ in 0..3 {
        drop(plan(x.clone()).into_data());
    }
    let (_kept, report) = inspect::record(&machine, || plan(x.clone()));
    let kernels = report.kernels();
    let mut best = (f64::INFINITY, None);
    for _ in 0..BATCHES {
        device.sync().map_err(|error| error.to_string())?;
        let (before, start) = (thread_time(&machine), Instant::now());
        for _ in 0..PLANS {
            let y = plan(x.clone());
            device.flush().map_err(|error| error.to_string())?;
            drop(y);
        }
        device.sync().map_err(|error| error.to_string())?;
        let whole = start.elapsed().as_secs_f64() * 1e6 / (PLANS * kernels) as f64;
        let own = thread_time(&machine).zip(before).map(|(after, before)| (after - before) as f64 / 1e3);
        if whole < best.0 {
            best = (whole, own.map(|time| time / (PLANS * kernels) as f64));
        }
    }
    Ok(json!({ "kernels": kernels, "microseconds": best.0, "thread_microseconds": best.1 }))
}

/// Nanoseconds that the device's thread has run, where Linux tells.
fn thread_time(machine: &KilnDevice) -> Option<u64> {
    let wanted = format!("kiln {machine}");
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let own = tasks.flatten().map(|task| task.path()).find(|path| {
        // The system keeps fifteen letters of a name.
        fs::read_to_string(path.join("comm"))
            .is_ok_and(|name| wanted.starts_with(name.trim()) && !name.trim().is_empty())
    })?;
    fs::read_to_string(own.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
}
