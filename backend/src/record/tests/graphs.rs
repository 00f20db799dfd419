//! Captured graphs: what a replay reads and writes, what becomes of memory, and what goes wrong.

use burn_backend::ops::FloatTensorOps;
use burn_backend::{Backend, Distribution, FloatDType, Shape, Slice};

use super::super::*;
use super::{AssertUnwindSafe, DEVICES, add, catch_unwind, floats, map, matmul, select, tensor};
use crate::{Kiln, KilnGraph, inspect};
use kiln_lowering::DType;
use kiln_lowering::op::Pointwise;

/// Captures what `f` records.
fn capture<T>(device: &KilnDevice, f: impl FnOnce() -> T) -> (KilnGraph, T) {
    Kiln::graph_prepare(device).expect("nothing has failed");
    Kiln::graph_start_capture(device).expect("nothing is being captured");
    let made = f();
    (Kiln::graph_stop_capture(device).expect("nothing has failed"), made)
}

fn try_replay(device: &KilnDevice, graph: &KilnGraph) -> Result<(), ExecutionError> {
    // SAFETY: Kiln keeps what a graph names.
    unsafe { Kiln::graph_replay(device, graph) }
}

fn replay(device: &KilnDevice, graph: &KilnGraph) {
    try_replay(device, graph).expect("it is this device's");
}

/// The tensor with other elements, as a program puts them in place.
fn put(x: &mut KilnTensor, values: &[f32]) {
    let (device, all) = (x.device(), Slice::from(0..values.len()));
    let old = std::mem::replace(x, tensor(device, &[]));
    *x = Kiln::float_slice_assign(old, &[all], tensor(device, values));
}

#[test]
fn a_replay_reads_what_was_put_in_place_and_writes_where_it_wrote() {
    for device in DEVICES {
        let (computed, data) = (tensor(device, &[1.0, 2.0]), tensor(device, &[10.0, 20.0]));
        let mut x = add(&computed, &computed);
        let mut y = data;
        flush(&device);
        let (graph, (sum, product)) = capture(&device, || {
            let sum = add(&x, &y);
            flush(&device);
            (sum.clone(), map(Pointwise::Mul, &sum, &x))
        });
        assert_eq!(floats(sum.clone()), [12.0, 24.0], "{device}");
        replay(&device, &graph);
        assert_eq!(floats(product.clone()), [24.0, 96.0], "{device}");
        for round in 1..4 {
            let k = round as f32;
            put(&mut x, &[k, -k]);
            put(&mut y, &[0.5, k]);
            replay(&device, &graph);
            replay(&device, &graph);
            assert_eq!(floats(sum.clone()), [k + 0.5, 0.0], "{device}");
            assert_eq!(floats(product.clone()), [k * (k + 0.5), -0.0], "{device}");
        }
        assert_eq!(floats(x), [3.0, -3.0]);
        assert_eq!(floats(y), [0.5, 3.0]);
    }
}

/// Also when the new values are a part or a view of another tensor, or an output of the graph itself.
#[test]
fn an_input_takes_values_from_anywhere() {
    for device in DEVICES {
        let mut x = tensor(device, &[1.0, 2.0]);
        let (graph, y) = capture(&device, || add(&x, &x));
        let other = tensor(device, &[5.0, 6.0, 7.0, 8.0]);
        let every = Slice::from(0..2);
        let turned = record_one("flip", &other, BurnDType::F32, |t, x| t.flip(x, &[0]));
        let part = Kiln::float_slice(turned, &[every]);
        x = Kiln::float_slice_assign(x, &[every], part);
        replay(&device, &graph);
        assert_eq!(floats(y.clone()), [16.0, 14.0], "{device}");
        x = Kiln::float_slice_assign(x, &[every], y.clone());
        replay(&device, &graph);
        assert_eq!(floats(y.clone()), [32.0, 28.0], "{device}");
        drop(x);
        replay(&device, &graph);
        drop(graph);
        assert_eq!(floats(add(&y, &y)).len(), 2);
    }
}

