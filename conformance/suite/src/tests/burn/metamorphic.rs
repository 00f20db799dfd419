//! Programs that have to give the same bits: fused and not, on the interpreter and on the processor.

use burn_kiln::inspect;
use burn_tensor::FloatDType;
use kiln_conformance::report;

use super::program::{Outcome, run, run_in};
use super::{interp, kiln};
use crate::test::{COMPILED, Test, test};

pub const TESTS: &[Test] = &[
    test!(fusing_changes_no_bit),
    test!(fusing_changes_no_bit_of_other_types),
    test!(the_interpreter_and_the_processor_give_the_same_bits).wants(&COMPILED),
];

fn same(got: &Outcome, want: &Outcome) -> Result<(), String> {
    for (at, ((name, x), (_, y))) in got.values.iter().zip(&want.values).enumerate() {
        if x.as_bytes() != y.as_bytes() {
            return Err(format!("step {at}, {name}"));
        }
    }
    let different = got.gradients.iter().zip(&want.gradients).position(|(x, y)| x.as_bytes() != y.as_bytes());
    different.map_or(Ok(()), |at| Err(format!("gradient {at}")))
}

fn check(name: &str, seeds: std::ops::Range<u64>, pair: impl Fn(u64, usize) -> (Outcome, Outcome)) {
    let mut failures = Vec::new();
    for seed in seeds.clone() {
        let differs = |steps| {
            let (got, want) = pair(seed, steps);
            same(&got, &want).err()
        };
        if differs(8).is_some() {
            failures.push(format!("seed {seed}: {}", (1..=8).find_map(differs).unwrap_or_default()));
        }
    }
    assert!(failures.is_empty(), "{} programs differ\n{}", failures.len(), failures.join("\n"));
    report::programs(name, seeds.count());
}

fn fusing_changes_no_bit() {
    check("tensor programs, fused and not", 1000..1060, |seed, steps| {
        let fused = run(seed, steps, &kiln());
        (inspect::with_fusing(false, || run(seed, steps, &kiln())), fused)
    });
}

fn fusing_changes_no_bit_of_other_types() {
    let types = [FloatDType::F16, FloatDType::BF16, FloatDType::F64];
    check("tensor programs of other types, fused and not", 3000..3030, |seed, steps| {
        let dtype = types[seed as usize % types.len()];
        let fused = run_in(dtype, seed, steps, &kiln());
        (inspect::with_fusing(false, || run_in(dtype, seed, steps, &kiln())), fused)
    });
}

fn the_interpreter_and_the_processor_give_the_same_bits() {
    check("tensor programs, interpreted and compiled", 2000..2015, |seed, steps| {
        // The order in which a library adds is its own.
        inspect::with_strict(|| (run(seed, steps, &kiln()), run(seed, steps, &interp())))
    });
}
