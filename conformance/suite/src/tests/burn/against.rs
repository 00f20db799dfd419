//! Random programs on Kiln and on burn-ndarray: values and gradients agree.

use burn_tensor::{FloatDType, TensorData};
use kiln_conformance::report;

use super::program::{Outcome, run_in};
use super::{kiln, reference};
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[test!(random_programs_agree_with_another_backend)];

/// Types that both have, with the largest difference, as a part of the largest element (1 at least), of what one program
/// computes in two orders; the reference computes sigmoids of f64 in f32.
const TYPES: [(FloatDType, f64); 2] = [(FloatDType::F32, 2e-4), (FloatDType::F64, 1e-6)];

fn agree(what: &str, got: &TensorData, want: &TensorData, tolerance: f64) -> Result<(), String> {
    if got.shape() != want.shape() {
        return Err(format!("{what}: extents {:?}, wanted {:?}", got.shape(), want.shape()));
    }
    let (got, want): (Vec<f64>, Vec<f64>) = (got.iter::<f64>().collect(), want.iter::<f64>().collect());
    let scale = want.iter().fold(1.0f64, |scale, x| scale.max(x.abs()));
    let wrong = (0..want.len()).find(|&i| {
        let off = (got[i] - want[i]).abs();
        got[i].is_nan() != want[i].is_nan() || off > tolerance * scale
    });
    wrong.map_or(Ok(()), |i| Err(format!("{what}: element {i}: got {}, wanted {}", got[i], want[i])))
}

fn compare(got: &Outcome, want: &Outcome, tolerance: f64) -> Result<(), String> {
    for (at, ((name, x), (_, y))) in got.values.iter().zip(&want.values).enumerate() {
        agree(&format!("step {at}, {name}"), x, y, tolerance)?;
    }
    assert_eq!(got.gradients.len(), want.gradients.len());
    for (at, (x, y)) in got.gradients.iter().zip(&want.gradients).enumerate() {
        let calls: Vec<&str> = want.values.iter().map(|(name, _)| name.as_str()).collect();
        agree(&format!("gradient {at} of\n  {}", calls.join("\n  ")), x, y, tolerance)?;
    }
    Ok(())
}

fn random_programs_agree_with_another_backend() {
    let mut failures = Vec::new();
    let seeds = 0..120;
    for seed in seeds.clone() {
        let (dtype, tolerance) = TYPES[usize::from(seed % 4 == 3)];
        let run = |steps, device: &_| run_in(dtype, seed, steps, device);
        let check = |steps| compare(&run(steps, &kiln()), &run(steps, &reference()), tolerance);
        if check(8).is_err() {
            // The shortest beginning of the program that fails.
            let short = (1..=8).find_map(|steps| check(steps).err()).unwrap_or_default();
            failures.push(format!("seed {seed}: {short}"));
        }
    }
    assert!(failures.is_empty(), "{} programs differ\n{}", failures.len(), failures.join("\n"));
    report::programs("tensor programs with gradients", seeds.count());
}
