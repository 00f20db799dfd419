//! What a launched kernel costs the host, on a plan that is repeated: many kernels that have next to nothing to do.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use burn_kiln::{KilnDevice, inspect};
use burn_tensor::{Device, FloatDType, Tensor, capture};
use kiln_bench::numbers::Numbers;
use serde_json::{Value, json};

/// As `--filter` finds it.
pub const NAME: &str = "launches";

/// Kernels of a plan, about: each pair of steps is a sum over a whole tensor and what needs it.
const STEPS: usize = 40;
const PLANS: usize = 200;
const BATCHES: usize = 5;

/// Plans after each of which the device has time to end: its thread never waits for room in the device's queue.
const ALONE: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// `kernels` (of a plan), `microseconds` (a kernel, from the first call to the end of the last), and
/// `thread_microseconds` (a kernel, of the device's own thread while it has work, of plans that come alone), where the system
/// tells; the same of replays of the plan as a captured graph, `replay_microseconds` and `replay_thread_microseconds`.
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
    let launched = best(device, kernels, || {
        let y = plan(x.clone());
        let flushed = device.flush();
        drop(y);
        flushed.map_err(|error| error.to_string())
    })?;
    let mut graph = capture(device, || plan(x.clone()));
    let replayed = best(device, kernels, || {
        // SAFETY: the input outlives the replays, and nobody else has it.
        let _ = unsafe { graph.replay() };
        Ok(())
    })?;
    Ok(json!({
        "kernels": kernels,
        "microseconds": launched.0,
        "thread_microseconds": launched.1,
        "replay_microseconds": replayed.0,
        "replay_thread_microseconds": replayed.1,
    }))
}

/// The least time of a kernel in all, over several batches of plans, and the device's own thread's of plans that come alone.
fn best(
    device: &Device,
    kernels: usize,
    mut run: impl FnMut() -> Result<(), String>,
) -> Result<(f64, Option<f64>), String> {
    let sync = || device.sync().map_err(|error| error.to_string());
    let mut best = f64::INFINITY;
    for _ in 0..BATCHES {
        sync()?;
        let start = Instant::now();
        for _ in 0..PLANS {
            run()?;
        }
        sync()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / (PLANS * kernels) as f64);
    }
    let machine = KilnDevice::default();
    let before = thread_time(&machine);
    for _ in 0..ALONE {
        run()?;
        sleep(PAUSE);
    }
    let own = thread_time(&machine).zip(before).map(|(after, before)| after.saturating_sub(before) as f64 / 1e3);
    Ok((best, own.map(|time| time / f64::from(ALONE) / kernels as f64)))
}

/// Nanoseconds that the device's thread has run, but for those in which it looked for work, where Linux tells.
fn thread_time(machine: &KilnDevice) -> Option<u64> {
    let looked = inspect::counts(machine).look_time.as_nanos() as u64;
    let wanted = format!("kiln {machine}");
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let own = tasks.flatten().map(|task| task.path()).find(|path| {
        // The system keeps fifteen letters of a name.
        fs::read_to_string(path.join("comm"))
            .is_ok_and(|name| wanted.starts_with(name.trim()) && !name.trim().is_empty())
    })?;
    let ran: u64 = fs::read_to_string(own.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()?;
    Some(ran.saturating_sub(looked))
}
