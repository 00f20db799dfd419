//! Random programs of the tensor API, with gradients.  A program is a function of its seed: the same calls on any device.
//!
//! What rounding could turn into something else stays out: comparisons and indices are taken from given data, and values
//! are scaled so that none grows.

mod layers;

use burn_tensor::activation;
use burn_tensor::module;
use burn_tensor::ops::{AvgPoolOptions, ConvOptions, MaxPoolOptions};
use burn_tensor::{Bool, Device, FloatDType, IndexingUpdateOp, Int, Slice, Tensor, TensorData};
use kiln_lowering::graph::arbitrary::Draws;

/// What a program computed.
pub struct Outcome {
    /// Call and value of each step.
    pub values: Vec<(String, TensorData)>,
    /// Gradients of the given tensors.
    pub gradients: Vec<TensorData>,
}

/// A tensor with a bound on the size of its elements.
#[derive(Clone)]
struct Sized {
    tensor: Tensor<4>,
    size: f64,
}

struct Maker {
    draws: Draws,
    device: Device,
    dtype: FloatDType,
    leaves: Vec<Tensor<4>>,
    pool: Vec<Sized>,
    name: String,
}

type Make = fn(&mut Maker, Sized) -> Option<Sized>;

const MAKERS: &[(&str, Make)] = &[
    ("unary", Maker::unary),
    ("unary", Maker::unary),
    ("binary", Maker::binary),
    ("binary", Maker::binary),
    ("scalar", Maker::scalar),
    ("reduce", Maker::reduce),
    ("movement", Maker::movement),
    ("movement", Maker::movement),
    ("slice", Maker::slice),
    ("join", Maker::join),
    ("matmul", Maker::matmul),
    ("softmax", Maker::softmax),
    ("select", Maker::select),
    ("assign", Maker::assign),
    ("mask", Maker::mask),
    ("convolution", Maker::convolution),
    ("pooling", Maker::pooling),
    ("norm", Maker::norm),
    ("transposed convolution", Maker::transposed_convolution),
    ("attention", Maker::attention),
    ("adaptive pooling", Maker::adaptive_pooling),
    ("gated", Maker::gated),
    ("windows", Maker::windows),
    ("ordered", Maker::ordered),
];

/// Runs the program of a seed in f32: `steps` calls, then a backward pass from a weighted sum of what nobody used.
pub fn run(seed: u64, steps: usize, device: &Device) -> Outcome {
    run_in(FloatDType::F32, seed, steps, device)
}

/// Likewise, on floats of some type.
pub fn run_in(dtype: FloatDType, seed: u64, steps: usize, device: &Device) -> Outcome {
    let device = device.clone().autodiff();
    let (leaves, pool, name) = Default::default();
    let mut m = Maker { draws: Draws::new(seed), device, dtype, leaves, pool, name };
    let dims =
        [1 + m.draws.below(3), 1 + m.draws.below(4), 1 + m.draws.below(9), 1 + m.draws.below(9)].map(|n| n as usize);
    let first = m.leaf(dims);
    m.pool.push(Sized { tensor: first, size: 2.0 });
    let mut values = Vec::new();
    let mut made = 0;
    for _ in 0..steps * 10 {
        if made == steps {
            break;
        }
        let late = m.draws.below(m.pool.len() as u64).max(m.draws.below(m.pool.len() as u64));
        let x = m.pool[late as usize].clone();
        let (kind, make) = *m.draws.pick(MAKERS);
        m.name.clear();
        let from = x.tensor.dims();
        if let Some(mut y) = make(&mut m, x).filter(|y| y.tensor.shape().num_elements() <= 4000) {
            if y.size > 4.0 {
                y = Sized { tensor: y.tensor.mul_scalar(2.0 / y.size), size: 2.0 };
            }
            values.push((format!("{kind} {} of {from:?}", m.name), y.tensor.clone()));
            m.pool.push(y);
            made += 1;
        }
    }
    let mut loss: Option<Tensor<1>> = None;
    for x in m.pool.clone() {
        let weight = m.data(x.tensor.dims());
        let part = (x.tensor * weight).sum();
        loss = Some(loss.map_or(part.clone(), |sum| sum + part));
    }
    let gradients = loss.expect("a pool is never empty").backward();
    let gradients = m.leaves.iter().filter_map(|leaf| leaf.grad(&gradients)).map(Tensor::into_data).collect();
    Outcome { values: values.into_iter().map(|(name, x)| (name, x.into_data())).collect(), gradients }
}

