//! The character transformer: both loss curves, from the same weights and the same windows of text.

use super::ran::Ran;
use super::table::Table;
use super::{Bench, Example};
use crate::Outcome;
use crate::stock::Program;

pub const EXAMPLE: Example =
    Example { program: Program { package: "gpt", folder: "examples/gpt" }, arguments: |_, _| Vec::new(), compare };

/// Steps behind a point of the curve.
const STEPS: usize = 10;
/// Points of the curve that are printed, about.
const LINES: usize = 10;
/// Largest difference of the first ten steps' mean losses, which rounding has hardly moved apart, as a part of them.
const START_TOLERANCE: f64 = 1e-3;
/// Largest difference of the losses on held-out text, in nats a character.
const END_TOLERANCE: f64 = 0.05;

fn compare(_: &Bench, kiln: &Ran, flex: &Ran) -> Outcome {
    let curves = [kiln.numbers("losses")?, flex.numbers("losses")?];
    let held_out = [kiln.number("held_out")?, flex.number("held_out")?];
    let mut table = Table::new();
    for at in points(curves[0].len().min(curves[1].len())) {
        let losses = [curves[0][at], curves[1][at]];
        table.line(&format!("loss, step {}", STEPS * (at + 1)), losses.map(|loss| format!("{loss:.4}")));
    }
    table.line("held-out loss", held_out.map(|loss| format!("{loss:.4}")));
    table
        .milliseconds("time per step (median)", [kiln.number("step_milliseconds")?, flex.number("step_milliseconds")?]);
    table.seconds("first ten steps", [kiln.number("first_steps_seconds")?, flex.number("first_steps_seconds")?]);
    table.seconds("writing the sample", [kiln.number("sample_seconds")?, flex.number("sample_seconds")?]);
    table.seconds("whole run", [kiln.number("total_seconds")?, flex.number("total_seconds")?]);
    table.costs(kiln, flex);
    println!("{table}");
    within(&curves, held_out)
}

/// Points of a curve to print: evenly spread, the first and the last among them.
fn points(length: usize) -> impl Iterator<Item = usize> {
    let lines = LINES.min(length);
    (0..lines).map(move |line| line * (length - 1) / (lines - 1).max(1))
}

fn within(curves: &[Vec<f64>; 2], [kiln, flex]: [f64; 2]) -> Outcome {
    let [Some(first), Some(other)] = curves.each_ref().map(|curve| curve.first()) else {
        return Err("a curve is empty".into());
    };
    if (first - other).abs() > START_TOLERANCE * other {
        return Err(format!("the losses of the first steps are {first} and {other}: more than rounding"));
    }
    let apart = (kiln - flex).abs();
    // NaN is no agreement either.
    if apart <= END_TOLERANCE {
        return Ok(());
    }
    Err(format!("the held-out losses are {apart:.4} apart, {END_TOLERANCE} allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_points_are_shown() {
        assert_eq!(points(100).collect::<Vec<_>>(), [0, 11, 22, 33, 44, 55, 66, 77, 88, 99]);
        assert_eq!(points(3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(points(1).collect::<Vec<_>>(), [0]);
        assert_eq!(points(0).count(), 0);
    }

    #[test]
    fn curves_may_differ_by_noise_alone() {
        let curves = |start: f64| [vec![start, 2.0], vec![4.0, 2.1]];
        assert_eq!(within(&curves(4.001), [1.62, 1.65]), Ok(()));
        assert!(within(&curves(4.01), [1.62, 1.65]).is_err_and(|error| error.contains("first steps")));
        assert!(within(&curves(4.0), [1.62, 1.69]).is_err_and(|error| error.contains("apart")));
        assert!(within(&curves(4.0), [f64::NAN, 1.69]).is_err());
    }
}
