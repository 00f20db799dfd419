//! What reductions combine with, on scalars and on tiles alike.

use smallvec::{SmallVec, smallvec};

use super::super::simplify::identity;
use crate::DType;
use crate::graph::Reduction;
use crate::op::Pointwise;
use crate::tile::{Builder, Value};

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
