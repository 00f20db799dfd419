//! What chains of mathematical functions cost over a few million numbers, against a copy of as many.

use std::io::Write;
use std::time::Instant;

use burn_backend::ops::{ActivationOps, FloatTensorOps};
use burn_backend::{Scalar, TensorData};
use burn_kiln::{Kiln, KilnDevice, KilnTensor, record};

const LEN: usize = 4 << 20;
const ROUNDS: usize = 30;

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Numbers without pattern from `low` to `high`.
fn numbers(low: f32, high: f32, seed: u64, device: &KilnDevice) -> KilnTensor {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        low + (high - low) * ((state >> 40) as f32 / (1u64 << 24) as f32)
    };
    record::from_data(TensorData::new((0..LEN).map(|_| next()).collect::<Vec<f32>>(), [LEN]), device)
}

fn measure(name: &str, device: &KilnDevice, run: impl Fn() -> KilnTensor) {
    let mut times = [0.0; ROUNDS];
    for time in &mut times {
        let started = Instant::now();
        let y = run();
        record::sync(device).expect("no failure");
        *time = 1e3 * started.elapsed().as_secs_f64();
        drop(y);
    }
    times.sort_by(f64::total_cmp);
    say(&format!("{name:8} {:6.2} ms, at best {:6.2} ms", times[ROUNDS / 2], times[0]));
}

fn main() {
    let device = KilnDevice::Cpu;
    let [x, y, z] = [1, 2, 3].map(|seed| numbers(-2.0, 2.0, seed, &device));
    let base = numbers(0.1, 4.0, 4, &device);
    measure("copy", &device, || Kiln::float_add_scalar(x.clone(), Scalar::Float(1.0)));
    for (name, f) in [
        ("exp", Kiln::float_exp as fn(KilnTensor) -> KilnTensor),
        ("log", Kiln::float_log),
        ("tanh", Kiln::float_tanh),
        ("sigmoid", Kiln::sigmoid),
        ("sin", Kiln::float_sin),
        ("erf", Kiln::float_erf),
        ("gelu", Kiln::gelu),
    ] {
        measure(name, &device, || f(base.clone()));
    }
    measure("powf", &device, || Kiln::float_powf(base.clone(), y.clone()));
    measure("powf 1.7", &device, || Kiln::float_powf_scalar(base.clone(), Scalar::Float(1.7)));
    measure("chain", &device, || {
        let t = Kiln::float_add(Kiln::float_mul(x.clone(), y.clone()), z.clone());
        let t = Kiln::float_sub(Kiln::float_mul(Kiln::float_tanh(t), Kiln::sigmoid(x.clone())), y.clone());
        Kiln::float_add(Kiln::float_sqrt(Kiln::float_abs(t)), Kiln::float_exp(z.clone()))
    });
}
