//! The command line of `cargo x bench`.

use std::path::PathBuf;

use lexopt::prelude::*;

pub const HELP: &str = "\
Usage: cargo x bench [OPTIONS]

  --filter NAME    only workloads whose name contains NAME; may be given more than once
  --rounds N       rounds of each program, in turn (5)
  --seconds S      how long a round times a workload at least (0.3)
  --json FILE      write everything measured
  --svg FILE       draw the ratios
  --kiln PROGRAM   a program built before, instead of building it
  --stock PROGRAM  likewise, without the patch
";

/// What to measure, and where to put it.
#[derive(Debug, PartialEq)]
pub struct Options {
    pub filters: Vec<String>,
    pub rounds: usize,
    pub seconds: f64,
    pub json: Option<PathBuf>,
    pub svg: Option<PathBuf>,
    pub kiln: Option<PathBuf>,
    pub stock: Option<PathBuf>,
}

impl Options {
    /// Whether the filters let a workload through.
    pub fn want(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }
}

/// `None` where the help is asked for.
pub fn parse(parser: lexopt::Parser) -> Result<Option<Options>, String> {
    read(parser).map_err(|error| error.to_string()).and_then(|options| match options {
        Some(options) if options.rounds == 0 => Err("--rounds wants at least 1, got 0".into()),
        Some(options) if !(options.seconds.is_finite() && options.seconds >= 0.0) => {
            Err(format!("--seconds wants a time, got {}", options.seconds))
        }
        other => Ok(other),
    })
}

fn read(mut parser: lexopt::Parser) -> Result<Option<Options>, lexopt::Error> {
    let mut options =
        Options { filters: Vec::new(), rounds: 5, seconds: 0.3, json: None, svg: None, kiln: None, stock: None };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("filter") => options.filters.push(parser.value()?.parse()?),
            Long("rounds") => options.rounds = parser.value()?.parse()?,
            Long("seconds") => options.seconds = parser.value()?.parse()?,
            Long("json") => options.json = Some(parser.value()?.into()),
            Long("svg") => options.svg = Some(parser.value()?.into()),
            Long("kiln") => options.kiln = Some(parser.value()?.into()),
            Long("stock") => options.stock = Some(parser.value()?.into()),
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Option<Options>, String> {
        parse(lexopt::Parser::from_args(arguments))
    }

    #[test]
    fn options_are_read() {
        let options = parsed(&["--filter", "soft", "--filter=gpt", "--rounds", "3", "--svg", "a.svg"]);
        let options = options.expect("they are right").expect("no help is asked for");
        assert_eq!((options.rounds, options.seconds, options.json.is_none()), (3, 0.3, true));
        assert_eq!(options.svg, Some(PathBuf::from("a.svg")));
        assert!(options.want("softmax-1024x1024") && options.want("gpt-train") && !options.want("gelu"));
        assert_eq!(parsed(&["--help"]), Ok(None));
    }

    #[test]
    fn without_a_filter_all_are_wanted() {
        assert!(parsed(&[]).expect("nothing is wrong").expect("no help").want("gelu"));
    }

    #[test]
    fn nonsense_is_refused() {
        for arguments in [["--rounds", "0"], ["--rounds", "x"], ["--seconds", "-1"], ["--seconds", "nan"], ["--x", "y"]]
        {
            assert!(parsed(&arguments).is_err(), "{arguments:?}");
        }
    }
}
