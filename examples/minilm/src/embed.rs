//! Sentences to vectors: the mean of a sentence's token features, scaled to length 1.

use std::path::Path;

use burn::tensor::{Bool, Device, Tensor};

use crate::bert::Bert;
use crate::tokens::Tokenizer;
use crate::weights;

/// Tokens of the longest sentence that this model was trained on (`sentence_bert_config.json`).
const LONGEST: usize = 256;

/// A tokenizer and a network that belong together.
pub struct Embedder {
    tokenizer: Tokenizer,
    bert: Bert,
    device: Device,
}

impl Embedder {
    /// Reads both from a model's folder.
    ///
    /// # Errors
    ///
    /// Names the file and what is wrong with it.
    pub fn load(folder: &Path, device: &Device) -> Result<Self, String> {
        let (config, bert) = weights::load(folder, device)?;
        let longest = LONGEST.min(config.max_position_embeddings);
        let tokenizer = Tokenizer::load(&folder.join("tokenizer.json"), longest)?;
        Ok(Self { tokenizer, bert, device: device.clone() })
    }

    /// How many tokens each sentence has.
    ///
    /// # Errors
    ///
    /// The tokenizer's own.
    pub fn lengths(&self, sentences: &[&str]) -> Result<Vec<usize>, String> {
        self.tokenizer.lengths(sentences)
    }

    /// A vector of length 1 for each sentence, in their order.
    ///
    /// # Errors
    ///
    /// Those of the tokenizer and of the device.
    pub fn embed(&self, sentences: &[&str], batch_size: usize) -> Result<Vec<Vec<f32>>, String> {
        // Sentences of like length share a batch, so that little of it is padding.
        let lengths = self.lengths(sentences)?;
        let mut order: Vec<usize> = (0..sentences.len()).collect();
        order.sort_by_key(|&at| lengths[at]);

        // All batches are asked for before the first is waited for.
        let batches: Vec<(&[usize], Tensor<2>)> = order
            .chunks(batch_size)
            .map(|chunk| {
                let batch: Vec<&str> = chunk.iter().map(|&at| sentences[at]).collect();
                let tokens = self.tokenizer.batch(&batch, &self.device)?;
                let features = self.bert.forward(&tokens);
                Ok((chunk, unit_length(mean(features, tokens.padding))))
            })
            .collect::<Result<_, String>>()?;
        let mut vectors = vec![Vec::new(); sentences.len()];
        for (chunk, batch) in batches {
            let [_, width] = batch.dims();
            let data = batch.try_into_data().map_err(|error| error.to_string())?;
            let values: Vec<f32> = data.iter().collect();
            for (&at, vector) in chunk.iter().zip(values.chunks(width)) {
                vectors[at] = vector.to_vec();
            }
        }
        Ok(vectors)
    }
}

/// The mean over each sentence's own tokens: `[batch, length, features]` to `[batch, features]`.
fn mean(features: Tensor<3>, padding: Tensor<2, Bool>) -> Tensor<2> {
    let weight = padding.bool_not().float().unsqueeze_dim::<3>(2);
    let sum = (features * weight.clone()).sum_dim(1);
    (sum / weight.sum_dim(1).clamp_min(1e-9)).squeeze_dim(1)
}

/// Divides each row by its Euclidean norm.
fn unit_length(rows: Tensor<2>) -> Tensor<2> {
    let norm = rows.clone().square().sum_dim(1).sqrt().clamp_min(1e-12);
    rows / norm
}

#[cfg(test)]
mod tests;
