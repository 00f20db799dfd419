//! What a run of the example said, and two runs side by side. Reads JSON, starts nothing.

use std::fmt;

use serde_json::Value;

/// One run of the example.
pub struct Report {
    /// What the program measured itself.
    pub run: Run,
    /// Largest resident memory in bytes.
    pub peak_memory: Option<u64>,
    /// What Kiln did; `None` on another backend.
    pub stats: Option<Stats>,
}

/// The last line that the example prints.
#[derive(Debug, PartialEq)]
pub struct Run {
    /// Share of held-out images told right, 0 to 1.
    pub accuracy: f64,
    /// Seconds, one number an epoch.
    pub epochs: Vec<f64>,
    /// Seconds for all, data and test included.
    pub total: f64,
}

/// The line that Kiln leaves in the file named by `KILN_STATS`.
#[derive(Debug, PartialEq)]
pub struct Stats {
    ops: u64,
    launches: u64,
    compiled: u64,
    compile_seconds: f64,
    cache_hits: u64,
}

impl Report {
    /// From the JSON line at the end of the example's output.
    pub fn parse(line: &str, peak_memory: Option<u64>) -> Result<Self, String> {
        let run = Run::parse(line).ok_or_else(|| format!("wanted the example's JSON line, got `{line}`"))?;
        Ok(Self { run, peak_memory, stats: None })
    }
}

impl Run {
    fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let epochs = value.get("epoch_seconds")?.as_array()?.iter().map(Value::as_f64).collect::<Option<_>>()?;
        Some(Self { accuracy: value.get("accuracy")?.as_f64()?, epochs, total: value.get("total_seconds")?.as_f64()? })
    }

    /// The median epoch without the first, which warms up.
    fn steady(&self) -> f64 {
        let mut rest = self.epochs.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(&self.epochs).to_vec();
        rest.sort_by(f64::total_cmp);
        rest.get(rest.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl Stats {
    /// From the file's text: its last line counts.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("Kiln's statistics: {error}: `{line}`"))?;
        let count = |key: &str| value.get(key).and_then(Value::as_u64).ok_or(format!("Kiln's statistics lack `{key}`"));
        Ok(Self {
            ops: count("ops")?,
            launches: count("launches")?,
            compiled: count("compiled")?,
            compile_seconds: value
                .get("compile_seconds")
                .and_then(Value::as_f64)
                .ok_or("Kiln's statistics lack `compile_seconds`")?,
            cache_hits: count("cache_hits")?,
        })
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ops recorded     {}", self.ops)?;
        writeln!(f, "kernels launched {}", self.launches)?;
        writeln!(f, "kernels compiled {} (from the cache: {})", self.compiled, self.cache_hits)?;
        write!(f, "compile time     {:.2} s", self.compile_seconds)
    }
}

/// A table with one column a backend.
pub fn side_by_side(kiln: &Report, flex: &Report) -> String {
    let line = |what: &str, tell: &dyn Fn(&Report) -> Option<String>| {
        let cell = |report| tell(report).unwrap_or_else(|| "-".into());
        format!("{what:<24} {:>12} {:>12}\n", cell(kiln), cell(flex))
    };
    let seconds = |value: f64| Some(format!("{value:.3} s"));
    let mut table = format!("{:<24} {:>12} {:>12}\n", "", "Kiln", "stock flex");
    table += &line("test accuracy", &|report| Some(format!("{:.2} %", 100.0 * report.run.accuracy)));
    table += &line("time per epoch (median)", &|report| seconds(report.run.steady()));
    table += &line("first epoch", &|report| report.run.epochs.first().copied().and_then(seconds));
    table += &line("whole run", &|report| seconds(report.run.total));
    table += &line("compile time", &|report| report.stats.as_ref().and_then(|stats| seconds(stats.compile_seconds)));
    table += &line("peak memory", &|report| Some(format!("{} MiB", report.peak_memory? >> 20)));
    table
}

/// Milliseconds from the JSON line at the end of the chain's output.
pub fn chain(line: &str) -> Result<f64, String> {
    let value: Option<Value> = serde_json::from_str(line).ok();
    let time = value.and_then(|value| value.get("milliseconds")?.as_f64());
    time.ok_or_else(|| format!("wanted the example's JSON line, got `{line}`"))
}

/// The chain's line of the table.
pub fn chains(kiln: f64, flex: f64) -> String {
    let faster = flex / kiln;
    format!("{:<24} {kiln:>9.2} ms {flex:>9.2} ms  ({faster:.1}x)", "chain of ten, 4 Mi f32")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"accuracy":0.985,"epoch_seconds":[1.5,0.5,0.75,0.25],"total_seconds":3.5}"#;

    #[test]
    fn run_is_read_from_its_last_line() {
        let run = Report::parse(LINE, None).expect("the line is whole").run;
        assert_eq!(run, Run { accuracy: 0.985, epochs: vec![1.5, 0.5, 0.75, 0.25], total: 3.5 });
        assert_eq!(run.steady(), 0.5);
        assert!(Report::parse("thread panicked", None).is_err_and(|error| error.contains("thread panicked")));
    }

    #[test]
    fn the_last_statistics_count() {
        let text = "{\"ops\":1,\"launches\":1,\"compiled\":1,\"compile_seconds\":0.1,\"cache_hits\":0}\n\
                    {\"ops\":90,\"launches\":20,\"compiled\":5,\"compile_seconds\":0.75,\"cache_hits\":2}\n";
        let stats = Stats::parse(text).expect("the lines are whole");
        assert_eq!(
            stats.to_string(),
            "ops recorded     90\nkernels launched 20\nkernels compiled 5 (from the cache: 2)\ncompile time     0.75 s"
        );
        assert_eq!(Stats::parse("{\"ops\":1}"), Err("Kiln's statistics lack `launches`".into()));
    }

    #[test]
    fn chains_are_compared_by_their_times() {
        let kiln = chain("{\"milliseconds\":1.5,\"sum\":1}").expect("the line is whole");
        assert_eq!(chains(kiln, 15.0), "chain of ten, 4 Mi f32        1.50 ms     15.00 ms  (10.0x)");
        assert!(chain("no json").is_err());
    }

    #[test]
    fn the_table_has_a_column_a_backend() {
        let kiln = Report::parse(LINE, Some(300 << 20)).expect("the line is whole");
        let flex = Report::parse(LINE, None).expect("the line is whole");
        let table = side_by_side(&kiln, &flex);
        assert!(table.contains("test accuracy                 98.50 %      98.50 %\n"), "{table}");
        assert!(table.contains("peak memory                   300 MiB            -\n"), "{table}");
    }
}
