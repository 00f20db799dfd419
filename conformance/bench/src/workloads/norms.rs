//! Softmax, and the norms written out of primitives.

use burn::nn::LayerNormConfig;
use burn::tensor::{Device, FloatDType, activation};

use crate::numbers::Numbers;
use crate::workload::{Step, Workload, f32s, halves, step};
use crate::workloads::gpt::{cast, fill};

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
        prepare: |device| softmax([1823, 781], FloatDType::F32, device),
    },
    Workload {
        name: "softmax-1024x1024",
        title: "softmax, 1024×1024",
        reach: 4.0,
        bytes: f32s(2 * 1024 * 1024),
        flops: 0,
        tolerance: 1e-5,
        prepare: |device| softmax([1024, 1024], FloatDType::F32, device),
    },
    Workload {
        name: "softmax-16x262144",
        title: "softmax, 16×262144",
        reach: 4.0,
        bytes: f32s(2 * 16 * 262_144),
        flops: 0,
        // Stock adds a row up in one f32 after another: its rows sum to 1.00035.
        tolerance: 1e-3,
        prepare: |device| softmax([16, 262_144], FloatDType::F32, device),
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

pub const LARGE: &[Workload] = &[
    Workload::new("softmax/1823x781/f32", "softmax, 1823×781 f32", f32s(2 * 1823 * 781), |device| {
        softmax([1823, 781], FloatDType::F32, device)
    })
    .within(1e-5),
    Workload::new("softmax/4096x4096/bf16", "softmax, 4096×4096 bf16", halves(2 * 4096 * 4096), |device| {
        softmax([4096, 4096], FloatDType::BF16, device)
    }),
    Workload::new("softmax/16384x1024/bf16", "softmax, 16384×1024 bf16", halves(2 * 16384 * 1024), |device| {
        softmax([16384, 1024], FloatDType::BF16, device)
    }),
    Workload::new("softmax/256x262144/bf16", "softmax, 256×262144 bf16", halves(2 * 256 * 262_144), |device| {
        softmax([256, 262_144], FloatDType::BF16, device)
    }),
    Workload::new(
        "layer-norm/16384x4096/bf16",
        "layer norm, 16384×4096 bf16",
        halves(2 * 16384 * 4096 + 2 * 4096),
        |device| whole_layer_norm([16384, 4096], device),
    ),
    Workload::new(
        "rms-norm/16384x4096/bf16",
        "RMS norm in f32 by primitives, 16384×4096 bf16",
        halves(2 * 16384 * 4096 + 4096),
        |device| rms_norm_in_f32([16384, 4096], device),
    ),
    // What larger language models have: rows that one warp cannot hold.
    Workload::new("softmax/2048x32000/bf16", "softmax, 2048×32000 bf16", halves(2 * 2048 * 32_000), |device| {
        softmax([2048, 32_000], FloatDType::BF16, device)
    }),
    Workload::new(
        "layer-norm/16384x5120/bf16",
        "layer norm, 16384×5120 bf16",
        halves(2 * 16384 * 5120 + 2 * 5120),
        |device| whole_layer_norm([16384, 5120], device),
    ),
    Workload::new(
        "rms-norm/8192x8192/bf16",
        "RMS norm in f32 by primitives, 8192×8192 bf16",
        halves(2 * 8192 * 8192 + 8192),
        |device| rms_norm_in_f32([8192, 8192], device),
    ),
];

fn softmax(shape: [usize; 2], dtype: FloatDType, device: &Device) -> Step {
    let x = Numbers::new(11).of(dtype, shape, -5.0, 5.0, device);
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

/// burn-nn's module, which asks the backend for the norm as a whole.
fn whole_layer_norm(shape: [usize; 2], device: &Device) -> Step {
    let mut numbers = Numbers::new(14);
    let x = numbers.of(FloatDType::BF16, shape, -1.0, 3.0, device);
    let norm = cast(fill(LayerNormConfig::new(shape[1]).init(device), &mut numbers, device), FloatDType::BF16);
    step(move || norm.forward(x.clone()))
}

/// `x / √(mean x² + ε) · γ` as models on 16-bit floats write it: in f32, rounded before the weight.
fn rms_norm_in_f32(shape: [usize; 2], device: &Device) -> Step {
    let mut numbers = Numbers::new(15);
    let x = numbers.of(FloatDType::BF16, shape, -2.0, 2.0, device);
    let gamma = numbers.of(FloatDType::BF16, [1, shape[1]], 0.5, 1.5, device);
    step(move || {
        let wide = x.clone().cast(FloatDType::F32);
        let rms = ((wide.clone() * wide.clone()).mean_dim(1) + 1e-6).sqrt();
        (wide / rms).cast(FloatDType::BF16) * gamma.clone()
    })
}
