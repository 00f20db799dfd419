//! A line of the report: what a workload is, and what the two programs took for it.

use serde_json::{Value, json};

use crate::median::median;

/// What the program says about a workload.
#[derive(Clone, Debug)]
pub struct Workload {
    pub name: String,
    pub title: String,
    pub reach: f64,
    pub bytes: f64,
    pub flops: f64,
    pub tolerance: f64,
}

impl Workload {
    /// Reads a line of `--list`.
    pub fn parse(line: &Value) -> Result<Self, String> {
        let missing = |key: &str| format!("the list of workloads lacks `{key}` in {line}");
        let text = |key: &str| line[key].as_str().map(str::to_owned).ok_or_else(|| missing(key));
        let number = |key: &str| line[key].as_f64().ok_or_else(|| missing(key));
        Ok(Self {
            name: text("workload")?,
            title: text("title")?,
            reach: number("reach")?,
            bytes: number("bytes")?,
            flops: number("flops")?,
            tolerance: number("tolerance")?,
        })
    }
}

/// The times of one program, in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The first iteration, compiling included.
    pub first: f64,
    /// The median of each round.
    pub rounds: Vec<f64>,
}

impl Times {
    /// The median over the rounds.
    pub fn median(&self) -> f64 {
        median(&self.rounds)
    }
}

/// A workload that both programs ran.
#[derive(Clone, Debug)]
pub struct Measured {
    pub kiln: Times,
    pub stock: Times,
    /// What is wrong with Kiln's result.
    pub difference: Option<String>,
}

/// A workload, and its times, or why there are none.
#[derive(Clone, Debug)]
pub struct Row {
    pub workload: Workload,
    pub measured: Result<Measured, String>,
}

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Reached,
    Missed,
    Wrong,
    Failed,
}

impl Verdict {
    /// For people and for JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Missed => "MISSED",
            Self::Wrong => "WRONG",
            Self::Failed => "FAILED",
        }
    }
}

impl Measured {
    /// How many times as fast as stock: the median over rounds of each pair, measured side by side, so that a machine
    /// that slows down over minutes changes nothing.
    pub fn ratio(&self) -> f64 {
        let pairs: Vec<f64> =
            self.kiln.rounds.iter().zip(&self.stock.rounds).map(|(kiln, stock)| stock / kiln).collect();
        median(&pairs)
    }
}

impl Row {
    pub fn verdict(&self) -> Verdict {
        match &self.measured {
            Err(_) => Verdict::Failed,
            Ok(measured) if measured.difference.is_some() => Verdict::Wrong,
            Ok(measured) if measured.ratio() >= self.workload.reach => Verdict::Reached,
            Ok(_) => Verdict::Missed,
        }
    }

    /// Bytes that have to be moved, by the time that Kiln took, in GB/s.
    pub fn bandwidth(&self) -> Option<f64> {
        let measured = self.measured.as_ref().ok()?;
        Some(self.workload.bytes / measured.kiln.median() / 1e6)
    }

    /// GFLOP/s, where products are computed.
    pub fn compute(&self) -> Option<f64> {
        let measured = self.measured.as_ref().ok()?;
        (self.workload.flops > 0.0).then(|| self.workload.flops / measured.kiln.median() / 1e6)
    }

    /// What `--json` writes of it.
    pub fn json(&self) -> Value {
        let workload = &self.workload;
        let mut value = json!({
            "workload": workload.name, "title": workload.title, "reach": workload.reach, "bytes": workload.bytes,
            "flops": workload.flops, "verdict": self.verdict().word().to_lowercase(),
        });
        match &self.measured {
            Err(error) => value["error"] = json!(error),
            Ok(measured) => {
                let side = |times: &Times| json!({ "median_ms": times.median(), "rounds_ms": times.rounds, "first_ms": times.first });
                value["kiln"] = side(&measured.kiln);
                value["stock"] = side(&measured.stock);
                value["ratio"] = json!(measured.ratio());
                value["gigabytes_per_second"] = json!(self.bandwidth());
                value["gigaflops"] = json!(self.compute());
                value["difference"] = json!(measured.difference);
            }
        }
        value
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A row of the given rounds, with 1e6 bytes and 2e6 operations.
    pub fn row(name: &str, reach: f64, kiln: &[f64], stock: &[f64]) -> Row {
        let workload = Workload {
            name: name.into(),
            title: format!("{name} of something"),
            reach,
            bytes: 1e6,
            flops: 2e6,
            tolerance: 1e-5,
        };
        let times = |rounds: &[f64]| Times { first: 10.0, rounds: rounds.to_vec() };
        Row { workload, measured: Ok(Measured { kiln: times(kiln), stock: times(stock), difference: None }) }
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        // The machine got slower by half in the last two rounds: the ratio is 4 in each pair but one.
        let row = row("a", 4.0, &[1.0, 2.0, 2.0], &[4.0, 8.0, 9.0]);
        let measured = row.measured.clone().expect("it is measured");
        assert_eq!((measured.ratio(), measured.kiln.median(), measured.stock.median()), (4.0, 2.0, 8.0));
        assert_eq!((row.verdict(), row.bandwidth(), row.compute()), (Verdict::Reached, Some(0.5), Some(1.0)));
    }

    #[test]
    fn a_wrong_result_is_not_reached_however_fast() {
        let mut wrong = row("a", 1.0, &[1.0], &[9.0]);
        if let Ok(measured) = &mut wrong.measured {
            measured.difference = Some("it differs".into());
        }
        assert_eq!(wrong.verdict(), Verdict::Wrong);
        assert_eq!(row("a", 9.5, &[1.0], &[9.0]).verdict(), Verdict::Missed);
        let failed = Row { measured: Err("it died".into()), ..wrong };
        assert_eq!((failed.verdict(), failed.bandwidth()), (Verdict::Failed, None));
        assert_eq!(failed.json()["error"], "it died");
        // Without a round there is no ratio, and NaN reaches nothing.
        assert_eq!(row("a", 0.0, &[], &[]).verdict(), Verdict::Missed);
    }

    #[test]
    fn the_list_is_read_and_what_lacks_is_told() {
        let line = json!({ "workload": "a", "title": "t", "reach": 2.0, "bytes": 8, "flops": 0, "tolerance": 0.1 });
        assert_eq!(Workload::parse(&line).map(|workload| (workload.name, workload.bytes)), Ok(("a".into(), 8.0)));
        let told = Workload::parse(&json!({ "workload": "a", "title": "t" }));
        assert!(told.is_err_and(|told| told.contains("`reach`")));
    }
}
