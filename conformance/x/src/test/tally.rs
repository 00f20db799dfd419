//! Counts tests from the lines that test binaries print.

use std::fmt::Write;
use std::time::Duration;

/// What the test binaries said so far.
#[derive(Debug, Default, PartialEq)]
pub struct Tally {
    binaries: usize,
    passed: u64,
    failed: u64,
    /// As the binaries count them, with those that were skipped.
    ignored: u64,
    /// Tests that looked for a device and did not find it.
    skipped: u64,
    failures: Vec<String>,
    ignored_names: Vec<String>,
}

impl Tally {
    /// Takes in one line of output.
    pub fn read(&mut self, line: &str) {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.binaries += 1;
            self.passed += number_before(rest, " passed");
            self.failed += number_before(rest, " failed");
            self.ignored += number_before(rest, " ignored");
        } else if let Some((name, ending)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) {
            let name = name.trim_end();
            if ending.starts_with("FAILED") {
                self.failures.push(name.to_owned());
            } else if ending.starts_with("ignored (skipped: no ") {
                self.skipped += 1;
            } else if ending.starts_with("ignored") {
                self.ignored_names.push(name.to_owned());
            }
        }
    }

    /// Tests that somebody switched off.
    fn ignored(&self) -> u64 {
        self.ignored.saturating_sub(self.skipped)
    }

    /// The lines that close the summary; the very last is `N passed, N failed`.
    pub fn page(&self, time: Duration) -> String {
        let mut page = String::new();
        for (what, names) in [("FAILED", &self.failures), ("IGNORED", &self.ignored_names)] {
            for name in names {
                // Writing to a String cannot fail.
                let _ = writeln!(page, "{what:<10} {name}");
            }
        }
        let _ = writeln!(
            page,
            "tests      {} in {} test binaries, {} skipped for want of a device, {} ignored, {:.0} s",
            self.passed + self.failed,
            self.binaries,
            self.skipped,
            self.ignored(),
            time.as_secs_f64()
        );
        let _ = write!(page, "{} passed, {} failed", self.passed, self.failed);
        page
    }

    /// Whether the run counts; `cargo_succeeded` is false also where something did not compile.
    pub fn verdict(&self, cargo_succeeded: bool) -> Result<(), String> {
        if self.failed > 0 {
            Err(format!("{} tests failed", self.failed))
        } else if !cargo_succeeded {
            Err("cargo test failed: a crate did not compile, or a test binary broke off".into())
        } else if self.ignored() > 0 {
            Err(format!("{} tests are ignored; a test runs or goes", self.ignored()))
        } else if self.passed == 0 {
            Err("no test ran".into())
        } else {
            Ok(())
        }
    }
}

/// The number in front of ` passed`: `ok. 12 passed; 0 failed`.
fn number_before(text: &str, word: &str) -> u64 {
    text.split([';', '.']).find_map(|part| part.strip_suffix(word)?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn binaries_are_added_up() {
        let tally = tally(
            "test a::works ... ok\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.1s\n\
             test b ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n",
        );
        assert_eq!((tally.binaries, tally.passed, tally.failed, tally.ignored), (2, 3, 1, 0));
        assert_eq!(
            tally.page(Duration::from_secs(9)),
            "FAILED     b\ntests      4 in 2 test binaries, 0 skipped for want of a device, 0 ignored, 9 s\n3 passed, 1 failed"
        );
        assert_eq!(tally.verdict(false), Err("1 tests failed".into()));
    }

    #[test]
    fn what_wants_a_device_is_skipped_and_not_ignored() {
        let tally = tally(
            "test rows::all    ... ok\ntest process::a  ... ignored (skipped: no compiled kernels on this device)\n\
             test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1s\n",
        );
        assert_eq!((tally.passed, tally.skipped, tally.ignored()), (1, 1, 0));
        assert_eq!(tally.verdict(true), Ok(()));
    }

    #[test]
    fn ignored_and_absent_tests_are_failures() {
        let some = tally("test c ... ignored, slow\ntest result: ok. 5 passed; 0 failed; 1 ignored; 0 measured\n");
        assert_eq!(some.ignored_names, ["c"]);
        assert!(some.verdict(true).is_err());
        assert_eq!(tally("running 0 tests\n").verdict(true), Err("no test ran".into()));
        assert_eq!(tally("test result: ok. 5 passed; 0 failed; 0 ignored\n").verdict(true), Ok(()));
    }
}
