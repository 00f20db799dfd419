//! Loads a network from the folder of a published model: `config.json` and `model.safetensors`.

use std::fs;
use std::path::Path;

use burn::store::{ApplyResult, KeyRemapper, ModuleSnapshot, PyTorchToBurnAdapter, SafetensorsStore};
use burn::tensor::Device;

use crate::bert::{Bert, Config};

/// What a layer's tensors are called in the file, after `encoder.layer.N.`, and here, after `encoder.layers.N.`.
const LAYER_NAMES: [(&str, &str); 6] = [
    (r"attention\.self\.(query|key|value)", "mha.$2"),
    (r"attention\.output\.dense", "mha.output"),
    (r"attention\.output\.LayerNorm", "norm_1"),
    (r"intermediate\.dense", "pwff.linear_inner"),
    (r"output\.dense", "pwff.linear_outer"),
    (r"output\.LayerNorm", "norm_2"),
];

/// The same for what comes before the layers.
const NAMES: [(&str, &str); 5] = [
    // Some files name the network first.
    (r"^bert\.", ""),
    (r"^embeddings\.word_embeddings\.", "words."),
    (r"^embeddings\.position_embeddings\.", "positions."),
    (r"^embeddings\.token_type_embeddings\.", "kinds."),
    (r"^embeddings\.LayerNorm\.", "norm."),
];

/// Reads the network in `folder`.
///
/// # Errors
///
/// Names the file, and the tensor that is missing or has another shape than the configuration says.
pub fn load(folder: &Path, device: &Device) -> Result<(Config, Bert), String> {
    let file = folder.join("config.json");
    let config = read_config(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut bert = Bert::new(&config, device).map_err(|error| format!("{}: {error}", file.display()))?;

    let file = folder.join("model.safetensors");
    let names = names().map_err(|error| error.to_string())?;
    let mut store = SafetensorsStore::from_file(&file)
        .remap(names)
        // Its linear layers lie transposed, and its norms name their parameters otherwise.
        .with_from_adapter(PyTorchToBurnAdapter)
        // Both are reported below, in fewer words.
        .validate(false)
        .allow_partial(true);
    let applied = bert.load_from(&mut store).map_err(|error| format!("{}: {error}", file.display()))?;
    complete(&applied).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok((config, bert))
}

fn read_config(file: &Path) -> Result<Config, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn names() -> Result<KeyRemapper, String> {
    let layers = LAYER_NAMES
        .map(|(from, to)| (format!(r"^encoder\.layer\.(\d+)\.{from}\."), format!("encoder.layers.$1.{to}.")));
    let others = NAMES.map(|(from, to)| (from.to_owned(), to.to_owned()));
    KeyRemapper::from_patterns(others.into_iter().chain(layers).collect()).map_err(|error| error.to_string())
}

/// Every tensor of the network was loaded; the file may hold more.
fn complete(applied: &ApplyResult) -> Result<(), String> {
    if let Some(error) = applied.errors.first() {
        return Err(format!("{error} (and {} more)", applied.errors.len() - 1));
    }
    if let Some((path, _)) = applied.missing.first() {
        return Err(format!("it has no tensor for `{path}` (and {} more)", applied.missing.len() - 1));
    }
    Ok(())
}
