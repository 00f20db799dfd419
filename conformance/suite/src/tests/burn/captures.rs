//! Captured graphs through Burn's own `capture`: on every machine a replay is the same work on the same memory, and gives
//! what running the closure anew gives, bit for bit.

use std::cell::{Cell, RefCell};

use burn_kiln::KilnDevice;
use burn_tensor::{DType, Device, Distribution, Graph, IndexingUpdateOp, Int, Tensor, TensorData, activation, capture};

use super::{interp, kiln, tensor, values};
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[
    test!(a_network_is_replayed_on_new_inputs),
    test!(a_long_chain_of_kernels_is_replayed),
    test!(a_cache_grows_from_replay_to_replay),
    test!(a_training_step_is_replayed),
    test!(replays_draw_what_the_closure_would).alone(),
    test!(a_failed_replay_is_told_until_one_succeeds),
    test!(a_closure_that_reads_is_refused_in_one_sentence),
    test!(two_graphs_share_a_state),
    test!(threads_replay_beside_each_other),
    test!(other_tensors_keep_their_memory),
];

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 29 + seed * 17) % 83) as f32 / 83.0 - 0.5).collect()
}

/// A tensor that a closure reads and the test changes.
struct Held<const D: usize>(RefCell<Tensor<D>>);

impl<const D: usize> Held<D> {
    fn new(x: Tensor<D>) -> Held<D> {
        Held(RefCell::new(x))
    }

    fn get(&self) -> Tensor<D> {
        self.0.borrow().clone()
    }

    /// Puts other elements in place.
    fn put(&self, values: Tensor<D>) {
        let all: [_; D] = self.get().dims().map(|n| 0..n);
        self.0.borrow_mut().inplace(|x| x.slice_assign(all, values));
    }

    fn change(&self, f: impl FnOnce(Tensor<D>) -> Tensor<D>) {
        self.0.borrow_mut().inplace(f);
    }
}

/// Captures on the device under test.
pub fn captured<T, F: FnMut() -> T>(device: &Device, closure: F) -> Graph<T, F> {
    let graph = capture(device, closure);
    assert!(graph.is_hardware(), "the closure was not captured");
    graph
}

pub fn again<T, F: FnMut() -> T>(graph: &mut Graph<T, F>) -> &T {
    // SAFETY: whatever the closures of these tests read outlives the graph, and no other thread has it.
    unsafe { graph.replay() }
}

fn a_network_is_replayed_on_new_inputs() {
    let device = kiln();
    let weights = [tensor(&numbers(48 * 96, 1), [48, 96], &device), tensor(&numbers(96 * 48, 2), [96, 48], &device)];
    let bias = tensor(&numbers(96, 3), [1, 96], &device);
    let forward = |x: Tensor<2>| {
        let hidden = activation::gelu(x.clone().matmul(weights[0].clone()) + bias.clone());
        activation::softmax(hidden.matmul(weights[1].clone()) + x, 1)
    };
    let x = Held::new(tensor(&numbers(32 * 48, 4), [32, 48], &device));
    let mut graph = captured(&device, || forward(x.get()));
    for round in 5..9 {
        let new = tensor(&numbers(32 * 48, round), [32, 48], &device);
        x.put(new.clone());
        let replayed = again(&mut graph).clone();
        assert!(values(replayed) == values(forward(new)), "round {round}");
    }
}

/// No two sums over a whole tensor fit into one kernel.
fn chain(x: Tensor<2>) -> Tensor<2> {
    // The interpreter takes its time.
    let steps = if crate::DEVICE == KilnDevice::Interp { 8 } else { 60 };
    (0..steps).fold(x, |x, _| x.clone() - x.clone().sum_dim(0) * 1e-3 - x.sum_dim(1) * 1e-3)
}

fn a_long_chain_of_kernels_is_replayed() {
    let device = kiln();
    let x = Held::new(tensor(&numbers(64 * 33, 1), [64, 33], &device));
    let mut graph = captured(&device, || {
        let y = chain(x.get());
        // Work in several pieces.
        device.flush().expect("nothing has failed");
        (chain(y.clone()), y)
    });
    for round in 2..8 {
        let new = tensor(&numbers(64 * 33, round), [64, 33], &device);
        x.put(new.clone());
        let (second, first) = again(&mut graph).clone();
        let wanted = chain(new);
        assert!(values(first) == values(wanted.clone()), "round {round}");
        assert!(values(second) == values(chain(wanted)), "round {round}");
    }
}

