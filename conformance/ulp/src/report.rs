//! What was found, as JSON and as a page of tables. Measures nothing itself.

use std::fmt::Write;

use kiln_lowering::DType;
use kiln_lowering::graph::number;
use kiln_lowering::target::host;
use serde_json::{Value, json};

use crate::sweep::Found;
use crate::tally::Kind;

/// Where and on what the sweeps ran.
pub struct Setting {
    /// The day, `2026-01-31`.
    pub date: String,
    /// The source.
    pub commit: String,
    /// Kind of processor.
    pub cpu: String,
    /// Elements of its vectors, counted in f32.
    pub lanes: u32,
    /// Threads that it runs at once.
    pub threads: usize,
}

impl Setting {
    /// This machine; date and commit are the caller's.
    pub fn here(date: String, commit: String) -> Setting {
        let spec = host::spec();
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        Setting { date, commit, cpu: spec.cpu, lanes: spec.lanes, threads }
    }
}

/// Whether everything found is within its bound.
pub fn passed(found: &[Found]) -> bool {
    found.iter().all(|found| found.tally.wrong == 0)
}

/// The whole report as one value.
pub fn json(setting: &Setting, found: &[Found]) -> Value {
    json!({
        "date": setting.date,
        "commit": setting.commit,
        "machine": { "cpu": setting.cpu, "lanes": setting.lanes, "threads": setting.threads },
        "passed": passed(found),
        "rows": found.iter().map(row).collect::<Vec<_>>(),
    })
}

fn row(found: &Found) -> Value {
    let (subject, tally) = (&found.subject, &found.tally);
    let width = subject.dtype.bytes() * 2;
    let pattern = |bits: u64| format!("{bits:#0w$x}", w = width + 2);
    let arity = subject.op.row().arity;
    let worst = tally.worst.map(|worst| {
        json!({
            // JSON has no infinity: such an error is null.
            "ulp": worst.error,
            "operands": worst.operands[..arity].iter().map(|&x| pattern(x)).collect::<Vec<_>>(),
            "result": pattern(worst.got),
        })
    });
    let special = Kind::ALL.iter().map(|&kind| {
        let part = tally.parts[kind as usize];
        (kind.name().to_owned(), json!({ "count": part.count, "beyond_bound": part.wrong }))
    });
    json!({
        "op": subject.op.row().name,
        "dtype": subject.dtype.name(),
        "exhaustive": found.all,
        "operands": tally.count,
        "bound_ulp": subject.bound(),
        "beyond_bound": tally.wrong,
        "worst": worst,
        "mean_ulp": tally.mean(),
        "not_nearest": tally.not_nearest,
        "special": special.collect::<serde_json::Map<_, _>>(),
        "seconds": (found.time.as_secs_f64() * 10.0).round() / 10.0,
    })
}

/// A page for people: a table per element type.
pub fn page(setting: &Setting, found: &[Found]) -> String {
    let mut page = format!(
        "# Errors of the mathematical functions, {}\n\n\
         Compiled kernels on {} ({} lanes of f32, {} threads), commit {}. In units in the last place (ulp) of the type; \
         the truth is f64 arithmetic for f32 and narrower types, 160 bits for f64. \"Not nearest\" is the share of results \
         that are not the number nearest to the true value. Special operands are NaN, infinities, zeros and numbers below \
         the normal range, and results below it: `ok` where all are within the bound, signs of zeros included.\n",
        setting.date, setting.cpu, setting.lanes, setting.threads, setting.commit
    );
    for &dtype in DType::ALL {
        let of_type = || found.iter().filter(|found| found.subject.dtype == dtype);
        if of_type().next().is_some() {
            page += &format!(
                "\n## {}\n\n\
                 | row | operands | bound | worst | at | mean | not nearest | special |\n\
                 |---|---:|---:|---:|---|---:|---:|---|\n",
                dtype.name()
            );
            for found in of_type() {
                page += &line(found);
            }
        }
    }
    page
}

/// As few digits as tell a number from its neighbours.
fn shortest(dtype: DType, x: f64) -> String {
    if dtype == DType::F64 { format!("{x:e}") } else { format!("{:e}", x as f32) }
}

/// One line of a table.
pub fn line(found: &Found) -> String {
    let (subject, tally) = (&found.subject, &found.tally);
    let operands = if found.all { "all".to_owned() } else { tally.count.to_string() };
    let arity = subject.op.row().arity;
    let (worst, at) = match &tally.worst {
        Some(worst) if worst.error > 0.0 => (
            format!("{:.3}", worst.error),
            worst.operands[..arity]
                .iter()
                .map(|&x| shortest(subject.dtype, number::to_f64(subject.dtype, x)))
                .collect::<Vec<_>>()
                .join(", "),
        ),
        _ => ("0".to_owned(), String::new()),
    };
    let beyond = if tally.wrong == 0 { String::new() } else { format!(" **{} beyond**", tally.wrong) };
    let mut special = String::new();
    for &kind in Kind::ALL {
        let part = tally.parts[kind as usize];
        if part.wrong > 0 {
            // Writing to a string succeeds.
            let _ = write!(special, "{} of {} {} ", part.wrong, part.count, kind.name());
        }
    }
    if special.is_empty() {
        special.push_str("ok");
    }
    let share = 100.0 * tally.not_nearest as f64 / tally.count.max(1) as f64;
    let bound = if subject.bound() < 1.0 { format!("{:.4}", subject.bound()) } else { subject.bound().to_string() };
    format!(
        "| {} | {operands} | {bound} | {worst}{beyond} | {at} | {:.4} | {share:.2} % | {} |\n",
        subject.op.row().name,
        tally.mean(),
        special.trim_end(),
    )
}
