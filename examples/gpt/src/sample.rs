//! Writing: the model's own text, one symbol after another.

use burn::tensor::{Device, Int, Tensor, TensorData, activation};

use crate::model::Gpt;
use crate::random::Random;

/// How freely to write.
#[derive(Debug, Clone, PartialEq)]
pub struct Style {
    /// How many symbols.
    pub length: usize,
    /// Divides the logits: below 1 likely symbols become likelier.
    pub temperature: f64,
}

/// Continues `prompt`; returns the symbols written.
pub fn write(model: &Gpt, prompt: &[u8], style: &Style, random: &mut Random, device: &Device) -> Vec<u8> {
    let mut symbols = prompt.to_vec();
    for _ in 0..style.length {
        let seen = &symbols[symbols.len().saturating_sub(model.context())..];
        symbols.push(draw(&next(model, seen, style.temperature, device), random));
    }
    symbols.split_off(prompt.len())
}

/// The probability of each symbol to come after those seen.
fn next(model: &Gpt, seen: &[u8], temperature: f64, device: &Device) -> Vec<f32> {
    let ids: Vec<i32> = seen.iter().map(|&symbol| i32::from(symbol)).collect();
    let input: Tensor<2, Int> = Tensor::from_data(TensorData::new(ids, [1, seen.len()]), device);
    let logits = model.forward(input);
    let [_, length, vocabulary] = logits.dims();
    let last = logits.slice([0..1, length - 1..length]).reshape([vocabulary]);
    activation::softmax(last / temperature, 0).into_data().iter::<f32>().collect()
}

/// An index, drawn by the weights.
fn draw(weights: &[f32], random: &mut Random) -> u8 {
    let total: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    let mut left = random.unit() * total;
    let chosen = weights.iter().position(|&weight| {
        left -= f64::from(weight);
        left < 0.0
    });
    // Rounding may leave a rest beyond the last weight.
    chosen.unwrap_or(weights.len() - 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Size;

    #[test]
    fn symbols_are_drawn_by_their_weights() {
        let mut random = Random::new(5);
        let mut counts = [0; 3];
        for _ in 0..4000 {
            counts[usize::from(draw(&[1.0, 0.0, 3.0], &mut random))] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((900..1100).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn it_writes_on_when_the_context_is_full() {
        let device = Device::default();
        let model = Gpt::new(&Size { context: 4, layers: 1, heads: 1, width: 8 }, 3, 1, &device);
        let style = Style { length: 7, temperature: 1.0 };
        let write = |seed| write(&model, &[1, 2], &style, &mut Random::new(seed), &device);
        assert_eq!(write(1).len(), 7);
        assert_eq!(write(1), write(1));
        assert!(write(1).iter().all(|&symbol| symbol < 3));
    }
}
