//! Reductions and prefix sums.

use burn::tensor::{Device, Tensor};

use crate::digest::Outcome;
use crate::numbers::Numbers;
use crate::workload::{Step, Workload, f32s, step};

const SIDE: usize = 4096;

pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "argmax-first",
        title: "argmax over the first axis, 3144×4096",
        reach: 8.0,
        bytes: f32s(3144 * 4096) + 8 * 4096,
        flops: 0,
        tolerance: 0.0,
        prepare: argmax,
    },
    Workload {
        name: "sum-all",
        title: "sum of all, 4096²",
        reach: 0.95,
        bytes: f32s(SIDE * SIDE),
        flops: 0,
        tolerance: 1e-4,
        prepare: |device| of_square(device, |x| x.sum()),
    },
    Workload {
        name: "sum-last",
        title: "sum over the last axis, 4096²",
        reach: 0.95,
        bytes: f32s(SIDE * SIDE + SIDE),
        flops: 0,
        tolerance: 1e-4,
        prepare: |device| of_square(device, |x| x.sum_dim(1)),
    },
    Workload {
        name: "sum-first",
        title: "sum over the first axis, 4096²",
        reach: 0.95,
        bytes: f32s(SIDE * SIDE + SIDE),
        flops: 0,
        tolerance: 1e-4,
        prepare: |device| of_square(device, |x| x.sum_dim(0)),
    },
    Workload {
        name: "cumsum-last",
        title: "prefix sums along the last axis, 4096²",
        reach: 0.95,
        bytes: f32s(2 * SIDE * SIDE),
        flops: 0,
        tolerance: 1e-4,
        prepare: |device| of_square(device, |x| x.cumsum(1)),
    },
    Workload {
        name: "cumsum-first",
        title: "prefix sums along the first axis, 4096²",
        reach: 0.95,
        bytes: f32s(2 * SIDE * SIDE),
        flops: 0,
        tolerance: 1e-4,
        prepare: |device| of_square(device, |x| x.cumsum(0)),
    },
];

fn argmax(device: &Device) -> Step {
    let x = Numbers::new(21).tensor([3144, 4096], -1.0, 1.0, device);
    step(move || x.clone().argmax(0))
}

fn of_square<O: Outcome + 'static>(device: &Device, run: fn(Tensor<2>) -> O) -> Step {
    // Not centred on 0, so that a sum's error is small beside the sum.
    let x = Numbers::new(22).tensor([SIDE, SIDE], -0.5, 1.5, device);
    step(move || run(x.clone()))
}
