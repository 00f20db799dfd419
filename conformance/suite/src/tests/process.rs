//! What takes a process of its own to test: variables, the disk cache, memory limits, the end of a process.
//!
//! Each test starts this binary again with the variables under test, to do one of [`TASKS`].

use std::path::Path;
use std::process::Child;

use burn_backend::ops::FloatTensorOps;
use burn_backend::{FloatDType, TensorData};
use burn_kiln::{Kiln, KilnTensor, inspect, record};

use crate::DEVICE;
use crate::child::{Task, run, start, text};
use crate::test::{COMPILED, Test, test};

pub const TESTS: &[Test] = &[
    test!(an_unknown_device_is_named),
    test!(every_device_of_this_machine_computes),
    test!(running_out_of_memory_is_an_error_and_the_device_goes_on),
    test!(a_second_process_compiles_nothing).wants(&COMPILED),
    test!(what_one_process_measures_the_next_one_knows),
    test!(a_damaged_cache_is_made_again_with_one_warning).wants(&COMPILED),
    test!(a_cache_that_cannot_be_written_is_survived).wants(&COMPILED),
    test!(eight_processes_share_one_cache),
    test!(every_stage_can_be_dumped).wants(&COMPILED),
    test!(counters_are_written_at_the_end_of_the_process).wants(&COMPILED),
    test!(a_process_may_end_with_work_pending),
    test!(explanations_are_written_where_they_are_asked_for).wants(&COMPILED),
];

/// What children do.
pub const TASKS: &[Task] =
    &[("compute", compute_and_count), ("exhaust", exhaust), ("record only", record_only), ("layer", layer_and_count)];

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let name = folder.path().to_str().expect("a readable name").to_string();
    (folder, name)
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn tensor(n: usize) -> KilnTensor {
    record::from_data(TensorData::new(vec![1.5f32; n], [n]), &DEVICE)
}

/// (x + x) · x, read back.
fn compute() {
    let x = tensor(1000);
    let y = Kiln::float_mul(Kiln::float_add(x.clone(), x.clone()), x);
    let values: Vec<f32> = record::into_data(y).expect("computed").try_to_vec().expect("f32");
    assert_eq!(values, [4.5; 1000]);
}

/// Computes, and says what had to be compiled for it.
fn compute_and_count() {
    compute();
    let counts = inspect::counts(&DEVICE);
    print!("<compiled {} found {}>", counts.compiled, counts.cache_hits);
}

/// A product with a residual in bf16, whose operands nobody else has: `x · w + r` of ones, and what was measured for it.
fn layer_and_count() {
    let ones = |dims: [usize; 2]| {
        let ones = record::from_data(TensorData::new(vec![1f32; dims[0] * dims[1]], dims), &DEVICE);
        Kiln::float_cast(ones, FloatDType::BF16)
    };
    let [x, w, r] = [[2048, 256], [256, 512], [2048, 512]].map(ones);
    record::sync(&DEVICE).expect("there is room");
    let y = Kiln::float_cast(Kiln::float_add(r, Kiln::float_matmul(x, w)), FloatDType::F32);
    let values: Vec<f32> = record::into_data(y).expect("computed").try_to_vec().expect("f32");
    // 257 lies between two numbers of bf16, and 256 is the even one.
    assert!(values.iter().all(|x| *x == 256.0));
    print!("<tuned {}>", inspect::counts(&DEVICE).tuned);
}

/// Asks for more memory than there is, and goes on with less.
fn exhaust() {
    let x = tensor(100_000);
    let grown = || (0..40).map(|i| Kiln::float_add_scalar(x.clone(), f64::from(i).into())).collect::<Vec<_>>();
    let many = grown();
    let error = record::sync(&DEVICE).expect_err("forty tensors of 400 kB do not fit into 8 MB");
    print!("<{error}>");
    drop(many);
    compute();
    record::sync(&DEVICE).expect("the device is usable");
}

/// Ends with work that nobody asked for.
fn record_only() {
    let x = tensor(10);
    let pending = Kiln::float_add(x.clone(), x);
    std::mem::forget(pending);
}

fn an_unknown_device_is_named() {
    let output = run("compute", &[("KILN_DEVICE", "gpu")]);
    assert!(!output.status.success());
    assert!(text(&output).contains("KILN_DEVICE takes cpu, cuda:N, hip:N or interp, got `gpu`"), "{}", text(&output));
}

fn every_device_of_this_machine_computes() {
    let own = DEVICE.to_string();
    for device in ["cpu", "interp", &own] {
        for fuse in ["on", "off"] {
            let output = run("compute", &[("KILN_DEVICE", device), ("KILN_FUSE", fuse)]);
            assert!(output.status.success(), "{}", text(&output));
        }
    }
}

