//! Segments whose products are measured.

use burn_backend::TensorData;
use half::bf16;

use super::super::*;
use super::{add, floats, matmul};
use crate::device::KilnDevice;
use crate::inspect::counts;

const TUNED: usize = run::delayed::TUNED;
const IDLE: usize = run::delayed::IDLE;

fn matrix(device: KilnDevice, [rows, columns]: [usize; 2], seed: usize) -> KilnTensor {
    let number = |i| bf16::from_f32(((i * 7 + seed * 13) % 11) as f32 / 8.0 - 0.5);
    let values: Vec<bf16> = (0..rows * columns).map(number).collect();
    from_data(TensorData::new(values, [rows, columns]), &device)
}

/// `x · w + residual`, and nothing is left of the operands.
fn layer(device: KilnDevice, rows: usize) -> Vec<f32> {
    let x = matrix(device, [rows, 64], 1);
    let y = add(&matmul(&x, &matrix(device, [64, 128], 2)), &matrix(device, [rows, 128], 3));
    floats(record_one("cast", &y, burn_backend::DType::F32, |t, y| t.cast(y, kiln_lowering::DType::F32)))
}

fn check(device: KilnDevice, rows: usize) {
    let pairs = layer(device, rows).into_iter().zip(layer(KilnDevice::Interp, rows)).collect::<Vec<_>>();
    assert!(pairs.iter().all(|(a, b)| (a - b).abs() <= 0.02 * b.abs().max(1.0)), "{pairs:?}");
}

/// The first result is right, a class is measured once, and another size of it is none.
#[test]
fn a_class_of_products_is_measured_once() {
    let device = KilnDevice::Cuda(TUNED);
    for (rows, tuned) in [(200, 1), (200, 1), (201, 1), (400, 2)] {
        check(device, rows);
        assert_eq!(counts(&device).tuned, tuned, "{rows}");
    }
}

/// A way that leaves results as they were is found out, and not taken.
#[test]
fn a_way_that_does_nothing_is_left_out() {
    let device = KilnDevice::Cuda(IDLE);
    check(device, 200);
    let before = counts(&device);
    assert_eq!(before.tuned, 1);
    check(device, 200);
    assert_eq!(counts(&device).gemms, before.gemms);
}

/// A device that is not asked to measure does not, with the same to be decided.
#[test]
fn who_is_not_asked_does_not_measure() {
    let [quiet, other] = [run::delayed::QUIET, TUNED + 1].map(KilnDevice::Cuda);
    check(quiet, 200);
    check(other, 200);
    assert_eq!([quiet, other].map(|device| counts(&device).tuned), [0, 1]);
    // Trials are not counted as work.
    let work = |device| (counts(&device).launches + counts(&device).gemms, counts(&device).segments);
    assert!(work(other).0 <= work(quiet).0 + 1, "{:?} {:?}", work(quiet), work(other));
}
