//! `bench`: the workloads on the chosen machine, beside how fast it copies.

mod copy;
mod launches;
mod report;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use burn_kiln::KilnDevice;
use burn_tensor::Device;
use kiln_bench::workload::Workload;
use kiln_bench::{batches, workloads};
use lexopt::prelude::*;

use crate::{Command, device};
use report::{Report, Row};

pub const COMMAND: Command = Command {
    name: "bench",
    usage: "[--filter NAME]... [--seconds S] [--sizes cpu|gpu] [--json FILE]",
    about: "time the workloads",
    run,
};

/// What to measure, and where to put it.
struct Options {
    filters: Vec<String>,
    seconds: f64,
    large: bool,
    json: Option<PathBuf>,
}

fn run(words: Vec<String>) -> Result<ExitCode, String> {
    let options = parse(lexopt::Parser::from_args(words)).map_err(|error| error.to_string())?;
    device::require()?;
    let device = Device::new(KilnDevice::default());
    let copy = copy::rate(&device)?;
    println!("{}: copies at {copy:.0} GB/s, read and written", kiln_suite::DEVICE);
    let table: Vec<&Workload> = if options.large { workloads::large().collect() } else { workloads::all().collect() };
    let wanted = |name: &str| options.filters.is_empty() || options.filters.iter().any(|part| name.contains(part));
    let mut report = Report::new(copy);
    println!("{}", Row::HEADINGS);
    for workload in table.into_iter().filter(|workload| wanted(workload.name)) {
        let measured = caught(|| batches::measure(workload, &device, options.seconds));
        let row = Row { workload, measured };
        println!("{}", row.line(copy));
        report.rows.push(row);
        // Whatever the next one needs, it shall not lack it because of this one.
        device.memory_cleanup();
    }
    if wanted(launches::NAME) {
        report.launches = Some(caught(|| launches::measure(&device)));
        println!("{}", report.launches_line());
    }
    if let Some(file) = &options.json {
        std::fs::write(file, format!("{:#}\n", report.json()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A panic in one workload is its own error.
fn caught<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(text.unwrap_or("a panic without words").lines().next().unwrap_or_default().to_owned())
    })
}

fn parse(mut parser: lexopt::Parser) -> Result<Options, lexopt::Error> {
    let on_gpu = matches!(KilnDevice::default(), KilnDevice::Cuda(_) | KilnDevice::Hip(_));
    let mut options = Options { filters: Vec::new(), seconds: 0.25, large: on_gpu, json: None };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("filter") => options.filters.push(parser.value()?.parse()?),
            Long("seconds") => options.seconds = parser.value()?.parse()?,
            Long("json") => options.json = Some(parser.value()?.into()),
            Long("sizes") => match parser.value()?.string()?.as_str() {
                "cpu" => options.large = false,
                "gpu" => options.large = true,
                other => return Err(format!("--sizes takes cpu or gpu, got `{other}`").into()),
            },
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}
