//! Choosing by a mask, and finding where a mask holds.

use burn_backend::Scalar;
use kiln_lowering::op::Pointwise as P;

use super::checks;
use super::elementwise::bound;
use crate::KilnTensor;
use crate::record::record;

/// The value where the mask holds, the tensor elsewhere.
pub fn choose(op: &'static str, x: KilnTensor, mask: KilnTensor, value: KilnTensor) -> KilnTensor {
    checks::pair(op, &x, &value);
    checks::same_device(op, &x, &mask);
    checks::broadcast(op, &x, &mask);
    checks::broadcast(op, &value, &mask);
    record(op, &x.device(), [&x, &mask, &value], x.dtype(), |t, [x, mask, value]| t.map(P::Select, &[mask, value, x]))
}

/// A number where the mask holds, the tensor elsewhere.
pub fn fill(op: &'static str, x: KilnTensor, mask: KilnTensor, value: Scalar) -> KilnTensor {
    checks::same_device(op, &x, &mask);
    checks::broadcast(op, &x, &mask);
    record(op, &x.device(), [&x, &mask], x.dtype(), |t, [x, mask]| {
        let value = bound(t, x, value);
        t.map(P::Select, &[mask, value, x])
    })
}
