//! Bad input and bad surroundings: one clear error, and nothing lost.

use std::path::Path;

use burn_kiln::inspect;
use burn_tensor::{DType, Int, Tensor, TensorData};

use super::cases::panics;
use super::{kiln, memory, tensor, values};
use crate::DEVICE;
use crate::child::{self, Task, text};
use crate::test::{COMPILED, Test, test};

pub const TESTS: &[Test] = &[
    test!(an_unknown_device_is_named_with_what_is_known),
    test!(the_interpreter_can_be_chosen),
    test!(damaged_caches_are_rebuilt_and_never_trusted).wants(&COMPILED),
    test!(an_unusable_cache_folder_is_a_warning),
    test!(processes_share_a_cache),
    test!(mismatched_extents_are_refused_at_the_call),
    test!(an_index_out_of_range_is_an_error_of_its_own_read),
    test!(an_index_into_what_is_the_same_everywhere_is_checked_too),
    test!(threads_get_their_own_results_and_survive_the_panic_of_another),
    test!(a_tensor_handed_to_another_thread_is_the_same),
    test!(two_thousand_training_steps_need_no_more_memory_than_a_hundred).alone(),
];

/// What children do.
pub const TASKS: &[Task] = &[("add", add), ("root", root), ("inference", || memory::inference(&kiln()))];

fn add() {
    assert_eq!(values(tensor(&[1.0, 2.0], [2], &kiln()) + 1.0), [2.0, 3.0]);
}

/// Needs a kernel, and says where it came from.
fn root() {
    let x = tensor(&[1.0, 4.0, 9.0], [3], &kiln());
    assert_eq!(values(x.sqrt() + 1.0), [2.0, 3.0, 4.0]);
    let counts = inspect::counts(&DEVICE);
    println!("compiled {} from disk {}", counts.compiled, counts.cache_hits);
}

fn an_unknown_device_is_named_with_what_is_known() {
    let output = child::run("add", &[("KILN_DEVICE", "abacus")]);
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    for word in ["KILN_DEVICE", "abacus", "cpu", "interp"] {
        assert!(said.contains(word), "no `{word}` in {said}");
    }
}

fn the_interpreter_can_be_chosen() {
    let output = child::run("add", &[("KILN_DEVICE", "interp")]);
    assert!(output.status.success(), "{}", text(&output));
}

/// Overwrites every file below a folder.
fn damage(folder: &Path, with: impl Fn(&[u8]) -> Vec<u8> + Copy) -> usize {
    let entries = std::fs::read_dir(folder).expect("the cache is a folder").flatten();
    let mut count = 0;
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            count += damage(&path, with);
        } else {
            let old = std::fs::read(&path).expect("an entry can be read");
            std::fs::write(&path, with(&old)).expect("an entry can be written");
            count += 1;
        }
    }
    count
}

fn damaged_caches_are_rebuilt_and_never_trusted() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().to_str().expect("its name is text");
    let run = || {
        let output = child::run("root", &[("KILN_CACHE_DIR", path)]);
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        said.lines().find(|line| line.contains("compiled ")).unwrap_or_default().to_owned()
    };
    let first = run();
    assert!(!first.contains("compiled 0"), "{first}");
    assert!(run().contains("compiled 0"), "the second run compiled again");
    type Damage = fn(&[u8]) -> Vec<u8>;
    let damages: [Damage; 4] = [
        |_| Vec::new(),
        |old| old[..old.len() / 2].to_vec(),
        |old| old.iter().map(|b| b ^ 0x55).collect(),
        |old| {
            let mut new = old.to_vec();
            let middle = new.len() / 2;
            new[middle] ^= 1;
            new
        },
    ];
    for with in damages {
        assert!(damage(folder.path(), with) > 0, "no entries");
        run();
        assert!(run().contains("compiled 0"), "a damaged entry was not replaced");
    }
}

fn an_unusable_cache_folder_is_a_warning() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let path = file.path().to_str().expect("its name is text");
    let output = child::run("add", &[("KILN_CACHE_DIR", path)]);
    assert!(output.status.success(), "{}", text(&output));
}

fn processes_share_a_cache() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().to_str().expect("its name is text");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let output = child::run("root", &[("KILN_CACHE_DIR", path)]);
                assert!(output.status.success(), "{}", text(&output));
            });
        }
    });
}

fn mismatched_extents_are_refused_at_the_call() {
    let device = kiln();
    let (x, y) = (tensor(&[0.0; 6], [2, 3], &device), tensor(&[0.0; 8], [2, 4], &device));
    for message in [
        panics(|| x.clone() + y.clone()),
        panics(|| x.clone().matmul(y.clone())),
        panics(|| Tensor::cat(vec![x.clone(), y.clone()], 0)),
        panics(|| x.clone().slice([0..2, 0..4]).reshape([100])),
    ] {
        assert!(!message.is_empty() && !message.contains("bug in the lowering"), "{message}");
    }
    assert_eq!(values(x.sum()), [0.0]);
}

