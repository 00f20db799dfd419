//! Devices that work by themselves: answers that come later, faults, and moving from one to another.

use burn_backend::{DType as BurnDType, ExecutionError, TensorData};
use kiln_lowering::graph::SliceDim;

use super::super::*;
use super::{add, floats, select, tensor};

/// A device that works by itself answers checks later: the error is that of the values that depend on them, also where
/// they were recorded in another segment.
#[test]
fn late_failures_hit_what_depends_on_them() {
    let device = KilnDevice::Cuda(run::delayed::FIRST + 1);
    let x = tensor(device, &[1.0, 2.0, 3.0]);
    let bad = from_data(TensorData::new(vec![0i64, 7], [2]), &device);
    let (picked, fine) = (select(&x, &bad), add(&x, &x));
    flush(&device);
    let (later, other) = (add(&picked, &picked), add(&fine, &x));
    flush(&device);
    let message = into_data(later).expect_err("depends on the index").to_string();
    assert!(message.contains("`select`") && message.contains("[2]"), "{message}");
    assert!(into_data(picked).is_err());
    assert_eq!(floats(other), [3.0, 6.0, 9.0]);
    assert_eq!(floats(fine), [2.0, 4.0, 6.0]);
    sync(&device).expect("the failure was taken");
    let good = from_data(TensorData::new(vec![2i64, 0], [2]), &device);
    assert_eq!(floats(select(&x, &good)), [3.0, 1.0]);
}

/// Nothing hangs and nothing panics on a device that a kernel has stopped.
#[test]
fn a_device_that_stops_says_so_from_then_on() {
    let device = KilnDevice::Cuda(run::delayed::FRAIL);
    let x = tensor(device, &[1.0, 2.0, 3.0]);
    let bad = from_data(TensorData::new(vec![0i64, 7], [2]), &device);
    let (picked, fine) = (select(&x, &bad), add(&x, &x));
    let stopped = |result: Result<TensorData, ExecutionError>| {
        let message = result.expect_err("nothing is to be had").to_string();
        assert!(message.contains("the device has stopped"), "{message}");
    };
    stopped(into_data(picked));
    stopped(into_data(fine));
    stopped(into_data(add(&x, &x)));
    stopped(into_data(tensor(device, &[1.0])));
    stopped(sync(&device).map(|()| TensorData::from([0f32])));
}

/// Reads of views copy what they need, from memory that the processor can't look at.
#[test]
fn many_segments_in_flight_keep_their_order() {
    let device = KilnDevice::Cuda(run::delayed::FIRST + 2);
    let index = from_data(TensorData::new(vec![1i64, 0, 1], [3]), &device);
    let mut x = tensor(device, &[1.0, 2.0, 3.0]);
    for _ in 0..200 {
        x = add(&x, &tensor(device, &[1.0, 0.0, -1.0]));
        flush(&device);
        let turned = select(&x, &index);
        flush(&device);
        drop(turned);
    }
    assert_eq!(floats(select(&x, &index)), [2.0, 201.0, 2.0]);
}

/// Between any two devices, and views of what lies there; what could not be computed fails there too.
#[test]
fn tensors_move_between_devices() {
    let devices =
        [KilnDevice::Cpu, KilnDevice::Cuda(run::delayed::FIRST + 3), KilnDevice::Cuda(run::delayed::FIRST + 4)];
    for from in devices {
        for to in devices.into_iter().filter(|to| *to != from) {
            let x = tensor(from, &[1.0, 2.0, 3.0, 4.0]);
            let view = record_one("view", &add(&x, &x), BurnDType::F32, |t, x| {
                t.slice(x, &[SliceDim { start: 1, len: 2, step: 2 }])
            });
            let moved = transfer("to_device", view, &to);
            assert_eq!(moved.device(), to);
            assert_eq!(floats(add(&moved, &moved)), [8.0, 16.0], "{from} to {to}");
            assert_eq!(floats(transfer("to_device", tensor(from, &[]), &to)), [0.0; 0]);
            let bad = from_data(TensorData::new(vec![9i64], [1]), &from);
            let lost = transfer("to_device", select(&x, &bad), &to);
            assert!(into_data(add(&lost, &lost)).is_err());
        }
    }
}

/// A plan keeps what it frees until its work is asked for; where that is too much, what there is so far is asked for
/// before.
#[test]
fn memory_that_is_short_has_work_asked_for_early() {
    let device = KilnDevice::Cuda(run::delayed::SMALL);
    let len = 16 << 10;
    let mut x = tensor(device, &vec![1.0; len]);
    crate::inspect::with_fusing(false, || {
        for step in 1..20 {
            let part = SliceDim { start: 0, len: (len - step * 512) as u64, step: 1 };
            let cut = record_one("cut", &x, BurnDType::F32, |t, x| t.slice(x, &[part]));
            x = add(&cut, &cut);
        }
    });
    assert_eq!(floats(x), vec![2f32.powi(19); len - 19 * 512]);
}
