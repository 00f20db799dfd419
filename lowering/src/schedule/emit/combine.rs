//! What reductions combine with, on scalars and on tiles alike.

use smallvec::{SmallVec, smallvec};

use super::super::simplify::identity;
use crate::DType;
use crate::graph::Reduction;
use crate::op::Pointwise;
use crate::tile::{Builder, Value};

/// Whether the terms may come in any order: nothing is rounded.
pub fn is_exact(kind: Reduction, dtype: DType) -> bool {
    !(matches!(kind, Reduction::Sum | Reduction::Prod) && dtype.is_float())
}

/// The type in which a reduction of `dtype` is carried where floats are not compared by one instruction: extremes of
/// floats are those of integers in the same order, which machines compare without asking for NaNs and the signs of zeros.
pub fn carried(kind: Reduction, dtype: DType) -> DType {
    match (kind, dtype) {
        (Reduction::Max | Reduction::Min, DType::F32) => DType::I32,
        (Reduction::Max | Reduction::Min, DType::F64) => DType::I64,
        _ => dtype,
    }
}

/// A term as it is carried in another type: its bits, those behind the sign turned around below zero; NaN beyond
/// everything.
pub fn enter(b: &mut Builder, kind: Reduction, x: Value, dtype: DType) -> Value {
    if dtype == b.ty(x).dtype {
        return x;
    }
    let number = b.map(Pointwise::Eq, &[x, x]);
    let bits = b.convert(Pointwise::Bitcast, x, dtype);
    let place = turn(b, bits);
    // The identity of the other extreme.
    let beyond = identity(if kind == Reduction::Max { Reduction::Min } else { Reduction::Max }, dtype);
    let beyond = b.constant(dtype, beyond);
    b.map(Pointwise::Select, &[number, place, beyond])
}

/// The number again.
pub fn leave(b: &mut Builder, x: Value, dtype: DType) -> Value {
    if dtype == b.ty(x).dtype {
        return x;
    }
    let bits = turn(b, x);
    b.convert(Pointwise::Bitcast, bits, dtype)
}

/// `x` if it is not negative, else with all bits behind the sign turned around: its own inverse.
fn turn(b: &mut Builder, x: Value) -> Value {
    let dtype = b.ty(x).dtype;
    let (last, behind) = (b.int(dtype, dtype.bits() as i64 - 1), b.constant(dtype, identity(Reduction::Min, dtype)));
    let negative = b.map(Pointwise::Shr, &[x, last]);
    let turned = b.map(Pointwise::And, &[negative, behind]);
    b.map(Pointwise::Xor, &[x, turned])
}

/// `a ∘ b` where all indices of `b` are above those of `a`, the identity's aside: of equals, `a` stays.
pub fn append(b: &mut Builder, kind: Reduction, left: &[Value], right: &[Value]) -> Carried {
    let keeps = match kind {
        Reduction::ArgMax => Pointwise::Ge,
        Reduction::ArgMin => Pointwise::Le,
        _ => return combine(b, kind, left, right),
    };
    let (x, i, y, j) = (left[0], left[1], right[0], right[1]);
    let keeps = b.map(keeps, &[x, y]);
    let mut take = b.map(Pointwise::Not, &[keeps]);
    if b.ty(x).dtype.is_float() {
        let number = b.map(Pointwise::Eq, &[x, x]);
        take = b.map(Pointwise::And, &[take, number]);
    }
    smallvec![b.map(Pointwise::Select, &[take, y, x]), b.map(Pointwise::Select, &[take, j, i])]
}

/// Values carried by one reduction: the accumulator, and for `argmax` and `argmin` the index.
pub type Carried = SmallVec<[Value; 2]>;

/// `a ∘ b`
pub fn combine(b: &mut Builder, kind: Reduction, left: &[Value], right: &[Value]) -> Carried {
    let op = match kind {
        Reduction::Sum => Pointwise::Add,
        Reduction::Prod => Pointwise::Mul,
        Reduction::Max => Pointwise::Max,
        Reduction::Min => Pointwise::Min,
        Reduction::Any => Pointwise::Or,
        Reduction::All => Pointwise::And,
        Reduction::ArgMax => return first_best(b, Pointwise::Gt, left, right),
        Reduction::ArgMin => return first_best(b, Pointwise::Lt, left, right),
    };
    smallvec![b.map(op, &[left[0], right[0]])]
}

/// The better value with its index: NaN is best, of equals the lower index.
fn first_best(b: &mut Builder, better: Pointwise, left: &[Value], right: &[Value]) -> Carried {
    let (x, i, y, j) = (left[0], left[1], right[0], right[1]);
    let mut wins = b.map(better, &[y, x]);
    let mut ties = b.map(Pointwise::Eq, &[y, x]);
    if b.ty(x).dtype.is_float() {
        let x_number = b.map(Pointwise::Eq, &[x, x]);
        let y_number = b.map(Pointwise::Eq, &[y, y]);
        let x_nan = b.map(Pointwise::Not, &[x_number]);
        let y_nan = b.map(Pointwise::Not, &[y_number]);
        let first_nan = b.map(Pointwise::And, &[y_nan, x_number]);
        let both_nan = b.map(Pointwise::And, &[y_nan, x_nan]);
        wins = b.map(Pointwise::Or, &[wins, first_nan]);
        ties = b.map(Pointwise::Or, &[ties, both_nan]);
    }
    let earlier = b.lt(j, i);
    let earlier = b.map(Pointwise::And, &[ties, earlier]);
    let take = b.map(Pointwise::Or, &[wins, earlier]);
    smallvec![b.map(Pointwise::Select, &[take, y, x]), b.map(Pointwise::Select, &[take, j, i])]
}

/// The element that changes nothing, for values of type `dtype` and indices of type `index`.
pub fn neutral(b: &mut Builder, kind: Reduction, dtype: DType, index: DType) -> Carried {
    let mut carried: Carried = smallvec![b.constant(dtype, identity(kind, dtype))];
    if kind.is_arg() {
        carried.push(b.constant(index, identity(Reduction::Min, index)));
    }
    carried
}
