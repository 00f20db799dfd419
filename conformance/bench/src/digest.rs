//! What is kept of a result to compare it with another backend's: sums over all of it and values spread over it.

use burn::tensor::{Int, Tensor, TensorData};
use serde_json::{Value, json};

/// Values kept of a result, at most.
const SAMPLES: usize = 1024;

/// Values that sums go over, at most; of a longer result, evenly spread ones.
const SUMMED: usize = 32 << 20;

/// What a workload computed.
pub trait Outcome {
    /// The values, read from the device.
    fn data(self: Box<Self>) -> TensorData;
}

impl<const D: usize> Outcome for Tensor<D> {
    fn data(self: Box<Self>) -> TensorData {
        self.into_data()
    }
}

impl<const D: usize> Outcome for Tensor<D, Int> {
    fn data(self: Box<Self>) -> TensorData {
        self.into_data()
    }
}

/// `shape`, `sum`, `magnitude` (the sum of absolute values), `weighted` (a sum that sees order) and `samples`.
pub fn digest(data: TensorData) -> Value {
    let shape: Vec<usize> = data.shape().to_vec();
    let every = shape.iter().product::<usize>().div_ceil(SUMMED).max(1);
    let values: Vec<f64> = data.iter::<f64>().step_by(every).collect();
    let (mut sum, mut magnitude, mut weighted) = (0.0, 0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        sum += value;
        magnitude += value.abs();
        // Weights of both signs with a prime period: two exchanged or shifted runs do not cancel out.
        weighted += value * ((at % 127) as f64 - 63.0) / 63.0;
    }
    let step = values.len().div_ceil(SAMPLES).max(1) | 1;
    let samples: Vec<f64> = values.iter().copied().step_by(step).chain(values.last().copied()).collect();
    // JSON has no NaN: `null` stands for what is not finite.
    json!({ "shape": shape, "sum": sum, "magnitude": magnitude, "weighted": weighted, "samples": samples })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_counts() {
        let digest_of = |values: Vec<f32>| digest(TensorData::new(values, [5000]));
        let values: Vec<f32> = (0..5000).map(|at| (at as f32).sin()).collect();
        let plain = digest_of(values.clone());
        let mut swapped = values.clone();
        swapped.swap(1, 3);
        assert_ne!(plain["weighted"], digest_of(swapped)["weighted"]);
        let mut other = values;
        other[4321] += 1.0;
        assert_ne!(plain["sum"], digest_of(other)["sum"]);
    }

    #[test]
    fn what_is_not_finite_shows() {
        let with_nan = digest(TensorData::new(vec![1.0f32, f32::NAN], [2]));
        assert!(with_nan["sum"].is_null() && with_nan["samples"][1].is_null());
    }
}
