//! Windows of device time, as Burn's `Device::profile` opens them.

use std::time::{Duration, Instant};

use burn_backend::{ProfileDuration, ProfileOptions, read_sync};
use burn_tensor::Tensor;

use super::{kiln, tensor, values};
use crate::test::{Test, test};

pub const TESTS: &[Test] =
    &[test!(a_window_measures_what_ran_in_it), test!(windows_lie_in_each_other), test!(a_replay_falls_into_a_window)];

fn flushed() -> ProfileOptions {
    ProfileOptions::default().flush()
}

fn time(window: ProfileDuration) -> Duration {
    read_sync(window.resolve()).expect("the device keeps time").duration()
}

/// Sums that need each other.
fn work(x: &Tensor<2>, rounds: usize) -> Tensor<2> {
    (0..rounds).fold(x.clone(), |y, _| y.clone() - y.sum_dim(0) * 1e-3)
}

fn input() -> Tensor<2> {
    let x = tensor(&(0..64 * 48).map(|i| (i % 97) as f32 / 97.0).collect::<Vec<_>>(), [64, 48], &kiln());
    // What there is to compile is compiled.
    values(work(&x, 5));
    values(work(&x, 60));
    x
}

fn a_window_measures_what_ran_in_it() {
    let (device, x) = (kiln(), input());
    let (_, nothing) = device.profile_with(flushed(), || ()).expect("the device is there");
    assert_eq!(time(nothing), Duration::ZERO);
    let measure = |rounds| {
        let began = Instant::now();
        let (made, window) = device.profile_with(flushed(), || work(&x, rounds)).expect("the device is there");
        let taken = time(window);
        assert!(taken > Duration::ZERO && taken <= began.elapsed() + Duration::from_millis(1), "{rounds}: {taken:?}");
        assert!(values(made) == values(work(&x, rounds)));
        taken
    };
    let least = |rounds| (0..5).map(|_| measure(rounds)).min().expect("five times");
    let (few, many) = (least(5), least(60));
    assert!(many > few, "{many:?} for 60 rounds, {few:?} for 5");
    // What is still queued at the end falls out.
    let (queued, window) = device.profile(|| x.clone() * 3.0).expect("the device is there");
    assert_eq!(time(window), Duration::ZERO);
    assert_eq!(values(queued)[1], 1.0 / 97.0 * 3.0);
}

fn windows_lie_in_each_other() {
    let (device, x) = (kiln(), input());
    let both = || {
        let (made, inner) = device.profile_with(flushed(), || work(&x, 60)).expect("the device is there");
        (work(&made, 5), inner)
    };
    let ((made, inner), outer) = device.profile_with(flushed(), both).expect("the device is there");
    let (inner, outer) = (time(inner), time(outer));
    assert!(inner > Duration::ZERO && outer > inner, "{inner:?} in {outer:?}");
    assert!(values(made).iter().all(|v| v.is_finite()));
}

fn a_replay_falls_into_a_window() {
    let (device, x) = (kiln(), input());
    let mut graph = super::captures::captured(&device, || work(&x, 60));
    let (_, window) = device.profile(|| drop(super::captures::again(&mut graph).clone())).expect("the device is there");
    assert!(time(window) > Duration::ZERO);
}
