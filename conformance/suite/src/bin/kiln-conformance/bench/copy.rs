//! How fast the machine copies its own memory: the limit of everything that reads and writes it once.

use std::time::Instant;

use burn_kiln::KilnDevice;
use burn_tensor::{Device, FloatDType, Tensor};
use kiln_bench::numbers::Numbers;

/// Bytes that are copied at a time: far beyond what caches hold.
const ON_GPU: usize = 1 << 30;
const ON_CPU: usize = 256 << 20;
const CALLS: usize = 5;
const BATCHES: usize = 7;

/// Bytes read and written a second, in GB/s: the best of some batches of `−x`, the least that a kernel can do with what it
/// reads.
pub fn rate(device: &Device) -> Result<f64, String> {
    let bytes = match KilnDevice::default() {
        KilnDevice::Cuda(_) | KilnDevice::Hip(_) => ON_GPU,
        KilnDevice::Interp => 1 << 16,
        _ => ON_CPU,
    };
    // Given numbers: what is the same everywhere need not lie in memory.
    let x: Tensor<1> = Numbers::new(1).of(FloatDType::F32, [bytes / 4], -1.0, 1.0, device);
    let mut best = f64::INFINITY;
    for _ in 0..BATCHES {
        device.sync().map_err(|error| error.to_string())?;
        let start = Instant::now();
        for _ in 0..CALLS {
            let y = x.clone().neg();
            device.flush().map_err(|error| error.to_string())?;
            drop(y);
        }
        device.sync().map_err(|error| error.to_string())?;
        best = best.min(start.elapsed().as_secs_f64() / CALLS as f64);
    }
    Ok(2.0 * bytes as f64 / best / 1e9)
}