/// A row a step at a place that the step is told, as a decoder keeps keys and values.
fn a_cache_grows_from_replay_to_replay() {
    let device = kiln();
    let cache = Held::new(Tensor::<2>::zeros([8, 16], &device));
    let row = Held::new(tensor(&numbers(16, 0), [1, 16], &device));
    let place = |at: i64| Tensor::<2, Int>::from_data(TensorData::new(vec![at; 16], [1, 16]), (&device, DType::I64));
    let at = RefCell::new(place(0));
    let step = || {
        cache.change(|c| c.scatter(0, at.borrow().clone(), row.get(), IndexingUpdateOp::Add));
        cache.get().sum_dim(0)
    };
    let mut graph = captured(&device, step);
    // Three runs to warm up, and the capture's own.
    let mut rows = vec![vec![0.0; 16]; 8];
    rows[0] = numbers(16, 0).iter().map(|v| 4.0 * v).collect();
    for round in 1..24 {
        if round == 13 {
            cache.put(Tensor::zeros([8, 16], &device));
            rows = vec![vec![0.0; 16]; 8];
        }
        let new = numbers(16, round);
        row.put(tensor(&new, [1, 16], &device));
        at.borrow_mut().inplace(|old| old.slice_assign([0..1, 0..16], place(round as i64 % 8)));
        again(&mut graph);
        rows[round % 8].iter_mut().zip(&new).for_each(|(sum, v)| *sum += v);
        let seen = values(cache.get());
        assert!(seen.iter().zip(rows.concat()).all(|(x, y)| (x - y).abs() < 1e-5), "round {round}: {seen:?}");
        let sum = values(cache.get().sum_dim(0));
        assert!(values(graph.output().clone()) == sum, "round {round}");
    }
}

/// Weights that change in place, as an optimizer does it.
fn a_training_step_is_replayed() {
    let device = kiln();
    let (x, y) = (tensor(&numbers(32 * 20, 1), [32, 20], &device), tensor(&numbers(32 * 4, 2), [32, 4], &device));
    let start = numbers(20 * 4, 3);
    let step = |w: &Held<2>| {
        let error = x.clone().matmul(w.get()).tanh() - y.clone();
        let gradient = x.clone().transpose().matmul(error.clone());
        w.change(|w| w - gradient * 0.01);
        error.square().mean()
    };
    let (kept, eager) = (Held::new(tensor(&start, [20, 4], &device)), Held::new(tensor(&start, [20, 4], &device)));
    let mut graph = captured(&device, || step(&kept));
    // Three runs to warm up, and the capture's own.
    let mut loss = None;
    for _ in 0..4 {
        loss = Some(step(&eager));
    }
    for round in 0..10 {
        assert!(values(kept.get()) == values(eager.get()), "round {round}");
        assert_eq!(Some(values(graph.output().clone())), loss.take().map(values), "round {round}");
        again(&mut graph);
        loss = Some(step(&eager));
    }
}

fn replays_draw_what_the_closure_would() {
    let device = kiln();
    let x = tensor(&numbers(500, 1), [500], &device);
    let noisy = || {
        let noise = Tensor::<1>::random([500], Distribution::Normal(0.0, 1.0), &device);
        let kept = Tensor::<1>::random([500], Distribution::Bernoulli(0.5), &device);
        (x.clone() + noise) * kept
    };
    device.seed(11);
    let eager: Vec<Vec<f32>> = (0..6).map(|_| values(noisy())).collect();
    device.seed(11);
    let mut graph = captured(&device, noisy);
    assert!(values(graph.output().clone()) == eager[3]);
    for wanted in &eager[4..] {
        assert!(values(again(&mut graph).clone()) == *wanted);
    }
}

