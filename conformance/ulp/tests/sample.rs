//! Every row within its bound, on a sample from all magnitudes and the hard cases; all numbers of the 16-bit types.

use kiln_lowering::DType;
use kiln_ulp::report;
use kiln_ulp::subject::Subject;
use kiln_ulp::sweep::sweep;

fn check(dtype: DType, strata: impl Fn(&Subject) -> u32) {
    let mut beyond = String::new();
    for subject in Subject::all(dtype) {
        let found = sweep(subject, strata(&subject), &|_| {}).expect("the host runs every row");
        assert!(found.tally.count > 0);
        if found.tally.wrong > 0 {
            beyond += &report::line(&found);
        }
    }
    assert!(beyond.is_empty(), "{dtype}, beyond the bound:\n{beyond}");
}

#[test]
fn f32_rows_keep_their_bounds_on_a_sample() {
    check(DType::F32, |_| 17);
}

#[test]
fn f16_rows_keep_their_bounds_on_every_number() {
    check(DType::F16, |_| 16);
}

#[test]
fn bf16_rows_keep_their_bounds_on_every_number() {
    check(DType::Bf16, |_| 16);
}

#[test]
fn f64_rows_keep_their_bounds_on_a_sample() {
    check(DType::F64, |subject| if subject.is_slow() { 9 } else { 16 });
}
