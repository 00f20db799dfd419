//! What the command line may say. Knows nothing of training.

use lexopt::prelude::*;

use crate::model::Size;
use crate::sample::Style;

/// Printed by `--help` and after a wrong argument.
pub const HELP: &str = "\
Usage: gpt [--steps N] [--batch-size N] [--seed N] [--prompt TEXT] [--length N] [--temperature X] [--json]

  --steps N        steps of the optimiser (2000)
  --batch-size N   windows of text in one step (8)
  --seed N         start of every random number: weights, windows, sample (42)
  --prompt TEXT    what the sample continues (\"Catherine \")
  --length N       characters to write (400)
  --temperature X  how freely to write: 1 as learned, below 1 likelier, above 1 wilder (0.8)
  --json           print only the line of JSON at the end
";

/// One training run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// How large the network is.
    pub size: Size,
    /// Steps of the optimiser.
    pub steps: usize,
    /// Windows of text in one step.
    pub batch_size: usize,
    /// Start of every random number.
    pub seed: u64,
    /// What the sample continues; not empty.
    pub prompt: String,
    /// How the sample is written.
    pub style: Style,
    /// Whether only the line of JSON is printed.
    pub json: bool,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            size: Size { context: 128, layers: 4, heads: 4, width: 128 },
            steps: 2000,
            batch_size: 8,
            seed: 42,
            prompt: "Catherine ".into(),
            style: Style { length: 400, temperature: 0.8 },
            json: false,
        }
    }
}

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// Train.
    Run(Run),
    /// Explain the options.
    Help,
}

/// Reads the arguments.
pub fn parse(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut run = Run::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("steps") => run.steps = at_least_one(&mut parser, "--steps")?,
            Long("batch-size") => run.batch_size = at_least_one(&mut parser, "--batch-size")?,
            Long("seed") => run.seed = parser.value()?.parse()?,
            Long("prompt") => run.prompt = parser.value()?.string()?,
            Long("length") => run.style.length = parser.value()?.parse()?,
            Long("temperature") => run.style.temperature = parser.value()?.parse()?,
            Long("json") => run.json = true,
            Long("help") | Short('h') => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    if run.prompt.is_empty() {
        return Err("--prompt wants a text, got nothing".into());
    }
    if !(run.style.temperature > 0.0 && run.style.temperature.is_finite()) {
        return Err(format!("--temperature wants a number above 0, got {}", run.style.temperature).into());
    }
    Ok(Command::Run(run))
}

fn at_least_one(parser: &mut lexopt::Parser, option: &str) -> Result<usize, lexopt::Error> {
    match parser.value()?.parse()? {
        0 => Err(format!("{option} wants a number from 1, got 0").into()),
        n => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(list: &[&str]) -> Result<Command, String> {
        parse(lexopt::Parser::from_args(list)).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read() {
        let want = Run { steps: 3, seed: 7, prompt: "Why".into(), json: true, ..Run::default() };
        assert_eq!(args(&["--steps", "3", "--seed=7", "--prompt", "Why", "--json"]), Ok(Command::Run(want)));
        assert_eq!(args(&[]), Ok(Command::Run(Run::default())));
    }

    #[test]
    fn wrong_options_are_named() {
        assert_eq!(args(&["--steps", "0"]), Err("--steps wants a number from 1, got 0".into()));
        assert_eq!(args(&["--prompt", ""]), Err("--prompt wants a text, got nothing".into()));
        assert_eq!(args(&["--temperature", "0"]), Err("--temperature wants a number above 0, got 0".into()));
        assert_eq!(args(&["--temperature=nan"]), Err("--temperature wants a number above 0, got NaN".into()));
        assert!(args(&["--step"]).is_err_and(|error| error.contains("--step")));
    }
}