/// What captured work changes in place goes on from replay to replay, in graphs that are captured one after the other and
/// in the program, whether a result took the memory or not.
#[test]
fn state_goes_on() {
    for device in DEVICES {
        let step = tensor(device, &[1.0; 6]);
        let (mut state, mut wanted) = (add(&step, &step), 2.0);
        let mut graphs = Vec::new();
        for twice in [false, true, true, false] {
            flush(&device);
            graphs.push(capture(&device, || {
                let old = std::mem::replace(&mut state, step.clone());
                let seen = twice.then(|| map(Pointwise::Mul, &old, &old));
                state = add(&old, &step);
                drop(old);
                seen
            }));
            wanted += 1.0;
            assert_eq!(floats(state.clone()), [wanted; 6], "{device}");
            for (number, (graph, seen)) in graphs.iter().enumerate().chain(graphs.iter().enumerate()) {
                replay(&device, graph);
                if let Some(seen) = seen {
                    assert_eq!(floats(seen.clone()), [wanted * wanted; 6], "{device} {number}");
                }
                wanted += 1.0;
                assert_eq!(floats(state.clone()), [wanted; 6], "{device} {number}");
            }
            // A part that was read and is gone is not in the way.
            let part = Kiln::float_slice(state.clone(), &[Slice::from(0..2)]);
            assert_eq!(floats(part), [wanted; 2], "{device}");
            put(&mut state, &[7.0; 6]);
            wanted = 7.0;
        }
        assert_eq!(floats(step.clone()), [1.0; 6], "{device}");
    }
}

/// What the program changes in place goes elsewhere while it holds a view of what was there.
#[test]
fn views_of_state_stay_what_they_are() {
    for device in DEVICES {
        let mut state = tensor(device, &[1.0, 2.0, 3.0]);
        let (graph, sum) = capture(&device, || {
            let old = std::mem::replace(&mut state, tensor(device, &[]));
            state = Kiln::float_add_scalar(old, 1.0.into());
            add(&state, &state)
        });
        let part = Kiln::float_slice(state.clone(), &[Slice::from(1..3)]);
        assert_eq!(floats(part.clone()), [3.0, 4.0], "{device}");
        put(&mut state, &[5.0; 3]);
        assert_eq!(floats(part.clone()), [3.0, 4.0], "{device}");
        replay(&device, &graph);
        assert_eq!(floats(sum.clone()), [12.0; 3], "{device}");
        drop(part);
        assert_eq!(floats(Kiln::float_mul_scalar(state, 2.0.into())), [10.0; 3], "{device}");
    }
}

/// Of a graph that is gone only its failures are left: memory is given away and taken up again as ever.
#[test]
fn a_dropped_graph_leaves_nothing_behind() {
    for device in DEVICES {
        let x = tensor(device, &[1.0; 2000]);
        let (graph, y) = capture(&device, || add(&x, &x));
        replay(&device, &graph);
        drop(graph);
        let mut y = add(&y, &x);
        for _ in 0..5 {
            flush(&device);
            y = add(&y, &x);
        }
        flush(&device);
        let (sum, report) = inspect::record(&device, || {
            let sum = Kiln::float_add(y, x.clone());
            flush(&device);
            sum
        });
        assert_eq!((report.donations(), floats(sum)), (1, vec![9.0; 2000]), "{device}");
    }
}

/// What is changed in place where a graph writes stays there, by other graphs too.
#[test]
fn graphs_share_a_state() {
    for device in DEVICES {
        let mut state = tensor(device, &[1.0, 2.0]);
        let change = |state: &mut KilnTensor, k: f64| {
            let old = std::mem::replace(state, tensor(device, &[]));
            *state = Kiln::float_add_scalar(old, k.into());
        };
        change(&mut state, 1.0);
        let (one, ()) = capture(&device, || change(&mut state, 1.0));
        let (ten, ()) = capture(&device, || change(&mut state, 10.0));
        let (shifted, half) = capture(&device, || Kiln::float_add_scalar(state.clone(), 0.5.into()));
        let mut wanted = [13.0, 14.0];
        assert_eq!(floats(state.clone()), wanted, "{device}");
        let ((), report) = inspect::record(&device, || change(&mut state, 0.0));
        assert_eq!(report.donations(), 1, "{device}: the sum is computed where the operand was");
        for round in 0..9 {
            match round % 3 {
                0 => replay(&device, &ten),
                1 => replay(&device, &one),
                _ => put(&mut state, &[round as f32, -1.0]),
            }
            wanted = match round % 3 {
                0 => wanted.map(|v| v + 10.0),
                1 => wanted.map(|v| v + 1.0),
                _ => [round as f32, -1.0],
            };
            assert_eq!(floats(state.clone()), wanted, "{device} {round}");
            replay(&device, &shifted);
            assert_eq!(floats(half.clone()), wanted.map(|v| v + 0.5), "{device} {round}");
        }
    }
}

