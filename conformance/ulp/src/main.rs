//! The command line: `kiln-ulp [--full] [--op NAME]… [--dtype NAME]… [--json FILE] [--page FILE]`, run by `cargo x ulp`.

use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use kiln_lowering::DType;
use kiln_lowering::op::Pointwise;
use kiln_ulp::report::{self, Setting};
use kiln_ulp::subject::Subject;
use kiln_ulp::sweep::{Found, sweep};
use lexopt::prelude::*;

/// Types in the order of a report.
const DTYPES: [DType; 4] = [DType::F32, DType::F16, DType::Bf16, DType::F64];

#[derive(Default)]
struct Options {
    full: bool,
    ops: Vec<Pointwise>,
    dtypes: Vec<DType>,
    json: Option<PathBuf>,
    page: Option<PathBuf>,
    date: String,
    commit: String,
}

fn main() -> ExitCode {
    match options().map_err(|error| error.to_string()).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("kiln-ulp: some results are beyond the bound of their row");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("kiln-ulp: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("full") => options.full = true,
            Long("op") => {
                let name = parser.value()?.string()?;
                options.ops.push(Pointwise::parse(&name).ok_or(format!("there is no row `{name}`"))?);
            }
            Long("dtype") => {
                let name = parser.value()?.string()?;
                let known = DTYPES.into_iter().find(|dtype| dtype.name() == name);
                options.dtypes.push(known.ok_or(format!("there is no float type `{name}`"))?);
            }
            Long("json") => options.json = Some(parser.value()?.into()),
            Long("page") => options.page = Some(parser.value()?.into()),
            Long("date") => options.date = parser.value()?.string()?,
            Long("commit") => options.commit = parser.value()?.string()?,
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

/// Logarithm of the number of operands to try.
fn strata(subject: &Subject, full: bool) -> u32 {
    match (subject.is_slow(), subject.op.row().arity, full) {
        (true, _, true) => 17,
        (true, _, false) => 12,
        (false, 1, true) => 32,
        (false, 2.., true) => 28,
        (false, _, _) => 22,
    }
}

fn run(options: &Options) -> Result<bool, String> {
    let wanted = |dtype: &DType| options.dtypes.is_empty() || options.dtypes.contains(dtype);
    let subjects = DTYPES.into_iter().filter(wanted).flat_map(Subject::all);
    let subjects: Vec<Subject> =
        subjects.filter(|subject| options.ops.is_empty() || options.ops.contains(&subject.op)).collect();
    if subjects.is_empty() {
        return Err("none of the rows asked for maps floats to floats of their type".into());
    }
    let mut found: Vec<Found> = Vec::new();
    for (at, &subject) in subjects.iter().enumerate() {
        let strata = strata(&subject, options.full);
        let bar =
            ProgressBar::new(1 << if subject.op.row().arity == 1 { strata.min(subject.dtype.bits()) } else { strata });
        let name = format!("{} {} ({} of {})", subject.op.row().name, subject.dtype.name(), at + 1, subjects.len());
        let style = ProgressStyle::with_template("{msg:<28} {wide_bar} {percent:>3} % {eta:>4}");
        bar.set_style(style.map_err(|error| error.to_string())?);
        bar.set_message(name);
        let result = sweep(subject, strata, &|count| bar.inc(count))?;
        bar.finish_and_clear();
        print!("{:<5}{}", subject.dtype.name(), report::line(&result));
        found.push(result);
    }
    let setting = Setting::here(options.date.clone(), options.commit.clone());
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
        Some(path) => std::fs::write(path, text()).map_err(|error| format!("{}: {error}", path.display())),
        None => Ok(()),
    };
    write(&options.json, &|| format!("{:#}\n", report::json(&setting, &found)))?;
    write(&options.page, &|| report::page(&setting, &found))?;
    Ok(report::passed(&found))
}