fn running_out_of_memory_is_an_error_and_the_device_goes_on() {
    let output = run("exhaust", &[("KILN_MEMORY_LIMIT", "8M")]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    for wanted in ["out of memory", "[100000] f32", "KILN_MEMORY_LIMIT", "`"] {
        assert!(text.contains(wanted), "{text}");
    }
}

fn a_second_process_compiles_nothing() {
    let (_keep, cache) = folder();
    let first = text(&run("compute", &[("KILN_CACHE_DIR", &cache)]));
    assert!(first.contains("<compiled 1 found 0>"), "{first}");
    let second = text(&run("compute", &[("KILN_CACHE_DIR", &cache)]));
    assert!(second.contains("<compiled 0 found 1>"), "{second}");
}

/// Where the library and blocks could both compute a product, it is measured once, and not at all unless asked for.
fn what_one_process_measures_the_next_one_knows() {
    let (keep, cache) = folder();
    let tuned = |tune: &str| {
        let text = text(&run("layer", &[("KILN_CACHE_DIR", &cache), ("KILN_TUNE", tune)]));
        let count = text.split_once("<tuned ").and_then(|(_, rest)| rest.split_once('>')?.0.parse::<u64>().ok());
        count.unwrap_or_else(|| panic!("{text}"))
    };
    let (never, first, again) = (tuned("off"), tuned("on"), tuned("on"));
    assert_eq!((never, again), (0, 0));
    // A machine without a library or without blocks leaves nothing open.
    assert!(first <= u64::from(DEVICE.to_string().starts_with("cuda")), "{first}");
    let records = files(keep.path()).into_iter().filter(|file| file.extension().is_some_and(|e| e == "jsonl"));
    assert_eq!(records.count() as u64, first);
}

fn a_damaged_cache_is_made_again_with_one_warning() {
    let (keep, cache) = folder();
    run("compute", &[("KILN_CACHE_DIR", &cache)]);
    for file in files(keep.path()) {
        let mut bytes = std::fs::read(&file).expect("an entry");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        std::fs::write(&file, bytes).expect("spoilt");
    }
    let output = text(&run("compute", &[("KILN_CACHE_DIR", &cache)]));
    assert!(output.contains("<compiled 1 found 0>"), "{output}");
    assert_eq!(output.matches("is damaged").count(), 1, "{output}");
    let output = text(&run("compute", &[("KILN_CACHE_DIR", &cache)]));
    assert!(output.contains("<compiled 0 found 1>"), "{output}");
}

fn a_cache_that_cannot_be_written_is_survived() {
    let (keep, _) = folder();
    let file = keep.path().join("in the way");
    std::fs::write(&file, "").expect("written");
    let output = run("compute", &[("KILN_CACHE_DIR", file.to_str().expect("a readable name"))]);
    assert!(output.status.success());
    assert_eq!(text(&output).matches("cannot keep compiled kernels").count(), 1, "{}", text(&output));
}

fn eight_processes_share_one_cache() {
    let (_keep, cache) = folder();
    let children: Vec<Child> = (0..8).map(|_| start("compute", &[("KILN_CACHE_DIR", &cache)])).collect();
    for child in children {
        let output = child.wait_with_output().expect("a child that ends");
        assert!(output.status.success(), "{}", text(&output));
        assert!(!text(&output).contains("damaged"), "{}", text(&output));
    }
}

fn every_stage_can_be_dumped() {
    let (keep, dumps) = folder();
    let output = run("compute", &[("KILN_DUMP", "graph,schedule,tile,layout,llvm,asm"), ("KILN_DUMP_DIR", &dumps)]);
    assert!(output.status.success(), "{}", text(&output));
    let names: Vec<String> = files(keep.path()).iter().map(|p| p.display().to_string()).collect();
    for stage in ["graph", "schedule", "tile", "layout", "llvm", "asm"] {
        assert!(names.iter().any(|n| n.ends_with(&format!(".{stage}"))), "no {stage} among {names:?}");
    }
    let (keep, dumps) = folder();
    let filter = [("KILN_DUMP", "tile"), ("KILN_DUMP_DIR", dumps.as_str()), ("KILN_DUMP_FILTER", "no such kernel")];
    assert!(run("compute", &filter).status.success());
    assert!(files(keep.path()).is_empty());
}

fn counters_are_written_at_the_end_of_the_process() {
    let (keep, _) = folder();
    let file = keep.path().join("stats.jsonl");
    let output = run("compute", &[("KILN_STATS", file.to_str().expect("a readable name"))]);
    assert!(output.status.success(), "{}", text(&output));
    let stats = std::fs::read_to_string(&file).expect("written");
    let device = format!("\"device\":\"{DEVICE}\"");
    for wanted in [device.as_str(), "\"ops\":2,", "\"launches\":1,", "\"compiled\":1,", "\"compile_seconds\":"] {
        assert!(stats.lines().last().is_some_and(|line| line.contains(wanted)), "{stats}");
    }
}

fn a_process_may_end_with_work_pending() {
    assert!(run("record only", &[]).status.success());
}

fn explanations_are_written_where_they_are_asked_for() {
    let (folder, name) = folder();
    let output = run("compute", &[("KILN_DUMP", "explain"), ("KILN_DUMP_DIR", &name)]);
    assert!(output.status.success(), "{}", text(&output));
    let written = std::fs::read_to_string(folder.path().join("explain.jsonl")).expect("a file");
    let lines: Vec<&str> = written.lines().collect();
    // One plan, one run of it; (x + x) · x reads 4 kB, writes 4 kB, and would have moved 20 kB.
    assert_eq!(lines.len(), 2, "{written}");
    for wanted in
        ["\"kind\":\"segment\"", "\"float_add\"", "\"bytes\":8000", "\"bytes_unfused\":20000", "\"compiled\":1"]
    {
        assert!(lines[0].contains(wanted), "{wanted}: {}", lines[0]);
    }
    assert!(lines[1].contains("\"kind\":\"run\"") && lines[1].contains("\"segment\":1"), "{}", lines[1]);
}
