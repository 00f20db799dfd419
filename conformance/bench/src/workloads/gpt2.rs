//! GPT-2 small out of burn-nn's modules, in bf16: separate projections for queries, keys and values, attention as one
//! call, the head tied to the embedding.

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, FloatDType, Int, Tensor, activation};

use crate::numbers::Numbers;
use crate::workload::{Step, Workload, halves, step};
use crate::workloads::gpt::{cast, fill};

const LAYERS: usize = 12;
const WIDTH: usize = 768;
const HEADS: usize = 12;
const VOCABULARY: usize = 50_304;
const CONTEXT: usize = 1024;
const LEARNING_RATE: f64 = 1e-4;
/// How far logits may lie apart after twelve layers whose every operation rounds to bf16, in another order each.
const LOGITS: f64 = 0.1;

const BLOCK_WEIGHTS: usize = LAYERS * (4 + 2 * 4) * WIDTH * WIDTH;
const HEAD_WEIGHTS: usize = WIDTH * VOCABULARY;

/// Every product of a forward pass; causality leaves half of the scores.
const fn forward_flops(batch: usize, length: usize) -> u64 {
    let weights = 2 * batch * length * (BLOCK_WEIGHTS + HEAD_WEIGHTS);
    (weights + LAYERS * batch * 2 * length * length * WIDTH) as u64
}

/// The weights and the logits.
const fn forward_bytes(batch: usize, length: usize) -> u64 {
    halves(BLOCK_WEIGHTS + HEAD_WEIGHTS + batch * length * VOCABULARY)
}

pub const LARGE: &[Workload] = &[
    Workload::new("gpt2-forward/8x1024/bf16", "GPT-2 small forward, 8×1024 bf16", forward_bytes(8, 1024), |device| {
        forward(8, 1024, device)
    })
    .computing(forward_flops(8, 1024))
    .within(LOGITS),
    Workload::new("gpt2-forward/1x128/bf16", "GPT-2 small forward, 1×128 bf16", forward_bytes(1, 128), |device| {
        forward(1, 128, device)
    })
    .computing(forward_flops(1, 128))
    .within(LOGITS),
    Workload::new(
        "gpt2-train/8x1024/bf16",
        "GPT-2 small training step (AdamW, cross-entropy), 8×1024 bf16",
        // A step reads and writes each weight and both of its moments.
        halves(6 * (BLOCK_WEIGHTS + HEAD_WEIGHTS)),
        |device| train(8, 1024, device),
    )
    // The backward pass has two products for each one of the forward pass.
    .computing(3 * forward_flops(8, 1024)),
];

#[derive(Module, Debug)]
struct Gpt2 {
    tokens: Embedding,
    positions: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

#[derive(Module, Debug)]
struct Block {
    attention_norm: LayerNorm,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    norm: LayerNorm,
    expand: Linear,
    contract: Linear,
}

impl Gpt2 {
    fn new(numbers: &mut Numbers, device: &Device) -> Self {
        let bare = Self {
            tokens: EmbeddingConfig::new(VOCABULARY, WIDTH).init(device),
            positions: EmbeddingConfig::new(CONTEXT, WIDTH).init(device),
            blocks: (0..LAYERS).map(|_| Block::new(device)).collect(),
            norm: LayerNormConfig::new(WIDTH).init(device),
        };
        cast(fill(bare, numbers, device), FloatDType::BF16)
    }

    /// Tokens `[batch, length]` to logits `[batch · length, VOCABULARY]`.
    fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<2> {
        let [batch, length] = tokens.dims();
        let places = Tensor::arange(0..length as i64, &tokens.device()).unsqueeze::<2>();
        let start = self.tokens.forward(tokens) + self.positions.forward(places);
        let x = self.blocks.iter().fold(start, |x, block| block.forward(x));
        let rows = self.norm.forward(x).reshape([batch * length, WIDTH]);
        rows.matmul(self.tokens.weight.val().transpose())
    }
}

impl Block {
    fn new(device: &Device) -> Self {
        let linear = |from, to| LinearConfig::new(from, to).init(device);
        Self {
            attention_norm: LayerNormConfig::new(WIDTH).init(device),
            query: linear(WIDTH, WIDTH),
            key: linear(WIDTH, WIDTH),
            value: linear(WIDTH, WIDTH),
            output: linear(WIDTH, WIDTH),
            norm: LayerNormConfig::new(WIDTH).init(device),
            expand: linear(WIDTH, 4 * WIDTH),
            contract: linear(4 * WIDTH, WIDTH),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, _] = x.dims();
        let heads = |x: Tensor<3>| x.reshape([batch, length, HEADS, WIDTH / HEADS]).swap_dims(1, 2);
        let h = self.attention_norm.forward(x.clone());
        let [q, k, v] = [&self.query, &self.key, &self.value].map(|linear| heads(linear.forward(h.clone())));
        let causal = AttentionModuleOptions { scale: None, softcap: None, is_causal: true };
        let seen = attention(q, k, v, None, None, causal).swap_dims(1, 2).reshape([batch, length, WIDTH]);
        let x = x + self.output.forward(seen);
        let inner = activation::gelu(self.expand.forward(self.norm.forward(x.clone())));
        x + self.contract.forward(inner)
    }
}

fn forward(batch: usize, length: usize, device: &Device) -> Step {
    let mut numbers = Numbers::new(61);
    let gpt = Gpt2::new(&mut numbers, device);
    let tokens = numbers.integers([batch, length], VOCABULARY as u64, device);
    step(move || gpt.forward(tokens.clone()))
}

fn train(batch: usize, length: usize, device: &Device) -> Step {
    let device = device.clone().autodiff();
    let mut numbers = Numbers::new(62);
    let mut gpt = Gpt2::new(&mut numbers, &device);
    let tokens = numbers.integers([batch, length], VOCABULARY as u64, &device);
    let targets = numbers.integers([batch * length], VOCABULARY as u64, &device);
    let loss = CrossEntropyLossConfig::new().init(&device);
    let mut optimizer = AdamWConfig::new().init();
    step(move || {
        let loss = loss.forward(gpt.forward(tokens.clone()), targets.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &gpt);
        gpt = optimizer.step(LEARNING_RATE, gpt.clone(), gradients);
        loss.inner()
    })
}
