//! Kernel × target as text (what differs, and counts), as JSON and as HTML (all of it).

use kiln_conformance::targets::TARGETS;
use kiln_conformance::witness::{Finding, Outcome, columns};
use serde_json::{Value, json};

use crate::info::COMMIT;

/// All findings, and the cases that did not come to an end.
pub struct Table {
    pub findings: Vec<Finding>,
    pub broken: Vec<(String, String)>,
}

/// In a word, for tables.
fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Equal => "equal bits".into(),
        Outcome::Ulps(1) => "1 ulp".into(),
        Outcome::Ulps(n) => format!("{n} ulp"),
        Outcome::Differs(what) => format!("differs: {what}"),
        Outcome::Assembled => "assembled only".into(),
        Outcome::Skipped(why) => format!("skipped: {why}"),
        Outcome::Failed(why) => format!("failed: {}", why.lines().next().unwrap_or_default()),
    }
}

/// Targets that this machine has not, with the reason.
fn skipped() -> Vec<String> {
    let absent = TARGETS.iter().filter(|target| (target.machine)().is_none());
    absent.map(|target| format!("{}: skipped, no device", target.name)).collect()
}

impl Table {
    /// A line a target, then each kernel that is not as it should be.
    pub fn text(&self) -> String {
        let mut text = format!("{} kernels\n\n", self.findings.len());
        text += &format!(
            "{:<24} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
            "target", "equal", "assembled", "skipped", "differ", "failed"
        );
        for (at, column) in columns().iter().enumerate() {
            let count = |wanted: fn(&Outcome) -> bool| self.findings.iter().filter(|f| wanted(&f.outcomes[at])).count();
            text += &format!(
                "{column:<24} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
                count(|o| *o == Outcome::Equal),
                count(|o| *o == Outcome::Assembled),
                count(|o| matches!(o, Outcome::Skipped(_))),
                count(|o| matches!(o, Outcome::Ulps(_) | Outcome::Differs(_))),
                count(|o| matches!(o, Outcome::Failed(_))),
            );
        }
        for line in skipped() {
            text += &format!("{line}\n");
        }
        for finding in &self.findings {
            for (column, outcome) in columns().iter().zip(&finding.outcomes) {
                if !outcome.is_well() {
                    text += &format!("{} ({}) on {column}: {}\n", finding.case, finding.kernel, word(outcome));
                }
            }
        }
        for (case, error) in &self.broken {
            text += &format!("{case}: {}\n", error.lines().next().unwrap_or_default());
        }
        text
    }

    /// All of it.
    pub fn json(&self) -> Value {
        let kernels: Vec<Value> = self
            .findings
            .iter()
            .map(|finding| {
                let on = columns().into_iter().zip(&finding.outcomes).map(|(name, outcome)| (name, word(outcome)));
                json!({ "case": finding.case, "kernel": finding.kernel, "on": on.collect::<std::collections::BTreeMap<_, _>>() })
            })
            .collect();
        json!({ "commit": COMMIT, "targets": columns(), "skipped": skipped(), "kernels": kernels, "broken": self.broken })
    }

    /// All of it, coloured.
    pub fn html(&self) -> String {
        let mut html = String::from(
            "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Kernels on targets</title>\n<style>\
             body{font:14px sans-serif}td,th{padding:2px 8px;text-align:left}.equal{background:#d7f0d8}\
             .assembled{background:#e8e8e8}.near{background:#fdf0c8}.bad{background:#f8c9c4}</style>\n<table>\n<tr>",
        );
        html += "<th>case</th><th>kernel</th>";
        html += &columns().iter().map(|column| format!("<th>{column}</th>")).collect::<String>();
        html += "</tr>\n";
        for finding in &self.findings {
            html += &format!("<tr><td>{}</td><td>{}</td>", escaped(&finding.case), escaped(&finding.kernel));
            for outcome in &finding.outcomes {
                let class = match outcome {
                    Outcome::Equal => "equal",
                    Outcome::Assembled | Outcome::Skipped(_) => "assembled",
                    Outcome::Ulps(_) => "near",
                    Outcome::Differs(_) | Outcome::Failed(_) => "bad",
                };
                html += &format!("<td class=\"{class}\">{}</td>", escaped(&word(outcome)));
            }
            html += "</tr>\n";
        }
        html += "</table>\n";
        for line in skipped() {
            html += &format!("<p>{line}</p>\n");
        }
        html
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
