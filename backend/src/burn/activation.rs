//! Activation functions.  Those with more than one rounding work in f32 and round once.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use burn_backend::Scalar;
use burn_backend::ops::ActivationOps;
use kiln_lowering::graph::Node;
use kiln_lowering::op::Pointwise as P;

use super::elementwise::{self, beside, fixed, map_fixed};
use super::{checks, softmax};
use crate::record::{Tape, record};
use crate::{Kiln, KilnTensor};

impl ActivationOps<Kiln> for Kiln {
    fn leaky_relu(tensor: KilnTensor, negative_slope: Scalar) -> KilnTensor {
        wide("leaky_relu", [tensor], |t, [x]| {
            let slope = beside(t, x, negative_slope);
            leaky(t, x, slope)
        })
    }

    fn relu(tensor: KilnTensor) -> KilnTensor {
        record("relu", &tensor.device(), [&tensor], tensor.dtype(), |t, [x]| map_fixed(t, P::Max, x, 0.0))
    }

    fn relu_backward(output: KilnTensor, grad: KilnTensor) -> KilnTensor {
        checks::pair("relu_backward", &output, &grad);
        record("relu_backward", &grad.device(), [&output, &grad], grad.dtype(), |t, [y, grad]| {
            let off = map_fixed(t, P::Le, y, 0.0);
            let zero = fixed(t, grad, 0.0);
            t.map(P::Select, &[off, zero, grad])
        })
    }

    fn gelu(tensor: KilnTensor) -> KilnTensor {
        wide("gelu", [tensor], |t, [x]| {
            let cdf = normal_cdf(t, x);
            t.map(P::Mul, &[x, cdf])
        })
    }

    fn prelu(tensor: KilnTensor, alpha: KilnTensor) -> KilnTensor {
        checks::pair("prelu", &tensor, &alpha);
        wide("prelu", [tensor, alpha], |t, [x, alpha]| leaky(t, x, alpha))
    }

    /// `Φ(x) + x·φ(x)`, the derivative of the exact function.
    fn gelu_backward(x: KilnTensor, grad: KilnTensor) -> KilnTensor {
        checks::pair("gelu_backward", &x, &grad);
        wide("gelu_backward", [x, grad], |t, [x, grad]| {
            let cdf = normal_cdf(t, x);
            let square = t.map(P::Mul, &[x, x]);
            let exponent = map_fixed(t, P::Mul, square, -0.5);
            let exp = t.map(P::Exp, &[exponent]);
            let density = map_fixed(t, P::Mul, exp, 1.0 / (2.0 * PI).sqrt());
            let slope = t.map(P::Mul, &[x, density]);
            let slope = t.map(P::Add, &[cdf, slope]);
            t.map(P::Mul, &[slope, grad])
        })
    }

    fn sigmoid(tensor: KilnTensor) -> KilnTensor {
        elementwise::unary("sigmoid", P::Sigmoid, tensor)
    }

    fn sigmoid_backward(output: KilnTensor, grad: KilnTensor) -> KilnTensor {
        checks::pair("sigmoid_backward", &output, &grad);
        wide("sigmoid_backward", [output, grad], |t, [y, grad]| {
            let one = fixed(t, y, 1.0);
            let rest = t.map(P::Sub, &[one, y]);
            let slope = t.map(P::Mul, &[y, rest]);
            t.map(P::Mul, &[slope, grad])
        })
    }

    fn hard_sigmoid(tensor: KilnTensor, alpha: Scalar, beta: Scalar) -> KilnTensor {
        wide("hard_sigmoid", [tensor], |t, [x]| {
            let (alpha, beta) = (beside(t, x, alpha), beside(t, x, beta));
            let line = t.map(P::Mul, &[x, alpha]);
            let line = t.map(P::Add, &[line, beta]);
            let line = map_fixed(t, P::Max, line, 0.0);
            map_fixed(t, P::Min, line, 1.0)
        })
    }

    /// `min(x, 0) − log(1 + exp(−|x|))`, which neither overflows nor cancels.
    fn log_sigmoid(tensor: KilnTensor) -> KilnTensor {
        wide("log_sigmoid", [tensor], |t, [x]| {
            let below = map_fixed(t, P::Min, x, 0.0);
            let away = t.map(P::Abs, &[x]);
            let away = t.map(P::Neg, &[away]);
            let exp = t.map(P::Exp, &[away]);
            let log = t.map(P::Log1p, &[exp]);
            t.map(P::Sub, &[below, log])
        })
    }

    /// The derivative is `sigmoid(−x)`.
    fn log_sigmoid_backward(x: KilnTensor, grad: KilnTensor) -> KilnTensor {
        checks::pair("log_sigmoid_backward", &x, &grad);
        wide("log_sigmoid_backward", [x, grad], |t, [x, grad]| {
            let negative = t.map(P::Neg, &[x]);
            let slope = t.map(P::Sigmoid, &[negative]);
            t.map(P::Mul, &[slope, grad])
        })
    }

    fn softmax(tensor: KilnTensor, dim: usize) -> KilnTensor {
        softmax::softmax("softmax", tensor, dim)
    }

    fn log_softmax(tensor: KilnTensor, dim: usize) -> KilnTensor {
        softmax::log_softmax("log_softmax", tensor, dim)
    }

    fn softmin(tensor: KilnTensor, dim: usize) -> KilnTensor {
        softmax::softmin("softmin", tensor, dim)
    }
}

/// Records a composite whose operands are widened first and whose result is rounded last.
fn wide<const N: usize>(
    op: &'static str,
    x: [KilnTensor; N],
    body: impl FnOnce(&mut Tape, [Node; N]) -> Node,
) -> KilnTensor {
    let dtype = x[0].kiln_dtype();
    record(op, &x[0].device(), x.each_ref(), x[0].dtype(), |t, nodes| {
        let nodes = nodes.map(|x| t.cast(x, dtype.compute()));
        let y = body(t, nodes);
        t.cast(y, dtype)
    })
}

/// `x` where it is not below 0, `slope·x` elsewhere.
fn leaky(t: &mut Tape, x: Node, slope: Node) -> Node {
    let below = map_fixed(t, P::Lt, x, 0.0);
    let scaled = t.map(P::Mul, &[x, slope]);
    t.map(P::Select, &[below, scaled, x])
}

/// `Φ(x) = (1 + erf(x/√2)) / 2`.
fn normal_cdf(t: &mut Tape, x: Node) -> Node {
    let scaled = map_fixed(t, P::Mul, x, FRAC_1_SQRT_2);
    let erf = t.map(P::Erf, &[scaled]);
    let sum = map_fixed(t, P::Add, erf, 1.0);
    map_fixed(t, P::Mul, sum, 0.5)
}
