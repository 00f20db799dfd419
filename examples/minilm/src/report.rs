//! A whole run: the sentences by their likeness to the query, and one line of JSON for programs.
//!
//! The JSON object has `ranking` (indices of sentences, the likest first), `scores` (in that order), `tokens` (of all
//! sentences), `load_seconds`, `first_seconds` (the first time that the sentences are embedded, which warms up),
//! `milliseconds` (the median of the other times, or the first where there is but one) and `total_seconds`.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use burn::tensor::Device;
use serde_json::json;

use crate::embed::Embedder;
use crate::folder;
use crate::options::Run;

/// Sentences to rank where no file is told.
const SENTENCES: &str = include_str!("../data/sentences.txt");

/// Embeds, ranks and prints.
pub fn run(run: &Run, device: &Device) -> Result<(), String> {
    let start = Instant::now();
    let text = match &run.sentences {
        Some(file) => fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?,
        None => SENTENCES.to_owned(),
    };
    let sentences: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if sentences.is_empty() {
        return Err("there are no sentences to rank".into());
    }
    let folder = folder::find(run.folder.as_deref(), run.fetch)?;
    let embedder = Embedder::load(&folder, device)?;
    device.sync().map_err(|error| error.to_string())?;
    let load_seconds = start.elapsed().as_secs_f64();

    let tokens: usize = embedder.lengths(&sentences)?.iter().sum();
    println!("minilm: {} sentences, {tokens} tokens, {device:?}", sentences.len());
    let (mut vectors, mut seconds) = (Vec::new(), Vec::new());
    for _ in 0..run.repeat {
        let embed_start = Instant::now();
        vectors = embedder.embed(&sentences, run.batch_size)?;
        seconds.push(embed_start.elapsed().as_secs_f64());
    }
    let query = embedder.embed(&[&run.query], 1)?.concat();
    let scores: Vec<f64> = vectors.iter().map(|vector| dot(&query, vector)).collect();
    let ranking = ranking(&scores);
    if let Some(file) = &run.embeddings {
        let lines = sentences.iter().copied().zip(vectors.iter().map(Vec::as_slice));
        write_vectors(file, lines.chain([(run.query.as_str(), query.as_slice())]))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }

    println!("\n{}", run.query);
    for &at in &ranking {
        println!("{:>7.4}  {}", scores[at], sentences[at]);
    }
    let first = seconds[0];
    let milliseconds = 1e3 * steady(&seconds);
    println!("\nloading          {load_seconds:.2} s");
    println!("first time       {:.1} ms", 1e3 * first);
    println!("time             {milliseconds:.1} ms ({:.0} tokens a second)", tokens as f64 / milliseconds * 1e3);
    println!(
        "{}",
        json!({
            "ranking": ranking,
            "scores": ranking.iter().map(|&at| scores[at]).collect::<Vec<_>>(),
            "tokens": tokens,
            "load_seconds": load_seconds,
            "first_seconds": first,
            "milliseconds": milliseconds,
            "total_seconds": start.elapsed().as_secs_f64(),
        })
    );
    Ok(())
}

/// The cosine of the angle between two vectors of length 1.
fn dot(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
}

/// Indices of scores, the greatest first; of equal ones the first.
fn ranking(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&x, &y| scores[y].total_cmp(&scores[x]));
    order
}

/// The median of the times after the first.
fn steady(seconds: &[f64]) -> f64 {
    let mut rest = seconds.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(seconds).to_vec();
    rest.sort_by(f64::total_cmp);
    rest.get(rest.len() / 2).copied().unwrap_or(0.0)
}

/// One object a line, in the order of the sentences, the query last.
fn write_vectors<'a>(file: &Path, vectors: impl Iterator<Item = (&'a str, &'a [f32])>) -> std::io::Result<()> {
    let mut out = BufWriter::new(fs::File::create(file)?);
    for (sentence, vector) in vectors {
        writeln!(out, "{}", json!({"sentence": sentence, "embedding": vector}))?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likest_comes_first() {
        assert_eq!(ranking(&[0.1, 0.9, 0.5, 0.9]), [1, 3, 2, 0]);
        assert_eq!(dot(&[0.6, 0.8], &[0.8, -0.6]), 0.0);
    }

    #[test]
    fn the_first_time_does_not_count() {
        assert_eq!(steady(&[9.0, 2.0, 1.0, 3.0]), 2.0);
        assert_eq!(steady(&[9.0]), 9.0);
    }

    #[test]
    fn vectors_are_written_in_full() {
        let scratch = tempfile::tempdir().expect("the folder for tests is writable");
        let file = scratch.path().join("vectors");
        write_vectors(&file, [("a \"b\"", [0.1f32, -3e-9].as_slice())].into_iter()).expect("the folder is writable");
        let value: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&file).expect("just written")).expect("one object");
        let read: Vec<f32> =
            value["embedding"].as_array().into_iter().flatten().filter_map(|x| Some(x.as_f64()? as f32)).collect();
        assert_eq!((value["sentence"].as_str(), read), (Some("a \"b\""), vec![0.1, -3e-9]));
        assert!(write_vectors(&scratch.path().join("no/file"), std::iter::empty()).is_err());
    }
}