#[test]
fn products_their_tails_and_sorts_are_replayed() {
    for device in DEVICES {
        let square = |values: &[f32]| Kiln::float_reshape(tensor(device, values), Shape::from([32, 32]));
        let numbers: Vec<f32> = (0..1024).map(|i| (i * 37 % 101) as f32 / 101.0).collect();
        let (a, mut b) = (square(&numbers), tensor(device, &numbers));
        let work = |b: &KilnTensor| {
            let b = Kiln::float_reshape(b.clone(), Shape::from([32, 32]));
            let y = Kiln::float_exp(matmul(&a, &b));
            Kiln::float_add(Kiln::float_sort(y, 1, true), b)
        };
        let (graph, y) = capture(&device, || work(&b));
        assert!(floats(y.clone()) == floats(work(&b)), "{device}");
        let other: Vec<f32> = numbers.iter().map(|v| v * 0.5 - 0.1).collect();
        put(&mut b, &other);
        replay(&device, &graph);
        assert!(floats(y) == floats(work(&b)), "{device}");
    }
}

/// As if the work were recorded anew.
#[test]
fn each_replay_draws_the_next_numbers() {
    // A device of its own: others draw from theirs at the same time.
    let device = KilnDevice::Cuda(run::delayed::FIRST + 6);
    let draw = || {
        let of = |n| Kiln::float_random(Shape::from([n]), Distribution::Default, &device, FloatDType::F32);
        (of(5), of(8))
    };
    Kiln::seed(&device, 7);
    let eager: Vec<Vec<f32>> = (0..3).map(|_| draw()).flat_map(|(a, b)| [floats(a), floats(b)]).collect();
    Kiln::seed(&device, 7);
    let (graph, (a, b)) = capture(&device, draw);
    let mut seen = vec![floats(a.clone()), floats(b.clone())];
    for _ in 0..2 {
        replay(&device, &graph);
        seen.extend([floats(a.clone()), floats(b.clone())]);
    }
    assert_eq!(seen, eager);
}

/// Nobody else gets what a graph names, however many tensors come and go; what it named comes back with its end.
#[test]
fn memory_is_the_graphs_until_it_ends() {
    for device in [KilnDevice::Cuda(run::delayed::FIRST + 7), KilnDevice::Cuda(run::delayed::FIRST + 8)] {
        let x = tensor(device, &[1.0; 5000]);
        let used = || {
            sync(&device).expect("nothing has failed");
            Machine::of(&device).pool.usage().used
        };
        let before = used();
        let (graph, y) = crate::inspect::with_fusing(false, || {
            capture(&device, || {
                let t = add(&add(&x, &x), &x);
                let as_matrix = |rows, cols| Kiln::float_reshape(t.clone(), Shape::from([rows, cols]));
                let product = matmul(&as_matrix(50, 100), &as_matrix(100, 50));
                add(&product, &product)
            })
        });
        let copy = graph.clone();
        for round in 0..20 {
            let other = tensor(device, &[round as f32; 5000]);
            let kept = add(&add(&other, &other), &other);
            replay(&device, &graph);
            assert_eq!(floats(kept), [3.0 * round as f32; 5000]);
        }
        assert_eq!(floats(y.clone())[..3], [1800.0; 3]);
        drop((y, graph));
        assert!(used() > before + 20_000, "the other handle still keeps it");
        drop(copy);
        assert_eq!(used(), before);
    }
}

#[test]
fn a_replay_that_fails_says_which_operation_until_one_succeeds() {
    for device in DEVICES {
        let x = tensor(device, &[1.0, 2.0, 3.0]);
        let at = |values: Vec<i64>| from_data(TensorData::new(values, [2]), &device);
        let mut index = at(vec![2, 0]);
        let put = |index: &mut KilnTensor, values: Vec<i64>| {
            let old = std::mem::replace(index, at(vec![0, 0]));
            let all = [Slice::from(0..2)];
            *index = <Kiln as burn_backend::ops::IntTensorOps<Kiln>>::int_slice_assign(old, &all, at(values));
        };
        let (graph, (picked, beside)) = capture(&device, || {
            let picked = select(&x, &index);
            (add(&picked, &picked), add(&x, &x))
        });
        assert_eq!(floats(picked.clone()), [6.0, 2.0], "{device}");
        put(&mut index, vec![1, 7]);
        replay(&device, &graph);
        let later = add(&picked, &picked);
        for t in [picked.clone(), later, picked.clone()] {
            let message = into_data(t).expect_err("the index is out of range").to_string();
            assert!(message.contains("`select`"), "{device}: {message}");
        }
        sync(&device).expect("the failure was taken");
        put(&mut index, vec![1, 1]);
        replay(&device, &graph);
        assert_eq!(floats(picked), [4.0, 4.0], "{device}");
        assert_eq!(floats(beside), [2.0, 4.0, 6.0], "{device}");
    }
}