fn an_index_out_of_range_is_an_error_of_its_own_read() {
    let device = kiln();
    let x = tensor(&[1.0, 2.0, 3.0], [3], &device);
    for bad in [3i64, -1, i64::MAX] {
        let indices = Tensor::<1, Int>::from_data(TensorData::new(vec![0, bad], [2]), (&device, DType::I64));
        let picked = x.clone().gather(0, indices.clone());
        assert!(picked.try_into_data().is_err(), "{bad}");
        let put = x.clone().scatter(0, indices, tensor(&[5.0, 6.0], [2], &device), burn_tensor::IndexingUpdateOp::Add);
        assert!(put.try_into_data().is_err(), "{bad}");
    }
    assert_eq!(values(x + 1.0), [2.0, 3.0, 4.0]);
}

fn an_index_into_what_is_the_same_everywhere_is_checked_too() {
    let device = kiln();
    let indices = |at: &[i64]| Tensor::<1, Int>::from_data(TensorData::new(at.to_vec(), [2]), (&device, DType::I64));
    let constants = [Tensor::<2>::zeros([3, 2], &device), Tensor::full([3, 2], 2.5, &device).exp()];
    for x in constants {
        for bad in [3, -1, i64::MAX] {
            assert!(x.clone().select(0, indices(&[0, bad])).try_into_data().is_err(), "{bad}");
        }
        let columns: Tensor<2> = x.clone().select(1, indices(&[1, 0]));
        assert_eq!(values(columns), values(x));
    }
    let counted = Tensor::<1, Int>::arange(0..4, &device).reshape([1, 4]).repeat_dim(0, 3);
    assert!(counted.select(0, indices(&[2, 5])).try_into_data().is_err());
}

fn threads_get_their_own_results_and_survive_the_panic_of_another() {
    std::thread::scope(|scope| {
        let work = |seed: usize| {
            let device = kiln();
            for round in 0..20 {
                let n = 50 + seed * 7 + round;
                let x = tensor(&vec![seed as f32; n], [n], &device);
                let sum = values((x * 2.0 + round as f32).sum())[0];
                assert_eq!(sum, (n * (2 * seed + round)) as f32);
            }
        };
        let others: Vec<_> = (0..3).map(|seed| scope.spawn(move || work(seed))).collect();
        let dying = scope.spawn(|| {
            let device = kiln();
            let x = tensor(&[1.0; 100], [100], &device);
            let _kept = x.clone().exp();
            panic!("on purpose, in the middle of recording");
        });
        assert!(dying.join().is_err());
        for other in others {
            other.join().expect("the other threads go on");
        }
    });
    assert_eq!(values(tensor(&[1.0], [1], &kiln()) + 1.0), [2.0]);
}

fn a_tensor_handed_to_another_thread_is_the_same() {
    let x = tensor(&[1.0, 2.0], [2], &kiln()) * 3.0;
    let there = std::thread::spawn(move || values(x + 1.0)).join().expect("the thread ends well");
    assert_eq!(there, [4.0, 7.0]);
}

fn two_thousand_training_steps_need_no_more_memory_than_a_hundred() {
    let device = kiln().autodiff();
    let numbers = |n: usize| (0..n).map(|i| (i * 29 % 83) as f32 / 83.0 - 0.5).collect::<Vec<_>>();
    let x = tensor(&numbers(32 * 16), [32, 16], &device);
    let y = tensor(&numbers(32 * 4), [32, 4], &device);
    let mut w = tensor(&numbers(16 * 4), [16, 4], &device).require_grad();
    let mut early = 0;
    let mut first = None;
    let mut last = 0.0;
    for step in 0..2000 {
        let loss = (x.clone().matmul(w.clone()).tanh() - y.clone()).square().mean();
        let gradients = loss.backward();
        let gradient = w.grad(&gradients).expect("the weights have a gradient");
        w = Tensor::from_inner(w.inner() - gradient * 0.5).require_grad();
        if step % 100 == 9 {
            last = values(loss.inner())[0];
            first.get_or_insert(last);
        }
        if step == 109 {
            early = inspect::counts(&DEVICE).memory.peak;
        }
    }
    let peak = inspect::counts(&DEVICE).memory.peak;
    assert!(peak <= early, "{early} bytes after the first steps, {peak} after all");
    assert!(Some(last) <= first, "{first:?} {last}");
}
