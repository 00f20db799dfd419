//! The network. Knows nothing of training or data beyond their shapes.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

use crate::data::{CLASSES, SIDE};

const CHANNELS: [usize; 2] = [16, 32];
const HIDDEN: usize = 64;

/// Two blocks of convolution and batch norm, pooling, two linear layers.
#[derive(Module, Debug)]
pub struct Classifier {
    first: Block,
    second: Block,
    pool: MaxPool2d,
    hidden: Linear,
    dropout: Dropout,
    output: Linear,
}

impl Classifier {
    /// A network with fresh weights.
    pub fn new(device: &Device) -> Self {
        let pooled = SIDE / 2;
        Self {
            first: Block::new(1, CHANNELS[0], device),
            second: Block::new(CHANNELS[0], CHANNELS[1], device),
            pool: MaxPool2dConfig::new([2, 2]).init(),
            hidden: LinearConfig::new(CHANNELS[1] * pooled * pooled, HIDDEN).init(device),
            dropout: DropoutConfig::new(0.3).init(),
            output: LinearConfig::new(HIDDEN, CLASSES).init(device),
        }
    }

    /// `[batch, 1, SIDE, SIDE]` to logits `[batch, CLASSES]`.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.second.forward(self.first.forward(images));
        let x = self.dropout.forward(self.pool.forward(x).flatten(1, 3));
        let x = self.dropout.forward(relu(self.hidden.forward(x)));
        self.output.forward(x)
    }
}

/// Convolution, batch norm, ReLU; height and width stay.
#[derive(Module, Debug)]
struct Block {
    conv: Conv2d,
    norm: BatchNorm,
}

impl Block {
    fn new(channels_in: usize, channels_out: usize, device: &Device) -> Self {
        Self {
            // The norm subtracts the mean, so a bias before it would have no effect.
            conv: Conv2dConfig::new([channels_in, channels_out], [3, 3])
                .with_padding(PaddingConfig2d::Same)
                .with_bias(false)
                .init(device),
            norm: BatchNormConfig::new(channels_out).init(device),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        relu(self.norm.forward(self.conv.forward(x)))
    }
}
