//! Networks of the examples: `digits` learns to read, and `minilm`'s gives what another backend gives.

use burn_tensor::{Bool, Device, Int, Tensor, TensorData};
use kiln_bench::numbers::Numbers;
use kiln_bench::workloads::fill;
use minilm::{Bert, Config, Tokens};

use super::burn::reference;
use crate::DEVICE;
use crate::test::{COMPILED, Test, test};

pub const TESTS: &[Test] =
    &[test!(digits_are_learned).wants(&COMPILED), test!(a_sentence_encoder_agrees_with_another_backend)];

/// A guess is right once in ten times.
fn digits_are_learned() {
    let run = digits::Run { epochs: 3, ..digits::Run::default() };
    let outcome = digits::train(&run).expect("the images in the package are whole");
    assert!(outcome.accuracy > 0.9, "{}", outcome.accuracy);
}

/// Three sentences of several lengths, the shorter ones padded.
fn encoded(device: &Device) -> Vec<f32> {
    let config = Config {
        vocab_size: 50,
        hidden_size: 32,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        intermediate_size: 64,
        max_position_embeddings: 16,
        type_vocab_size: 2,
        layer_norm_eps: 1e-12,
        hidden_act: "gelu".into(),
    };
    let lengths = [11, 5, 1];
    let shape = [lengths.len(), 11];
    let mut numbers = Numbers::new(71);
    let bert = fill(Bert::new(&config, device).expect("four heads divide 32"), &mut numbers, device);
    let padding: Vec<bool> = lengths.iter().flat_map(|&length| (0..11).map(move |at| at >= length)).collect();
    let tokens = Tokens {
        ids: numbers.integers(shape, 50, device),
        kinds: Tensor::<2, Int>::zeros(shape, device),
        padding: Tensor::<2, Bool>::from_data(TensorData::new(padding.clone(), shape), device),
    };
    let features = bert.forward(&tokens).into_data_as::<f32>().try_to_vec::<f32>().expect("they were converted");
    // What stands for padding means nothing.
    features.chunks(32).zip(&padding).filter(|(_, padding)| !**padding).flat_map(|(token, _)| token.to_vec()).collect()
}

fn a_sentence_encoder_agrees_with_another_backend() {
    let (kiln, other) = (encoded(&Device::new(DEVICE)), encoded(&reference()));
    assert_eq!(kiln.len(), other.len());
    for (at, (x, y)) in kiln.iter().zip(&other).enumerate() {
        assert!((x - y).abs() < 1e-5 * y.abs().max(1.0), "component {at}: {x}, {y} on the other");
    }
}
