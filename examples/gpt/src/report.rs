//! A whole run, shown as it goes: the loss curve, the sample, and one line of JSON for programs.
//!
//! The JSON object has `losses` (the means of ten steps each, in nats a character), `held_out` (the same over all
//! held-out text), `step_milliseconds` (the median), `first_steps_seconds` (the first ten steps, which warm up),
//! `sample`, `sample_seconds` and `total_seconds`.

use std::time::{Duration, Instant};

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::options::Run;
use crate::random::Random;
use crate::sample;
use crate::text::Text;
use crate::train::Training;

/// Reading a loss waits for the device, so it is done once in so many steps.
const STEPS_PER_READ: usize = 10;
/// Lines of the printed curve, about.
const LINES: usize = 20;
/// Batches of held-out text at each line.
const HELD_OUT_BATCHES: usize = 4;

/// Trains, measures, writes, and prints all three.
pub fn run(run: &Run, device: &Device) -> Result<(), String> {
    let start = Instant::now();
    let text = Text::load()?;
    let alphabet = text.alphabet.clone();
    let prompt = alphabet.encode(&run.prompt).map_err(|error| format!("--prompt: {error}"))?;
    let show = |line: String| {
        if !run.json {
            println!("{line}");
        }
    };
    show(format!(
        "gpt: {} characters to train on, {} held out, {} different, {device:?}",
        text.train.len(),
        text.held_out.len(),
        alphabet.len()
    ));
    let mut training = Training::new(run, text, device)?;
    show(format!("gpt: {} parameters", training.model().num_params()));

    let bar = progress_bar(run);
    let curve = learn(run, &mut training, device, &bar, &show)?;
    bar.finish_and_clear();
    let held_out = training.held_out(usize::MAX / run.batch_size);

    let write_start = Instant::now();
    let mut random = Random::new(run.seed);
    let written = sample::write(&training.model(), &prompt, &run.style, &mut random, device);
    device.sync().map_err(|error| error.to_string())?;
    let write_time = write_start.elapsed();
    let written = format!("{}{}", run.prompt, alphabet.decode(&written));

    let milliseconds = 1e3 * median(&curve.seconds) / STEPS_PER_READ as f64;
    show(format!("held-out loss    {held_out:.4} nats a character"));
    show(format!("time per step    {milliseconds:.1} ms"));
    show(format!("sample           {} characters in {:.2} s", run.style.length, write_time.as_secs_f64()));
    show(format!("\n{written}\n"));
    let rounded = |value: f64| (value * 1e6).round() / 1e6;
    println!(
        "{}",
        json!({
            "losses": curve.losses.iter().map(|&loss| rounded(loss)).collect::<Vec<_>>(),
            "held_out": rounded(held_out),
            "step_milliseconds": rounded(milliseconds),
            "first_steps_seconds": rounded(curve.first.as_secs_f64()),
            "sample": written,
            "sample_seconds": rounded(write_time.as_secs_f64()),
            "total_seconds": rounded(start.elapsed().as_secs_f64()),
        })
    );
    Ok(())
}

struct Curve {
    /// The mean loss of each group of steps.
    losses: Vec<f64>,
    /// How long each group took; the first warms up and is not among them, unless it is the only one.
    seconds: Vec<f64>,
    first: Duration,
}

fn learn(
    run: &Run,
    training: &mut Training,
    device: &Device,
    bar: &ProgressBar,
    show: &dyn Fn(String),
) -> Result<Curve, String> {
    let mut curve = Curve { losses: Vec::new(), seconds: Vec::new(), first: Duration::ZERO };
    let groups_a_line = (run.steps / STEPS_PER_READ).div_ceil(LINES).max(1);
    let mut done = 0;
    while done < run.steps {
        let group_start = Instant::now();
        let count = STEPS_PER_READ.min(run.steps - done);
        let losses: Vec<Tensor<1>> = (0..count).map(|_| training.step()).collect();
        let loss = Tensor::cat(losses, 0).sum().into_scalar::<f64>() / count as f64;
        device.sync().map_err(|error| error.to_string())?;
        let time = group_start.elapsed();
        if done == 0 {
            curve.first = time;
        }
        // What is left at the end may be less than a group.
        if done > 0 || count == run.steps {
            curve.seconds.push(time.as_secs_f64() * STEPS_PER_READ as f64 / count as f64);
        }
        curve.losses.push(loss);
        done += count;
        bar.set_position(done as u64);
        bar.set_message(format!("loss {loss:.4}"));
        if curve.losses.len().is_multiple_of(groups_a_line) || done == run.steps {
            let recent = &curve.losses[curve.losses.len().saturating_sub(groups_a_line)..];
            let mean = recent.iter().sum::<f64>() / recent.len() as f64;
            let held_out = training.held_out(HELD_OUT_BATCHES);
            bar.suspend(|| show(format!("step {done:>5}/{}  loss {mean:.4}  held out {held_out:.4}", run.steps)));
        }
    }
    Ok(curve)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn progress_bar(run: &Run) -> ProgressBar {
    let target = if run.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(run.steps as u64), target);
    if let Ok(style) = ProgressStyle::with_template("[{bar:32}] {pos}/{len} {msg}  {elapsed}, {eta} left") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[]), 0.0);
    }
}
