//! Every activation function of the tensor API and its gradient against their definitions in f64, in every float type.

use burn_tensor::{FloatDType, Tensor, TensorData, activation as a};
use kiln_lowering::op::math::reference::erf;

use super::kiln;
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[
    test!(activations_are_their_definitions_in_every_type),
    test!(gradients_of_activations_are_their_derivatives),
    test!(gated_units_take_halves),
];

/// A function on tensors, what it is on numbers, and the points to leave out, where it has no derivative.
struct Activation {
    name: &'static str,
    call: fn(Tensor<2>) -> Tensor<2>,
    means: fn(f64) -> f64,
    kinks: &'static [f64],
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.exp().ln_1p()
}

const SELU: [f64; 2] = [1.673_263_242_354_377_2, 1.050_700_987_355_480_5];

const ALL: &[Activation] = &[
    Activation { name: "relu", call: a::relu, means: |x| x.max(0.0), kinks: &[0.0] },
    Activation { name: "relu6", call: a::relu6, means: |x| x.clamp(0.0, 6.0), kinks: &[0.0, 6.0] },
    Activation {
        name: "hardtanh",
        call: |x| a::hardtanh(x, -1.0, 1.5),
        means: |x| x.clamp(-1.0, 1.5),
        kinks: &[-1.0, 1.5],
    },
    Activation {
        name: "leaky_relu",
        call: |x| a::leaky_relu(x, 0.125),
        means: |x| if x < 0.0 { 0.125 * x } else { x },
        kinks: &[0.0],
    },
    Activation {
        name: "gelu",
        call: a::gelu,
        means: |x| x * 0.5 * (1.0 + erf(&[x * std::f64::consts::FRAC_1_SQRT_2])),
        kinks: &[],
    },
    Activation {
        name: "gelu_approximate",
        call: a::gelu_approximate,
        means: |x| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
        kinks: &[],
    },
    Activation { name: "sigmoid", call: a::sigmoid, means: sigmoid, kinks: &[] },
    Activation { name: "log_sigmoid", call: a::log_sigmoid, means: |x| -softplus(-x), kinks: &[] },
    Activation {
        name: "hard_sigmoid",
        call: |x| a::hard_sigmoid(x, 0.25, 0.5),
        means: |x| (0.25 * x + 0.5).clamp(0.0, 1.0),
        kinks: &[-2.0, 2.0],
    },
    Activation { name: "silu", call: a::silu, means: |x| x * sigmoid(x), kinks: &[] },
    Activation {
        name: "hard_swish",
        call: a::hard_swish,
        means: |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        kinks: &[-3.0, 3.0],
    },
    Activation { name: "mish", call: a::mish, means: |x| x * softplus(x).tanh(), kinks: &[] },
    Activation { name: "softplus", call: |x| a::softplus(x, 2.0), means: |x| softplus(2.0 * x) / 2.0, kinks: &[] },
    Activation { name: "tanh", call: a::tanh, means: f64::tanh, kinks: &[] },
    Activation { name: "tanhshrink", call: a::tanhshrink, means: |x| x - x.tanh(), kinks: &[] },
    Activation {
        name: "elu",
        call: |x| a::elu(x, 0.75),
        means: |x| if x > 0.0 { x } else { 0.75 * x.exp_m1() },
        kinks: &[0.0],
    },
    Activation {
        name: "celu",
        call: |x| a::celu(x, 1.5),
        means: |x| if x > 0.0 { x } else { 1.5 * (x / 1.5).exp_m1() },
        kinks: &[0.0],
    },
    Activation {
        name: "selu",
        call: a::selu,
        means: |x| SELU[1] * if x > 0.0 { x } else { SELU[0] * x.exp_m1() },
        kinks: &[0.0],
    },
    Activation {
        name: "thresholded_relu",
        call: |x| a::thresholded_relu(x, 1.0),
        means: |x| if x > 1.0 { x } else { 0.0 },
        kinks: &[1.0],
    },
    Activation {
        name: "threshold",
        call: |x| a::threshold(x, 0.5, -2.0),
        means: |x| if x > 0.5 { x } else { -2.0 },
        kinks: &[0.5],
    },
    Activation { name: "softsign", call: a::softsign, means: |x| x / (1.0 + x.abs()), kinks: &[0.0] },
    Activation {
        name: "hard_shrink",
        call: |x| a::hard_shrink(x, 0.5),
        means: |x| if x.abs() > 0.5 { x } else { 0.0 },
        kinks: &[-0.5, 0.5],
    },
    Activation {
        name: "soft_shrink",
        call: |x| a::soft_shrink(x, 0.5),
        means: |x| if x.abs() > 0.5 { x - 0.5 * x.signum() } else { 0.0 },
        kinks: &[-0.5, 0.5],
    },
    Activation {
        name: "shrink",
        call: |x| a::shrink(x, 0.5, 0.25),
        means: |x| if x.abs() > 0.5 { x - 0.25 * x.signum() } else { 0.0 },
        kinks: &[-0.5, 0.5],
    },
];

