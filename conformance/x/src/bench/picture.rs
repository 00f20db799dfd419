//! The report as a bar chart: a bar a workload, from 1 (as fast as stock) to its ratio, and a mark at its floor.

use super::report::Report;
use super::row::Verdict;
use crate::bars::{Bar, Chart};
use crate::stock::FLEX_VERSION;

/// The chart as SVG.
pub fn draw(report: &Report) -> Result<String, String> {
    let bars: Vec<Bar> = report
        .rows
        .iter()
        .filter_map(|row| {
            let ratio = row.measured.as_ref().ok()?.ratio();
            let reached = row.verdict() == Verdict::Reached;
            Some(Bar { name: row.workload.name.clone(), ratio, mark: row.workload.reach, reached })
        })
        .filter(|bar| bar.ratio.is_finite() && bar.ratio > 0.0)
        .collect();
    let caption = format!("Times as fast as stock burn-flex {FLEX_VERSION}: {}", report.machine);
    let axis = "ratio of medians (logarithmic); the mark is the floor";
    Chart { caption: &caption, axis, names: 160, bars: &bars }.svg()
}

#[cfg(test)]
mod tests {
    use super::super::copy::Copy;
    use super::super::machine::Machine;
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn each_measured_row_has_a_bar_and_its_name() {
        let machine = Machine { processor: "a <processor>".into(), threads: 2, vectors: "" };
        let mut rows = vec![row("fast", 2.0, &[1.0], &[8.0]), row("slow", 2.0, &[2.0], &[1.0])];
        rows.push(row("dead", 2.0, &[1.0], &[1.0]));
        rows[2].measured = Err("it died".into());
        let copy = Copy { large: 10.0, small: 20.0 };
        let svg = draw(&Report { machine, copy, rounds: 1, seconds: 1.0, rows }).expect("a chart can be drawn");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for part in ["fast", "slow", "8.00x", "0.50x", "a &lt;processor&gt;", "#2E7D32", "#EF6C00"] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
        assert!(!svg.contains("dead"), "what has no ratio has no bar");
    }
}
