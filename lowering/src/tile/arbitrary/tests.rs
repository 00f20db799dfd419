//! Random programs are valid, print and parse, and mean the same before and after the passes.

use proptest::prelude::*;

use super::{Case, Features, program};
use crate::op::Pointwise;
use crate::op::pointwise::Lower;
use crate::passes::{self, casts::is_native};
use crate::tile::{Names, Op, Program, parse, verify};

fn meaning_is_kept(case: &Case) -> Result<(), String> {
    if let Some(violation) = verify(&case.program).first() {
        return Err(format!("invalid: {violation}"));
    }
    let (want, report) = case.interpret(&case.program).map_err(|fault| format!("before the passes: {fault}"))?;
    let mut rewritten = case.program.clone();
    let mut result = Ok(());
    passes::run(&mut rewritten, &mut |pass, program| {
        if result.is_err() {
            return;
        }
        result = match case.interpret(program) {
            Err(fault) => Err(format!("after `{pass}`: {fault}\n{program}")),
            Ok((got, _)) if case.difference(&want, &got).is_some() => {
                Err(format!("after `{pass}`: {}\n{program}", case.difference(&want, &got).expect("there is one")))
            }
            Ok((_, after)) if after.checks != report.checks => {
                Err(format!("after `{pass}`: checks {:?}, not {:?}\n{program}", after.checks, report.checks))
            }
            Ok(_) => Ok(()),
        };
    });
    result.and_then(|()| is_lowered(&rewritten))
}

/// The smallest failing prefix of a program.
fn shrunk(seed: u64, features: &Features) -> Result<(), String> {
    for steps in 0..=features.steps {
        let case = program(seed, &Features { steps, ..features.clone() });
        meaning_is_kept(&case)
            .map_err(|error| format!("seed {seed}, {steps} steps: {error}\nfrom\n{}", case.program))?;
    }
    Ok(())
}

/// What the passes leave: native rows on numbers that machines compute with, native casts, small floats as storage.
fn is_lowered(program: &Program) -> Result<(), String> {
    let names = Names::new(program);
    let mut blocks = vec![program.body];
    while let Some(block) = blocks.pop() {
        for &inst in &program.blocks[block].insts {
            let data = &program.insts[inst];
            blocks.extend(data.op.blocks());
            let Op::Map(op) = data.op else { continue };
            let dtype = |v| program.ty(v).dtype;
            let (from, to) = (dtype(data.args[data.args.len() - 1]), dtype(data.results[0]));
            let native = matches!(op.row().lower, Lower::Native);
            let fits = match op {
                Pointwise::Cast => is_native(from, to),
                _ => op.row().moves_bits() || from.compute() == from,
            };
            if !native || !fits {
                return Err(format!("`{}` is left in\n{program}", names.line(program, inst)));
            }
        }
    }
    Ok(())
}

/// Every file holds a program, a launch, and what the interpreter makes of it; `UPDATE_EXPECT=1` writes the last.
#[test]
fn files_say_what_programs_give() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tile");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "tile") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let case = Case::read(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        meaning_is_kept(&case).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (results, report) = case.interpret(&case.program).unwrap();
        let given = |line: &&str| line.starts_with("//") && !line.contains(" gives ") && !line.starts_with("// checks");
        let mut want: String =
            text.lines().take_while(|l| l.starts_with("//")).filter(given).map(|l| format!("{l}\n")).collect();
        for output in case.outputs(&results) {
            want += &format!("// {output}\n");
        }
        if !report.checks.is_empty() {
            want += &format!("// checks {:?}\n", report.checks);
        }
        want += &case.program.to_string();
        expect_test::expect_file![path].assert_eq(&want);
        seen += 1;
    }
    assert!(seen > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn text_round_trips(seed: u64) {
        let text = program(seed, &Features::default()).program.to_string();
        prop_assert_eq!(parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn passes_keep_the_meaning(seed: u64) {
        let features = Features::default();
        if meaning_is_kept(&program(seed, &features)).is_err() {
            let error = shrunk(seed, &features).expect_err("the whole program fails");
            prop_assert!(false, "{}", error);
        }
    }
}
