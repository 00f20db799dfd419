//! Every row on every type and kind of operand.

use kiln_conformance::ladder::{Setting, check};
use kiln_conformance::report;
use kiln_conformance::{tables, threads};
use kiln_lowering::DType;
use kiln_lowering::graph::arbitrary::Case;
use kiln_lowering::graph::{Array, Reduction};
use kiln_lowering::op::Pointwise;

use crate::test::{Test, test};

pub const TESTS: &[Test] = &[
    test!(every_pointwise_row_on_every_type_and_kind_of_operand),
    test!(every_reduction_and_scan_on_every_type_and_length),
    test!(sums_of_16_bit_floats_pass_their_own_range),
    test!(the_first_nan_and_the_first_of_equals_are_found_wherever_they_are),
    test!(every_16_bit_code_is_cast_to_every_type),
];

/// All failures of a table at once, or the number of cases.
fn all(cases: Vec<(String, Case)>) -> usize {
    let failed = |(name, case): &(String, Case)| Some(format!("{name}: {}", check(case, &Setting::default()).err()?));
    let failures = threads::filter_map(&cases, failed);
    assert!(failures.is_empty(), "{} of {} failed\n{}", failures.len(), cases.len(), failures.join("\n"));
    cases.len()
}

fn every_pointwise_row_on_every_type_and_kind_of_operand() {
    all(tables::every_pointwise());
    report::rows("pointwise rows", Pointwise::ALL.len());
    for dtype in DType::ALL {
        report::dtype(dtype.name(), 1);
    }
}

fn every_reduction_and_scan_on_every_type_and_length() {
    all(tables::every_reduction(tables::LENGTHS));
    report::rows("reductions and scans", Reduction::ALL.len());
}

fn sums_of_16_bit_floats_pass_their_own_range() {
    let mut cases = Vec::new();
    for dtype in [DType::F16, DType::Bf16] {
        for len in [65_537, 70_000] {
            // 70,000 ones are beyond the greatest f16, half of them minus ones bring the sum back.
            let ones = Array::from_floats(dtype, &[len], &vec![1.0; len as usize]);
            let mixed: Vec<f64> = (0..len).map(|i| if 2 * i < len { 1.0 } else { -1.0 }).collect();
            cases.push((format!("{dtype} ones {len}"), tables::reduced_row(Reduction::Sum, ones)));
            cases.push((
                format!("{dtype} ones and minus ones {len}"),
                tables::reduced_row(Reduction::Sum, Array::from_floats(dtype, &[len], &mixed)),
            ));
        }
    }
    all(cases);
}

fn the_first_nan_and_the_first_of_equals_are_found_wherever_they_are() {
    let mut cases = Vec::new();
    let lengths = [1, 2, 3, 5, 8, 17, 64, 100, 255, 256, 257, 1024, 1025];
    for kind in [Reduction::Max, Reduction::Min, Reduction::ArgMax, Reduction::ArgMin] {
        for len in lengths {
            for at in [0, len / 2, len - 1] {
                let mut values = vec![1.0; len];
                values[at] = f64::NAN;
                values[len - 1] = f64::NAN;
                let nan = Array::from_floats(DType::F32, &[len as u64], &values);
                let equal = Array::from_floats(DType::F32, &[len as u64], &vec![-0.0; len]);
                cases.push((format!("{} of {len}, NaN at {at}", kind.name()), tables::reduced_row(kind, nan)));
                cases.push((format!("{} of {len} equals", kind.name()), tables::reduced_row(kind, equal)));
            }
        }
    }
    all(cases);
}

fn every_16_bit_code_is_cast_to_every_type() {
    let mut cases = Vec::new();
    for from in [DType::F16, DType::Bf16] {
        let codes = Array::from_fn(from, &[1 << 16], |i| i as u64);
        cases.extend(
            DType::ALL
                .iter()
                .filter(|&&to| to != from)
                .map(|&to| (format!("{from} to {to}"), tables::cast(codes.clone(), to))),
        );
    }
    all(cases);
}
