//! Cumulative operations.

use kiln_lowering::graph::Reduction;

use super::checks;
use crate::KilnTensor;
use crate::record::record;

/// The inclusive prefix along an axis.
pub fn along(op: &'static str, kind: Reduction, x: KilnTensor, dim: usize) -> KilnTensor {
    checks::axis(op, &x, dim);
    record(op, &x.device(), [&x], x.dtype(), |t, [x]| t.scan(kind, x, dim))
}