fn a_failed_replay_is_told_until_one_succeeds() {
    let device = kiln();
    let table = tensor(&numbers(40, 1), [10, 4], &device);
    let at = |rows: [i64; 3]| Tensor::<1, Int>::from_data(TensorData::new(rows.to_vec(), [3]), (&device, DType::I64));
    let index = RefCell::new(at([0, 9, 4]));
    let put = |rows: [i64; 3]| index.borrow_mut().inplace(|old| old.slice_assign(0..3, at(rows)));
    let mut graph = captured(&device, || table.clone().select(0, index.borrow().clone()) * 2.0);
    put([1, 10, 2]);
    again(&mut graph);
    let beside = table.clone() + 1.0;
    let message = graph.output().clone().try_into_data().expect_err("10 is out of range").to_string();
    assert!(message.contains("select"), "{message}");
    assert!((graph.output().clone() + 1.0).try_into_data().is_err());
    assert_eq!(values(beside)[0], numbers(1, 1)[0] + 1.0);
    put([9, 9, 0]);
    let good = again(&mut graph).clone();
    assert_eq!(values(good), values(table.clone().select(0, at([9, 9, 0])) * 2.0));
    device.sync().expect("the failure was taken");
}

fn a_closure_that_reads_is_refused_in_one_sentence() {
    let device = kiln();
    let x = tensor(&[1.0, -1.0], [2], &device);
    let runs = Cell::new(0);
    let reads = || {
        runs.set(runs.get() + 1);
        let y = x.clone() * 2.0;
        (runs.get() == 4).then(|| y.try_into_data().expect_err("nothing is read in a capture").to_string())
    };
    let graph = capture(&device, reads);
    let said = graph.output().clone().expect("the fourth run was the captured one");
    assert!(said.contains("cannot be read while this thread captures a graph"), "{said}");
    assert!(!graph.is_hardware());
    // An operation that must read panics, and the thread goes on.
    let mut runs = 0;
    let message = super::cases::panics(|| {
        drop(capture(&device, || {
            runs += 1;
            if runs == 4 { x.clone().greater_elem(0.0).argwhere() } else { Tensor::empty([1, 1], &device) }
        }));
    });
    assert!(message.contains("captures a graph"), "{message}");
    assert_eq!(values(x.clone() + 1.0), [2.0, 0.0]);
    assert!(capture(&device, || x.clone() * 3.0).is_hardware());
}

fn two_graphs_share_a_state() {
    let device = kiln();
    let state = Held::new(tensor(&[1.0, 2.0], [2], &device));
    let mut add = captured(&device, || state.change(|s| s + 1.0));
    let mut double = captured(&device, || state.change(|s| s * 2.0));
    let mut seen = captured(&device, || state.get() - 0.5);
    let mut wanted = values(state.get());
    for round in 0..8 {
        if round % 3 == 0 {
            again(&mut double);
            wanted.iter_mut().for_each(|v| *v *= 2.0);
        } else {
            again(&mut add);
            wanted.iter_mut().for_each(|v| *v += 1.0);
        }
        let shifted: Vec<f32> = wanted.iter().map(|v| v - 0.5).collect();
        assert_eq!(values(again(&mut seen).clone()), shifted, "round {round}");
        assert_eq!(values(state.get()), wanted, "round {round}");
    }
}

fn threads_replay_beside_each_other() {
    std::thread::scope(|scope| {
        for seed in 0..3 {
            scope.spawn(move || {
                let device = if seed == 2 { interp() } else { kiln() };
                let x = Held::new(tensor(&numbers(96, seed), [12, 8], &device));
                let mut graph = captured(&device, || x.get().sum_dim(1) + x.get());
                for round in 0..15 {
                    let new = tensor(&numbers(96, seed + round), [12, 8], &device);
                    x.put(new.clone());
                    let replayed = again(&mut graph).clone();
                    assert!(values(replayed) == values(new.clone().sum_dim(1) + new), "{seed} {round}");
                }
            });
        }
    });
}

/// What lives beside a graph is never written by it, nor what comes after the graph's tensors are gone.
fn other_tensors_keep_their_memory() {
    let device = kiln();
    let x = tensor(&numbers(64 * 33, 1), [64, 33], &device);
    let mut graph = captured(&device, || chain(x.clone()) * 2.0);
    let wanted = values(chain(x.clone()) * 2.0);
    let mut kept = Vec::new();
    for round in 0..10 {
        let other = tensor(&vec![round as f32; 64 * 33], [64, 33], &device) + 1.0;
        kept.push((round, other.clone() * 2.0));
        let taken = again(&mut graph).clone() + other;
        assert_eq!(values(taken.slice([0..1, 0..1]))[0], wanted[0] + round as f32 + 1.0);
    }
    assert!(values(graph.output().clone()) == wanted);
    for (round, other) in kept {
        assert_eq!(values(other), vec![2.0 * round as f32 + 2.0; 64 * 33]);
    }
}
