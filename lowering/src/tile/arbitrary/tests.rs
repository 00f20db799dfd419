//! Random programs are valid, print and parse, and mean the same before and after the passes.

use proptest::prelude::*;

use super::{Case, Features, program};
use crate::passes;
use crate::tile::{parse, verify};

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
    result
}

/// The smallest failing prefix of a program.
fn shrunk(seed: u64, features: &Features) -> Result<(), String> {
    for steps in 0..=features.steps {
        let case = program(seed, &Features { steps, ..features.clone() });
        meaning_is_kept(&case).map_err(|error| format!("seed {seed}, {steps} steps: {error}\nfrom\n{}", case.program))?;
    }
    Ok(())
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
