//! The comparison as a Markdown page.

use serde_json::Value;

use super::Both;
use super::row::Row;

/// What a peer may have been run as, in the order of columns.
const PEERS: &[&str] = &["eager", "compile", "graphs", "tf32", "max"];

/// Where it was measured, the table, launches, and what is wrong.
pub fn render(both: &Both) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let mut page = format!(
        "{} and {} on {}; copies at {:.0} GB/s, read and written.\n\n",
        text(&both.ours["program"]),
        text(&both.peers["program"]),
        text(&both.peers["device"]),
        both.copy()
    );
    let named = |peer: &&&str| both.rows.iter().any(|row| row.of_peer(peer, "median_ms").is_some());
    let peers: Vec<&str> = PEERS.iter().filter(named).copied().collect();
    let mut lines = vec![headings(&peers)];
    lines.extend(both.rows.iter().map(|row| cells(row, &peers, both.copy())));
    page += &table(&lines);
    page += "\nMilliseconds a call: medians of batches closed by one wait, on both sides. `do_bench` is the fastest peer \
             by triton.testing.do_bench, which empties the caches before each call; `alone`: medians of calls each of which \
             is waited for, Kiln's and the fastest peer's. GB/s count each input and output once.\n";
    let launches = &both.ours["launches"];
    if let (Some(kernels), Some(each)) = (launches["kernels"].as_u64(), launches["microseconds"].as_f64()) {
        page += &format!("\nA launched kernel of a repeated plan of {kernels} small ones: {each:.2} µs");
        if let Some(own) = launches["thread_microseconds"].as_f64() {
            page += &format!(", of which {own:.2} µs of the device's thread");
        }
        page += ".\n";
    }
    for row in &both.rows {
        if let Err(error) = &row.kiln {
            page += &format!("\n{}: {error}", row.name);
        }
        if let Some(difference) = &row.difference {
            page += &format!("\n{}: {difference}", row.name);
        }
    }
    page
}

fn headings(peers: &[&str]) -> Vec<String> {
    let own = ["workload", "Kiln ms"].into_iter();
    let behind =
        ["do_bench", "ratio", "alone", "peer alone", "GB/s", "of copy", "TFLOP/s", "first s", "compiled first s"];
    own.chain(peers.iter().copied()).chain(behind).map(str::to_owned).collect()
}

fn cells(row: &Row, peers: &[&str], copy: f64) -> Vec<String> {
    let shown =
        |value: Option<f64>, decimals: usize| value.map_or(String::new(), |value| format!("{value:.decimals$}"));
    let ms = row.milliseconds();
    let bandwidth = ms.map(|ms| row.bytes / ms / 1e6);
    let fastest = |key: &str| {
        let least = row.peers.iter().filter_map(|(_, peer)| peer[key].as_f64()).fold(f64::NAN, f64::min);
        Some(least).filter(|ms| ms.is_finite())
    };
    let mut cells = vec![row.name.clone(), shown(ms, 4)];
    cells.extend(peers.iter().map(|peer| shown(row.of_peer(peer, "median_ms"), 4)));
    cells.extend([
        shown(fastest("bench_ms"), 4),
        row.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}x")),
        shown(row.of_kiln("alone_ms"), 4),
        shown(fastest("alone_ms"), 4),
        shown(bandwidth, 0),
        bandwidth.map_or(String::new(), |rate| format!("{:.0} %", 100.0 * rate / copy)),
        shown(ms.filter(|_| row.flops > 0.0).map(|ms| row.flops / ms / 1e9), 1),
        shown(row.of_kiln("first_ms").map(|ms| ms / 1e3), 3),
        shown(row.of_peer("compile", "first_ms").map(|ms| ms / 1e3), 3),
    ]);
    cells
}

/// Columns as wide as their widest cell; the first is words, the others are numbers.
fn table(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0)).collect();
    let line = |cells: &Vec<String>| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(at, width)| if at == 0 { "-".repeat(width + 2) } else { "-".repeat(width + 1) + ":" })
        .collect();
    let mut text = String::new();
    for (number, cells) in lines.iter().enumerate() {
        text += &line(cells);
        if number == 0 {
            text += &format!("|{}|\n", rule.join("|"));
        }
    }
    text
}
