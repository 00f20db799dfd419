//! The text: unpacked, written in numbers, cut into windows. Knows tensors only where a batch is made.

use std::io::Read;

use burn::tensor::{Device, Int, Tensor, TensorData};
use flate2::read::GzDecoder;

const FILE: &str = "data/northanger-abbey.txt.gz";
static PACKED: &[u8] = include_bytes!("../data/northanger-abbey.txt.gz");
/// One part in so many, at the end of the text, is held out.
const HELD_OUT: usize = 10;

/// The characters of a text, each with a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Alphabet {
    /// In ascending order.
    characters: Vec<char>,
}

/// A text in numbers.
#[derive(Debug, Clone)]
pub struct Text {
    /// What the numbers mean.
    pub alphabet: Alphabet,
    /// What is learned from.
    pub train: Vec<u8>,
    /// What the learned is tested on.
    pub held_out: Vec<u8>,
}

/// Windows of a text as the model takes them.
pub struct Batch {
    /// `[batch, length]`
    pub input: Tensor<2, Int>,
    /// `[batch, length]`: for each symbol the one after it.
    pub target: Tensor<2, Int>,
}

impl Alphabet {
    /// All characters that occur.
    ///
    /// # Errors
    ///
    /// If there are more than 256 different ones.
    pub fn of(text: &str) -> Result<Self, String> {
        let characters: Vec<char> = text.chars().collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        match characters.len() {
            0..=256 => Ok(Self { characters }),
            many => Err(format!("wanted at most 256 different characters, got {many}")),
        }
    }

    /// How many characters there are.
    pub fn len(&self) -> usize {
        self.characters.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.characters.is_empty()
    }

    /// A text as numbers.
    ///
    /// # Errors
    ///
    /// Names the first character that the alphabet lacks.
    pub fn encode(&self, text: &str) -> Result<Vec<u8>, String> {
        text.chars()
            .map(|c| match self.characters.binary_search(&c) {
                Ok(symbol) => Ok(symbol as u8),
                Err(_) => Err(format!("the text that is learned from has no {c:?}")),
            })
            .collect()
    }

    /// Numbers as a text.
    pub fn decode(&self, symbols: &[u8]) -> String {
        symbols.iter().filter_map(|&symbol| self.characters.get(usize::from(symbol))).collect()
    }
}

impl Text {
    /// The novel that is part of the package.
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    pub fn load() -> Result<Self, String> {
        let mut text = String::new();
        GzDecoder::new(PACKED).read_to_string(&mut text).map_err(|error| format!("{FILE}: {error}"))?;
        Self::new(&text).map_err(|error| format!("{FILE}: {error}"))
    }

    /// Splits a text; its last tenth is held out.
    ///
    /// # Errors
    ///
    /// Those of [`Alphabet::of`].
    pub fn new(text: &str) -> Result<Self, String> {
        let alphabet = Alphabet::of(text)?;
        let mut train = alphabet.encode(text)?;
        let held_out = train.split_off(train.len() - train.len() / HELD_OUT);
        Ok(Self { alphabet, train, held_out })
    }
}

/// The windows of `length` symbols that begin at `starts`. Each needs one symbol more, for the last target.
pub fn windows(symbols: &[u8], starts: &[usize], length: usize, device: &Device) -> Batch {
    let ids = |shift: usize| {
        let symbols = starts.iter().flat_map(|start| &symbols[start + shift..start + shift + length]);
        let ids: Vec<i32> = symbols.map(|&symbol| i32::from(symbol)).collect();
        Tensor::from_data(TensorData::new(ids, [starts.len(), length]), device)
    };
    Batch { input: ids(0), target: ids(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_novel_is_whole() {
        let text = Text::load().expect("the file in the package is whole");
        assert_eq!(text.alphabet.len(), 74);
        assert_eq!(text.train.len() + text.held_out.len(), 431_896);
        assert_eq!(text.held_out.len(), 43_189);
        assert!(
            text.alphabet.decode(&text.train).starts_with("CHAPTER 1\n\nNo one who had ever seen Catherine Morland")
        );
        assert!(text.alphabet.decode(&text.held_out).ends_with("reward filial disobedience.\n"));
    }

    #[test]
    fn encoding_is_undone_by_decoding() {
        let alphabet = Alphabet::of("to be or not to be").expect("few characters");
        let symbols = alphabet.encode("not or").expect("all known");
        assert_eq!(alphabet.decode(&symbols), "not or");
        assert_eq!(alphabet.encode("bee!"), Err("the text that is learned from has no '!'".into()));
    }

    #[test]
    fn a_target_is_the_next_symbol() {
        let device = Device::default();
        let symbols: Vec<u8> = (0..10).collect();
        let batch = windows(&symbols, &[0, 6], 3, &device);
        assert_eq!(batch.input.dims(), [2, 3]);
        let read = |tensor: Tensor<2, Int>| tensor.into_data().iter::<i64>().collect::<Vec<_>>();
        assert_eq!(read(batch.input), [0, 1, 2, 6, 7, 8]);
        assert_eq!(read(batch.target), [1, 2, 3, 7, 8, 9]);
    }
}
