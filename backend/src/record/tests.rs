//! Tests of recording and running, on every device of this machine.

mod ahead;
mod graphs;
mod late;
mod profile;
mod tune;

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn_backend::{DType as BurnDType, Scalar, TensorData};
use kiln_lowering::DType;
use kiln_lowering::graph::{Dist, Index, Reduction, Update};
use kiln_lowering::op::Pointwise;

use super::*;
use crate::inspect;

/// The last one works by itself, and only when somebody waits.
const DEVICES: [KilnDevice; 3] = [KilnDevice::Interp, KilnDevice::Cpu, KilnDevice::Cuda(run::delayed::FIRST)];

fn tensor(device: KilnDevice, values: &[f32]) -> KilnTensor {
    from_data(TensorData::new(values.to_vec(), [values.len()]), &device)
}

fn map(op: Pointwise, a: &KilnTensor, b: &KilnTensor) -> KilnTensor {
    record("map", &a.device(), [a, b], a.dtype(), |t, [a, b]| t.map(op, &[a, b]))
}

fn add(a: &KilnTensor, b: &KilnTensor) -> KilnTensor {
    map(Pointwise::Add, a, b)
}

fn matmul(a: &KilnTensor, b: &KilnTensor) -> KilnTensor {
    record("matmul", &a.device(), [a, b], a.dtype(), |t, [a, b]| t.contract(a, b))
}

fn select(x: &KilnTensor, index: &KilnTensor) -> KilnTensor {
    record("select", &x.device(), [x, index], x.dtype(), |t, [x, i]| t.gather(Index::Positions, x, 0, i))
}

fn floats(t: KilnTensor) -> Vec<f32> {
    into_data(t).expect("computed").try_to_vec().expect("f32")
}

#[test]
fn a_recorded_sum_is_read_back() {
    for device in DEVICES {
        let (a, b) = (tensor(device, &[1.0, 2.0, 3.0]), tensor(device, &[10.0, 20.0, 30.0]));
        let c = add(&a, &b);
        let d = add(&c, &c);
        assert_eq!(floats(d), [22.0, 44.0, 66.0]);
        assert_eq!(floats(c), [11.0, 22.0, 33.0]);
        assert_eq!(floats(a), [1.0, 2.0, 3.0]);
    }
}

#[test]
fn a_result_that_is_the_operand_shares_its_place() {
    for device in DEVICES {
        let a = tensor(device, &[1.0, 2.0]);
        let same = record_one("cast", &a, BurnDType::F32, |t, x| t.cast(x, DType::F32));
        let sum = add(&same, &a);
        assert_eq!(floats(same), [1.0, 2.0]);
        assert_eq!(floats(sum), [2.0, 4.0]);
    }
}

#[test]
fn a_dead_operand_may_be_overwritten_and_a_live_one_not() {
    for device in DEVICES {
        let a = tensor(device, &[1.0; 1000]);
        let b = add(&a, &a);
        flush(&device);
        let view = record_one("flip", &b, BurnDType::F32, |t, x| t.flip(x, &[0]));
        flush(&device);
        let c = add(&b, &a);
        drop(b);
        assert_eq!(floats(c), [3.0; 1000]);
        assert_eq!(floats(view), [2.0; 1000]);
        assert_eq!(floats(a), [1.0; 1000]);
    }
}

#[test]
fn two_values_of_one_node_are_not_overwritten() {
    for device in DEVICES {
        let a = tensor(device, &[1.0; 1000]);
        let one = add(&a, &a);
        let other = record_one("cast", &one, BurnDType::F32, |t, x| t.cast(x, DType::F32));
        flush(&device);
        let sum = add(&one, &a);
        drop(one);
        assert_eq!(floats(sum), [3.0; 1000]);
        assert_eq!(floats(other), [2.0; 1000]);
    }
}

#[test]
fn scalars_are_bound_at_run_time() {
    for device in DEVICES {
        let a = tensor(device, &[1.0, 2.0]);
        let scaled = |k: i64| {
            record_one("mul_scalar", &a, BurnDType::F32, |t, x| {
                let k = t.scalar(DType::F32, Scalar::Int(k), &[2]);
                t.map(Pointwise::Mul, &[x, k])
            })
        };
        assert_eq!(floats(scaled(1)), [1.0, 2.0]);
        let (_, report) =
            inspect::record(&device, || (2..5).for_each(|k| assert_eq!(floats(scaled(k)), [k as f32, 2.0 * k as f32])));
        assert_eq!((report.planned(), report.compiled()), (0, 0), "another number is the same program");
        assert_eq!(report.kernels(), 3);
    }
}

