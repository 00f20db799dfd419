//! The digit classifier: accuracies and epochs, and the chain of ten operations besides.

use super::ran::Ran;
use super::table::Table;
use super::{Bench, Example};
use crate::Outcome;
use crate::median::median;
use crate::stock::Program;

pub const EXAMPLE: Example = Example {
    program: Program { package: "digits", folder: "examples/digits" },
    arguments: |_, _| Vec::new(),
    compare,
};

const CHAIN: Program = Program { package: "chain", folder: "examples/chain" };

/// Largest difference of the two accuracies, in percentage points.
const ACCURACY_TOLERANCE: f64 = 1.0;

fn compare(bench: &Bench, kiln: &Ran, flex: &Ran) -> Outcome {
    let runs = [kiln, flex];
    let accuracies = [kiln.number("accuracy")?, flex.number("accuracy")?];
    let epochs = [kiln.numbers("epoch_seconds")?, flex.numbers("epoch_seconds")?];
    println!("== ten pointwise operations over 4 Mi f32");
    let chains = [bench.on_kiln(&CHAIN, &[])?, bench.on_stock(&CHAIN, &[])?];

    let mut table = Table::new();
    table.line("test accuracy", accuracies.map(|accuracy| format!("{:.2} %", 100.0 * accuracy)));
    table.seconds("time per epoch (median)", epochs.each_ref().map(|epochs| steady(epochs)));
    table.seconds("first epoch", epochs.each_ref().map(|epochs| epochs.first().copied().unwrap_or(f64::NAN)));
    table.seconds("whole run", [runs[0].number("total_seconds")?, runs[1].number("total_seconds")?]);
    table.costs(kiln, flex);
    table
        .milliseconds("chain of ten, 4 Mi f32", [chains[0].number("milliseconds")?, chains[1].number("milliseconds")?]);
    println!("\n{table}");

    let apart = 100.0 * (accuracies[0] - accuracies[1]).abs();
    if apart > ACCURACY_TOLERANCE {
        return Err(format!("the accuracies are {apart:.2} percentage points apart, {ACCURACY_TOLERANCE} allowed"));
    }
    Ok(())
}

/// The median epoch without the first, which warms up.
fn steady(epochs: &[f64]) -> f64 {
    median(epochs.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(epochs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_epoch_does_not_count() {
        assert_eq!(steady(&[1.5, 0.5, 0.75, 0.25]), 0.5);
        assert_eq!(steady(&[1.5]), 1.5);
    }
}
