//! Attention as one call: `burn::tensor::module::attention`, which hands it to the backend whole.

use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, FloatDType};

use crate::numbers::Numbers;
use crate::workload::{Step, Workload, f32s, halves, step};

/// Sizes of one call.
#[derive(Clone, Copy)]
struct Heads {
    batch: usize,
    heads: usize,
    length: usize,
    width: usize,
}

impl Heads {
    /// Numbers in the three operands and the result.
    const fn elements(self) -> usize {
        4 * self.batch * self.heads * self.length * self.width
    }

    /// Two products a head, of whose scores causality leaves half.
    const fn flops(self, causal: bool) -> u64 {
        let all = 2 * 2 * self.batch * self.heads * self.length * self.length * self.width;
        (if causal { all / 2 } else { all }) as u64
    }

    fn prepare(self, causal: bool, dtype: FloatDType, device: &Device) -> Step {
        let mut numbers = Numbers::new(41);
        let shape = [self.batch, self.heads, self.length, self.width];
        let [q, k, v] = [(); 3].map(|()| numbers.of(dtype, shape, -1.0, 1.0, device));
        let options = AttentionModuleOptions { scale: None, softcap: None, is_causal: causal };
        step(move || attention(q.clone(), k.clone(), v.clone(), None, None, options))
    }
}

const SMALL: Heads = Heads { batch: 1, heads: 8, length: 512, width: 64 };
const MIDDLE: Heads = Heads { batch: 4, heads: 32, length: 1024, width: 64 };
const LONG: Heads = Heads { batch: 4, heads: 32, length: 4096, width: 128 };

pub const WORKLOADS: &[Workload] = &[Workload {
    name: "attention",
    title: "attention 8×512×64, causal",
    reach: 1.5,
    bytes: f32s(SMALL.elements()),
    flops: SMALL.flops(true),
    tolerance: 1e-4,
    prepare: |device| SMALL.prepare(true, FloatDType::F32, device),
}];

pub const LARGE: &[Workload] = &[
    Workload::new(
        "attention/b4h32n1024d64-causal/bf16",
        "attention 4×32×1024×64 bf16, causal",
        halves(MIDDLE.elements()),
        |device| MIDDLE.prepare(true, FloatDType::BF16, device),
    )
    .computing(MIDDLE.flops(true)),
    Workload::new(
        "attention/b4h32n4096d128-causal/bf16",
        "attention 4×32×4096×128 bf16, causal",
        halves(LONG.elements()),
        |device| LONG.prepare(true, FloatDType::BF16, device),
    )
    .computing(LONG.flops(true)),
    Workload::new(
        "attention/b4h32n4096d128/bf16",
        "attention 4×32×4096×128 bf16",
        halves(LONG.elements()),
        |device| LONG.prepare(false, FloatDType::BF16, device),
    )
    .computing(LONG.flops(false)),
];
