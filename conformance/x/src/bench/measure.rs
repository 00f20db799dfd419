//! Lets the two programs take turns, one workload after the other.

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::compare;
use super::options::Options;
use super::program::Program;
use super::row::{Measured, Row, Times, Workload};

/// A row for each workload that is wanted.
pub fn all(kiln: &Path, stock: &Path, options: &Options) -> Result<Vec<Row>, String> {
    let (mut kiln, mut stock) = (Program::new(kiln), Program::new(stock));
    let listed = kiln.list()?.iter().map(Workload::parse).collect::<Result<Vec<_>, _>>()?;
    let wanted: Vec<Workload> = listed.into_iter().filter(|workload| options.want(&workload.name)).collect();
    if wanted.is_empty() {
        return Err(format!("no workload's name contains any of {:?}", options.filters));
    }
    let bar = progress_bar(wanted.len());
    let rows = wanted
        .into_iter()
        .map(|workload| {
            bar.set_message(workload.name.clone());
            let measured = one(&workload, &mut kiln, &mut stock, options);
            bar.inc(1);
            Row { workload, measured }
        })
        .collect();
    bar.finish_and_clear();
    Ok(rows)
}

fn one(workload: &Workload, kiln: &mut Program, stock: &mut Program, options: &Options) -> Result<Measured, String> {
    let prepare = format!("prepare {}", workload.name);
    let ready = [kiln.ask(&prepare)?, stock.ask(&prepare)?];
    let [mut first, mut second] = [Times::default(), Times::default()];
    (first.first, second.first) = (number(&ready[0], "first_ms")?, number(&ready[1], "first_ms")?);
    let round = format!("round {}", options.seconds);
    for _ in 0..options.rounds {
        first.rounds.push(number(&kiln.ask(&round)?, "median_ms")?);
        second.rounds.push(number(&stock.ask(&round)?, "median_ms")?);
    }
    let difference = compare::difference(&ready[0]["digest"], &ready[1]["digest"], workload.tolerance);
    Ok(Measured { kiln: first, stock: second, difference })
}

fn number(answer: &Value, key: &str) -> Result<f64, String> {
    answer[key].as_f64().ok_or_else(|| format!("an answer lacks `{key}`: {answer}"))
}

fn progress_bar(workloads: usize) -> ProgressBar {
    let bar = ProgressBar::new(workloads as u64);
    if let Ok(style) = ProgressStyle::with_template("[{bar:32}] {pos}/{len} {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
