//! The network. Knows nothing of training or text beyond their shapes.

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, generate_autoregressive_mask};
use burn::nn::{Embedding, EmbeddingConfig, Gelu, Initializer, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use crate::random::Random;

/// The inner layer of a block is so many times as wide as the others.
const EXPANSION: usize = 4;

/// How large a network is.
#[derive(Debug, Clone, PartialEq)]
pub struct Size {
    /// The longest sequence.
    pub context: usize,
    /// Blocks.
    pub layers: usize,
    /// Heads of an attention; they divide the width.
    pub heads: usize,
    /// Features of a symbol inside the network.
    pub width: usize,
}

/// A transformer that tells the next symbol from those before it, with norms ahead of each step as in GPT-2.
#[derive(Module, Debug)]
pub struct Gpt {
    symbols: Embedding,
    positions: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Gpt {
    /// A network with fresh weights: the same ones for the same seed, whatever the device.
    pub fn new(size: &Size, vocabulary: usize, seed: u64, device: &Device) -> Self {
        let embedding =
            |count| EmbeddingConfig::new(count, size.width).with_initializer(Initializer::Zeros).init(device);
        let bare = Self {
            symbols: embedding(vocabulary),
            positions: embedding(size.context),
            blocks: (0..size.layers).map(|_| Block::new(size, device)).collect(),
            norm: LayerNormConfig::new(size.width).init(device),
            head: linear(size.width, vocabulary, device),
        };
        bare.map(&mut Fill { random: Random::new(seed) })
    }

    /// `[batch, length]` symbols to logits `[batch, length, vocabulary]` of the symbol after each.
    pub fn forward(&self, input: Tensor<2, Int>) -> Tensor<3> {
        let [batch, length] = input.dims();
        let device = input.device();
        let positions = Tensor::arange(0..length as i64, &device).unsqueeze::<2>();
        let mut x = self.symbols.forward(input) + self.positions.forward(positions);
        let future = generate_autoregressive_mask(batch, length, &device);
        for block in &self.blocks {
            x = block.forward(x, future.clone());
        }
        self.head.forward(self.norm.forward(x))
    }

    /// The longest sequence that the network can read.
    pub fn context(&self) -> usize {
        let [context, _] = self.positions.weight.shape().dims();
        context
    }
}

/// Attention, then two linear layers for each symbol by itself; both add to what they read.
#[derive(Module, Debug)]
struct Block {
    attention_norm: LayerNorm,
    attention: MultiHeadAttention,
    norm: LayerNorm,
    expand: Linear,
    activation: Gelu,
    contract: Linear,
}

impl Block {
    fn new(size: &Size, device: &Device) -> Self {
        Self {
            attention_norm: LayerNormConfig::new(size.width).init(device),
            attention: MultiHeadAttentionConfig::new(size.width, size.heads)
                .with_dropout(0.0)
                .with_initializer(Initializer::Zeros)
                .init(device),
            norm: LayerNormConfig::new(size.width).init(device),
            expand: linear(size.width, EXPANSION * size.width, device),
            activation: Gelu::new(),
            contract: linear(EXPANSION * size.width, size.width, device),
        }
    }

    fn forward(&self, x: Tensor<3>, future: Tensor<3, Bool>) -> Tensor<3> {
        let seen = MhaInput::self_attn(self.attention_norm.forward(x.clone())).mask_attn(future);
        let x = x + self.attention.forward(seen).context;
        let inner = self.activation.forward(self.expand.forward(self.norm.forward(x.clone())));
        x + self.contract.forward(inner)
    }
}

fn linear(from: usize, to: usize, device: &Device) -> Linear {
    LinearConfig::new(from, to).with_initializer(Initializer::Zeros).init(device)
}

/// Draws every matrix of a module, with variance 1/rows, so that a product with it keeps the variance of what it is
/// applied to. Vectors (biases, scales of norms) stay what they are.
struct Fill {
    random: Random,
}

impl ModuleMapper for Fill {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if D < 2 {
            return param;
        }
        param.map(|old| {
            let shape = old.shape();
            let spread = (shape[0] as f64).sqrt().recip();
            let weights: Vec<f32> = (0..shape.num_elements()).map(|_| (spread * self.random.normal()) as f32).collect();
            let weights = Tensor::from_data(TensorData::new(weights, shape), &old.device());
            weights.set_require_grad(old.is_require_grad())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { context: 8, layers: 2, heads: 2, width: 16 };

    fn logits(model: &Gpt, symbols: &[i32]) -> Vec<f32> {
        let input = TensorData::new(symbols.to_vec(), [1, symbols.len()]);
        let input = Tensor::from_data(input, &Device::default());
        model.forward(input).into_data().iter::<f32>().collect()
    }

    #[test]
    fn a_symbol_is_not_told_by_those_after_it() {
        let model = Gpt::new(&SIZE, 5, 1, &Device::default());
        let (short, long) = (logits(&model, &[1, 2, 3]), logits(&model, &[1, 2, 3, 4, 0]));
        assert_eq!((short.len(), long.len()), (15, 25));
        for (at, (x, y)) in short.iter().zip(&long).enumerate() {
            assert!((x - y).abs() < 1e-6, "logit {at}: {x} and {y}");
        }
        assert_ne!(logits(&model, &[1, 2, 3])[10..], logits(&model, &[2, 2, 3])[10..]);
    }

    #[test]
    fn weights_repeat_for_a_seed() {
        let weights = |seed| logits(&Gpt::new(&SIZE, 5, seed, &Device::default()), &[3]);
        assert_eq!(weights(1), weights(1));
        assert_ne!(weights(1), weights(2));
    }

    #[test]
    fn the_context_is_the_number_of_positions() {
        assert_eq!(Gpt::new(&SIZE, 5, 1, &Device::default()).context(), 8);
    }
}
