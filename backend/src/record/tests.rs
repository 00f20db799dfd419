//! Tests of recording on the interpreter's device.

use burn_backend::{DType as BurnDType, Scalar, TensorData};
use kiln_lowering::DType;
use kiln_lowering::graph::{Dist, Index, Update};
use kiln_lowering::op::Pointwise;

use super::*;

const DEVICE: KilnDevice = KilnDevice::Interp;

fn tensor(values: &[f32]) -> KilnTensor {
    from_data(TensorData::new(values.to_vec(), [values.len()]), &DEVICE)
}

fn add(a: &KilnTensor, b: &KilnTensor) -> KilnTensor {
    record("add", &DEVICE, [a, b], BurnDType::F32, |t, [a, b]| {
        t.map(Pointwise::Add, &[a, b])
    })
}

fn floats(t: KilnTensor) -> Vec<f32> {
    into_data(t).expect("computed").to_vec().expect("f32")
}

#[test]
fn a_recorded_sum_is_read_back() {
    let (a, b) = (tensor(&[1.0, 2.0, 3.0]), tensor(&[10.0, 20.0, 30.0]));
    let c = add(&a, &b);
    let d = add(&c, &c);
    assert_eq!(floats(d), [22.0, 44.0, 66.0]);
    assert_eq!(floats(c), [11.0, 22.0, 33.0]);
    assert_eq!(floats(a), [1.0, 2.0, 3.0]);
}

#[test]
fn a_result_that_is_the_operand_shares_its_place() {
    let a = tensor(&[1.0, 2.0]);
    let same = record_one("cast", &a, BurnDType::F32, |t, x| t.cast(x, DType::F32));
    let sum = add(&same, &a);
    assert_eq!(floats(same), [1.0, 2.0]);
    assert_eq!(floats(sum), [2.0, 4.0]);
}

#[test]
fn scalars_are_bound_at_run_time() {
    let a = tensor(&[1.0, 2.0]);
    for k in 0..3i64 {
        let c = record_one("mul_scalar", &a, BurnDType::F32, |t, x| {
            let k = t.scalar(DType::F32, Scalar::Int(k), &[2]);
            t.map(Pointwise::Mul, &[x, k])
        });
        assert_eq!(floats(c), [k as f32, 2.0 * k as f32]);
    }
}

#[test]
fn a_panic_while_recording_leaves_the_thread_usable() {
    let a = tensor(&[1.0, 2.0]);
    let before = add(&a, &a);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        record("broken", &DEVICE, [&a], BurnDType::F32, |t, [x]| {
            let _ = t.scalar(DType::F32, Scalar::Float(3.0), &[2]);
            let _ = t.map(Pointwise::Add, &[x, x]);
            panic!("operands do not fit")
        })
    }));
    assert!(panicked.is_err());
    let after = add(&before, &a);
    assert_eq!(floats(after), [3.0, 6.0]);
    assert_eq!(floats(before), [2.0, 4.0]);
}

#[test]
fn recording_inside_recording_is_refused() {
    let a = tensor(&[1.0]);
    let nested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        record_one("outer", &a, BurnDType::F32, |_, x| {
            add(&a, &a);
            x
        })
    }));
    assert!(nested.is_err());
    assert_eq!(floats(add(&a, &a)), [2.0]);
}

#[test]
fn threads_use_each_others_pending_values() {
    let a = tensor(&[1.0, 2.0]);
    let pending = add(&a, &a);
    let theirs = std::thread::spawn(move || {
        let b = add(&pending, &pending);
        (b, pending)
    });
    let (b, pending) = theirs.join().expect("no panic");
    let c = add(&b, &pending);
    assert_eq!(floats(c), [6.0, 12.0]);
    assert_eq!(floats(b), [4.0, 8.0]);
}

