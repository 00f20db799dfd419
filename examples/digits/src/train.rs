//! The training loop and the measurement on held-out images. Knows neither file format nor network.

use std::time::{Duration, Instant};

use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::module::Module;
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor};
use indicatif::{ProgressBar, ProgressStyle};

use crate::data::{self, Digit};
use crate::model::Classifier;
use crate::options::Run;

/// At the first step; the last one ends at nothing, so that the result depends little on chance.
const LEARNING_RATE: f64 = 4e-3;
/// Reading a loss waits for the device, so the bar shows a mean of this many steps.
const STEPS_PER_READ: usize = 8;

/// What a run measured.
pub struct Outcome {
    /// Share of held-out images told right, 0 to 1.
    pub accuracy: f64,
    epochs: Vec<Duration>,
    total: Duration,
}

/// Trains and tests once, on the default device, and shows how it goes.
///
/// # Errors
///
/// If the file of images is damaged, or the device fails.
pub fn run(run: &Run) -> Result<Outcome, String> {
    let start = Instant::now();
    let device = Device::default();
    device.seed(run.seed);
    let (mut images, held_out) = data::split(data::load()?);

    let steps = images.len().div_ceil(run.batch_size);
    let training_device = device.clone().autodiff();
    let mut trainer = Trainer {
        model: Classifier::new(&training_device),
        optimizer: AdamConfig::new().init(),
        learning_rate: CosineAnnealingLrSchedulerConfig::new(LEARNING_RATE, steps * run.epochs).init()?,
        loss: CrossEntropyLossConfig::new().init(&training_device),
        device: training_device,
    };
    println!("digits: {} images to train on, {} held out, {device:?}", images.len(), held_out.len());

    let mut epochs = Vec::with_capacity(run.epochs);
    for epoch in 1..=run.epochs {
        let epoch_start = Instant::now();
        data::shuffle(&mut images, run.seed.wrapping_add(epoch as u64));
        let bar = progress_bar(epoch, steps);
        let loss = trainer.epoch(&images, run.batch_size, &bar);
        device.sync().map_err(|error| error.to_string())?;
        let time = epoch_start.elapsed();
        bar.finish_and_clear();
        println!("epoch {epoch:>2}/{}  loss {loss:.4}  {:.2} s", run.epochs, time.as_secs_f64());
        epochs.push(time);
    }

    let accuracy = measure(&trainer.model.valid(), &held_out, run.batch_size, &device);
    device.sync().map_err(|error| error.to_string())?;
    Ok(Outcome { accuracy, epochs, total: start.elapsed() })
}

struct Trainer {
    model: Classifier,
    optimizer: ModuleOptimizer,
    learning_rate: ModuleLrScheduler,
    loss: CrossEntropyLoss,
    device: Device,
}

impl Trainer {
    /// One pass over the images; the mean of its losses.
    fn epoch(&mut self, images: &[Digit], batch_size: usize, bar: &ProgressBar) -> f64 {
        let (mut sum, mut done) = (0.0, 0);
        for steps in images.chunks(batch_size * STEPS_PER_READ) {
            let losses: Vec<Tensor<1>> = steps.chunks(batch_size).map(|batch| self.step(batch)).collect();
            done += losses.len();
            sum += Tensor::cat(losses, 0).sum().into_scalar::<f64>();
            bar.set_message(format!("loss {:.4}", sum / done as f64));
            bar.set_position(done as u64);
        }
        sum / done as f64
    }

    /// One step of the optimiser; the loss before it, not read.
    fn step(&mut self, batch: &[Digit]) -> Tensor<1> {
        let batch = data::batch(batch, &self.device);
        let loss = self.loss.forward(self.model.forward(batch.images), batch.labels);
        let grads = GradientsParams::from_grads(loss.backward(), &self.model);
        let rate = self.learning_rate.step();
        self.model = self.optimizer.step(rate, self.model.clone(), grads);
        loss.inner()
    }
}

/// The share of images that the model tells right.
fn measure(model: &Classifier, images: &[Digit], batch_size: usize, device: &Device) -> f64 {
    let hits: Vec<Tensor<1, Int>> = images
        .chunks(batch_size)
        .map(|batch| {
            let batch = data::batch(batch, device);
            let told = model.forward(batch.images).argmax(1).flatten(0, 1);
            told.equal(batch.labels).int().sum()
        })
        .collect();
    let hits = Tensor::cat(hits, 0).sum().into_scalar::<i64>();
    hits as f64 / images.len() as f64
}

fn progress_bar(epoch: usize, steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:32}] {pos}/{len} {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(format!("epoch {epoch:>2}"));
    bar
}

impl Outcome {
    /// Prints the result for people, then as one line of JSON.
    pub fn print(&self) {
        let seconds: Vec<f64> = self.epochs.iter().map(Duration::as_secs_f64).collect();
        // The first epoch also warms up: what lasts is told by the middle of the others.
        let mut steady = seconds.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(&seconds).to_vec();
        steady.sort_by(f64::total_cmp);
        let median = steady.get(steady.len() / 2).copied().unwrap_or(0.0);
        println!("test accuracy    {:.2} %", 100.0 * self.accuracy);
        println!("time per epoch   {median:.3} s (first {:.3} s)", seconds.first().copied().unwrap_or(0.0));
        let list: Vec<String> = seconds.iter().map(|value| format!("{value:.4}")).collect();
        println!(
            "{{\"accuracy\":{:.6},\"epoch_seconds\":[{}],\"total_seconds\":{:.4}}}",
            self.accuracy,
            list.join(","),
            self.total.as_secs_f64()
        );
    }
}
