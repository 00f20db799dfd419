//! What the command line may say. Knows nothing of training.

use lexopt::prelude::*;

/// Printed by `--help` and after a wrong argument.
pub const HELP: &str = "\
Usage: digits [--epochs N] [--batch-size N] [--seed N]

  --epochs N      passes over the training images (12)
  --batch-size N  images in one training step (64)
  --seed N        start of every random number: order of the images, weights, dropout (42)
";

/// One training run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Passes over the training images.
    pub epochs: usize,
    /// Images in one training step; the last step of an epoch takes what is left.
    pub batch_size: usize,
    /// Start of every random number.
    pub seed: u64,
}

impl Default for Run {
    fn default() -> Self {
        Self { epochs: 12, batch_size: 64, seed: 42 }
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
            Long("epochs") => run.epochs = at_least_one(&mut parser, "--epochs")?,
            Long("batch-size") => run.batch_size = at_least_one(&mut parser, "--batch-size")?,
            Long("seed") => run.seed = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
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
        let want = Run { epochs: 3, batch_size: 48, seed: 7 };
        assert_eq!(args(&["--epochs", "3", "--batch-size=48", "--seed", "7"]), Ok(Command::Run(want)));
        assert_eq!(args(&[]), Ok(Command::Run(Run::default())));
    }

    #[test]
    fn wrong_options_are_named() {
        assert_eq!(args(&["--epochs", "0"]), Err("--epochs wants a number from 1, got 0".into()));
        assert!(args(&["--epoch"]).is_err_and(|error| error.contains("--epoch")));
    }
}
