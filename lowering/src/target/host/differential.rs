//! The host gives what the interpreter gives: on random programs, bit for bit, NaNs alike.

use std::sync::atomic::AtomicU32;

use proptest::prelude::*;

use super::{Compiler, Pool, load, spec};
use crate::dtype::DType;
use crate::op::Pointwise;
use crate::spec::Spec;
use crate::tile::ParamKind;
use crate::tile::arbitrary::{Case, Data, Features, program};

/// A piece of an aligned buffer.
#[derive(Clone)]
#[repr(align(64))]
struct Line([u8; 64]);

/// Runs a case on the host; gives the arguments as they are afterwards, and the code of a failed check.
fn run(case: &Case, spec: &Spec) -> Result<(Vec<Data>, u32), String> {
    let object = Compiler::new(spec).compile(&case.program, &mut |_, _| {}).map_err(|e| e.to_string())?;
    let kernel = load(&object).map_err(|e| e.to_string())?;
    // What lies behind the elements must stay as it is.
    let aligned = |d: &Data| match d {
        Data::Scalar(_) => Vec::new(),
        Data::Buffer(bytes) => {
            let mut lines = vec![Line([0xa5; 64]); bytes.len() / 64 + 2];
            bytes.iter().enumerate().for_each(|(i, &byte)| lines[i / 64].0[i % 64] = byte);
            lines
        }
    };
    let mut homes: Vec<Vec<Line>> = case.args.iter().map(aligned).collect();
    let slot = |(d, home): (&Data, &mut Vec<Line>)| match d {
        Data::Scalar(bits) => *bits,
        Data::Buffer(_) => home.as_mut_ptr() as u64,
    };
    let params: Vec<u64> = case.args.iter().zip(&mut homes).map(slot).collect();
    let status = AtomicU32::new(0);
    // SAFETY: every slot is a scalar or the address of a buffer in `homes`; the interpreter has run the same program on
    // buffers of these lengths and found no access outside.
    unsafe { kernel.launch(&Pool::with_threads(2), case.grid, &params, &status) };
    let mut data = case.args.clone();
    for (d, home) in data.iter_mut().zip(&homes) {
        let Data::Buffer(bytes) = d else { continue };
        let byte = |i: usize| home[i / 64].0[i % 64];
        (0..bytes.len()).for_each(|i| bytes[i] = byte(i));
        if let Some(i) = (bytes.len()..home.len() * 64).find(|&i| byte(i) != 0xa5) {
            return Err(format!("wrote behind a buffer of {} bytes, at {i}", bytes.len()));
        }
    }
    Ok((data, status.into_inner()))
}

/// Processors whose code this one can run: itself; with vectors half as wide, those of ten years ago; itself with a
/// quarter.
fn specs() -> [Spec; 3] {
    let own = spec();
    let quarter = Spec { lanes: own.lanes / 4, ..own.clone() };
    let half = match own.lanes {
        16 => Spec::host(&own.triple, "x86-64-v3", "+avx2"),
        lanes => Spec { lanes: lanes / 2, ..own.clone() },
    };
    [own, half, quarter]
}

fn agrees(case: &Case, which: usize) -> Result<(), String> {
    let (want, report) = case.interpret(&case.program).map_err(|fault| format!("the interpreter: {fault}"))?;
    let (got, code) = run(case, &specs()[which])?;
    if let Some(difference) = case.difference(&want, &got) {
        return Err(format!("interpreter and host differ: {difference}"));
    }
    let expected = report.checks.iter().any(|&c| c != 0);
    if expected != (code != 0) || code != 0 && !report.checks.contains(&code) {
        return Err(format!("checks {:?}, the host reports {code}", report.checks));
    }
    Ok(())
}

/// The smallest failing prefix of a program.
fn shrunk(seed: u64, features: &Features, which: usize) -> Result<(), String> {
    for steps in 0..=features.steps {
        let case = program(seed, &Features { steps, ..features.clone() });
        agrees(&case, which).map_err(|error| {
            let params: Vec<String> = case
                .program
                .params
                .values()
                .map(|p| match p.kind {
                    ParamKind::Buffer { .. } => format!("{}*", p.dtype),
                    ParamKind::Scalar { .. } => p.dtype.to_string(),
                })
                .collect();
            format!(
                "seed {seed}, {steps} steps, processor {which}: {error}\nparams {params:?} grid {:?}\n{}",
                case.grid, case.program
            )
        })?;
    }
    Ok(())
}

fn check(seed: u64, features: &Features) -> Result<(), TestCaseError> {
    let which = (seed % 3) as usize;
    if agrees(&program(seed, features), which).is_err() {
        let error = shrunk(seed, features, which).expect_err("the whole program fails");
        return Err(TestCaseError::fail(error));
    }
    Ok(())
}

fn simple_rows() -> Vec<Pointwise> {
    Pointwise::ALL.iter().copied().filter(|op| matches!(op.row().lower, crate::op::pointwise::Lower::Native)).collect()
}

/// The files that the interpreter's tests keep.
#[test]
fn files_give_the_same_here() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tile")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "tile") {
            let case = Case::read(&std::fs::read_to_string(&path).unwrap()).unwrap();
            for which in 0..3 {
                agrees(&case, which).unwrap_or_else(|e| panic!("{}, processor {which}: {e}", path.display()));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn native_rows(seed: u64) {
        let features = Features { rows: simple_rows(), ..Features::default() };
        check(seed, &features)?;
    }

    #[test]
    fn every_row(seed: u64) {
        check(seed, &Features { steps: 8, elements: 64, ..Features::default() })?;
    }

    #[test]
    fn larger_tiles_of_few_types(seed: u64) {
        let dtypes = vec![DType::F32, DType::I32, DType::Bool, DType::F16];
        check(seed, &Features { dtypes, rows: simple_rows(), elements: 256, ..Features::default() })?;
    }
}