#[test]
fn ten_operations_become_one_kernel() {
    for device in DEVICES {
        let a = tensor(device, &[1.0; 100]);
        let chain = || (0..10).fold(a.clone(), |x, _| add(&x, &a));
        let (fused, report) = inspect::record(&device, chain);
        assert_eq!((report.ops(), report.kernels()), (10, 1));
        assert_eq!(report.launches()[0].rows.len(), 10);
        let ((one, apart), report) = inspect::record(&device, || inspect::with_fusing(false, || (chain(), chain())));
        assert_eq!(report.kernels(), 20);
        assert_eq!(floats(fused.clone()), floats(one));
        assert_eq!(floats(fused), floats(apart));
    }
}

#[test]
fn another_size_compiles_nothing() {
    let run = |n: usize| {
        let a = tensor(KilnDevice::Cpu, &vec![1.5; n]);
        let b = map(Pointwise::Mul, &a, &a);
        let s = record_one("sum", &b, BurnDType::F32, |t, x| t.reduce(Reduction::Sum, x, &[0], DType::F32));
        assert_eq!(floats(add(&b, &s)), vec![2.25 + 2.25 * n as f32; n]);
    };
    run(1000);
    let (_, report) = inspect::record(&KilnDevice::Cpu, || run(999));
    assert_eq!(report.planned(), 1);
    let (_, report) = inspect::record(&KilnDevice::Cpu, || run(1001));
    assert_eq!(report.compiled() + report.cache_hits(), 0);
}

#[test]
fn large_products_go_to_the_blas() {
    for device in DEVICES {
        let values: Vec<f32> = (0..64 * 64).map(|i| (i % 5) as f32).collect();
        let a = from_data(TensorData::new(values.clone(), [64, 64]), &device);
        let turned = record_one("transpose", &a, BurnDType::F32, |t, x| t.permute(x, &[1, 0]));
        let (c, report) = inspect::record(&device, || matmul(&a, &turned));
        assert_eq!(report.gemms(), 1);
        assert_eq!(report.kernels(), 0, "a transposed operand is not copied");
        let at = |i: usize, j: usize| (0..64).map(|k| values[i * 64 + k] * values[j * 64 + k]).sum::<f32>();
        let want: Vec<f32> = (0..64 * 64).map(|p| at(p / 64, p % 64)).collect();
        assert_eq!(floats(c), want);
    }
}

