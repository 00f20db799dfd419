//! What recording costs a user's thread, operation by operation: the forward pass of a small transformer, written out of
//! primitives, recorded again and again, so that its plan and its kernels are known.  The clock runs while operations are
//! recorded and their operands dropped; running them is waited for outside of it.

use std::io::Write;
use std::time::Instant;

use burn_backend::ops::FloatTensorOps;
use burn_backend::{Scalar, Shape, TensorData};
use burn_kiln::{Kiln, KilnDevice, KilnTensor, inspect, record};

const ROUNDS: usize = 500;
const BATCH: usize = 2;
const LENGTH: usize = 8;
const HEADS: usize = 2;
const WIDTH: usize = 16;
const LAYERS: usize = 2;

fn data(dims: &[usize]) -> KilnTensor {
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|at| (at % 13) as f32 / 26.0 - 0.25).collect();
    record::from_data(TensorData::new(values, dims), &KilnDevice::Cpu)
}

struct Layer {
    norms: [[KilnTensor; 2]; 2],
    /// Query, key, value, output; their biases.
    attention: [(KilnTensor, KilnTensor); 4],
    up: (KilnTensor, KilnTensor),
    down: (KilnTensor, KilnTensor),
}

impl Layer {
    fn new() -> Layer {
        let norm = || [data(&[1, 1, WIDTH]), data(&[1, 1, WIDTH])];
        let linear = |from: usize, to: usize| (data(&[1, from, to]), data(&[1, 1, to]));
        Layer {
            norms: [norm(), norm()],
            attention: [(); 4].map(|()| linear(WIDTH, WIDTH)),
            up: linear(WIDTH, 4 * WIDTH),
            down: linear(4 * WIDTH, WIDTH),
        }
    }

    fn forward(&self, x: KilnTensor) -> KilnTensor {
        let n = norm(x.clone(), &self.norms[0]);
        let [q, k, v] = [0, 1, 2].map(|at| heads(linear(n.clone(), &self.attention[at])));
        let scores = Kiln::float_matmul(q, Kiln::float_swap_dims(k, 2, 3));
        let scores = Kiln::float_mul_scalar(scores, Scalar::Float(0.125));
        let most = Kiln::float_max_dim(scores.clone(), 3);
        let e = Kiln::float_exp(Kiln::float_sub(scores, most));
        let weights = Kiln::float_div(e.clone(), Kiln::float_sum_dim(e, 3));
        let context = Kiln::float_swap_dims(Kiln::float_matmul(weights, v), 1, 2);
        let context = Kiln::float_reshape(context, Shape::from([BATCH, LENGTH, WIDTH]));
        let x = Kiln::float_add(x, linear(context, &self.attention[3]));
        let h = linear(norm(x.clone(), &self.norms[1]), &self.up);
        let inner = Kiln::float_erf(Kiln::float_mul_scalar(h.clone(), Scalar::Float(std::f64::consts::FRAC_1_SQRT_2)));
        let h = Kiln::float_mul(h, Kiln::float_add_scalar(inner, Scalar::Float(1.0)));
        Kiln::float_add(x, linear(Kiln::float_mul_scalar(h, Scalar::Float(0.5)), &self.down))
    }
}

fn norm(x: KilnTensor, [gamma, beta]: &[KilnTensor; 2]) -> KilnTensor {
    let mean = Kiln::float_mean_dim(x.clone(), 2);
    let centred = Kiln::float_sub(x, mean);
    let variance = Kiln::float_mean_dim(Kiln::float_mul(centred.clone(), centred.clone()), 2);
    let deviation = Kiln::float_sqrt(Kiln::float_add_scalar(variance, Scalar::Float(1e-5)));
    let normal = Kiln::float_div(centred, deviation);
    Kiln::float_add(Kiln::float_mul(normal, gamma.clone()), beta.clone())
}

fn linear(x: KilnTensor, (weight, bias): &(KilnTensor, KilnTensor)) -> KilnTensor {
    Kiln::float_add(Kiln::float_matmul(x, weight.clone()), bias.clone())
}

fn heads(x: KilnTensor) -> KilnTensor {
    let x = Kiln::float_reshape(x, Shape::from([BATCH, LENGTH, HEADS, WIDTH / HEADS]));
    Kiln::float_swap_dims(x, 1, 2)
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Median microseconds of recording `run` once, and of recording and running it.
fn measure(run: &dyn Fn() -> KilnTensor) -> (f64, f64) {
    let sync = || record::sync(&KilnDevice::Cpu).expect("no operation fails");
    let mut times: [Vec<f64>; 2] = Default::default();
    for round in 0..ROUNDS + 20 {
        let started = Instant::now();
        let y = run();
        let recorded = started.elapsed().as_secs_f64();
        sync();
        drop(y);
        if round >= 20 {
            times[0].push(recorded * 1e6);
            times[1].push(started.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.each_mut().iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    (times[0][ROUNDS / 2], times[1][ROUNDS / 2])
}

fn main() {
    let device = KilnDevice::Cpu;
    let report = |name: &str, run: &dyn Fn() -> KilnTensor| {
        let before = inspect::counts(&device).ops;
        drop(run());
        let ops = (inspect::counts(&device).ops - before) as f64;
        let (recording, all) = measure(run);
        say(&format!(
            "{name:<34} {ops:>4} operations: {:.3} us each to record, {:.3} us each with running",
            recording / ops,
            all / ops
        ));
    };
    let layers: Vec<Layer> = (0..LAYERS).map(|_| Layer::new()).collect();
    let x = data(&[BATCH, LENGTH, WIDTH]);
    report("transformer, two layers", &|| layers.iter().fold(x.clone(), |x, layer| layer.forward(x)));
    report("additions of one operand", &|| (0..100).fold(x.clone(), |y, _| Kiln::float_add(y, x.clone())));
    report("multiplications by a number", &|| {
        (0..100).fold(x.clone(), |y, _| Kiln::float_mul_scalar(y, Scalar::Float(1.01)))
    });
    report("transposes", &|| (0..100).fold(x.clone(), |y, _| Kiln::float_swap_dims(y, 1, 2)));
}
