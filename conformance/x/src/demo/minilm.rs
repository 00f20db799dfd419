//! Sentence vectors: every component of both runs, and the rankings.

use std::fs;
use std::path::PathBuf;

use super::ran::{Ran, object};
use super::table::Table;
use super::{Backend, Bench, Example};
use crate::Outcome;
use crate::stock::Program;
use crate::workspace::Workspace;

pub const EXAMPLE: Example = Example {
    program: Program { package: "minilm", folder: "examples/minilm" },
    arguments: |workspace, backend| {
        let vectors = vectors_file(workspace, backend).to_string_lossy().into_owned();
        ["--repeat", "9", "--embeddings", &vectors].map(String::from).to_vec()
    },
    compare,
};

/// Largest difference of two components.
const TOLERANCE: f64 = 1e-5;

fn vectors_file(workspace: &Workspace, backend: Backend) -> PathBuf {
    let name = if backend == Backend::Kiln { "kiln" } else { "stock" };
    workspace.target.join(format!("minilm-{name}.jsonl"))
}

fn compare(bench: &Bench, kiln: &Ran, flex: &Ran) -> Outcome {
    let read = |backend| {
        let file = vectors_file(bench.workspace, backend);
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        vectors(&text).map_err(|error| format!("{}: {error}", file.display()))
    };
    let apart = largest_difference(&read(Backend::Kiln)?, &read(Backend::Stock)?)?;

    let mut table = Table::new();
    let first = |ran: &Ran| ran.numbers("scores").map(|scores| format!("{:.6}", scores.first().unwrap_or(&f64::NAN)));
    table.line("best score", [first(kiln)?, first(flex)?]);
    table.milliseconds("all sentences (median)", [kiln.number("milliseconds")?, flex.number("milliseconds")?]);
    table.seconds("the first time", [kiln.number("first_seconds")?, flex.number("first_seconds")?]);
    table.seconds("loading the model", [kiln.number("load_seconds")?, flex.number("load_seconds")?]);
    table.seconds("whole run", [kiln.number("total_seconds")?, flex.number("total_seconds")?]);
    table.costs(kiln, flex);
    println!("{table}largest difference of two components: {apart:.1e}");

    if kiln.numbers("ranking")? != flex.numbers("ranking")? {
        return Err("the rankings differ".into());
    }
    // NaN is no agreement either.
    if apart <= TOLERANCE {
        return Ok(());
    }
    Err(format!("two components are {apart:.1e} apart, {TOLERANCE:.0e} allowed"))
}

/// The vectors of a file, one JSON object a line.
fn vectors(text: &str) -> Result<Vec<Vec<f64>>, String> {
    text.lines()
        .map(|line| {
            let value = object(line)?;
            let list = value.get("embedding").and_then(|list| list.as_array());
            list.and_then(|list| list.iter().map(|x| x.as_f64()).collect()).ok_or(format!("no embedding in `{line}`"))
        })
        .collect()
}

fn largest_difference(x: &[Vec<f64>], y: &[Vec<f64>]) -> Result<f64, String> {
    let lengths = |vectors: &[Vec<f64>]| vectors.iter().map(Vec::len).collect::<Vec<_>>();
    if x.is_empty() || lengths(x) != lengths(y) {
        return Err(format!("{} and {} vectors, or of different lengths", x.len(), y.len()));
    }
    let differences = x.iter().flatten().zip(y.iter().flatten()).map(|(x, y)| (x - y).abs());
    // `f64::max` would lose a NaN.
    Ok(differences.fold(0.0, |most, d| if d > most || d.is_nan() { d } else { most }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_compared_component_by_component() {
        let read = |line: &str| vectors(line).expect("the lines are whole");
        let x = read("{\"sentence\":\"a\",\"embedding\":[1.0,2.0]}\n{\"sentence\":\"b\",\"embedding\":[3.0,4.0]}");
        let y = read("{\"sentence\":\"a\",\"embedding\":[1.0,2.5]}\n{\"sentence\":\"b\",\"embedding\":[3.0,4.0]}");
        assert_eq!(largest_difference(&x, &y), Ok(0.5));
        assert_eq!(largest_difference(&x, &x), Ok(0.0));
        assert!(largest_difference(&x, &y[..1]).is_err());
        assert!(largest_difference(&[], &[]).is_err());
        let nan = [vec![f64::NAN, 2.0], vec![3.0, 4.0]];
        assert!(largest_difference(&x, &nan).is_ok_and(f64::is_nan));
        assert!(vectors("{\"sentence\":\"a\"}").is_err());
    }
}
