//! Comparisons of floats, integers and booleans.  A comparison with NaN is false, but for `ne`.

use inkwell::{FloatPredicate, IntPredicate};

use super::ir::{Any, Ir};
use crate::dtype::DType;
use crate::op::Pointwise;

pub(super) fn is_comparison(op: Pointwise) -> bool {
    use Pointwise::{Eq, Ge, Gt, Le, Lt, Ne};
    matches!(op, Eq | Ne | Lt | Le | Gt | Ge)
}

pub(super) fn compare<'c>(ir: &Ir<'c>, op: Pointwise, dtype: DType, x: Any<'c>, y: Any<'c>) -> Any<'c> {
    if dtype.is_float() {
        return ir.fcmp(float_predicate(op), x, y);
    }
    ir.icmp(int_predicate(op, dtype.is_signed()), x, y)
}

fn float_predicate(op: Pointwise) -> FloatPredicate {
    match op {
        Pointwise::Eq => FloatPredicate::OEQ,
        Pointwise::Ne => FloatPredicate::UNE,
        Pointwise::Lt => FloatPredicate::OLT,
        Pointwise::Le => FloatPredicate::OLE,
        Pointwise::Gt => FloatPredicate::OGT,
        _ => FloatPredicate::OGE,
    }
}

fn int_predicate(op: Pointwise, signed: bool) -> IntPredicate {
    match (op, signed) {
        (Pointwise::Eq, _) => IntPredicate::EQ,
        (Pointwise::Ne, _) => IntPredicate::NE,
        (Pointwise::Lt, true) => IntPredicate::SLT,
        (Pointwise::Le, true) => IntPredicate::SLE,
        (Pointwise::Gt, true) => IntPredicate::SGT,
        (_, true) => IntPredicate::SGE,
        (Pointwise::Lt, false) => IntPredicate::ULT,
        (Pointwise::Le, false) => IntPredicate::ULE,
        (Pointwise::Gt, false) => IntPredicate::UGT,
        (_, false) => IntPredicate::UGE,
    }
}
