//! Two runs side by side: a table with one column a backend.

use std::fmt;

use super::ran::Ran;

/// Lines of three cells.
#[derive(Default)]
pub struct Table {
    lines: Vec<[String; 3]>,
}

impl Table {
    /// With a column's name over each.
    pub fn new() -> Self {
        let mut table = Self::default();
        table.line("", ["Kiln".into(), "stock flex".into()]);
        table
    }

    /// A line of any two cells.
    pub fn line(&mut self, what: &str, [kiln, flex]: [String; 2]) {
        self.lines.push([what.into(), kiln, flex]);
    }

    /// A line of times.
    pub fn seconds(&mut self, what: &str, times: [f64; 2]) {
        self.line(what, times.map(|time| format!("{time:.3} s")));
    }

    /// A line of times, with how many times as fast the first is.
    pub fn milliseconds(&mut self, what: &str, times: [f64; 2]) {
        let [kiln, flex] = times;
        self.line(what, [format!("{kiln:.2} ms"), format!("{flex:.2} ms  ({:.1}x)", flex / kiln)]);
    }

    /// What every example has: Kiln's compile time and both memories.
    pub fn costs(&mut self, kiln: &Ran, flex: &Ran) {
        let dash = || "-".to_owned();
        let compiling = kiln.stats.as_ref().map_or_else(dash, |stats| format!("{:.3} s", stats.compile_seconds));
        self.line("compile time", [compiling, dash()]);
        let memory = |ran: &Ran| ran.peak_memory.map_or_else(dash, |bytes| format!("{} MiB", bytes >> 20));
        self.line("peak memory", [memory(kiln), memory(flex)]);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for [what, kiln, flex] in &self.lines {
            // What stands behind a time in the last column is not part of its width.
            let (value, rest) = flex
                .split_once("  ")
                .map_or((flex.as_str(), String::new()), |(value, rest)| (value, format!("  {rest}")));
            writeln!(f, "{what:<24} {kiln:>12} {value:>12}{rest}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ran::tests::ran;
    use super::*;

    #[test]
    fn the_table_has_a_column_a_backend() {
        let mut table = Table::new();
        table.milliseconds("a step", [1.5, 15.0]);
        table.costs(&ran("{}"), &ran("{}"));
        assert_eq!(
            table.to_string(),
            "                                 Kiln   stock flex\n\
             a step                        1.50 ms     15.00 ms  (10.0x)\n\
             compile time                        -            -\n\
             peak memory                   300 MiB      300 MiB\n"
        );
    }
}
