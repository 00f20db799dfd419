//! A small GPT out of burn-nn's modules: its forward pass, and a training step with AdamW.

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::attention::generate_autoregressive_mask;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, FloatDType, Int, Tensor};

use crate::numbers::Numbers;
use crate::workload::{Step, Workload, f32s, step};

const LAYERS: usize = 4;
const WIDTH: usize = 256;
const HEADS: usize = 8;
const VOCABULARY: usize = 8192;
const BATCH: usize = 2;
const LENGTH: usize = 128;
const LEARNING_RATE: f64 = 1e-3;

/// Weights of the blocks' products: four of attention, two of the feed-forward part.
const BLOCK_WEIGHTS: usize = LAYERS * (4 + 2 * 4) * WIDTH * WIDTH;
const HEAD_WEIGHTS: usize = WIDTH * VOCABULARY;
/// Every product of the forward pass: the weights over all tokens, and scores and context of each head.
const FORWARD_FLOPS: u64 =
    2 * (BATCH * LENGTH * (BLOCK_WEIGHTS + HEAD_WEIGHTS) + LAYERS * BATCH * 2 * LENGTH * LENGTH * WIDTH) as u64;
/// What is read of the embedding are its tokens' rows.
const WEIGHTS: usize = BLOCK_WEIGHTS + HEAD_WEIGHTS;

pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "gpt-forward",
        title: "GPT (4 layers, 256, 8 heads, vocabulary 8192) forward, 2×128",
        reach: 1.5,
        bytes: f32s(WEIGHTS + BATCH * LENGTH * VOCABULARY),
        flops: FORWARD_FLOPS,
        tolerance: 1e-3,
        prepare: forward,
    },
    Workload {
        name: "gpt-train",
        title: "GPT training step (AdamW, cross-entropy), 2×128",
        reach: 1.5,
        // A step reads and writes each weight and both of its moments; the embedding has a gradient everywhere.
        bytes: f32s(6 * (WEIGHTS + VOCABULARY * WIDTH)),
        // The backward pass has two products for each one of the forward pass.
        flops: 3 * FORWARD_FLOPS,
        tolerance: 1e-3,
        prepare: train,
    },
];

#[derive(Module, Debug)]
struct Gpt {
    tokens: Embedding,
    positions: Embedding,
    blocks: TransformerEncoder,
    norm: LayerNorm,
    head: Linear,
}

impl Gpt {
    fn new(numbers: &mut Numbers, device: &Device) -> Self {
        let blocks = TransformerEncoderConfig::new(WIDTH, 4 * WIDTH, HEADS, LAYERS)
            .with_dropout(0.0)
            .with_norm_first(true)
            .init(device);
        let gpt = Self {
            tokens: EmbeddingConfig::new(VOCABULARY, WIDTH).init(device),
            positions: EmbeddingConfig::new(LENGTH, WIDTH).init(device),
            blocks,
            norm: LayerNormConfig::new(WIDTH).init(device),
            head: LinearConfig::new(WIDTH, VOCABULARY).with_bias(false).init(device),
        };
        fill(gpt, numbers, device)
    }

    /// Tokens `[batch, length]` to logits `[batch, length, VOCABULARY]`.
    fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let [batch, length] = tokens.dims();
        let device = tokens.device();
        let places = Tensor::arange(0..length as i64, &device).unsqueeze::<2>();
        let x = self.tokens.forward(tokens) + self.positions.forward(places);
        let mask = generate_autoregressive_mask(batch, length, &device);
        let x = self.blocks.forward(TransformerEncoderInput::new(x).mask_attn(mask));
        self.head.forward(self.norm.forward(x))
    }
}

fn forward(device: &Device) -> Step {
    let mut numbers = Numbers::new(51);
    let gpt = Gpt::new(&mut numbers, device);
    let tokens = numbers.integers([BATCH, LENGTH], VOCABULARY as u64, device);
    step(move || gpt.forward(tokens.clone()))
}

/// Each iteration is the next step: what is compared is the loss after those of the warm-up.
fn train(device: &Device) -> Step {
    let device = device.clone().autodiff();
    let mut numbers = Numbers::new(52);
    let mut gpt = Gpt::new(&mut numbers, &device);
    let tokens = numbers.integers([BATCH, LENGTH], VOCABULARY as u64, &device);
    let targets = numbers.integers([BATCH * LENGTH], VOCABULARY as u64, &device);
    let loss = CrossEntropyLossConfig::new().init(&device);
    let mut optimizer = AdamWConfig::new().init();
    step(move || {
        let logits = gpt.forward(tokens.clone()).reshape([BATCH * LENGTH, VOCABULARY]);
        let loss = loss.forward(logits, targets.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &gpt);
        gpt = optimizer.step(LEARNING_RATE, gpt.clone(), gradients);
        loss.inner()
    })
}

/// A module's numbers in another type.
pub fn cast<M: Module>(module: M, dtype: FloatDType) -> M {
    struct Cast(FloatDType);
    impl ModuleMapper for Cast {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|old| {
                let wants = old.is_require_grad();
                // A parameter begins where it is: its gradient does not go through the cast.  What is detached still wants
                // one.
                old.detach().set_require_grad(false).cast(self.0).set_require_grad(wants)
            })
        }
    }
    module.map(&mut Cast(dtype))
}

/// Replaces what a module drew at random by numbers that are the same on every backend. Norms keep their ones and zeros.
pub fn fill<M: Module>(module: M, numbers: &mut Numbers, device: &Device) -> M {
    struct Fill<'a> {
        numbers: &'a mut Numbers,
        device: &'a Device,
        inside: Vec<String>,
    }
    impl ModuleMapper for Fill<'_> {
        fn enter_module(&mut self, _: &str, container: &str) {
            self.inside.push(container.to_owned());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.inside.pop();
        }
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            if self.inside.last().is_some_and(|container| container.ends_with("LayerNorm")) {
                return param;
            }
            param.map(|old| {
                // Of the size that an initialiser would choose: ±1/√(inputs).
                let shape: [usize; D] = old.dims();
                let inputs = if D == 1 { shape[0] } else { shape.iter().product::<usize>() / shape[D - 1] };
                let most = 1.0 / (inputs as f32).sqrt().min(64.0);
                // `map` keeps what the parameter is wanted for, and not what its tensor is.
                self.numbers.tensor(shape, -most, most, self.device).set_require_grad(old.is_require_grad())
            })
        }
    }
    module.map(&mut Fill { numbers, device, inside: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A training step that leaves its weights alone measures half of one.
    #[test]
    fn what_is_filled_and_cast_is_still_learned() {
        let device = Device::default().autodiff();
        let linear = LinearConfig::new(3, 2).init(&device);
        let linear = cast(fill(linear, &mut Numbers::new(1), &device), FloatDType::BF16);
        let x = Numbers::new(2).of(FloatDType::BF16, [4, 3], 0.5, 1.0, &device);
        let gradients = GradientsParams::from_grads(linear.forward(x.clone()).sum().backward(), &linear);
        assert_eq!(gradients.len(), 2);
        // Norms are cast as they are.
        let norm = cast(LayerNormConfig::new(3).init(&device), FloatDType::BF16);
        let gradients = GradientsParams::from_grads(norm.forward(x).sum().backward(), &norm);
        assert_eq!(gradients.len(), 2);
    }
}
