//! Whether two programs computed the same: their digests, value by value, within a workload's tolerance.

use serde_json::Value;

/// The first difference, in words; `None` where the results agree.
///
/// A value may differ by `tolerance` times its own and the mean magnitude; a sum over `n` values by `tolerance` times the
/// sum of magnitudes.
pub fn difference(kiln: &Value, stock: &Value, tolerance: f64) -> Option<String> {
    if kiln["shape"] != stock["shape"] {
        return Some(format!("the shape is {}, stock's {}", kiln["shape"], stock["shape"]));
    }
    let empty = Vec::new();
    let samples = |digest: &'_ Value| digest["samples"].as_array().unwrap_or(&empty).clone();
    let (mine, theirs) = (samples(kiln), samples(stock));
    if mine.len() != theirs.len() || theirs.is_empty() {
        return Some(format!("{} samples, stock has {}", mine.len(), theirs.len()));
    }
    let mean = theirs.iter().filter_map(Value::as_f64).map(f64::abs).sum::<f64>() / theirs.len() as f64;
    for (at, (mine, theirs)) in mine.iter().zip(&theirs).enumerate() {
        let scale = theirs.as_f64().map_or(0.0, f64::abs) + mean;
        if let Some(told) = apart(mine, theirs, tolerance * scale) {
            return Some(format!("sample {at} {told}"));
        }
    }
    let magnitude = stock["magnitude"].as_f64().unwrap_or(0.0);
    ["sum", "magnitude", "weighted"]
        .iter()
        .find_map(|key| apart(&kiln[key], &stock[key], tolerance * magnitude).map(|told| format!("its {key} {told}")))
}

/// What is not finite is null in JSON, and equals only itself.
fn apart(mine: &Value, theirs: &Value, allowed: f64) -> Option<String> {
    let agree = match (mine.as_f64(), theirs.as_f64()) {
        (Some(mine), Some(theirs)) => (mine - theirs).abs() <= allowed,
        (mine, theirs) => mine.is_none() && theirs.is_none(),
    };
    (!agree).then(|| format!("is {mine}, stock's {theirs}, {allowed:.1e} apart allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn digest(samples: &[f64]) -> Value {
        let sum: f64 = samples.iter().sum();
        let magnitude: f64 = samples.iter().map(|value| value.abs()).sum();
        json!({ "shape": [samples.len()], "sum": sum, "magnitude": magnitude, "weighted": sum, "samples": samples })
    }

    #[test]
    fn rounding_is_let_through_and_errors_are_not() {
        let stock = digest(&[1.0, -2.0, 3.0]);
        assert_eq!(difference(&digest(&[1.000_001, -2.0, 3.0]), &stock, 1e-5), None);
        let told = difference(&digest(&[1.0, -2.0, 3.1]), &stock, 1e-5);
        assert!(told.is_some_and(|told| told.starts_with("sample 2 is 3.1, stock's 3.0")));
        assert!(difference(&digest(&[1.0, -2.0]), &stock, 1.0).is_some_and(|told| told.contains("shape")));
    }

    #[test]
    fn a_sum_tells_what_the_samples_missed() {
        let stock = digest(&[1.0, 2.0]);
        let mut mine = stock.clone();
        mine["weighted"] = json!(2.5);
        assert!(difference(&mine, &stock, 1e-3).is_some_and(|told| told.starts_with("its weighted is 2.5")));
    }

    #[test]
    fn nan_is_not_a_number() {
        let mut nan = digest(&[1.0, 2.0]);
        nan["samples"][0] = Value::Null;
        assert!(difference(&nan, &digest(&[1.0, 2.0]), 1.0).is_some());
        assert!(difference(&json!({}), &json!({}), 1.0).is_some(), "nothing agrees with nothing");
    }

    #[test]
    fn indices_are_compared_exactly() {
        assert!(difference(&digest(&[7.0]), &digest(&[8.0]), 0.0).is_some());
        assert_eq!(difference(&digest(&[7.0]), &digest(&[7.0]), 0.0), None);
    }
}
