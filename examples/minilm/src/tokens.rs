//! Sentences to batches of tokens, padded to the longest of a batch.

use std::path::Path;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use tokenizers::{Encoding, PaddingParams, TruncationParams};

/// Cuts sentences into tokens.
pub struct Tokenizer {
    tokenizer: tokenizers::Tokenizer,
}

/// A batch of sentences as the model takes it.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// `[batch, length]`
    pub ids: Tensor<2, Int>,
    /// `[batch, length]`: which text a token belongs to; 0 here, where there is but one.
    pub kinds: Tensor<2, Int>,
    /// `[batch, length]`: true behind a sentence's end.
    pub padding: Tensor<2, Bool>,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`. Of a sentence with more than `longest` tokens the rest is dropped.
    ///
    /// # Errors
    ///
    /// Names the file.
    pub fn load(file: &Path, longest: usize) -> Result<Self, String> {
        let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        Self::from_bytes(&bytes, longest).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn from_bytes(bytes: &[u8], longest: usize) -> Result<Self, String> {
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| error.to_string())?;
        // The file may pad everything to one length; sentences of a batch need only be as long as its longest.
        let padding = PaddingParams { strategy: tokenizers::PaddingStrategy::BatchLongest, ..pad_token(&tokenizer) };
        let truncation = TruncationParams { max_length: longest, ..TruncationParams::default() };
        tokenizer.with_padding(Some(padding)).with_truncation(Some(truncation)).map_err(|error| error.to_string())?;
        Ok(Self { tokenizer })
    }

    /// How many tokens each sentence has, the two that mark its ends included.
    ///
    /// # Errors
    ///
    /// The tokenizer's own.
    pub fn lengths(&self, sentences: &[&str]) -> Result<Vec<usize>, String> {
        let length = |sentence: &&str| self.tokenizer.encode(*sentence, true).map(|encoding| mask_length(&encoding));
        sentences.iter().map(length).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    /// One batch.
    ///
    /// # Errors
    ///
    /// The tokenizer's own.
    pub fn batch(&self, sentences: &[&str], device: &Device) -> Result<Tokens, String> {
        let encodings = self.tokenizer.encode_batch(sentences.to_vec(), true).map_err(|error| error.to_string())?;
        let shape = [encodings.len(), encodings.first().map_or(0, Encoding::len)];
        let table = |of: fn(&Encoding) -> &[u32]| {
            let values: Vec<i32> = encodings.iter().flat_map(of).map(|&value| value as i32).collect();
            Tensor::<2, Int>::from_data(TensorData::new(values, shape), device)
        };
        Ok(Tokens {
            ids: table(Encoding::get_ids),
            kinds: table(Encoding::get_type_ids),
            padding: table(Encoding::get_attention_mask).equal_elem(0),
        })
    }
}

/// The padding of the file, else that of BERT.
fn pad_token(tokenizer: &tokenizers::Tokenizer) -> PaddingParams {
    tokenizer.get_padding().cloned().unwrap_or_default()
}

fn mask_length(encoding: &Encoding) -> usize {
    encoding.get_attention_mask().iter().filter(|&&kept| kept == 1).count()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Words of one letter, between `[CLS]` and `[SEP]`; pads to eight by itself.
    pub(crate) const TOKENIZER: &str = r#"{
        "version": "1.0",
        "truncation": null,
        "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null,
                    "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                               "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
        "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "//",
                  "max_input_chars_per_word": 100,
                  "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "b": 5, "c": 6}}
    }"#;

    fn tokenizer(longest: usize) -> Tokenizer {
        Tokenizer::from_bytes(TOKENIZER.as_bytes(), longest).expect("the text is a tokenizer")
    }

    #[test]
    fn a_batch_is_as_long_as_its_longest_sentence() {
        let tokens = tokenizer(16).batch(&["a", "a b c"], &Device::default()).expect("the sentences are plain");
        let ids: Vec<i64> = tokens.ids.into_data().iter().collect();
        assert_eq!(ids, [2, 4, 3, 0, 0, 2, 4, 5, 6, 3]);
        let padding: Vec<bool> = tokens.padding.into_data().iter().collect();
        assert_eq!(padding, [false, false, false, true, true, false, false, false, false, false]);
    }

    #[test]
    fn long_sentences_are_cut() {
        let tokenizer = tokenizer(4);
        assert_eq!(tokenizer.lengths(&["a", "a b c a b c"]), Ok(vec![3, 4]));
        let tokens = tokenizer.batch(&["a b c a b c"], &Device::default()).expect("the sentence is plain");
        assert_eq!(tokens.ids.into_data().iter::<i64>().collect::<Vec<_>>(), [2, 4, 5, 3]);
    }

    #[test]
    fn what_is_no_tokenizer_is_refused() {
        assert!(Tokenizer::from_bytes(b"{\"version\": 1", 8).is_err());
        let error = Tokenizer::load(Path::new("/nowhere/tokenizer.json"), 8).err().unwrap_or_default();
        assert!(error.starts_with("/nowhere/tokenizer.json: "), "{error}");
    }
}