/// Points that every type holds exactly, odd multiples of 1/32 from −8 to 8.
fn points() -> Vec<f64> {
    (0..256).map(|i| f64::from(2 * i - 255) / 32.0).collect()
}

/// Unit roundoffs of the types, and how many of them a written-out function may lose: each step of it rounds, and near
/// zero what is left of a difference keeps the error of its operands.
const TYPES: &[(FloatDType, f64)] = &[
    (FloatDType::F64, 1e-14),
    (FloatDType::F32, 2e-6),
    (FloatDType::F16, 6.0 / 2048.0),
    (FloatDType::BF16, 6.0 / 256.0),
];

fn activations_are_their_definitions_in_every_type() {
    let device = kiln();
    let points = points();
    let mut failures = Vec::new();
    for activation in ALL {
        for &(dtype, tolerance) in TYPES {
            let x = Tensor::<2>::from_data(TensorData::new(points.clone(), [16, 16]), &device).cast(dtype);
            let y = (activation.call)(x).into_data();
            for (&x, y) in points.iter().zip(y.iter::<f64>()) {
                let wanted = (activation.means)(x);
                if (y - wanted).abs() > tolerance * wanted.abs().max(1.0) {
                    failures.push(format!("{} in {dtype:?} at {x}: {y}, wanted {wanted}", activation.name));
                    break;
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn gradients_of_activations_are_their_derivatives() {
    let device = kiln().autodiff();
    let points = points();
    let step = 1.0 / 1024.0;
    let mut failures = Vec::new();
    for activation in ALL {
        let values: Vec<f32> = points.iter().map(|&x| x as f32).collect();
        let x = Tensor::<2>::from_data(TensorData::new(values, [16, 16]), &device).require_grad();
        let gradients = (activation.call)(x.clone()).sum().backward();
        let got = x.grad(&gradients).expect("the operand has a gradient").into_data();
        for (&x, got) in points.iter().zip(got.iter::<f64>()) {
            if activation.kinks.iter().any(|kink| (x - kink).abs() < 0.01) {
                continue;
            }
            // Five points: the error is of the fourth order.
            let at = |by: f64| (activation.means)(x + by * step);
            let wanted = (at(-2.0) - 8.0 * at(-1.0) + 8.0 * at(1.0) - at(2.0)) / (12.0 * step);
            if (got - wanted).abs() > 4e-6 * wanted.abs().max(1.0) {
                failures.push(format!("{} at {x}: {got}, wanted {wanted}", activation.name));
                break;
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// GLU and the SwiGLU of transformers: two halves of one tensor.
fn gated_units_take_halves() {
    let device = kiln();
    let points = points();
    let x = Tensor::<2>::from_data(TensorData::new(points.clone(), [8, 32]), &device).cast(FloatDType::F64);
    let glu = a::glu(x.clone(), 1).into_data();
    let [gate, up] = x.chunk(2, 1).try_into().expect("two halves were asked for");
    let swiglu = (a::silu(gate) * up).into_data();
    for row in 0..8 {
        for column in 0..16 {
            let (x, y) = (points[row * 32 + column], points[row * 32 + 16 + column]);
            for (got, wanted) in [(&glu, x * sigmoid(y)), (&swiglu, x * sigmoid(x) * y)] {
                let got = got.iter::<f64>().nth(row * 16 + column).expect("the result has half the columns");
                assert!((got - wanted).abs() < 1e-13, "{row}, {column}: {got}, wanted {wanted}");
            }
        }
    }
}
