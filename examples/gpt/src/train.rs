//! The training loop's step and the loss on held-out text. Prints nothing, and reads nothing back by itself.

use std::f64::consts::PI;

use burn::module::Module;
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};

use crate::model::Gpt;
use crate::options::Run;
use crate::random::Random;
use crate::text::{Batch, Text, windows};

/// After the warm-up.
const LEARNING_RATE: f64 = 2e-3;
/// At the last step, as a part of the one after the warm-up.
const FINAL_RATE: f64 = 0.05;
/// Steps over which the rate rises, at most a tenth of all.
const WARM_UP: usize = 50;

/// A network and what it takes to improve it.
pub struct Training {
    model: Gpt,
    optimizer: ModuleOptimizer,
    loss: CrossEntropyLoss,
    random: Random,
    text: Text,
    context: usize,
    batch_size: usize,
    step: usize,
    steps: usize,
    device: Device,
}

impl Training {
    /// A fresh network on `device`. Weights and windows of text depend on the seed alone, not on the device.
    ///
    /// # Errors
    ///
    /// If the text is shorter than what the network reads at once.
    pub fn new(run: &Run, text: Text, device: &Device) -> Result<Self, String> {
        let least = run.size.context + 1;
        let shortest = text.train.len().min(text.held_out.len());
        if shortest < least {
            return Err(format!("wanted {least} characters to train on and as many to test on, got {shortest}"));
        }
        let device = device.clone().autodiff();
        Ok(Self {
            model: Gpt::new(&run.size, text.alphabet.len(), run.seed, &device),
            optimizer: AdamWConfig::new().with_beta_2(0.99).with_weight_decay(0.1).init(),
            loss: CrossEntropyLossConfig::new().init(&device),
            // Another stream than the one that drew the weights.
            random: Random::new(!run.seed),
            text,
            context: run.size.context,
            batch_size: run.batch_size,
            step: 0,
            steps: run.steps,
            device,
        })
    }

    /// One step of the optimiser on windows from anywhere in the text; the loss before it, not read.
    pub fn step(&mut self) -> Tensor<1> {
        let places = self.text.train.len() - self.context;
        let starts: Vec<usize> = (0..self.batch_size).map(|_| self.random.below(places)).collect();
        let batch = windows(&self.text.train, &starts, self.context, &self.device);
        let loss = mean_loss(&self.model, &self.loss, batch);
        let grads = GradientsParams::from_grads(loss.backward(), &self.model);
        let rate = learning_rate(self.step, self.steps);
        self.model = self.optimizer.step(rate, self.model.clone(), grads);
        self.step += 1;
        loss.inner()
    }

    /// The network as it is, for use.
    pub fn model(&self) -> Gpt {
        self.model.valid()
    }

    /// The mean loss over `batches` batches of held-out text, spread evenly over it; all of it at most.
    pub fn held_out(&self, batches: usize) -> f64 {
        let (model, device) = (self.model.valid(), self.device.clone().inner());
        let loss = CrossEntropyLossConfig::new().init(&device);
        let whole = (self.text.held_out.len() - 1) / self.context;
        let count = (batches * self.batch_size).clamp(1, whole);
        let starts: Vec<usize> = (0..count).map(|at| at * whole / count * self.context).collect();
        let sums: Vec<Tensor<1>> = starts
            .chunks(self.batch_size)
            .map(|starts| {
                let batch = windows(&self.text.held_out, starts, self.context, &device);
                mean_loss(&model, &loss, batch) * starts.len() as f64
            })
            .collect();
        Tensor::cat(sums, 0).sum().into_scalar::<f64>() / count as f64
    }
}

fn mean_loss(model: &Gpt, loss: &CrossEntropyLoss, batch: Batch) -> Tensor<1> {
    let logits = model.forward(batch.input);
    loss.forward(logits.flatten(0, 1), batch.target.flatten(0, 1))
}

/// Rises linearly, then falls along half a cosine (Loshchilov and Hutter: SGDR, 2017).
fn learning_rate(step: usize, steps: usize) -> f64 {
    let warm_up = WARM_UP.min(steps / 10);
    if step < warm_up {
        return LEARNING_RATE * (step + 1) as f64 / (warm_up + 1) as f64;
    }
    let done = (step - warm_up) as f64 / (steps - warm_up) as f64;
    LEARNING_RATE * (FINAL_RATE + (1.0 - FINAL_RATE) * 0.5 * (1.0 + (PI * done).cos()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Size;

    #[test]
    fn the_rate_rises_and_falls() {
        let rates: Vec<f64> = (0..1000).map(|step| learning_rate(step, 1000)).collect();
        assert!(rates[..=50].windows(2).all(|pair| pair[0] < pair[1]));
        assert!(rates[50..].windows(2).all(|pair| pair[0] > pair[1]));
        assert_eq!(rates[50], LEARNING_RATE);
        assert!(rates[0] > 0.0 && rates[999] < 0.051 * LEARNING_RATE);
        assert_eq!(learning_rate(0, 1), LEARNING_RATE);
    }

    /// A text of two words can be learned by heart.
    #[test]
    fn it_learns() {
        let run = Run {
            size: Size { context: 8, layers: 1, heads: 2, width: 16 },
            steps: 60,
            batch_size: 8,
            ..Run::default()
        };
        let text = Text::new(&"round ".repeat(40)).expect("few characters");
        let mut training = Training::new(&run, text, &Device::default()).expect("the text is long enough");
        let first = training.step().into_scalar::<f64>();
        for _ in 1..60 {
            training.step();
        }
        let held_out = training.held_out(1);
        // Six symbols, told at random at first: not far from ln 6.
        assert!((1.0..3.0).contains(&first), "{first}");
        assert!(held_out < 0.3 * first, "{held_out}");
    }

    #[test]
    fn a_short_text_is_refused() {
        let text = Text::new("a short text").expect("few characters");
        let error = Training::new(&Run::default(), text, &Device::default()).err();
        assert_eq!(error.as_deref(), Some("wanted 129 characters to train on and as many to test on, got 1"));
    }
}
