//! Softmax, and the norms written out of primitives.

use burn::tensor::{Device, activation};

use crate::numbers::Numbers;
use crate::workload::{Step, Workload, f32s, step};

const ROWS: usize = 1024;
const WIDTH: usize = 4096;
const EPSILON: f32 = 1e-5;

pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "softmax-1823x781",
        title: "softmax, 1823×781",
        reach: 4.0,
        bytes: f32s(2 * 1823 * 781),
        flops: 0,
        tolerance: 1e-5,
        prepare: |device| softmax([1823, 781], device),
    },
    Workload {
        name: "softmax-1024x1024",
        title: "softmax, 1024×1024",
        reach: 4.0,
        bytes: f32s(2 * 1024 * 1024),
        flops: 0,
        tolerance: 1e-5,
        prepare: |device| softmax([1024, 1024], device),
    },
    Workload {
        name: "softmax-16x262144",
        title: "softmax, 16×262144",
        reach: 4.0,
        bytes: f32s(2 * 16 * 262_144),
        flops: 0,
        // Stock adds a row up in one f32 after another: its rows sum to 1.00035.
        tolerance: 1e-3,
        prepare: |device| softmax([16, 262_144], device),
    },
    Workload {
        name: "layer-norm",
        title: "layer norm by primitives, 1024×4096",
        reach: 8.0,
        bytes: f32s(2 * ROWS * WIDTH + 2 * WIDTH),
        flops: 0,
        tolerance: 1e-4,
        prepare: layer_norm,
    },
    Workload {
        name: "rms-norm",
        title: "RMS norm by primitives, 1024×4096",
        reach: 3.0,
        bytes: f32s(2 * ROWS * WIDTH + WIDTH),
        flops: 0,
        tolerance: 1e-4,
        prepare: rms_norm,
    },
];

fn softmax(shape: [usize; 2], device: &Device) -> Step {
    let x = Numbers::new(11).tensor(shape, -5.0, 5.0, device);
    step(move || activation::softmax(x.clone(), 1))
}

/// `(x − mean) / √(variance + ε) · γ + β`, both moments over the last axis.
fn layer_norm(device: &Device) -> Step {
    let mut numbers = Numbers::new(12);
    let x = numbers.tensor([ROWS, WIDTH], -1.0, 3.0, device);
    let gamma = numbers.tensor([1, WIDTH], 0.5, 1.5, device);
    let beta = numbers.tensor([1, WIDTH], -0.5, 0.5, device);
    step(move || {
        let centred = x.clone() - x.clone().mean_dim(1);
        let variance = (centred.clone() * centred.clone()).mean_dim(1);
        centred / (variance + EPSILON).sqrt() * gamma.clone() + beta.clone()
    })
}

/// `x / √(mean x² + ε) · γ`.
fn rms_norm(device: &Device) -> Step {
    let mut numbers = Numbers::new(13);
    let x = numbers.tensor([ROWS, WIDTH], -2.0, 2.0, device);
    let gamma = numbers.tensor([1, WIDTH], 0.5, 1.5, device);
    step(move || {
        let rms = ((x.clone() * x.clone()).mean_dim(1) + EPSILON).sqrt();
        x.clone() / rms * gamma.clone()
    })
}
