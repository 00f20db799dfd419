//! Matrix products, with what users put around them, and a convolution.

use burn::nn::conv::Conv2dConfig;
use burn::nn::{LinearConfig, PaddingConfig2d};
use burn::tensor::{Device, activation};

use crate::numbers::Numbers;
use crate::workload::{Step, Workload, f32s, step};
use crate::workloads::gpt::fill;

const SIDE: usize = 4096;

pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "linear-gelu",
        title: "linear + GELU, 512×1024×4096",
        reach: 2.2,
        bytes: f32s(512 * 1024 + 1024 * 4096 + 4096 + 512 * 4096),
        flops: product(512, 1024, 4096),
        tolerance: 1e-4,
        prepare: linear_gelu,
    },
    Workload {
        name: "conv-relu",
        title: "conv 3×3 + relu, 2×64×56×56",
        reach: 1.0,
        bytes: f32s(2 * 2 * 64 * 56 * 56 + 64 * 64 * 9 + 64),
        flops: product(2 * 56 * 56, 64 * 9, 64),
        tolerance: 1e-4,
        prepare: conv_relu,
    },
    Workload {
        name: "gemv",
        title: "matrix × vector, 4096²",
        reach: 0.95,
        bytes: f32s(SIDE * SIDE + 2 * SIDE),
        flops: product(SIDE, SIDE, 1),
        tolerance: 1e-4,
        prepare: |device| matmul([SIDE, SIDE], [SIDE, 1], device),
    },
    Workload {
        name: "gevm",
        title: "vector × matrix, 4096²",
        reach: 0.95,
        bytes: f32s(SIDE * SIDE + 2 * SIDE),
        flops: product(1, SIDE, SIDE),
        tolerance: 1e-4,
        prepare: |device| matmul([1, SIDE], [SIDE, SIDE], device),
    },
    Workload {
        name: "matmul-256",
        title: "matrix product, 256",
        reach: 0.95,
        bytes: f32s(3 * 256 * 256),
        flops: product(256, 256, 256),
        tolerance: 1e-4,
        prepare: |device| matmul([256, 256], [256, 256], device),
    },
    Workload {
        name: "matmul-512",
        title: "matrix product, 512",
        reach: 0.95,
        bytes: f32s(3 * 512 * 512),
        flops: product(512, 512, 512),
        tolerance: 1e-4,
        prepare: |device| matmul([512, 512], [512, 512], device),
    },
    Workload {
        name: "matmul-1024",
        title: "matrix product, 1024",
        reach: 0.95,
        bytes: f32s(3 * 1024 * 1024),
        flops: product(1024, 1024, 1024),
        tolerance: 1e-4,
        prepare: |device| matmul([1024, 1024], [1024, 1024], device),
    },
];

/// Multiplications and additions of an `m×k` by `k×n` product.
const fn product(m: usize, k: usize, n: usize) -> u64 {
    2 * (m * k * n) as u64
}

fn matmul(left: [usize; 2], right: [usize; 2], device: &Device) -> Step {
    let mut numbers = Numbers::new(31);
    let (a, b) = (numbers.tensor(left, -0.5, 1.0, device), numbers.tensor(right, -0.5, 1.0, device));
    step(move || a.clone().matmul(b.clone()))
}

fn linear_gelu(device: &Device) -> Step {
    let mut numbers = Numbers::new(32);
    let x = numbers.tensor([512, 1024], -1.0, 1.0, device);
    let linear = fill(LinearConfig::new(1024, 4096).init(device), &mut numbers, device);
    step(move || activation::gelu(linear.forward(x.clone())))
}

fn conv_relu(device: &Device) -> Step {
    let mut numbers = Numbers::new(33);
    let x = numbers.tensor([2, 64, 56, 56], -1.0, 1.0, device);
    let conv = Conv2dConfig::new([64, 64], [3, 3]).with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(device);
    let conv = fill(conv, &mut numbers, device);
    step(move || activation::relu(conv.forward(x.clone())))
}
