//! One run of an example: what it printed last, and what Kiln said of itself. Reads JSON; knows no example.

use std::fmt;
use std::path::Path;
use std::process::Command as Process;

use serde_json::Value;

use crate::child;

/// A run that ended well.
pub struct Ran {
    /// The JSON object that the example printed last.
    pub result: Value,
    /// Largest resident memory in bytes, where the system tells.
    pub peak_memory: Option<u64>,
    /// What Kiln did; `None` on another backend.
    pub stats: Option<Stats>,
}

/// The line that Kiln leaves in the file named by `KILN_STATS`.
#[derive(Debug, PartialEq)]
pub struct Stats {
    ops: u64,
    launches: u64,
    compiled: u64,
    cache_hits: u64,
    /// To find and compile kernels.
    pub compile_seconds: f64,
}

impl Ran {
    /// Runs an example, shows what it prints, and keeps the JSON line at its end.
    pub fn of(program: &mut Process) -> Result<Self, String> {
        let mut last = String::new();
        let watched = child::watch(program, |line| {
            if !line.starts_with('{') {
                println!("{line}");
            }
            line.clone_into(&mut last);
        })?;
        if !watched.status.success() {
            return Err(format!("{} ended with {}", program.get_program().to_string_lossy(), watched.status));
        }
        Ok(Self { result: object(&last)?, peak_memory: watched.peak_memory, stats: None })
    }

    /// With what Kiln wrote down.
    pub fn with_stats(mut self, file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("Kiln left no statistics ({error}): did the program run on Kiln?"))?;
        self.stats = Some(Stats::parse(&text)?);
        Ok(self)
    }

    /// A number of the result.
    pub fn number(&self, key: &str) -> Result<f64, String> {
        self.result.get(key).and_then(Value::as_f64).ok_or_else(|| format!("the example's JSON line lacks `{key}`"))
    }

    /// A list of numbers of the result.
    pub fn numbers(&self, key: &str) -> Result<Vec<f64>, String> {
        let list = self.result.get(key).and_then(Value::as_array);
        list.and_then(|list| list.iter().map(Value::as_f64).collect())
            .ok_or_else(|| format!("the example's JSON line lacks the numbers `{key}`"))
    }
}

/// The object of a JSON line.
pub fn object(line: &str) -> Result<Value, String> {
    let value: Option<Value> = serde_json::from_str(line).ok();
    value.filter(Value::is_object).ok_or_else(|| format!("wanted a JSON line, got `{line}`"))
}

impl Stats {
    /// From the file's text: its last line counts.
    fn parse(text: &str) -> Result<Self, String> {
        let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let value = object(line).map_err(|error| format!("Kiln's statistics: {error}"))?;
        let count = |key: &str| value.get(key).and_then(Value::as_u64).ok_or(format!("Kiln's statistics lack `{key}`"));
        Ok(Self {
            ops: count("ops")?,
            launches: count("launches")?,
            compiled: count("compiled")?,
            cache_hits: count("cache_hits")?,
            compile_seconds: value
                .get("compile_seconds")
                .and_then(Value::as_f64)
                .ok_or("Kiln's statistics lack `compile_seconds`")?,
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run that printed `line`.
    pub fn ran(line: &str) -> Ran {
        Ran { result: object(line).expect("the line is an object"), peak_memory: Some(300 << 20), stats: None }
    }

    #[test]
    fn numbers_are_read_from_the_result() {
        let ran = ran(r#"{"loss":1.5,"times":[1,2.5]}"#);
        assert_eq!(ran.number("loss"), Ok(1.5));
        assert_eq!(ran.numbers("times"), Ok(vec![1.0, 2.5]));
        assert_eq!(ran.number("times"), Err("the example's JSON line lacks `times`".into()));
        assert!(object("thread panicked").is_err_and(|error| error.contains("thread panicked")));
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
}
