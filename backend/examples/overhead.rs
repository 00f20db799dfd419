//! What recording an operation costs the user's thread, and what a segment of small operations costs in all.

use std::io::Write;
use std::time::Instant;

use burn_backend::ops::FloatTensorOps;
use burn_backend::{DType, TensorData};
use burn_kiln::{Kiln, KilnDevice, KilnTensor, inspect, record};

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn main() {
    let device = KilnDevice::Cpu;
    let x = record::from_data(TensorData::new(vec![1f32; 1000], [1000]), &device);
    let chain = |n: usize| (0..n).fold(x.clone(), |y, _| Kiln::float_add(y, x.clone()));
    const OPS: usize = 400;
    for _ in 0..20 {
        drop(record::into_data(chain(OPS)));
    }
    const ROUNDS: usize = 200;
    let (mut recording, mut all) = (0.0, 0.0);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let y: KilnTensor = chain(OPS);
        recording += started.elapsed().as_secs_f64();
        let data = record::into_data(y);
        all += started.elapsed().as_secs_f64();
        assert_eq!(data.map(|d| d.dtype()).ok(), Some(DType::F32));
    }
    let each = 1e6 / (ROUNDS * OPS) as f64;
    say(&format!("recording: {:.3} us an operation; with running and reading: {:.3} us", recording * each, all * each));
    let started = Instant::now();
    for _ in 0..ROUNDS * 10 {
        drop(record::into_data(chain(1)));
    }
    say(&format!(
        "one small operation, read back: {:.1} us",
        started.elapsed().as_secs_f64() * 1e6 / (ROUNDS * 10) as f64
    ));

    let big = record::from_data(TensorData::new(vec![1f32; 4 << 20], [4 << 20]), &device);
    let ten = || (0..10).fold(big.clone(), |y, _| Kiln::float_add(y, big.clone()));
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let started = Instant::now();
        let y = ten();
        record::sync(&device).expect("no failure");
        best = best.min(started.elapsed().as_secs_f64());
        drop(y);
    }
    say(&format!("ten additions over 4 Mi f32: {:.2} ms", best * 1e3));
    for n in [64usize, 128, 256, 512, 1024] {
        let a = record::from_data(TensorData::new(vec![0.5f32; n * n], [n, n]), &device);
        let mut best = f64::INFINITY;
        for _ in 0..20 {
            let started = Instant::now();
            let c = Kiln::float_matmul(a.clone(), a.clone());
            record::sync(&device).expect("no failure");
            best = best.min(started.elapsed().as_secs_f64());
            drop(c);
        }
        say(&format!("matmul {n}: {:.3} ms, {:.1} Gflop/s", best * 1e3, 2.0 * (n * n * n) as f64 / best / 1e9));
    }
    say(&format!("{:#?}", inspect::counts(&device)));
}
