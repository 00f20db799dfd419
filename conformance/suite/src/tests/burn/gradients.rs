//! Gradients of an attention in 16 bits, which on a GPU are kernels of their own, against those in f32, which are none.

use burn_tensor::module::attention;
use burn_tensor::ops::AttentionModuleOptions;
use burn_tensor::{Bool, Device, FloatDType, Tensor, TensorData};

use super::{kiln, values};
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[test!(attentions_in_16_bits_have_the_gradients_of_f32)];

/// Batch, heads, queries, keys, and the widths of a row of `k` and of `v`.
type Extents = [usize; 6];

/// Extents that no tile divides, and some that all do; more keys than queries, and the other way round.
const EXTENTS: [Extents; 4] =
    [[2, 3, 33, 65, 24, 40], [1, 2, 150, 90, 64, 64], [1, 1, 128, 256, 64, 64], [1, 2, 70, 70, 128, 128]];

/// How far rows that each round to a type may lie apart, as a part of the largest.
const TYPES: [(FloatDType, f32); 2] = [(FloatDType::F16, 1.0 / 64.0), (FloatDType::BF16, 1.0 / 8.0)];

/// Multiples of 1/32 in [−1, 1], which every type holds exactly.
fn numbers<const D: usize>(shape: [usize; D], seed: usize, device: &Device) -> Tensor<D> {
    let number = |i: usize| ((i * 7919 + seed * 104_729) * 48_271 % 2_147_483_647 % 65) as f32 / 32.0 - 1.0;
    let all: Vec<f32> = (0..shape.iter().product()).map(number).collect();
    Tensor::from_data(TensorData::new(all, shape), device)
}

/// The result and the gradients of `q`, `k` and `v` of an attention, heads lying between rows as projections leave them.
fn trained(extents: Extents, dtype: FloatDType, options: AttentionModuleOptions, masked: bool) -> [Vec<f32>; 4] {
    let device = kiln().autodiff();
    let [batch, heads, queries, keys, width, columns] = extents;
    let factor = |rows: usize, width: usize, seed: usize| {
        numbers([batch, rows, heads, width], seed, &device).cast(dtype).detach().require_grad()
    };
    let (q, k, v) = (factor(queries, width, 1), factor(keys, width, 2), factor(keys, columns, 3));
    let hides = |i: usize| i / keys == 3 || (i * 37 + 11).is_multiple_of(5);
    let mask: Vec<bool> = (0..queries * keys).map(hides).collect();
    let mask = Tensor::<2, Bool>::from_data(TensorData::new(mask, [queries, keys]), &device);
    let mask = mask.unsqueeze::<4>().expand([batch, heads, queries, keys]);
    let of_heads = |x: &Tensor<4>| x.clone().swap_dims(1, 2);
    let result = attention(of_heads(&q), of_heads(&k), of_heads(&v), masked.then_some(mask), None, options);
    let given = numbers([batch, heads, queries, columns], 4, &device).cast(dtype);
    let gradients = (result.clone() * given).sum().backward();
    let of = |x: Tensor<4>| values(x.grad(&gradients).expect("it has a gradient"));
    [values(result), of(q), of(k), of(v)]
}

fn attentions_in_16_bits_have_the_gradients_of_f32() {
    for extents in EXTENTS {
        for (is_causal, masked, softcap) in
            [(false, false, None), (true, false, None), (false, true, None), (true, true, Some(2.0))]
        {
            let options = AttentionModuleOptions { scale: None, softcap, is_causal };
            let wanted = trained(extents, FloatDType::F32, options, masked);
            for (dtype, tolerance) in TYPES {
                let got = trained(extents, dtype, options, masked);
                for ((got, wanted), name) in got.iter().zip(&wanted).zip(["result", "of q", "of k", "of v"]) {
                    let most = wanted.iter().fold(0.25f32, |most, x| most.max(x.abs()));
                    for (i, (x, y)) in got.iter().zip(wanted).enumerate() {
                        let what = format!("{extents:?} {options:?} {masked} {dtype:?}, {name}, element {i}");
                        assert!((x - y).abs() <= tolerance * most, "{what}: {x}, wanted {y}, most {most}");
                    }
                }
            }
        }
    }
}