impl Maker {
    fn numbers(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| (self.draws.fraction() * 4.0 - 2.0) as f32).collect()
    }

    /// Given numbers in [−2, 2].
    fn data(&mut self, dims: [usize; 4]) -> Tensor<4> {
        let values = self.numbers(dims.iter().product());
        Tensor::<4>::from_data(TensorData::new(values, dims), &self.device).cast(self.dtype)
    }

    /// Likewise, with a gradient wanted.
    fn leaf(&mut self, dims: [usize; 4]) -> Tensor<4> {
        let leaf = self.data(dims).require_grad();
        self.leaves.push(leaf.clone());
        leaf
    }

    fn vector(&mut self, n: usize) -> Tensor<1> {
        let leaf = self.leaf([1, 1, 1, n]);
        leaf.reshape([n])
    }

    fn below(&mut self, n: usize) -> usize {
        self.draws.below(n as u64) as usize
    }

    /// Indices below `bound`.
    fn indices<const D: usize>(&mut self, dims: [usize; D], bound: usize) -> Tensor<D, Int> {
        let values: Vec<i64> = (0..dims.iter().product()).map(|_| self.below(bound) as i64).collect();
        Tensor::from_data(TensorData::new(values, dims), &self.device)
    }

    fn bools(&mut self, dims: [usize; 4]) -> Tensor<4, Bool> {
        let values: Vec<bool> = (0..dims.iter().product()).map(|_| self.draws.one_in(3)).collect();
        Tensor::from_data(TensorData::new(values, dims), &self.device)
    }

    fn unary(&mut self, x: Sized) -> Option<Sized> {
        let (t, size) = (x.tensor, x.size);
        let (name, tensor, size): (&str, Tensor<4>, f64) = match self.below(20) {
            0 => ("exp", t.clamp(-3.0, 2.0).exp(), 8.0),
            1 => ("sin", t.sin(), 1.0),
            2 => ("cos", t.cos(), 1.0),
            3 => ("tanh", t.tanh(), 1.0),
            4 => ("sigmoid", activation::sigmoid(t), 1.0),
            5 => ("relu", activation::relu(t), size),
            // The other backend takes the gradient of another function for that of GELU.
            6 => ("mish", activation::mish(t), size),
            7 => ("erf", t.erf(), 1.0),
            8 => ("sqrt", (t.square() + 0.5).sqrt(), size + 1.0),
            9 => ("log", (t.square() + 0.5).log(), 3.0 + size),
            10 => ("log1p", t.square().log1p(), 3.0 + size),
            11 => ("recip", (t.square() + 0.5).recip(), 2.0),
            12 => ("square", t.square(), size * size),
            13 => ("neg", t.neg(), size),
            14 => ("abs", t.abs(), size),
            15 => ("softplus", activation::softplus(t, 1.0), size + 1.0),
            16 => ("silu", activation::silu(t), size),
            17 => ("atan", t.atan(), 1.6),
            18 => ("powf", (t.square() + 0.5).powf_scalar(1.5), (size * size + 0.5).powf(1.5)),
            _ => ("leaky_relu", activation::leaky_relu(t, 0.1), size),
        };
        self.name = name.into();
        Some(Sized { tensor, size })
    }

    fn binary(&mut self, x: Sized) -> Option<Sized> {
        let dims = x.tensor.dims();
        let suiting: Vec<Sized> = self.pool.iter().filter(|y| y.tensor.dims() == dims).cloned().collect();
        let y = match self.draws.one_in(2) {
            true => self.draws.pick(&suiting).clone(),
            false => {
                let narrow = dims.map(|n| if self.draws.one_in(2) { 1 } else { n });
                Sized { tensor: self.leaf(narrow), size: 2.0 }
            }
        };
        let (name, tensor, size) = match self.below(5) {
            0 => ("add", x.tensor + y.tensor, x.size + y.size),
            1 => ("sub", x.tensor - y.tensor, x.size + y.size),
            2 => ("mul", x.tensor * y.tensor, x.size * y.size),
            3 => ("div", x.tensor / (y.tensor.square() + 0.5), x.size * 2.0),
            _ => ("add swapped", y.tensor + x.tensor, x.size + y.size),
        };
        self.name = name.into();
        Some(Sized { tensor, size })
    }

    fn scalar(&mut self, x: Sized) -> Option<Sized> {
        let c = self.draws.fraction() * 3.0 - 1.5;
        let (name, tensor, size) = match self.below(5) {
            0 => ("add", x.tensor.add_scalar(c), x.size + 1.5),
            1 => ("sub", x.tensor.sub_scalar(c), x.size + 1.5),
            2 => ("mul", x.tensor.mul_scalar(c), x.size * 1.5),
            3 => ("div", x.tensor.div_scalar(c.abs() + 0.5), x.size * 2.0),
            _ => ("clamp", x.tensor.clamp(-1.1, 0.9), 1.1),
        };
        self.name = format!("{name} {c}");
        Some(Sized { tensor, size })
    }

    fn reduce(&mut self, x: Sized) -> Option<Sized> {
        let axis = self.below(4);
        let n = x.tensor.dims()[axis] as f64;
        let (name, tensor, size) = match self.below(6) {
            0 => ("sum_dim", x.tensor.sum_dim(axis), x.size * n),
            1 => ("mean_dim", x.tensor.mean_dim(axis), x.size),
            2 => ("var_bias", x.tensor.var_bias(axis), x.size * x.size),
            3 => ("sum_dims", x.tensor.sum_dims(&[axis, (axis + 1) % 4]), x.size * n * 9.0),
            4 => ("cumsum", x.tensor.cumsum(axis), x.size * n),
            _ => ("mean", x.tensor.mean().reshape([1, 1, 1, 1]), x.size),
        };
        self.name = format!("{name} {axis}");
        Some(Sized { tensor, size })
    }

    fn movement(&mut self, x: Sized) -> Option<Sized> {
        let dims = x.tensor.dims();
        let (name, tensor) = match self.below(6) {
            0 => {
                let order = self.draws.order(4);
                ("permute", x.tensor.permute([order[0], order[1], order[2], order[3]]))
            }
            1 => ("swap_dims", x.tensor.swap_dims(1, 3)),
            2 => ("flip", x.tensor.flip([self.below(4)])),
            3 => ("repeat_dim", x.tensor.repeat_dim(self.below(4), 1 + self.draws.below(3) as usize)),
            4 => ("reshape", x.tensor.reshape([dims[1], dims[0], 1, dims[2] * dims[3]])),
            _ => ("roll_dim", x.tensor.roll_dim(1 + self.draws.below(2) as i64, self.below(4))),
        };
        self.name = name.into();
        Some(Sized { tensor, size: x.size })
    }

    fn slice(&mut self, x: Sized) -> Option<Sized> {
        let dims = x.tensor.dims();
        let axis = self.below(4);
        let start = self.below(dims[axis]);
        let len = 1 + self.below(dims[axis] - start);
        let step = [1, 1, 2, -1, -2][self.below(5)];
        let mut slices = [Slice::full(), Slice::full(), Slice::full(), Slice::full()];
        slices[axis] = Slice::new(start as isize, Some((start + len) as isize), step);
        self.name = format!("axis {axis} {start}..{} step {step}", start + len);
        Some(Sized { tensor: x.tensor.slice(slices), size: x.size })
    }

    fn join(&mut self, x: Sized) -> Option<Sized> {
        let axis = self.below(4);
        let mut dims = x.tensor.dims();
        dims[axis] = 1 + self.below(4);
        let other = self.leaf(dims);
        self.name = format!("cat {axis}");
        let parts = if self.draws.one_in(2) { vec![x.tensor, other] } else { vec![other.clone(), x.tensor, other] };
        Some(Sized { tensor: Tensor::cat(parts, axis), size: x.size.max(2.0) })
    }

    fn matmul(&mut self, x: Sized) -> Option<Sized> {
        let [b, c, m, k] = x.tensor.dims();
        let (b, c) = (if self.draws.one_in(2) { 1 } else { b }, if self.draws.one_in(2) { 1 } else { c });
        let n = 1 + self.below(9);
        let x_tensor = x.tensor;
        let (tensor, inner) = match self.draws.one_in(2) {
            true => (x_tensor.matmul(self.leaf([b, c, k, n])), k),
            // The transpose is a view.
            false => (self.leaf([b, c, m, n]).swap_dims(2, 3).matmul(x_tensor), m),
        };
        self.name = format!("with {n}");
        Some(Sized { tensor, size: x.size * 2.0 * inner as f64 })
    }

    fn softmax(&mut self, x: Sized) -> Option<Sized> {
        let axis = self.below(4);
        let log = self.draws.one_in(2);
        self.name = format!("{} {axis}", if log { "log_softmax" } else { "softmax" });
        Some(match log {
            true => Sized { tensor: activation::log_softmax(x.tensor, axis), size: 2.0 * x.size + 3.0 },
            false => Sized { tensor: activation::softmax(x.tensor, axis), size: 1.0 },
        })
    }

    fn select(&mut self, x: Sized) -> Option<Sized> {
        let axis = self.below(4);
        let mut dims = x.tensor.dims();
        let bound = dims[axis];
        dims[axis] = 1 + self.below(6);
        self.name = format!("axis {axis} {dims:?}");
        let tensor = match self.draws.one_in(2) {
            true => x.tensor.select(axis, self.indices([dims[axis]], bound)),
            false => x.tensor.gather(axis, self.indices(dims, bound)),
        };
        Some(Sized { tensor, size: x.size })
    }

    fn assign(&mut self, x: Sized) -> Option<Sized> {
        let axis = self.below(4);
        let whole = x.tensor.dims();
        let mut dims = whole;
        dims[axis] = 1 + self.below(whole[axis]);
        let values = self.leaf(dims);
        let (name, tensor) = match self.below(3) {
            0 => {
                let at = self.indices([dims[axis]], whole[axis]);
                ("select_assign", x.tensor.select_assign(axis, at, values, IndexingUpdateOp::Add))
            }
            1 => {
                let at = self.indices(dims, whole[axis]);
                ("scatter", x.tensor.scatter(axis, at, values, IndexingUpdateOp::Add))
            }
            _ => {
                let start = self.below(whole[axis] - dims[axis] + 1);
                let mut slices = [Slice::full(), Slice::full(), Slice::full(), Slice::full()];
                slices[axis] = Slice::new(start as isize, Some((start + dims[axis]) as isize), 1);
                ("slice_assign", x.tensor.slice_assign(slices, values))
            }
        };
        self.name = format!("{name} {axis}");
        Some(Sized { tensor, size: x.size + 2.0 * dims[axis] as f64 })
    }

    fn mask(&mut self, x: Sized) -> Option<Sized> {
        let dims = x.tensor.dims();
        let mask = self.bools(dims);
        let size = x.size.max(2.0);
        let tensor = match self.draws.one_in(2) {
            true => x.tensor.mask_fill(mask, 0.75),
            false => {
                let other = self.leaf(dims);
                x.tensor.mask_where(mask, other)
            }
        };
        Some(Sized { tensor, size })
    }

    fn convolution(&mut self, x: Sized) -> Option<Sized> {
        let [_, channels, height, width] = x.tensor.dims();
        let kernel = [1 + self.below(3), 1 + self.below(3)];
        let (stride, padding) = ([1 + self.below(2), 1 + self.below(2)], [self.below(2), self.below(2)]);
        let dilation = [1 + self.below(2), 1];
        let reach = [0, 1].map(|i| (kernel[i] - 1) * dilation[i] + 1);
        if height + 2 * padding[0] < reach[0] || width + 2 * padding[1] < reach[1] {
            return None;
        }
        let groups = if channels.is_multiple_of(2) && self.draws.one_in(2) { 2 } else { 1 };
        let out = groups * (1 + self.below(3));
        let weight = self.leaf([out, channels / groups, kernel[0], kernel[1]]);
        let bias = if self.draws.one_in(2) { Some(self.vector(out)) } else { None };
        self.name = format!("{kernel:?} stride {stride:?} padding {padding:?} dilation {dilation:?} groups {groups}");
        let tensor = module::conv2d(x.tensor, weight, bias, ConvOptions::new(stride, padding, dilation, groups));
        let terms = (channels / groups * kernel[0] * kernel[1]) as f64;
        Some(Sized { tensor, size: x.size * 2.0 * terms + 2.0 })
    }

    /// Averages of anything; maxima of given numbers, of which no two are equal.
    fn pooling(&mut self, x: Sized) -> Option<Sized> {
        let dims = x.tensor.dims();
        let kernel = [1 + self.below(2), 1 + self.below(3)];
        if dims[2] < kernel[0] || dims[3] < kernel[1] {
            return None;
        }
        let max = self.draws.one_in(2);
        self.name = format!("{} {kernel:?}", if max { "max" } else { "average" });
        let (tensor, size) = match max {
            true => (module::max_pool2d(self.leaf(dims), MaxPoolOptions::new(kernel)), 2.0),
            false => (module::avg_pool2d(x.tensor, AvgPoolOptions::new(kernel)), x.size),
        };
        Some(Sized { tensor, size })
    }

    fn norm(&mut self, x: Sized) -> Option<Sized> {
        let dims = x.tensor.dims();
        // Over one or two elements the variance may be next to nothing, and what is divided by it anything.
        if dims[3] < 4 {
            return None;
        }
        let (gamma, beta) = (self.vector(dims[3]), self.vector(dims[3]));
        self.name = "layer".into();
        let spread = self.leaf(dims);
        let tensor = module::layer_norm(x.tensor + spread, gamma, Some(beta), 1e-2);
        Some(Sized { tensor, size: 8.0 })
    }
}
