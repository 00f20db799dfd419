//! Attention as one call: `burn::tensor::module::attention`, which hands it to the backend whole.

use burn::tensor::Device;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;

use crate::numbers::Numbers;
use crate::workload::{Step, Workload, f32s, step};

const HEADS: usize = 8;
const LENGTH: usize = 512;
const WIDTH: usize = 64;

pub const WORKLOADS: &[Workload] = &[Workload {
    name: "attention",
    title: "attention 8×512×64, causal",
    reach: 1.5,
    bytes: f32s(4 * HEADS * LENGTH * WIDTH),
    // Two products a head, of whose scores causality leaves half.
    flops: (2 * 2 * HEADS * LENGTH * LENGTH * WIDTH / 2) as u64,
    tolerance: 1e-4,
    prepare: causal,
}];

fn causal(device: &Device) -> Step {
    let mut numbers = Numbers::new(41);
    let [q, k, v] = [(); 3].map(|()| numbers.tensor([1, HEADS, LENGTH, WIDTH], -1.0, 1.0, device));
    let options = AttentionModuleOptions { scale: None, softcap: None, is_causal: true };
    step(move || attention(q.clone(), k.clone(), v.clone(), None, None, options))
}
