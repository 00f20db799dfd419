//! What is decided about programs: how many kernels run, what they fuse, what is compiled and what is not again.

use burn_kiln::inspect;
use burn_tensor::{Tensor, activation};

use super::{kiln, tensor, values};
use crate::DEVICE;
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[
    test!(ten_pointwise_operations_are_one_kernel).alone(),
    test!(a_reduction_takes_its_prologue_and_epilogue).alone(),
    test!(softmax_reads_its_rows_in_one_kernel).alone(),
    test!(another_batch_compiles_nothing).alone(),
    test!(views_cost_no_kernel).alone(),
    test!(what_is_dead_is_not_computed).alone(),
];

fn input(n: usize) -> Tensor<2> {
    let x = tensor(&(0..n * 64).map(|i| (i % 97) as f32 / 97.0).collect::<Vec<_>>(), [n, 64], &kiln());
    x.device().sync().expect("nothing has failed");
    x
}

fn ten_pointwise_operations_are_one_kernel() {
    let x = input(1000);
    let chain = |x: Tensor<2>| (((x * 2.0 + 1.0).exp() - 0.5).tanh() * 3.0).abs().sqrt().neg().clamp(-1.5, 0.0) / 2.0;
    let (_, report) = inspect::record(&DEVICE, || values(chain(x.clone())));
    assert_eq!(report.kernels(), 1, "{report:?}");
    let (_, apart) = inspect::record(&DEVICE, || inspect::with_fusing(false, || values(chain(x))));
    assert!(apart.kernels() >= 10, "{}", apart.kernels());
    assert!(report.bytes() * 5 < apart.bytes());
}

fn a_reduction_takes_its_prologue_and_epilogue() {
    let x = input(300);
    let (_, report) = inspect::record(&DEVICE, || values(((x.clone() * 2.0).exp().sum_dim(1) + 1.0).log()));
    assert_eq!(report.kernels(), 1, "{report:?}");
}

fn softmax_reads_its_rows_in_one_kernel() {
    let x = input(300);
    let (_, report) = inspect::record(&DEVICE, || values(activation::softmax(x, 1)));
    assert!(report.kernels() <= 2, "{report:?}");
}

fn another_batch_compiles_nothing() {
    let step = |n: usize| {
        let x = input(n);
        values(activation::relu(x.matmul(tensor(&[0.1; 64 * 8], [64, 8], &kiln())) + 0.5).mean_dim(1))
    };
    step(128);
    step(256);
    let (_, report) = inspect::record(&DEVICE, || step(512));
    assert_eq!(report.compiled(), 0, "{report:?}");
    let (_, again) = inspect::record(&DEVICE, || step(512));
    assert_eq!(again.planned(), 0, "{again:?}");
}

fn views_cost_no_kernel() {
    let x = input(100);
    let (_, report) = inspect::record(&DEVICE, || {
        values(x.clone().transpose().flip([0]).slice([3..60, 2..90]).reshape([57 * 88]) + 1.0)
    });
    assert_eq!(report.kernels(), 1, "{report:?}");
}

fn what_is_dead_is_not_computed() {
    let x = input(100);
    let (_, report) = inspect::record(&DEVICE, || {
        drop(x.clone().exp().sum());
        values(x + 1.0)
    });
    assert!(report.kernels() <= 1, "{report:?}");
}
