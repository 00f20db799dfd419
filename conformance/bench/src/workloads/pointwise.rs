//! Chains of pointwise operations: written out as a user would, one Burn call an operation.

use burn::tensor::{Device, FloatDType, activation};

use crate::numbers::Numbers;
use crate::workload::{Step, Workload, f32s, halves, step};

/// Numbers in each operand of the one-dimensional workloads.
const ELEMENTS: usize = 4 << 20;

pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "gelu",
        title: "x+b, then x·0.5·(1+erf(x/√2)), 512×4096",
        reach: 25.0,
        bytes: f32s(2 * 512 * 4096 + 4096),
        flops: 0,
        tolerance: 1e-5,
        prepare: |device| gelu([512, 4096], FloatDType::F32, device),
    },
    Workload {
        name: "chain",
        title: "sqrt|tanh(xy+z)·sigmoid(x)−y| + exp z, 4 Mi",
        reach: 15.0,
        bytes: f32s(4 * ELEMENTS),
        flops: 0,
        tolerance: 1e-3,
        prepare: |device| chain(ELEMENTS, device),
    },
    Workload {
        name: "exp",
        title: "exp x, 4 Mi",
        reach: 8.0,
        bytes: f32s(2 * ELEMENTS),
        flops: 0,
        tolerance: 1e-5,
        prepare: exp,
    },
    Workload {
        name: "powf",
        title: "x^y, both of 4 Mi",
        reach: 5.0,
        bytes: f32s(3 * ELEMENTS),
        flops: 0,
        tolerance: 1e-5,
        prepare: powf,
    },
    Workload {
        name: "powf-scalar",
        title: "x^1.7, 4 Mi",
        reach: 5.0,
        bytes: f32s(2 * ELEMENTS),
        flops: 0,
        tolerance: 1e-5,
        prepare: powf_scalar,
    },
    Workload {
        name: "swiglu",
        title: "silu(a)·b, 1024×11008",
        reach: 12.0,
        bytes: f32s(3 * 1024 * 11008),
        flops: 0,
        tolerance: 1e-5,
        prepare: |device| swiglu([1024, 11008], FloatDType::F32, device),
    },
    Workload {
        name: "transpose",
        title: "xᵀ+1, 2048²",
        reach: 4.0,
        bytes: f32s(2 * 2048 * 2048),
        flops: 0,
        tolerance: 1e-6,
        prepare: |device| transpose(2048, FloatDType::F32, device),
    },
];

pub const LARGE: &[Workload] = &[
    Workload::new(
        "gelu-bias/8192x4096/f16",
        "x+b, then x·0.5·(1+erf(x/√2)), 8192×4096 f16",
        halves(2 * 8192 * 4096 + 4096),
        |device| gelu([8192, 4096], FloatDType::F16, device),
    ),
    Workload::new(
        "chain/64Mi/f32",
        "sqrt|tanh(xy+z)·sigmoid(x)−y| + exp z, 64 Mi f32",
        f32s(4 * (64 << 20)),
        |device| chain(64 << 20, device),
    )
    .within(1e-3),
    Workload::new("swiglu/16384x11008/bf16", "silu(a)·b, 16384×11008 bf16", halves(3 * 16384 * 11008), |device| {
        swiglu([16384, 11008], FloatDType::BF16, device)
    }),
    Workload::new("transpose-add/8192/bf16", "xᵀ+1, 8192² bf16", halves(2 * 8192 * 8192), |device| {
        transpose(8192, FloatDType::BF16, device)
    }),
];

fn gelu(shape: [usize; 2], dtype: FloatDType, device: &Device) -> Step {
    let mut numbers = Numbers::new(1);
    let x = numbers.of(dtype, shape, -3.0, 3.0, device);
    let b = numbers.of(dtype, [1, shape[1]], -0.5, 0.5, device);
    step(move || {
        let x = x.clone() + b.clone();
        x.clone() * 0.5 * ((x / std::f32::consts::SQRT_2).erf() + 1.0)
    })
}

fn chain(elements: usize, device: &Device) -> Step {
    let mut numbers = Numbers::new(2);
    let [x, y, z] = [(); 3].map(|()| numbers.of(FloatDType::F32, [elements], -2.0, 2.0, device));
    step(move || {
        let t = (x.clone() * y.clone() + z.clone()).tanh() * activation::sigmoid(x.clone()) - y.clone();
        t.abs().sqrt() + z.clone().exp()
    })
}

fn exp(device: &Device) -> Step {
    let x = Numbers::new(3).tensor([ELEMENTS], -8.0, 8.0, device);
    step(move || x.clone().exp())
}

fn powf(device: &Device) -> Step {
    let mut numbers = Numbers::new(4);
    let x = numbers.tensor([ELEMENTS], 0.1, 4.0, device);
    let y = numbers.tensor([ELEMENTS], -2.0, 3.0, device);
    step(move || x.clone().powf(y.clone()))
}

fn powf_scalar(device: &Device) -> Step {
    let x = Numbers::new(5).tensor([ELEMENTS], 0.1, 4.0, device);
    step(move || x.clone().powf_scalar(1.7))
}

fn swiglu(shape: [usize; 2], dtype: FloatDType, device: &Device) -> Step {
    let mut numbers = Numbers::new(6);
    let [a, b] = [(); 2].map(|()| numbers.of(dtype, shape, -4.0, 4.0, device));
    step(move || activation::silu(a.clone()) * b.clone())
}

fn transpose(side: usize, dtype: FloatDType, device: &Device) -> Step {
    let x = Numbers::new(7).of(dtype, [side, side], -1.0, 1.0, device);
    step(move || x.clone().transpose() + 1.0)
}
