//! Programs of all kinds have code objects that are what every kernel is.

use proptest::prelude::*;

use super::{Compiled, everywhere, names, spec};
use crate::spec::Spec;
use crate::tile::arbitrary::{Case, Features, program};

/// The files that the interpreter's tests keep.
#[test]
fn files_are_assembled() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tile")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "tile") {
            everywhere(&Case::read(&std::fs::read_to_string(&path).unwrap()).unwrap().program);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_are_assembled(seed: u64) {
        let machine = names().nth((seed % 4) as usize).and_then(spec).unwrap();
        let warps = if seed % 3 == 0 { 4 } else { 1 };
        Compiled::of(&program(seed, &Features::default()).program, &Spec { warps, ..machine });
    }
}
