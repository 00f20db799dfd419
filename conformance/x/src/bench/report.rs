//! All that one run measured.

use serde_json::{Value, json};

use super::copy::Copy;
use super::machine::Machine;
use super::row::{Row, Verdict};
use crate::stock::FLEX_VERSION;

/// Rows, and under which conditions they were measured.
pub struct Report {
    pub machine: Machine,
    pub copy: Copy,
    pub rounds: usize,
    pub seconds: f64,
    pub rows: Vec<Row>,
}

impl Report {
    /// Rows without a right result.
    pub fn wrong(&self) -> usize {
        self.count(Verdict::Wrong) + self.count(Verdict::Failed)
    }

    /// Rows that ended so.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict() == verdict).count()
    }

    /// What `--json` writes.
    pub fn json(&self) -> Value {
        json!({
            "machine": self.machine.to_string(),
            "burn_flex": FLEX_VERSION,
            "copy_gigabytes_per_second": { "256 MiB": self.copy.large, "16 MiB": self.copy.small },
            "rounds": self.rounds,
            "seconds_per_round": self.seconds,
            "workloads": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }
}
