//! What tests say they covered: rows, dtypes and generated programs, as JSON lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// All lines, added up.
#[derive(Debug, Default, PartialEq)]
pub struct Report {
    /// Rows of the operation table, by the test that went through them.
    rows: BTreeMap<String, u64>,
    /// Names of dtypes.
    dtypes: BTreeSet<String>,
    /// Generated programs, by generator.
    programs: BTreeMap<String, u64>,
}

impl Report {
    /// Adds up the file's lines.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut report = Self::default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            report.add(line).ok_or_else(|| format!("test report, line {}: not a report: `{line}`", at + 1))?;
        }
        Ok(report)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let value: Value = serde_json::from_str(line).ok()?;
        let name = value.get("name")?.as_str()?.to_owned();
        let count = value.get("count")?.as_u64()?;
        match value.get("kind")?.as_str()? {
            "rows" => *self.rows.entry(name).or_default() += count,
            "programs" => *self.programs.entry(name).or_default() += count,
            "dtypes" => _ = self.dtypes.insert(name),
            _ => return None,
        }
        Some(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |counts: &BTreeMap<String, u64>| {
            let parts = counts.iter().map(|(name, count)| format!("{name} {count}"));
            listed(counts.values().sum(), parts.collect())
        };
        let dtypes = listed(self.dtypes.len() as u64, self.dtypes.iter().cloned().collect());
        writeln!(f, "rows       {}", counted(&self.rows))?;
        writeln!(f, "dtypes     {dtypes}")?;
        writeln!(f, "programs   {}", counted(&self.programs))
    }
}

/// `5 (a 2, b 3)`, or `0`.
fn listed(total: u64, parts: Vec<String>) -> String {
    if parts.is_empty() { total.to_string() } else { format!("{total} ({})", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_and_dtypes_told_once() {
        let report = Report::parse(
            "{\"kind\":\"rows\",\"name\":\"pointwise\",\"count\":50}\n\
             {\"kind\":\"dtypes\",\"name\":\"f32\",\"count\":4}\n\n\
             {\"kind\":\"dtypes\",\"name\":\"bf16\",\"count\":2}\n\
             {\"kind\":\"dtypes\",\"name\":\"f32\",\"count\":9}\n\
             {\"kind\":\"programs\",\"name\":\"ladder\",\"count\":100}\n\
             {\"kind\":\"programs\",\"name\":\"ladder\",\"count\":20}\n\
             {\"kind\":\"programs\",\"name\":\"autodiff\",\"count\":5}\n",
        )
        .expect("every line is a report");
        assert_eq!(
            report.to_string(),
            "rows       50 (pointwise 50)\ndtypes     2 (bf16, f32)\nprograms   125 (autodiff 5, ladder 120)\n"
        );
    }

    #[test]
    fn foreign_lines_are_named() {
        let error = Report::parse("{\"kind\":\"rows\"}").expect_err("the line lacks a name");
        assert_eq!(error, "test report, line 1: not a report: `{\"kind\":\"rows\"}`");
    }
}
