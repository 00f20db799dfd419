//! Segments that a device begins with while they are recorded.

use burn_backend::TensorData;

use super::super::*;
use super::{add, floats, matmul, select};
use crate::device::KilnDevice;

/// Devices of their own, whose counters nobody else changes.
const FIRST: usize = run::delayed::FIRST + 20;

fn square(device: KilnDevice, seed: usize) -> KilnTensor {
    let values: Vec<f32> = (0..64 * 64).map(|i| ((i * 7 + seed * 13) % 11) as f32 / 8.0 - 0.5).collect();
    from_data(TensorData::new(values, [64, 64]), &device)
}

/// Layers of a product and a sum, more than a part of a plan has.
fn layers(x: &KilnTensor, weights: &[KilnTensor], scale: f32) -> KilnTensor {
    weights.iter().fold(x.clone(), |x, w| {
        let y = add(&matmul(&x, w), w);
        record_one("mul_scalar", &y, y.dtype(), |t, y| {
            let dims = t.dims(y).clone();
            let by = t.scalar(kiln_lowering::DType::F32, burn_backend::Scalar::Float(scale.into()), &dims);
            t.map(kiln_lowering::op::Pointwise::Mul, &[y, by])
        })
    })
}

fn begun(device: KilnDevice) -> u64 {
    crate::inspect::counts(&device).ahead
}

struct Model {
    device: KilnDevice,
    weights: Vec<KilnTensor>,
    /// On a device that begins with nothing.
    truth: Vec<KilnTensor>,
}

impl Model {
    fn new(number: usize) -> Model {
        let device = KilnDevice::Cuda(FIRST + number);
        let weights = |device| (0..12).map(|seed| square(device, seed)).collect();
        Model { device, weights: weights(device), truth: weights(KilnDevice::Interp) }
    }

    /// Whether the device and the interpreter agree on what `f` makes of them.
    fn check(&self, seed: usize, f: impl Fn(&KilnTensor, &[KilnTensor]) -> Vec<KilnTensor>) {
        let [x, truth] = [self.device, KilnDevice::Interp].map(|device| square(device, seed));
        let (got, want) = (f(&x, &self.weights), f(&truth, &self.truth));
        for (got, want) in got.into_iter().zip(want) {
            let pairs = floats(got).into_iter().zip(floats(want));
            assert!(pairs.clone().all(|(a, b)| (a - b).abs() <= 1e-3 * b.abs().max(1.0)), "{seed}");
        }
    }
}

/// From the third time on, once the plan has come again, most of it has run when the last operation is recorded; other
/// numbers are other scalars of the same plan.
#[test]
fn known_segments_are_begun_with() {
    let model = Model::new(0);
    for round in 0..6 {
        let before = begun(model.device);
        model.check(round, |x, w| vec![layers(x, w, 0.01 + round as f32 / 1000.0)]);
        assert_eq!(begun(model.device) > before, round > 1, "round {round}");
    }
}

/// A program that goes on in another way gets what it asked for, and the other one as well; nothing is begun for ever that
/// always turns out to be something else.
#[test]
fn what_was_begun_for_nothing_is_thrown_away() {
    let model = Model::new(1);
    for round in 0..3 {
        model.check(round, |x, w| vec![layers(x, w, 0.01)]);
    }
    let before = begun(model.device);
    assert!(before > 0);
    for round in 3..9 {
        // The same first half; the result of a layer in the middle is wanted, too.
        model.check(round, |x, w| {
            let middle = layers(x, &w[..9], 0.01);
            vec![add(&layers(&middle, &w[..2], 0.02), x), middle]
        });
    }
    model.check(9, |x, w| vec![layers(x, w, 0.01)]);
}

/// What is read in between ends a segment early.
#[test]
fn a_segment_may_end_before_its_plan_does() {
    let model = Model::new(2);
    for round in 0..12 {
        model.check(round, |x, w| {
            let half = layers(x, &w[..8], 0.01);
            let kept = if round % 4 == 3 { floats(half.clone()).len() } else { 0 };
            assert!(kept == 0 || kept == 64 * 64);
            vec![layers(&half, &w[8..], 0.01)]
        });
    }
    assert!(begun(model.device) > 0);
}

/// Memory that results may take over is not touched before that is certain.
#[test]
fn operands_that_nobody_else_wants_are_left_alone() {
    let model = Model::new(3);
    for round in 0..6 {
        let other = round > 3;
        model.check(round, |x, w| {
            let own = add(x, x);
            flush(&x.device());
            // From here on nobody but the segment holds `own`; the other program reads it at the end.
            let first = add(&own, &w[0]);
            let y = layers(&first, w, 0.01);
            vec![if other { add(&y, &own) } else { y }]
        });
    }
}

/// What nobody wants any more is forgotten, and its memory is there for others.
#[test]
fn unwanted_beginnings_are_forgotten() {
    let model = Model::new(4);
    for round in 0..3 {
        model.check(round, |x, w| vec![layers(x, w, 0.01)]);
    }
    let used = || crate::inspect::counts(&model.device).memory.used;
    sync(&model.device).expect("no failure");
    let before = used();
    let x = square(model.device, 5);
    for _ in 0..5 {
        drop(layers(&x, &model.weights, 0.01));
        flush(&model.device);
    }
    drop(x);
    sync(&model.device).expect("no failure");
    assert!(used() <= before, "{} bytes, {before} before", used());
    model.check(6, |x, w| vec![layers(x, w, 0.01)]);
}

/// A check that fails in what was begun with is reported like any other, once, and by nobody else.
#[test]
fn checks_of_beginnings_are_heard() {
    let model = Model::new(5);
    let indices = |device: KilnDevice, last: i64| {
        let values: Vec<i64> = (0..64).map(|i| if i == 63 { last } else { 63 - i }).collect();
        from_data(TensorData::new(values, [64]), &device)
    };
    for round in 0..5 {
        model.check(round, |x, w| vec![layers(&select(x, &indices(x.device(), 0)), w, 0.01)]);
    }
    assert!(begun(model.device) > 0);
    let x = square(model.device, 7);
    let bad = |last| layers(&select(&x, &indices(model.device, last)), &model.weights, 0.01);
    let message = into_data(bad(64)).expect_err("an index is outside").to_string();
    assert!(message.contains("`select`"), "{message}");
    model.check(8, |x, w| vec![layers(&select(x, &indices(x.device(), 1)), w, 0.01)]);
    // Thrown away, with a check that nobody hears of.
    drop(bad(65));
    flush(&model.device);
    model.check(9, |x, w| vec![layers(&select(x, &indices(x.device(), 2)), w, 0.01)]);
    sync(&model.device).expect("no failure is left");
}
