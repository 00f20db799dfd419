//! Ten pointwise operations over 4 Mi f32.  Fused, the two operands are read and the result is written once, and that is
//! all the memory traffic there is.  Names no backend.

use std::process::ExitCode;
use std::time::Instant;

use burn::tensor::{Device, Distribution, Tensor};

/// Numbers in each operand.
const ELEMENTS: usize = 4 << 20;

/// Timed runs, after three that warm up.
const RUNS: usize = 15;

/// `√|((x·y + x)·y − x)·0.5 + y|·x + y`
fn chain(x: &Tensor<1>, y: &Tensor<1>) -> Tensor<1> {
    let z = x.clone() * y.clone() + x.clone();
    let z = z * y.clone() - x.clone();
    let z = (z * 0.5 + y.clone()).abs().sqrt();
    z * x.clone() + y.clone()
}

/// Times the chain, prints the median and the sum of the result, and the same as a line of JSON.
pub fn main() -> ExitCode {
    let device = Device::default();
    device.seed(7);
    let [x, y] = [(); 2].map(|()| Tensor::<1>::random([ELEMENTS], Distribution::Uniform(0.5, 1.5), &device));
    let mut times = Vec::new();
    let mut sum = 0.0;
    for run in 0..RUNS + 3 {
        if let Err(error) = device.sync() {
            eprintln!("chain: {error}");
            return ExitCode::FAILURE;
        }
        let start = Instant::now();
        let z = chain(&x, &y);
        if let Err(error) = device.sync() {
            eprintln!("chain: {error}");
            return ExitCode::FAILURE;
        }
        if run >= 3 {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        sum = z.sum().into_scalar::<f32>();
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    println!("ten operations over {ELEMENTS} f32: {median:.3} ms, sum {sum}");
    println!("{{\"milliseconds\":{median:.4},\"sum\":{sum}}}");
    ExitCode::SUCCESS
}
