//! What was measured: a line a workload, and JSON in the form that `cargo x peers` lays beside others'.

use kiln_bench::workload::Workload;
use serde_json::{Value, json};

use crate::info::COMMIT;

/// A workload, and what was measured, or why it was not.
pub struct Row {
    pub workload: &'static Workload,
    pub measured: Result<Value, String>,
}

/// One run.
pub struct Report {
    copy: f64,
    pub rows: Vec<Row>,
    pub launches: Option<Result<Value, String>>,
}

impl Row {
    pub const HEADINGS: &str = concat!(
        "workload                                       ms       GB/s  of copy     TFLOP/s     first s\n",
        "---------------------------------------- --------- --------- -------- ----------- -----------"
    );

    /// The line of the table.
    pub fn line(&self, copy: f64) -> String {
        let name = self.workload.name;
        match &self.measured {
            Err(error) => format!("{name:<40} {error}"),
            Ok(_) => {
                let ms = self.number("median_ms");
                let bandwidth = self.workload.bytes as f64 / ms / 1e6;
                let share = format!("{:.0} %", 100.0 * bandwidth / copy);
                let compute = match self.workload.flops {
                    0 => String::new(),
                    flops => format!("{:.1}", flops as f64 / ms / 1e9),
                };
                let first = self.number("first_ms") / 1e3;
                format!("{name:<40} {ms:>9.4} {bandwidth:>9.0} {share:>8} {compute:>11} {first:>11.3}")
            }
        }
    }

    fn number(&self, key: &str) -> f64 {
        self.measured.as_ref().ok().and_then(|measured| measured[key].as_f64()).unwrap_or(f64::NAN)
    }

    fn json(&self) -> Value {
        let workload = self.workload;
        let kiln = match &self.measured {
            Ok(measured) => measured.clone(),
            Err(error) => json!({ "error": error }),
        };
        json!({
            "workload": workload.name, "title": workload.title, "bytes": workload.bytes, "flops": workload.flops,
            "tolerance": workload.tolerance,
            "by": { "kiln": kiln },
        })
    }
}

impl Report {
    pub fn new(copy: f64) -> Report {
        Report { copy, rows: Vec::new(), launches: None }
    }

    /// Workloads without a time.
    pub fn failed(&self) -> usize {
        self.rows.iter().filter(|row| row.measured.is_err()).count()
    }

    /// The line about launches.
    pub fn launches_line(&self) -> String {
        match &self.launches {
            Some(Ok(found)) => {
                let number = |key: &str| found[key].as_f64().map_or("?".into(), |n| format!("{n:.2}"));
                format!(
                    "launches: {} kernels a plan, {} µs each, of which {} µs of the device's thread; as a captured graph \
                     {} and {}",
                    found["kernels"],
                    number("microseconds"),
                    number("thread_microseconds"),
                    number("replay_microseconds"),
                    number("replay_thread_microseconds")
                )
            }
            Some(Err(error)) => format!("launches: {error}"),
            None => String::new(),
        }
    }

    pub fn json(&self) -> Value {
        let launches = self.launches.as_ref().map(|found| match found {
            Ok(found) => found.clone(),
            Err(error) => json!({ "error": error }),
        });
        json!({
            "program": format!("kiln {} ({COMMIT})", env!("CARGO_PKG_VERSION")),
            "device": kiln_suite::DEVICE.to_string(),
            "copy_gigabytes_per_second": self.copy,
            "launches": launches,
            "workloads": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }
}
