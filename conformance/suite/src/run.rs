//! Runs the suite in one process, several tests at a time where they allow it, and says what was skipped and why.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

use crate::test::Test;
use crate::{DEVICE, child, tests};

/// Held for reading by each test, for writing by one that wants to be alone.
static BESIDE: RwLock<()> = RwLock::new(());

/// Reasons with the number of tests that were skipped for them.
type Skipped = Arc<Mutex<BTreeMap<String, usize>>>;

/// What a test binary does: the task that its parent has for it, or the tests that its arguments name, as Rust's own test
/// runner takes them.
pub fn main() -> ExitCode {
    match child::serve() {
        Some(code) => code,
        None => suite(&Arguments::from_args()),
    }
}

/// Runs the tests that the arguments name; the last line sums up.
pub fn suite(arguments: &Arguments) -> ExitCode {
    listen();
    let skipped = Skipped::default();
    let trials = tests::all().map(|(path, test)| trial(path, *test, Arc::clone(&skipped))).collect();
    let conclusion = libtest_mimic::run(arguments, trials);
    if !arguments.list {
        let skipped = skipped.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!("{}", summary(&conclusion, &skipped));
    }
    conclusion.exit_code()
}

fn trial(path: &str, test: Test, skipped: Skipped) -> Trial {
    Trial::ignorable_test(format!("{path}::{}", test.name), move || {
        if let Some(reason) = test.skipped() {
            *skipped.lock().unwrap_or_else(PoisonError::into_inner).entry(reason.clone()).or_default() += 1;
            return Ok(Completion::ignored_with(reason));
        }
        // A test that failed alone leaves its lock poisoned; the others go on.
        let (_reading, _writing) = match test.alone {
            true => (None, Some(BESIDE.write().unwrap_or_else(PoisonError::into_inner))),
            false => (Some(BESIDE.read().unwrap_or_else(PoisonError::into_inner)), None),
        };
        match catch_unwind(test.run) {
            Ok(()) => {
                LAST.take();
                Ok(Completion::Completed)
            }
            Err(panic) => {
                let place = LAST.take();
                // A panic that came from another thread of the test has its words with it.
                let words =
                    panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
                Err(Failed::from(if place.is_empty() { words.unwrap_or("it panicked").to_owned() } else { place }))
            }
        }
    })
}

thread_local! {
    /// What this thread's last panic said, and where.  Many tests are about panics, which are nobody's business.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps what panics say instead of printing it.
fn listen() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        // A thread that is about to end has nothing left to keep it in.
        _ = LAST.try_with(|last| last.replace(text));
    }));
}

/// `cuda:0: 120 passed, 0 failed, 3 skipped (no compiled kernels on this device: 3)`.
fn summary(conclusion: &Conclusion, skipped: &BTreeMap<String, usize>) -> String {
    let reasons: Vec<String> = skipped
        .iter()
        .map(|(reason, count)| format!("{}: {count}", reason.strip_prefix("skipped: ").unwrap_or(reason)))
        .collect();
    let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    format!(
        "{DEVICE}: {} passed, {} failed, {} skipped{why}",
        conclusion.num_passed, conclusion.num_failed, conclusion.num_ignored
    )
}