#[test]
fn many_threads_get_their_own_results() {
    let shared = tensor(&[1.0; 8]);
    std::thread::scope(|scope| {
        for k in 1..5 {
            let shared = &shared;
            scope.spawn(move || {
                for _ in 0..20 {
                    let mut x = shared.clone();
                    for _ in 0..k {
                        x = add(&x, shared);
                    }
                    assert_eq!(floats(x), [1.0 + k as f32; 8]);
                }
            });
        }
    });
}

#[test]
fn a_failure_names_the_operation_and_spares_the_rest() {
    let x = tensor(&[1.0, 2.0, 3.0]);
    let index = from_data(TensorData::new(vec![0i32, 7], [2]), &DEVICE);
    let bad = record(
        "select",
        &DEVICE,
        [&x, &index],
        BurnDType::F32,
        |t, [x, i]| t.gather(Index::Positions, x, 0, i),
    );
    flush(&DEVICE);
    let dependent = add(&bad, &bad);
    let good = add(&x, &x);
    assert_eq!(floats(good), [2.0, 4.0, 6.0]);
    let error = into_data(dependent)
        .expect_err("depends on the failure")
        .to_string();
    assert!(error.contains("select"), "{error}");
    assert!(into_data(bad).is_err());
    sync(&DEVICE).expect("the error was taken");
    assert_eq!(floats(add(&x, &x)), [2.0, 4.0, 6.0]);
}

#[test]
fn sync_returns_a_failure_once_and_only_to_its_thread() {
    let fail = || {
        let x = tensor(&[1.0]);
        let index = from_data(TensorData::new(vec![5i32], [1]), &DEVICE);
        record(
            "select",
            &DEVICE,
            [&x, &index],
            BurnDType::F32,
            |t, [x, i]| t.gather(Index::Positions, x, 0, i),
        )
    };
    std::thread::spawn(move || {
        let bad = fail();
        std::thread::spawn(|| sync(&DEVICE).expect("nothing failed here"))
            .join()
            .expect("no panic");
        assert!(sync(&DEVICE).is_err());
        sync(&DEVICE).expect("taken");
        drop(bad);
    })
    .join()
    .expect("no panic");
}

#[test]
fn random_numbers_follow_the_seed() {
    let draw = || {
        record("random", &DEVICE, [], BurnDType::F32, |t, []| {
            t.random(Dist::Uniform, DType::F32, &[5])
        })
    };
    // Other tests draw from the device too, so the seed is set on a device of this test's own: none draws but this.
    seed(&DEVICE, 7);
    let (a, b) = (draw(), draw());
    seed(&DEVICE, 7);
    let (c, d) = (draw(), draw());
    let (a, b, c, d) = (floats(a), floats(b), floats(c), floats(d));
    assert_eq!((&a, &b), (&c, &d));
    assert_ne!(a, b);
}

#[test]
fn creating_and_dropping_holds_no_memory() {
    let device = KilnDevice::Interp;
    let x = tensor(&[1.0; 256]);
    for _ in 0..10_000 {
        let y = add(&x, &x);
        let _z = add(&y, &x);
    }
    sync(&device).expect("nothing ran");
    let data = from_data(TensorData::new(vec![0f32; 1000], [1000]), &device);
    drop(data);
    assert_eq!(floats(add(&x, &x)), [2.0; 256]);
}

#[test]
fn scatter_records_three_operands() {
    let x = tensor(&[0.0; 4]);
    let index = from_data(TensorData::new(vec![1i64, 1], [2]), &DEVICE);
    let values = tensor(&[2.0, 3.0]);
    let made = record_many("select_assign", &DEVICE, &[&x, &index, &values], |t, n| {
        only(
            t.scatter(Index::Positions, Update::Add, n[0], 0, n[1], n[2]),
            BurnDType::F32,
        )
    });
    assert_eq!(floats(made[0].clone()), [0.0, 5.0, 0.0, 0.0]);
}

#[test]
#[should_panic(expected = "cannot be used")]
fn a_gpu_is_refused_clearly() {
    from_data(TensorData::new(vec![0f32], [1]), &KilnDevice::Cuda(0));
}