#[test]
fn a_panic_while_recording_leaves_the_thread_usable() {
    for device in DEVICES {
        let a = tensor(device, &[1.0, 2.0]);
        let before = add(&a, &a);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            record("broken", &device, [&a], BurnDType::F32, |t, [x]| {
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
}

#[test]
fn recording_inside_recording_is_refused() {
    let a = tensor(KilnDevice::Cpu, &[1.0]);
    let nested = catch_unwind(AssertUnwindSafe(|| {
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
    for device in DEVICES {
        let a = tensor(device, &[1.0, 2.0]);
        let pending = add(&a, &a);
        let theirs = std::thread::spawn(move || (add(&pending, &pending), pending));
        let (b, pending) = theirs.join().expect("no panic");
        let c = add(&b, &pending);
        assert_eq!(floats(c), [6.0, 12.0]);
        assert_eq!(floats(b), [4.0, 8.0]);
    }
}

#[test]
fn many_threads_get_their_own_results() {
    for device in DEVICES {
        let shared = tensor(device, &[1.0; 8]);
        std::thread::scope(|scope| {
            for k in 1..5 {
                let shared = &shared;
                scope.spawn(move || {
                    for _ in 0..20 {
                        let x = (0..k).fold(shared.clone(), |x, _| add(&x, shared));
                        assert_eq!(floats(x), [1.0 + k as f32; 8]);
                    }
                });
            }
        });
    }
}

#[test]
fn a_panicking_thread_leaves_the_others_working() {
    for device in DEVICES {
        let a = tensor(device, &[1.0, 2.0]);
        let theirs = a.clone();
        let panicked = std::thread::spawn(move || {
            let _pending = add(&theirs, &theirs);
            record_one("broken", &theirs, BurnDType::F32, |_, _| panic!("on purpose"))
        });
        assert!(panicked.join().is_err());
        assert_eq!(floats(add(&a, &a)), [2.0, 4.0]);
    }
}

#[test]
fn a_failure_names_the_operation_and_spares_the_rest() {
    for device in DEVICES {
        let x = tensor(device, &[1.0, 2.0, 3.0]);
        let index = from_data(TensorData::new(vec![0i32, 7], [2]), &device);
        let bad = select(&x, &index);
        let also = add(&x, &x);
        flush(&device);
        let dependent = add(&bad, &bad);
        let good = add(&x, &x);
        assert_eq!(floats(good), [2.0, 4.0, 6.0]);
        assert_eq!(floats(also), [2.0, 4.0, 6.0]);
        let error = into_data(dependent).expect_err("depends on the failure").to_string();
        assert!(error.contains("`select`") && error.contains("[2] f32"), "{error}");
        assert!(into_data(bad).is_err());
        sync(&device).expect("the error was taken");
        assert_eq!(floats(add(&x, &x)), [2.0, 4.0, 6.0]);
    }
}

#[test]
fn sync_returns_a_failure_once_and_only_to_its_thread() {
    for device in DEVICES {
        let own = std::thread::spawn(move || {
            let index = from_data(TensorData::new(vec![5i32], [1]), &device);
            let bad = select(&tensor(device, &[1.0]), &index);
            flush(&device);
            std::thread::spawn(move || sync(&device).expect("nothing failed here")).join().expect("no panic");
            assert!(sync(&device).is_err());
            sync(&device).expect("taken");
            drop(bad);
        });
        own.join().expect("no panic");
    }
}

#[test]
fn random_numbers_follow_the_seed() {
    // The interpreter's generator is this test's own: no other test draws.
    let device = KilnDevice::Interp;
    let draw = || record("random", &device, [], BurnDType::F32, |t, []| t.random(Dist::Uniform, DType::F32, &[5]));
    seed(&device, 7);
    let (a, b) = (draw(), draw());
    seed(&device, 7);
    let (c, d) = (draw(), draw());
    let (a, b, c, d) = (floats(a), floats(b), floats(c), floats(d));
    assert_eq!((&a, &b), (&c, &d));
    assert_ne!(a, b);
}

#[test]
fn creating_and_dropping_holds_no_memory() {
    let device = KilnDevice::Cpu;
    let step = |x: &KilnTensor| {
        let y = add(x, x);
        let _forgotten = add(&y, x);
        let data = from_data(TensorData::new(vec![0f32; 256], [256]), &device);
        map(Pointwise::Mul, &y, &data)
    };
    let x = tensor(device, &[1.0; 256]);
    let mut fresh = 0;
    for round in 0..10_000 {
        let z = step(&x);
        if round % 100 == 0 {
            assert_eq!(floats(z), [0.0; 256]);
        }
        if round == 2000 {
            sync(&device).expect("no failure");
            fresh = inspect::counts(&device).memory.fresh;
        }
    }
    sync(&device).expect("no failure");
    // Other tests run at the same time; ten thousand rounds would show.
    assert!(inspect::counts(&device).memory.fresh < fresh + 4000);
}

/// What is still wanted where a segment ends must be written.  A device that works by itself is not given the forward
/// half of a training step before the backward half is there, which most of that is wanted for.
#[test]
fn a_patient_device_waits_for_what_reads_the_results() {
    let segments = |device: KilnDevice, holds: bool| {
        let (_, report) = inspect::record(&device, || {
            let mut x = tensor(device, &[1.0, 2.0]);
            let mut held = Vec::new();
            for _ in 0..2000 {
                let sum = record_one("sum", &x, BurnDType::F32, |t, x| t.reduce(Reduction::Sum, x, &[0], DType::F32));
                x = map(Pointwise::Sub, &x, &sum);
                held.extend(holds.then_some(sum));
            }
            sync(&device).expect("no failure");
            held
        });
        report.segments.len()
    };
    let patient = DEVICES[2];
    assert!(segments(patient, false) > 2 && segments(KilnDevice::Cpu, true) > 2);
    assert_eq!(segments(patient, true), 1);
}

#[test]
fn scatter_records_three_operands() {
    for device in DEVICES {
        let x = tensor(device, &[0.0; 4]);
        let index = from_data(TensorData::new(vec![1i64, 1], [2]), &device);
        let values = tensor(device, &[2.0, 3.0]);
        let made = record_many("select_assign", &device, &[&x, &index, &values], |t, n| {
            only(t.scatter(Index::Positions, Update::Add, n[0], 0, n[1], n[2]), BurnDType::F32)
        });
        assert_eq!(floats(made[0].clone()), [0.0, 5.0, 0.0, 0.0]);
    }
}

#[test]
fn nothing_is_something() {
    for device in DEVICES {
        let none = from_data(TensorData::new(Vec::<f32>::new(), [0]), &device);
        assert_eq!(floats(add(&none, &none)), [0.0; 0]);
        let sum = record_one("sum", &none, BurnDType::F32, |t, x| t.reduce(Reduction::Sum, x, &[0], DType::F32));
        assert_eq!(floats(sum), [0.0]);
    }
}

#[test]
#[should_panic(expected = "device hip:0 cannot be used")]
fn a_device_that_cannot_be_is_refused_clearly() {
    from_data(TensorData::new(vec![0f32], [1]), &KilnDevice::Hip(0));
}
