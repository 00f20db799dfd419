//! Calls that random programs make of what networks are built from, beyond products and convolutions.

use burn_tensor::activation;
use burn_tensor::module;
use burn_tensor::ops::{AttentionModuleOptions, ConvTransposeOptions, UnfoldOptions};

use super::{Maker, Sized};

impl Maker {
    pub(super) fn transposed_convolution(&mut self, x: Sized) -> Option<Sized> {
        let channels = x.tensor.dims()[1];
        let kernel = [1 + self.below(3), 1 + self.below(3)];
        let stride = [1 + self.below(2), 1 + self.below(2)];
        let out = [0, 1].map(|i| self.below(stride[i]));
        let groups = if channels.is_multiple_of(2) && self.draws.one_in(2) { 2 } else { 1 };
        let features = 1 + self.below(2);
        let weight = self.leaf([channels, features, kernel[0], kernel[1]]);
        let bias = if self.draws.one_in(2) { Some(self.vector(features * groups)) } else { None };
        self.name = format!("{kernel:?} stride {stride:?} padded by {out:?} groups {groups}");
        let options = ConvTransposeOptions::new(stride, [0, 0], out, [1, 1], groups);
        let terms = (channels / groups * kernel[0] * kernel[1]) as f64;
        Some(Sized {
            tensor: module::conv_transpose2d(x.tensor, weight, bias, options),
            size: x.size * 2.0 * terms + 2.0,
        })
    }

    /// The tensor as queries of given keys and values.
    pub(super) fn attention(&mut self, x: Sized) -> Option<Sized> {
        let [batch, heads, queries, width] = x.tensor.dims();
        let keys = queries + self.below(3);
        let features = 1 + self.below(5);
        let (k, v) = (self.leaf([batch, heads, keys, width]), self.leaf([batch, heads, keys, features]));
        let mask = if self.draws.one_in(2) { Some(self.bools([batch, heads, queries, keys])) } else { None };
        let is_causal = self.draws.one_in(2);
        self.name = format!("{keys} keys, masked {}, causal {is_causal}", mask.is_some());
        let options = AttentionModuleOptions { is_causal, ..AttentionModuleOptions::default() };
        Some(Sized { tensor: module::attention(x.tensor, k, v, mask, None, options), size: 2.0 })
    }

    pub(super) fn adaptive_pooling(&mut self, x: Sized) -> Option<Sized> {
        let to = [1 + self.below(6), 1 + self.below(6)];
        self.name = format!("{to:?}");
        Some(Sized { tensor: module::adaptive_avg_pool2d(x.tensor, to), size: x.size })
    }

    pub(super) fn gated(&mut self, x: Sized) -> Option<Sized> {
        let dims = x.tensor.dims();
        let axis = (0..4).find(|&axis| dims[axis].is_multiple_of(2))?;
        self.name = format!("{axis}");
        Some(Sized { tensor: activation::glu(x.tensor, axis), size: x.size })
    }

    pub(super) fn windows(&mut self, x: Sized) -> Option<Sized> {
        let [batch, channels, height, width] = x.tensor.dims();
        let kernel = [1 + self.below(height.min(3)), 1 + self.below(width.min(3))];
        let stride = [1 + self.below(2), 1 + self.below(2)];
        self.name = format!("{kernel:?} stride {stride:?}");
        let columns = module::unfold4d(x.tensor, kernel, UnfoldOptions::new(stride, [0, 0], [1, 1]));
        let count = columns.dims()[2];
        let tensor = columns.reshape([batch, channels, kernel[0] * kernel[1], count]);
        Some(Sized { tensor, size: x.size })
    }

    /// Orders of given numbers, of which no two are equal.
    pub(super) fn ordered(&mut self, x: Sized) -> Option<Sized> {
        let axis = self.below(4);
        let leaf = self.leaf(x.tensor.dims());
        let (name, tensor) = match self.below(3) {
            0 => ("cummax", leaf.cummax(axis)),
            1 => ("cummin", leaf.cummin(axis)),
            _ => ("sort", leaf.sort(axis)),
        };
        self.name = format!("{name} {axis}");
        // What is given has the size of what it replaces, which takes part all the same.
        Some(Sized { tensor: tensor + x.tensor, size: x.size + 2.0 })
    }
}
