//! The report as a table for the terminal and for Markdown.

use super::report::Report;
use super::row::{Row, Verdict};
use crate::stock::FLEX_VERSION;

const HEADINGS: [&str; 10] =
    ["workload", "Kiln ms", "stock ms", "ratio", "floor", "", "GB/s", "of copy", "GFLOP/s", "first ms"];

/// The table, what is wrong below it, and a sentence that sums up.
pub fn render(report: &Report) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    lines.extend(report.rows.iter().map(|row| cells(row, report.copy.large)));
    let widths: Vec<usize> =
        (0..HEADINGS.len()).map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        text += &shown(line, &widths);
        if number == 0 {
            // The first column is words, the others are numbers.
            let rules: Vec<String> = widths
                .iter()
                .enumerate()
                .map(|(at, width)| if at == 0 { "-".repeat(width + 2) } else { "-".repeat(width + 1) + ":" })
                .collect();
            text += &format!("|{}|\n", rules.join("|"));
        }
    }
    for row in &report.rows {
        match &row.measured {
            Err(error) => text += &format!("\n{}: {error}", row.workload.name),
            Ok(measured) => {
                if let Some(difference) = &measured.difference {
                    text += &format!("\n{}: {difference}", row.workload.name);
                }
            }
        }
    }
    text + &format!(
        "\n{} of {} floors reached; medians of {} rounds of {} s each, Kiln and stock burn-flex {FLEX_VERSION} in turn\n",
        report.count(Verdict::Reached),
        report.rows.len(),
        report.rounds,
        report.seconds
    )
}

fn cells(row: &Row, copy: f64) -> [String; 10] {
    let verdict = row.verdict().word().to_owned();
    let name = row.workload.name.clone();
    let floor = format!("{}x", row.workload.reach);
    let Ok(measured) = &row.measured else {
        let mut cells = [const { String::new() }; 10];
        (cells[0], cells[4], cells[5]) = (name, floor, verdict);
        return cells;
    };
    let bandwidth = row.bandwidth().unwrap_or(f64::NAN);
    [
        name,
        milliseconds(measured.kiln.median()),
        milliseconds(measured.stock.median()),
        format!("{:.2}x", measured.ratio()),
        floor,
        verdict,
        format!("{bandwidth:.1}"),
        format!("{:.0} %", 100.0 * bandwidth / copy),
        row.compute().map_or_else(String::new, |compute| format!("{compute:.0}")),
        milliseconds(measured.kiln.first),
    ]
}

/// Three digits that count.
fn milliseconds(value: f64) -> String {
    let decimals = if value < 10.0 { 3 } else { 1 };
    format!("{value:.decimals$}")
}

fn shown(cells: &[String; 10], widths: &[usize]) -> String {
    let padded: Vec<String> = cells
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(at, (cell, width))| if at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") })
        .collect();
    format!("| {} |\n", padded.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::super::copy::Copy;
    use super::super::machine::Machine;
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn every_row_has_its_line_and_every_fault_its_words() {
        let machine = Machine { processor: "a processor".into(), threads: 2, vectors: "" };
        let mut rows = vec![row("fast", 2.0, &[1.0], &[8.0]), row("slow", 2.0, &[20.0], &[10.0])];
        rows.extend([row("wrong", 2.0, &[1.0], &[8.0]), row("dead", 2.0, &[1.0], &[8.0])]);
        if let Ok(measured) = &mut rows[2].measured {
            measured.difference = Some("its sum is 1, stock's 2".into());
        }
        rows[3].measured = Err("ended at `prepare dead`".into());
        let copy = Copy { large: 10.0, small: 20.0 };
        let text = render(&Report { machine, copy, rounds: 1, seconds: 0.5, rows });
        let wanted = "\
| workload | Kiln ms | stock ms | ratio | floor |         | GB/s | of copy | GFLOP/s | first ms |
|----------|--------:|---------:|------:|------:|--------:|-----:|--------:|--------:|---------:|
| fast     |   1.000 |    8.000 | 8.00x |    2x | reached |  1.0 |    10 % |       2 |     10.0 |
| slow     |    20.0 |     10.0 | 0.50x |    2x |  MISSED |  0.1 |     0 % |       0 |     10.0 |
| wrong    |   1.000 |    8.000 | 8.00x |    2x |   WRONG |  1.0 |    10 % |       2 |     10.0 |
| dead     |         |          |       |    2x |  FAILED |      |         |         |          |

wrong: its sum is 1, stock's 2
dead: ended at `prepare dead`
1 of 4 floors reached; medians of 1 rounds of 0.5 s each, Kiln and stock burn-flex 0.22.1 in turn
";
        assert_eq!(text, wanted);
    }
}
