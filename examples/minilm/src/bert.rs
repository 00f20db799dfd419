//! The network: BERT's encoder (Devlin and others, 2019). Knows nothing of files or text.

use burn::module::Module;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig};
use burn::tensor::{Device, Tensor};
use serde::Deserialize;

use crate::tokens::Tokens;

/// How large a network is: the entries of `config.json` that matter here.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Tokens in the vocabulary.
    pub vocab_size: usize,
    /// Features of a token inside the network.
    pub hidden_size: usize,
    /// Layers of the encoder.
    pub num_hidden_layers: usize,
    /// Heads of an attention; they divide the features.
    pub num_attention_heads: usize,
    /// Features of a layer's inner step.
    pub intermediate_size: usize,
    /// Tokens in the longest sequence.
    pub max_position_embeddings: usize,
    /// Kinds of token: of the first and of the second text.
    pub type_vocab_size: usize,
    /// What keeps a norm from dividing by 0.
    pub layer_norm_eps: f64,
    /// The non-linear function of a layer's inner step.
    pub hidden_act: String,
}

/// Token, position and kind added and normalised, then layers with norms after each step.
#[derive(Module, Debug)]
pub struct Bert {
    words: Embedding,
    positions: Embedding,
    kinds: Embedding,
    norm: LayerNorm,
    encoder: TransformerEncoder,
}

impl Bert {
    /// A network whose weights are still to be loaded.
    ///
    /// # Errors
    ///
    /// If the configuration asks for something that this network is not.
    pub fn new(config: &Config, device: &Device) -> Result<Self, String> {
        let Config { hidden_size, num_attention_heads, .. } = *config;
        if config.hidden_act != "gelu" {
            return Err(format!("hidden_act: wanted `gelu`, got `{}`", config.hidden_act));
        }
        if num_attention_heads == 0 || !hidden_size.is_multiple_of(num_attention_heads) {
            return Err(format!("{num_attention_heads} attention heads do not divide {hidden_size} features"));
        }
        let embedding = |count| EmbeddingConfig::new(count, hidden_size).init(device);
        let inner = config.intermediate_size;
        Ok(Self {
            words: embedding(config.vocab_size),
            positions: embedding(config.max_position_embeddings),
            kinds: embedding(config.type_vocab_size),
            norm: LayerNormConfig::new(hidden_size).with_epsilon(config.layer_norm_eps).init(device),
            encoder: TransformerEncoderConfig::new(hidden_size, inner, num_attention_heads, config.num_hidden_layers)
                .with_dropout(0.0)
                .with_layer_norm_eps(config.layer_norm_eps)
                .init(device),
        })
    }

    /// Features of each token, `[batch, length, features]`; those of padding mean nothing.
    pub fn forward(&self, tokens: &Tokens) -> Tensor<3> {
        let [_, length] = tokens.ids.dims();
        let positions = Tensor::arange(0..length as i64, &tokens.ids.device()).unsqueeze::<2>();
        let x = self.words.forward(tokens.ids.clone())
            + self.positions.forward(positions)
            + self.kinds.forward(tokens.kinds.clone());
        let input = TransformerEncoderInput::new(self.norm.forward(x)).mask_pad(tokens.padding.clone());
        self.encoder.forward(input)
    }
}
