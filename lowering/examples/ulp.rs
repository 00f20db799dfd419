//! Measures the error of the mathematical functions against the oracle, in units in the last place.
//!
//! `ulp [--step N] [NAME…]` tries every N-th f32 (every one by default) and prints the largest error, where it occurs,
//! and the number of native rows that the function takes.

use kiln_lowering::DType;
use kiln_lowering::op::Pointwise;
use kiln_lowering::op::math::evaluate::{Recording, ulps};
use kiln_lowering::op::pointwise::{Gives, Lower, Oracle, Takes};

const BLOCK: u64 = 1024;

fn main() {
    let mut step = 1;
    let mut names = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--step" {
            step = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
        } else {
            names.push(argument);
        }
    }
    for &op in Pointwise::ALL {
        let row = op.row();
        let wanted = if names.is_empty() {
            matches!(row.lower, Lower::Expand(_))
                && row.takes == Takes::Floats
                && row.gives == Gives::Same
                && row.arity == 1
        } else {
            names.iter().any(|name| name == row.name)
        };
        if wanted {
            measure(op, step);
        }
    }
}

fn measure(op: Pointwise, step: u64) {
    let Oracle::Float(oracle) = op.row().oracle else { return };
    let recording = Recording::of(op, DType::F32);
    let (mut worst, mut at) = (0.0, 0.0f32);
    let mut start = 0u64;
    while start < 1 << 32 {
        let operands: Vec<u64> = (0..BLOCK).map(|i| start + i * step).filter(|&bits| bits < 1 << 32).collect();
        for (&bits, got) in operands.iter().zip(recording.run(&[&operands])) {
            let x = f32::from_bits(bits as u32);
            let error = ulps(f64::from(f32::from_bits(got as u32)), oracle(&[f64::from(x)]), DType::F32);
            if error > worst {
                (worst, at) = (error, x);
            }
        }
        start += BLOCK * step;
    }
    println!("{:8} {worst:8.3} ulp at {at:e} ({:#010x}), {} rows", op.row().name, at.to_bits(), recording.rows());
}
