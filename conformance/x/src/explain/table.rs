//! A step as text: a table of kernels, the boundaries between them, and totals.

use std::fmt::Write;

use super::record::{Edge, Kernel};
use super::step::{Step, bytes};

/// Columns of the list of operations.
const WIDTH: usize = 58;

/// The whole report.
pub fn print(step: &Step) -> String {
    let mut text = format!("{}\n\n", head(step));
    let _ = writeln!(
        text,
        "{:>4}  {:<WIDTH$}  {:>8} {:>8} {:>8} {:>9}",
        "", "kernel: what it computes", "reads", "writes", "alone", "µs"
    );
    for at in step.shown() {
        if step.cuts.contains(&at) {
            text += "      ---- the program goes on in the next plan\n";
        }
        if let Some(block) = step.blocks.iter().find(|b| b.start == at) {
            let _ = writeln!(text, "      ┌─── {} kernels, {} times:", block.len, block.times);
        }
        kernel(&mut text, at, &step.kernels[at]);
        if let Some(block) = step.blocks.iter().find(|b| b.start + b.len - 1 == at) {
            let _ = writeln!(text, "      └─── ×{}", block.times);
        }
    }
    text += "\nboundaries: what one kernel stores and another one loads, and why they are two\n";
    for (edge, more) in merged(&step.shown_edges()) {
        let more = if more > 0 { format!(" +{more}") } else { String::new() };
        let value = format!("{} {}{more}", edge.value.shape(), bytes(edge.value.bytes));
        let _ = writeln!(text, "{:>4} → {:<4} {value:<34} {} ({})", edge.from + 1, edge.to + 1, edge.reason, edge.kept);
    }
    text += "\nreasons\n";
    for reason in step.reasons() {
        let _ = writeln!(text, "{:>4}× {}: {}", reason.times, reason.name, reason.says);
    }
    text + &totals(step)
}

/// What was recorded and what it became, in a line.
pub fn head(step: &Step) -> String {
    let part = step.part.map_or(String::new(), |(first, last)| format!(", kernels {first} to {last}"));
    format!(
        "{}, one step{part}: {} recorded, {}, {}",
        step.example,
        count(step.ops, "operation"),
        count(step.rows(), "row"),
        became(step).join(", ")
    )
}

/// What the operations became, by kind: `3 kernels`, `8 matrix products (7 with epilogue)`.
pub fn became(step: &Step) -> Vec<String> {
    let [kernels, products, sorts] = step.counts();
    let mut list = vec![count(kernels, "kernel")];
    if products > 0 {
        let epilogues = match step.epilogues() {
            0 => String::new(),
            n => format!(" ({n} with epilogue)"),
        };
        list.push(count(products, "matrix product") + &epilogues);
    }
    list.extend((sorts > 0).then(|| count(sorts, "sort")));
    list
}

/// Edges between the same kernels for the same reason as one: the largest value, and the number of others.
fn merged(edges: &[Edge]) -> Vec<(&Edge, usize)> {
    let mut list: Vec<(&Edge, usize)> = Vec::new();
    for edge in edges {
        let same = |e: &Edge| (e.from, e.to, &e.reason) == (edge.from, edge.to, &edge.reason);
        match list.iter_mut().find(|(e, _)| same(e)) {
            Some((largest, more)) => {
                *more += 1;
                if edge.value.bytes > largest.value.bytes {
                    *largest = edge;
                }
            }
            None => list.push((edge, 0)),
        }
    }
    list
}

/// `1 kernel`, `2 kernels`
pub fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn kernel(text: &mut String, at: usize, kernel: &Kernel) {
    let sum = |values: &[super::record::Value]| bytes(values.iter().map(|v| v.bytes).sum());
    let mut lines = wrapped(&format!("{}: {}", kernel.title(), kernel.words().join(", "))).into_iter();
    let _ = writeln!(
        text,
        "{:>4}  {:<WIDTH$}  {:>8} {:>8} {:>8} {:>9.1}",
        at + 1,
        lines.next().unwrap_or_default(),
        sum(&kernel.reads),
        sum(&kernel.writes),
        bytes(kernel.alone),
        kernel.micros
    );
    for line in lines {
        let _ = writeln!(text, "        {line}");
    }
}

fn totals(step: &Step) -> String {
    let mut text = String::from("\ntotals\n");
    let mut line = |what: &str, value: String| {
        let _ = writeln!(text, "      {what:<22} {value}");
    };
    let moved = step.bytes();
    line("bytes moved", format!("{} (each row alone: {}, {:.1}×)", bytes(moved), bytes(step.alone()), ratio(step)));
    line("time in kernels", format!("{:.0} µs", step.micros()));
    line(
        "compiling",
        format!("{:.3} s: {} compiled, {} from disk", step.compile_seconds, step.compiled, step.from_disk),
    );
    let plans: Vec<String> = step.plans.iter().map(|(number, runs)| format!("{number} ({runs} times)")).collect();
    line("plans of the step", plans.join(", "));
    line(
        "plans of the program",
        format!("{} made, {} of {} runs knew theirs", step.planned, step.runs - step.planned.min(step.runs), step.runs),
    );
    text
}

/// Bytes of rows alone over bytes moved.
pub fn ratio(step: &Step) -> f64 {
    step.alone() as f64 / step.bytes().max(1) as f64
}

/// Breaks a list at its commas and spaces.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let length = lines[last].chars().count() + 1 + word.chars().count();
        match (lines[last].is_empty(), length <= WIDTH) {
            (true, _) => lines[last].push_str(word),
            (false, true) => lines[last] += &format!(" {word}"),
            (false, false) => lines.push(word.into()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::step::tests::sample;
    use super::*;

    #[test]
    fn the_report_is_whole() {
        let text = print(&sample());
        let wanted = include_str!("sample.txt");
        assert_eq!(text, wanted, "{text}");
    }

    #[test]
    fn long_lists_are_wrapped() {
        let text = ["operation"; 20].join(", ");
        let lines = wrapped(&text);
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert_eq!(lines.join(" "), text);
    }
}
