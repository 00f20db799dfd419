//! Reductions and prefix sums.

use burn::tensor::{Device, FloatDType, Tensor};

use crate::digest::Outcome;
use crate::numbers::Numbers;
use crate::workload::{Step, Workload, f32s, halves, step};

const SIDE: usize = 4096;

/// A tolerance for results that are not comparable.
const ANY: f64 = 1e30;

pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "argmax-first",
        title: "argmax over the first axis, 3144×4096",
        reach: 8.0,
        bytes: f32s(3144 * 4096) + 8 * 4096,
        flops: 0,
        tolerance: 0.0,
        prepare: |device| of([3144, 4096], FloatDType::F32, device, |x| x.argmax(0)),
    },
    Workload {
        name: "sum-all",
        title: "sum of all, 4096²",
        reach: 0.95,
        bytes: f32s(SIDE * SIDE),
        flops: 0,
        tolerance: 1e-4,
        prepare: |device| of([SIDE, SIDE], FloatDType::F32, device, |x| x.sum()),
    },
    Workload {
        name: "sum-last",
        title: "sum over the last axis, 4096²",
        reach: 0.95,
        bytes: f32s(SIDE * SIDE + SIDE),
        flops: 0,
        tolerance: 1e-4,
        prepare: |device| of([SIDE, SIDE], FloatDType::F32, device, |x| x.sum_dim(1)),
    },
    Workload {
        name: "sum-first",
        title: "sum over the first axis, 4096²",
        reach: 0.95,
        bytes: f32s(SIDE * SIDE + SIDE),
        flops: 0,
        tolerance: 1e-4,
        prepare: |device| of([SIDE, SIDE], FloatDType::F32, device, |x| x.sum_dim(0)),
    },
    Workload {
        name: "cumsum-last",
        title: "prefix sums along the last axis, 4096²",
        reach: 0.95,
        bytes: f32s(2 * SIDE * SIDE),
        flops: 0,
        tolerance: 1e-4,
        prepare: |device| of([SIDE, SIDE], FloatDType::F32, device, |x| x.cumsum(1)),
    },
    Workload {
        name: "cumsum-first",
        title: "prefix sums along the first axis, 4096²",
        reach: 0.95,
        bytes: f32s(2 * SIDE * SIDE),
        flops: 0,
        tolerance: 1e-4,
        prepare: |device| of([SIDE, SIDE], FloatDType::F32, device, |x| x.cumsum(0)),
    },
];

pub const LARGE: &[Workload] = &[
    Workload::new(
        "sum-last/4096x50304/bf16",
        "sum over the last axis, 4096×50304 bf16",
        halves(4096 * 50304 + 4096),
        |device| of([4096, 50304], FloatDType::BF16, device, |x| x.sum_dim(1)),
    ),
    Workload::new(
        "sum-first/50304x4096/bf16",
        "sum over the first axis, 50304×4096 bf16",
        halves(50304 * 4096 + 4096),
        |device| of([50304, 4096], FloatDType::BF16, device, |x| x.sum_dim(0)),
    ),
    Workload::new("sum-all/256Mi/f32", "sum of all, 256 Mi f32", f32s(256 << 20), |device| {
        of([16384, 16384], FloatDType::F32, device, |x| x.sum())
    })
    .within(1e-4),
    Workload::new(
        "argmax-first/50304x4096/bf16",
        "argmax over the first axis, 50304×4096 bf16",
        halves(50304 * 4096) + f32s(4096),
        |device| of([50304, 4096], FloatDType::BF16, device, |x| x.argmax(0)),
    )
    // Among equals others take whichever they find.
    .within(ANY),
    Workload::new(
        "cumsum-last/8192/bf16",
        "prefix sums along the last axis, 8192² bf16",
        halves(2 * 8192 * 8192),
        |device| of([8192, 8192], FloatDType::BF16, device, |x| x.cumsum(1)),
    )
    // Others may add up in 16 bits.
    .within(ANY),
];

fn of<O: Outcome + 'static>(shape: [usize; 2], dtype: FloatDType, device: &Device, run: fn(Tensor<2>) -> O) -> Step {
    // Not centred on 0, so that a sum's error is small beside the sum.
    let x = Numbers::new(22).of(dtype, shape, -0.5, 1.5, device);
    step(move || run(x.clone()))
}
