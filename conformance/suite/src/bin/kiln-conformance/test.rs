//! `test`: the suite on the chosen machine, in this process.

use std::process::ExitCode;

use burn_kiln::KilnDevice;
use kiln_suite::{DEVICE, run};
use libtest_mimic::Arguments;

use crate::{Command, device};

pub const COMMAND: Command = Command {
    name: "test",
    usage: "[FILTER] [--exact] [--skip FILTER] [--test-threads N] [--list]",
    about: "run the suite, or the tests whose name contains FILTER",
    run: test,
};

fn test(words: Vec<String>) -> Result<ExitCode, String> {
    device::require()?;
    let mut arguments = Arguments::from_iter(std::iter::once("kiln-conformance test".to_owned()).chain(words));
    // One device, one test at a time: what a test counts there, and what fits into its memory, is its own.
    if matches!(KilnDevice::default(), KilnDevice::Cuda(_) | KilnDevice::Hip(_)) {
        arguments.test_threads.get_or_insert(1);
    }
    println!("testing on {DEVICE}");
    Ok(run::suite(&arguments))
}
