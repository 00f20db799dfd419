//! Conversions of conversions.

use smallvec::smallvec;

use crate::dtype::{Class, DType};
use crate::op::Pointwise;
use crate::passes::casts::is_native;
use crate::passes::rewrite::{Replacement, Rewriter};
use crate::tile::{InstData, Op};

/// `cast(cast(x, B), C) = cast(x, C)` where B holds every number of x's type; `cast(x, A) = x` of type A.
pub(super) fn casts(rewriter: &mut Rewriter<'_>, inst: &InstData) -> Option<Replacement> {
    let Op::Map(Pointwise::Cast) = inst.op else { return None };
    let to = rewriter.ty(inst.results[0]).clone();
    if rewriter.ty(inst.args[0]).dtype == to.dtype {
        return Some(smallvec![inst.args[0]]);
    }
    let inner = rewriter.definition(inst.args[0])?;
    let (Op::Map(Pointwise::Cast), x) = (&inner.op, *inner.args.first()?) else { return None };
    let (from, middle) = (rewriter.ty(x).dtype, rewriter.ty(inst.args[0]).dtype);
    // From integers a float saturates and an integer wraps.
    let saturates = from.is_int() && middle.is_float() && to.dtype.is_int();
    if !holds(middle, from) {
        None
    } else if from == to.dtype {
        Some(smallvec![x])
    } else if is_native(from, to.dtype) && !saturates {
        Some(smallvec![rewriter.push(Op::Map(Pointwise::Cast), &[x], to)])
    } else {
        None
    }
}

/// Whether every number of type `small` is one of type `large`, and the cast gives it.
fn holds(large: DType, small: DType) -> bool {
    // Bits of the significand, the hidden one included.
    let digits = |float: DType| match float {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        _ => 8,
    };
    match (small.class(), large.class()) {
        (Class::Bool, _) => true,
        (_, Class::Bool) => false,
        (Class::Float, Class::Float) => large.bits() > small.bits(),
        (Class::Float, _) => false,
        (_, Class::Float) => small.bits() <= digits(large) && large != DType::F16,
        (Class::Signed, Class::Unsigned) => false,
        (Class::Unsigned, Class::Signed) => large.bits() > small.bits(),
        _ => large.bits() >= small.bits(),
    }
}

/// `bitcast(bitcast(x, B), C) = bitcast(x, C)`, and `bitcast(x, A) = x` of type A.
pub(super) fn bitcasts(rewriter: &mut Rewriter<'_>, inst: &InstData) -> Option<Replacement> {
    let Op::Map(Pointwise::Bitcast) = inst.op else { return None };
    let to = rewriter.ty(inst.results[0]).clone();
    let mut x = inst.args[0];
    while let Some(InstData { op: Op::Map(Pointwise::Bitcast), args, .. }) = rewriter.definition(x) {
        x = args[0];
    }
    if rewriter.ty(x).dtype == to.dtype {
        Some(smallvec![x])
    } else if x != inst.args[0] {
        Some(smallvec![rewriter.push(Op::Map(Pointwise::Bitcast), &[x], to)])
    } else {
        None
    }
}