#[test]
fn what_can_not_be_captured_is_one_clear_sentence() {
    for device in DEVICES {
        let x = tensor(device, &[1.0, 2.0]);
        let said = |result: Result<KilnGraph, ExecutionError>| result.expect_err("it is refused").to_string();
        assert!(said(Kiln::graph_stop_capture(&device)).contains("captures no graph"));
        let (graph, _) = capture(&device, || add(&x, &x));
        Kiln::graph_start_capture(&device).expect("the last one has ended");
        let again = Kiln::graph_start_capture(&device).expect_err("one at a time").to_string();
        assert!(again.contains("already"), "{again}");
        let y = add(&x, &x);
        let read = into_data(y.clone()).expect_err("nothing is read").to_string();
        assert!(read.contains("cannot be read while this thread captures a graph"), "{read}");
        assert!(Kiln::graph_stop_capture(&device).is_err(), "the read has ended the capture");
        assert_eq!(floats(y), [2.0, 4.0]);
        for refused in [
            |device: &KilnDevice| sync(device).is_err(),
            |device: &KilnDevice| {
                catch_unwind(AssertUnwindSafe(|| host_value("mask_select", &tensor(*device, &[1.0])))).is_err()
            },
        ] {
            Kiln::graph_start_capture(&device).expect("the last one has ended");
            assert!(refused(&device));
            assert!(Kiln::graph_stop_capture(&device).is_err());
        }
        Kiln::graph_start_capture(&device).expect("the last one has ended");
        assert!(try_replay(&device, &graph).is_err());
        Kiln::graph_stop_capture(&device).expect("nothing has failed");
        assert_eq!(floats(x.clone()), [1.0, 2.0]);
        // Work that fails makes no graph.
        Kiln::graph_start_capture(&device).expect("the last one has ended");
        let lost = select(&x, &from_data(TensorData::new(vec![9i64], [1]), &device));
        assert!(said(Kiln::graph_stop_capture(&device)).contains("`select`"));
        assert!(into_data(lost).is_err());
        sync(&device).expect("the failure was taken");
    }
    let (graph, _) = capture(&KilnDevice::Cpu, || tensor(KilnDevice::Cpu, &[1.0]));
    let other = try_replay(&KilnDevice::Interp, &graph).expect_err("another device").to_string();
    assert!(other.contains("cpu") && other.contains("interp"), "{other}");
}

/// A library that adds the bias itself leaves nothing to a kernel, whether the plan runs once or is replayed.
#[test]
fn a_bias_is_added_by_a_library_that_does() {
    let numbers = |n: usize, of: usize| (0..n).map(|i| (i * 7 % of) as f32 - 2.0).collect::<Vec<_>>();
    for device in [KilnDevice::Cpu, KilnDevice::Cuda(run::delayed::FIRST + 9)] {
        let of = |values: Vec<f32>, dims: [usize; 2]| from_data(TensorData::new(values, dims), &device);
        let (a, b) = (of(numbers(20 * 30, 5), [20, 30]), of(numbers(30 * 25, 11), [30, 25]));
        let mut bias = tensor(device, &numbers(25, 13));
        let layer = |bias: &KilnTensor| {
            let sum = add(&matmul(&a, &b), bias);
            record_one("relu", &sum, BurnDType::F32, |t, x| {
                let zero = t.constant(DType::F32, 0, &[20, 25]);
                t.map(Pointwise::Max, &[x, zero])
            })
        };
        let (y, report) = inspect::record(&device, || layer(&bias));
        let by_library = device != KilnDevice::Cpu;
        let counts = [report.gemms(), report.epilogues(), report.tails(), report.kernels()];
        assert_eq!(counts, if by_library { [1, 1, 0, 0] } else { [1, 0, 1, 0] }, "{device}");
        let apart = |bias: &KilnTensor| floats(inspect::with_fusing(false, || layer(bias)));
        assert_eq!(floats(y), apart(&bias), "{device}");
        let (_, report) = inspect::record(&device, || inspect::with_strict(|| floats(layer(&bias))));
        assert_eq!((report.gemms(), report.epilogues()), (0, 0), "{device}");
        // The product itself is wanted, too.
        let (_, report) = inspect::record(&device, || {
            let product = matmul(&a, &b);
            (floats(add(&product, &bias)), floats(product))
        });
        assert_eq!(report.epilogues(), 0, "{device}");
        let (graph, y) = capture(&device, || layer(&bias));
        for round in 0..3 {
            assert_eq!(floats(y.clone()), apart(&bias), "{device}");
            put(&mut bias, &numbers(25, 17 + round));
            replay(&device, &graph);
        }
    }
}
