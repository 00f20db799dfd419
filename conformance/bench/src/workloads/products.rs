//! Matrix products, with what users put around them, and a convolution.

use burn::nn::conv::Conv2dConfig;
use burn::nn::{LinearConfig, PaddingConfig2d};
use burn::tensor::{Device, FloatDType, activation};

use crate::numbers::Numbers;
use crate::workload::{Step, Workload, f32s, halves, step};
use crate::workloads::gpt::{cast, fill};

const SIDE: usize = 4096;

pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "linear-gelu",
        title: "linear + GELU, 512×1024×4096",
        reach: 2.2,
        bytes: f32s(512 * 1024 + 1024 * 4096 + 4096 + 512 * 4096),
        flops: product(512, 1024, 4096),
        tolerance: 1e-4,
        prepare: |device| linear_gelu([512, 1024, 4096], FloatDType::F32, device),
    },
    Workload {
        name: "conv-relu",
        title: "conv 3×3 + relu, 2×64×56×56",
        reach: 1.0,
        bytes: f32s(2 * 2 * 64 * 56 * 56 + 64 * 64 * 9 + 64),
        flops: product(2 * 56 * 56, 64 * 9, 64),
        tolerance: 1e-4,
        prepare: |device| conv_relu([2, 64, 56, 56], FloatDType::F32, device),
    },
    Workload {
        name: "gemv",
        title: "matrix × vector, 4096²",
        reach: 0.95,
        bytes: f32s(SIDE * SIDE + 2 * SIDE),
        flops: product(SIDE, SIDE, 1),
        tolerance: 1e-4,
        prepare: |device| matmul([SIDE, SIDE], [SIDE, 1], FloatDType::F32, device),
    },
    Workload {
        name: "gevm",
        title: "vector × matrix, 4096²",
        reach: 0.95,
        bytes: f32s(SIDE * SIDE + 2 * SIDE),
        flops: product(1, SIDE, SIDE),
        tolerance: 1e-4,
        prepare: |device| matmul([1, SIDE], [SIDE, SIDE], FloatDType::F32, device),
    },
    Workload {
        name: "matmul-256",
        title: "matrix product, 256",
        reach: 0.95,
        bytes: f32s(3 * 256 * 256),
        flops: product(256, 256, 256),
        tolerance: 1e-4,
        prepare: |device| matmul([256, 256], [256, 256], FloatDType::F32, device),
    },
    Workload {
        name: "matmul-512",
        title: "matrix product, 512",
        reach: 0.95,
        bytes: f32s(3 * 512 * 512),
        flops: product(512, 512, 512),
        tolerance: 1e-4,
        prepare: |device| matmul([512, 512], [512, 512], FloatDType::F32, device),
    },
    Workload {
        name: "matmul-1024",
        title: "matrix product, 1024",
        reach: 0.95,
        bytes: f32s(3 * 1024 * 1024),
        flops: product(1024, 1024, 1024),
        tolerance: 1e-4,
        prepare: |device| matmul([1024, 1024], [1024, 1024], FloatDType::F32, device),
    },
];

/// Multiplications and additions of an `m×k` by `k×n` product.
const fn product(m: usize, k: usize, n: usize) -> u64 {
    2 * (m * k * n) as u64
}

/// A product of bf16 matrices, with one clause for each size.
macro_rules! square {
    ($side:literal) => {
        Workload::new(
            concat!("matmul/", $side, "/bf16"),
            concat!("matrix product, ", $side, " bf16"),
            halves(3 * $side * $side),
            |device| matmul([$side, $side], [$side, $side], FloatDType::BF16, device),
        )
        .computing(product($side, $side, $side))
    };
}

pub const LARGE: &[Workload] = &[
    square!(512),
    square!(1024),
    square!(2048),
    square!(4096),
    square!(8192),
    Workload::new("matmul/4096/f32", "matrix product, 4096 f32", f32s(3 * SIDE * SIDE), |device| {
        matmul([SIDE, SIDE], [SIDE, SIDE], FloatDType::F32, device)
    })
    .within(1e-4)
    .computing(product(SIDE, SIDE, SIDE)),
    Workload::new(
        "linear-gelu/8192x4096x16384/bf16",
        "linear + GELU, 8192×4096×16384 bf16",
        halves(8192 * 4096 + 4096 * 16384 + 16384 + 8192 * 16384),
        |device| linear_gelu([8192, 4096, 16384], FloatDType::BF16, device),
    )
    .computing(product(8192, 4096, 16384)),
    Workload::new(
        "skinny/16x4096x4096/bf16",
        "matrix product, 16×4096×4096 bf16",
        halves(2 * 16 * SIDE + SIDE * SIDE),
        |device| matmul([16, SIDE], [SIDE, SIDE], FloatDType::BF16, device),
    )
    .computing(product(16, SIDE, SIDE)),
    Workload::new(
        "gemv/4096x11008/bf16",
        "matrix × vector, 4096×11008 bf16",
        halves(4096 * 11008 + 4096 + 11008),
        |device| matmul([4096, 11008], [11008, 1], FloatDType::BF16, device),
    )
    .computing(product(4096, 11008, 1)),
    Workload::new(
        "conv-relu/64x128x56x56/bf16",
        "conv 3×3 + relu, 64×128×56×56 bf16",
        halves(2 * 64 * 128 * 56 * 56 + 128 * 128 * 9 + 128),
        |device| conv_relu([64, 128, 56, 56], FloatDType::BF16, device),
    )
    .computing(product(64 * 56 * 56, 128 * 9, 128)),
];

fn matmul(left: [usize; 2], right: [usize; 2], dtype: FloatDType, device: &Device) -> Step {
    let mut numbers = Numbers::new(31);
    let (a, b) = (numbers.of(dtype, left, -0.5, 1.0, device), numbers.of(dtype, right, -0.5, 1.0, device));
    step(move || a.clone().matmul(b.clone()))
}

/// `rows×from` by `from×to`.
fn linear_gelu([rows, from, to]: [usize; 3], dtype: FloatDType, device: &Device) -> Step {
    let mut numbers = Numbers::new(32);
    let x = numbers.of(dtype, [rows, from], -1.0, 1.0, device);
    let linear = cast(fill(LinearConfig::new(from, to).init(device), &mut numbers, device), dtype);
    step(move || activation::gelu(linear.forward(x.clone())))
}

fn conv_relu(shape: [usize; 4], dtype: FloatDType, device: &Device) -> Step {
    let mut numbers = Numbers::new(33);
    let x = numbers.of(dtype, shape, -1.0, 1.0, device);
    let (channels, padding) = ([shape[1], shape[1]], PaddingConfig2d::Explicit(1, 1, 1, 1));
    let conv = Conv2dConfig::new(channels, [3, 3]).with_padding(padding).init(device);
    let conv = cast(fill(conv, &mut numbers, device), dtype);
    step(move || activation::relu(conv.forward(x.clone())))
}
