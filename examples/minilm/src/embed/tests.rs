//! A model of two layers with eight features, in the files that a published one has.

use std::fs;

use serde_json::json;

use super::*;
use crate::tokens::tests::TOKENIZER;

const FEATURES: usize = 8;

/// Names as in the published file, with shapes.
fn tensors() -> Vec<(String, Vec<usize>)> {
    let mut list = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![7, FEATURES]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![12, FEATURES]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, FEATURES]),
        ("embeddings.LayerNorm.weight".to_owned(), vec![FEATURES]),
        ("embeddings.LayerNorm.bias".to_owned(), vec![FEATURES]),
        ("pooler.dense.bias".to_owned(), vec![FEATURES]),
    ];
    for layer in 0..2 {
        let mut add = |name: &str, weight: &[usize]| {
            list.push((format!("encoder.layer.{layer}.{name}.weight"), weight.to_vec()));
            list.push((format!("encoder.layer.{layer}.{name}.bias"), weight[..1].to_vec()));
        };
        for name in ["self.query", "self.key", "self.value", "output.dense"] {
            add(&format!("attention.{name}"), &[FEATURES, FEATURES]);
        }
        add("attention.output.LayerNorm", &[FEATURES]);
        add("intermediate.dense", &[16, FEATURES]);
        add("output.dense", &[FEATURES, 16]);
        add("output.LayerNorm", &[FEATURES]);
    }
    list
}

/// The safetensors format: the header's length, the header, the numbers.
fn safetensors(tensors: &[(String, Vec<usize>)]) -> Vec<u8> {
    let (mut header, mut numbers) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in tensors {
        let start = numbers.len();
        for at in 0..shape.iter().product() {
            // Anything that differs from place to place; a norm's scales stay around 1.
            let wave = (at as f32 * 1.7 + name.len() as f32).sin();
            let value = if name.ends_with("LayerNorm.weight") { 1.0 + 0.1 * wave } else { 0.5 * wave };
            numbers.extend(value.to_le_bytes());
        }
        header.insert(name.clone(), json!({"dtype": "F32", "shape": shape, "data_offsets": [start, numbers.len()]}));
    }
    let header = serde_json::Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &numbers].concat()
}

fn config() -> serde_json::Value {
    json!({
        "vocab_size": 7, "hidden_size": FEATURES, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 12, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        "hidden_act": "gelu"
    })
}

fn folder(config: &serde_json::Value, weights: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("the folder for tests is writable");
    let put = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join(name), bytes).expect("the folder for tests is writable");
    };
    put("config.json", config.to_string().as_bytes());
    put("tokenizer.json", TOKENIZER.as_bytes());
    put("model.safetensors", weights);
    folder
}

fn load(config: &serde_json::Value, weights: &[u8]) -> Result<Embedder, String> {
    Embedder::load(folder(config, weights).path(), &Device::default())
}

fn refused(config: &serde_json::Value, weights: &[u8]) -> String {
    load(config, weights).err().expect("it must not load")
}

fn close(x: &[f32], y: &[f32]) -> bool {
    x.len() == y.len() && x.iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-5)
}

#[test]
fn a_sentences_vector_is_its_own() {
    let embedder = load(&config(), &safetensors(&tensors())).expect("the files are whole");
    let sentences = ["a b c a", "a", "b c", "c"];
    let together = embedder.embed(&sentences, 4).expect("the sentences are plain");
    let alone = embedder.embed(&sentences, 1).expect("the sentences are plain");
    for (at, (x, y)) in together.iter().zip(&alone).enumerate() {
        assert!(close(x, y), "sentence {at}: {x:?} with others, {y:?} alone");
        assert!((x.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }
    assert!(!close(&together[1], &together[3]));
}

#[test]
fn a_mean_leaves_padding_out() {
    let device = Device::default();
    let features = Tensor::<3>::from_floats([[[1.0, 2.0], [3.0, 6.0], [f32::MAX, 100.0]]], &device);
    let padding = Tensor::<2, Bool>::from_bool([[false, false, true]], &device);
    let read = |tensor: Tensor<2>| tensor.into_data().iter::<f32>().collect::<Vec<_>>();
    assert_eq!(read(mean(features, padding)), [2.0, 4.0]);
    assert_eq!(read(unit_length(Tensor::from_floats([[3.0, 4.0], [0.0, 0.0]], &device))), [0.6, 0.8, 0.0, 0.0]);
}

#[test]
fn a_missing_tensor_is_named() {
    let mut tensors = tensors();
    tensors.retain(|(name, _)| !name.starts_with("encoder.layer.1.output.dense"));
    let error = refused(&config(), &safetensors(&tensors));
    assert!(error.contains("model.safetensors: it has no tensor for `encoder.layers.1.pwff.linear_outer."), "{error}");
    assert!(error.ends_with("(and 1 more)"), "{error}");
}

#[test]
fn a_wrong_shape_is_named_with_both_shapes() {
    let mut tensors = tensors();
    tensors[1].1 = vec![10, FEATURES];
    let error = refused(&config(), &safetensors(&tensors));
    assert!(error.contains("positions.weight") && error.contains("12, 8") && error.contains("10, 8"), "{error}");
}

#[test]
fn a_damaged_file_is_refused() {
    let whole = safetensors(&tensors());
    for length in [0, 4, 100, whole.len() - 1] {
        let error = refused(&config(), &whole[..length]);
        assert!(error.contains("model.safetensors: "), "{length} bytes: {error}");
    }
    let error = refused(&config(), b"<html>not found</html>");
    assert!(error.contains("model.safetensors: "), "{error}");
}

#[test]
fn a_configuration_that_does_not_fit_is_refused() {
    let weights = safetensors(&tensors());
    let with = |key: &str, value: serde_json::Value| {
        let mut config = config();
        config[key] = value;
        refused(&config, &weights)
    };
    assert!(with("hidden_act", json!("relu")).ends_with("config.json: hidden_act: wanted `gelu`, got `relu`"));
    assert!(with("num_attention_heads", json!(3)).ends_with("3 attention heads do not divide 8 features"));
    assert!(with("hidden_size", json!("wide")).contains("config.json: invalid type"));
}
