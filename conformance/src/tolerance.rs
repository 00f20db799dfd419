//! How far a node's value may lie from the oracle's, when both start from the same operands.  The one place of such
//! numbers.
//!
//! For sums of `n` terms in arithmetic with unit roundoff `u` the bound is `(n + 2)·u·Σ|terms|` plus half a unit of the
//! result's type, for any order of additions (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed.,
//! §4.2); long reductions are trees, so that `n` is replaced by the depth of one with generous leaves.

use kiln_lowering::DType;
use kiln_lowering::graph::{Array, Dist, Node, NodeData, Op, Reduction, Update, number, oracle};
use kiln_lowering::op::Pointwise;

/// How far an element may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// Not at all; a NaN may be another NaN.
    Equal,
    /// By so many steps from one number of the type to the next.
    Ulps(u64),
    /// By so much.
    Absolute(f64),
    /// By anything: intermediate results may have left the range of the type.
    Anything,
}

/// What the elements of a node may be off by.
pub enum Bounds {
    /// All by the same.
    All(Allowed),
    /// Each by its own.
    Each(Vec<Allowed>),
}

impl Bounds {
    /// The bound of one element.
    pub fn of(&self, index: usize) -> Allowed {
        match self {
            Bounds::All(allowed) => *allowed,
            Bounds::Each(each) => each[index],
        }
    }
}

/// Unit roundoff of a type.
fn unit(dtype: DType) -> f64 {
    (-f64::from(number::precision(dtype))).exp2()
}

/// The greatest finite number of a type.
fn greatest(dtype: DType) -> f64 {
    number::to_f64(dtype, number::from_f64(dtype, f64::INFINITY) - 1)
}

/// The least normal number of a type.
fn least(dtype: DType) -> f64 {
    f64::from(number::least_exponent(dtype)).exp2()
}

/// The bounds of a node with these operands.
pub fn bounds(data: &NodeData, args: &[&Array]) -> Bounds {
    let dtype = data.dtype;
    let is_half = dtype.compute() != dtype;
    match &data.op {
        Op::Map(op) if dtype.is_float() => Bounds::All(pointwise(*op, dtype)),
        // Five rows, one on top of the other.
        Op::Random(Dist::Normal, ..) => Bounds::All(Allowed::Ulps(if is_half { 1 } else { 10 })),
        Op::Reduce(Reduction::Sum, _) | Op::Scan(Reduction::Sum, _) if dtype.is_float() => {
            let terms = terms(data, args[0]);
            sums(data, &[&absolute(args[0])], terms, dtype.compute())
        }
        Op::Reduce(Reduction::Prod, _) | Op::Scan(Reduction::Prod, _) if dtype.is_float() => products(data, args[0]),
        Op::Contract if dtype.is_float() => {
            let terms = args[0].dims.last().copied().unwrap_or(1);
            sums(data, &[&absolute(args[0]), &absolute(args[1])], terms, dtype.compute())
        }
        // In row-major order, each addition in the element's own type.
        Op::Scatter(_, _, Update::Add) if dtype.is_float() => {
            let terms = args[2].bits.len() as u64;
            sums(data, &[&absolute(args[0]), args[1], &absolute(args[2])], terms, dtype)
        }
        Op::Scatter(_, _, Update::Mul) if dtype.is_float() => Bounds::All(Allowed::Equal),
        _ => Bounds::All(Allowed::Equal),
    }
}

fn pointwise(op: Pointwise, dtype: DType) -> Allowed {
    let ulp = u64::from(op.row().ulp);
    match (op, dtype) {
        (Pointwise::Cast | Pointwise::Bitcast, _) => Allowed::Equal,
        // The oracle rounds to f64 first.
        (Pointwise::Fma, DType::F64) => Allowed::Equal,
        (Pointwise::Fma, _) => Allowed::Ulps(1),
        _ if ulp == 0 => Allowed::Equal,
        // An error in f32 moves the rounded value by one at most.
        (_, DType::F16 | DType::Bf16) => Allowed::Ulps(1),
        // The oracle's own function is good to an ulp.
        (_, DType::F64) => Allowed::Ulps(ulp + 1),
        _ => Allowed::Ulps(ulp),
    }
}

/// Terms that one element sums: for long ones, additions on the way of one term, in loops of 64 partial sums.
fn terms(data: &NodeData, from: &Array) -> u64 {
    let n = match &data.op {
        Op::Reduce(_, axes) => axes.iter().map(|&a| from.dims[usize::from(a)]).product(),
        Op::Scan(_, axis) => from.dims[usize::from(*axis)],
        _ => 1,
    };
    match data.op {
        Op::Reduce(..) => n.min(32 + n / 64),
        _ => n,
    }
}

fn absolute(x: &Array) -> Array {
    Array::from_floats(DType::F64, &x.dims, &x.floats().iter().map(|x| x.abs()).collect::<Vec<_>>())
}

/// The same node on f64.
fn wide(data: &NodeData, args: &[&Array]) -> Vec<f64> {
    let data = NodeData { dtype: DType::F64, ..data.clone() };
    match oracle::step(Node::from_u32(0), &data, args, &[], &[]) {
        Ok(values) => values.floats(),
        // The indices are those of the node itself, which has been evaluated.
        Err(fault) => panic!("{fault}"),
    }
}

fn sums(data: &NodeData, absolute: &[&Array], terms: u64, inside: DType) -> Bounds {
    // Infinite terms decide by themselves, unless what is finite may overflow, early or late.
    let finite: Vec<Array> = absolute.iter().map(|x| finite(x)).collect();
    let sizes = wide(data, &finite.iter().collect::<Vec<_>>());
    let each = wide(data, absolute).into_iter().zip(sizes).map(|(sum, size)| {
        if size >= greatest(inside) / 2.0 {
            Allowed::Anything
        } else if !sum.is_finite() {
            Allowed::Equal
        } else {
            let inner = (terms + 2) as f64 * unit(inside) * sum;
            // Products below the normal range lose bits, each by less than a least step.
            let under = terms as f64 * least(inside) * unit(inside);
            Allowed::Absolute(inner + under + unit(data.dtype) * sum + least(data.dtype) * unit(data.dtype))
        }
    });
    Bounds::Each(each.collect())
}

/// The array with zeros for what is infinite or NaN; indices stay as they are.
fn finite(x: &Array) -> Array {
    if !x.dtype.is_float() {
        return x.clone();
    }
    let values: Vec<f64> = x.floats().iter().map(|&x| if x.is_finite() { x } else { 0.0 }).collect();
    Array::from_floats(DType::F64, &x.dims, &values)
}

fn products(data: &NodeData, x: &Array) -> Bounds {
    let magnitudes = |f: fn(f64) -> f64| {
        let values: Vec<f64> = x.floats().iter().map(|x| f(x.abs())).collect();
        wide(data, &[&Array::from_floats(DType::F64, &x.dims, &values)])
    };
    let inside = data.dtype.compute();
    let terms = terms(data, x) as f64;
    // Whatever the order, partial products lie between those of the factors below 1 and of those above.  A zero is left
    // out of the lower bound: what it makes zero is exact.
    let (low, high) =
        (magnitudes(|x| if x > 0.0 && x < 1.0 { x } else { 1.0 }), magnitudes(|x| if x > 1.0 { x } else { 1.0 }));
    let values = wide(data, &[&Array::from_floats(DType::F64, &x.dims, &x.floats())]);
    let each = values.iter().zip(low.iter().zip(&high)).map(|(&value, (&low, &high))| {
        if low < least(inside) || high > greatest(inside) / 2.0 {
            Allowed::Anything
        } else {
            Allowed::Absolute(
                value.abs() * ((terms + 1.0) * unit(inside) * 1.01 + unit(data.dtype))
                    + least(data.dtype) * unit(data.dtype),
            )
        }
    });
    Bounds::Each(each.collect())
}

/// Whether `got` is as near to `want` as is allowed.
pub fn agrees(dtype: DType, got: u64, want: u64, allowed: Allowed) -> bool {
    if got == want {
        return true;
    }
    if !dtype.is_float() {
        return false;
    }
    let (g, w) = (number::to_f64(dtype, got), number::to_f64(dtype, want));
    if allowed != Allowed::Anything && (g.is_nan() || w.is_nan()) {
        return g.is_nan() && w.is_nan();
    }
    match allowed {
        Allowed::Anything => true,
        Allowed::Equal => false,
        Allowed::Ulps(n) => steps(dtype, got).abs_diff(steps(dtype, want)) <= n,
        // An infinity is reached by rounding from what would be the next number.
        Allowed::Absolute(off) if g.is_infinite() || w.is_infinite() => {
            let finite = if g.is_infinite() { w } else { g };
            g.is_finite() != w.is_finite() && finite.abs() + off >= greatest(dtype)
        }
        Allowed::Absolute(off) => (g - w).abs() <= off,
    }
}

/// Numbers of a float type counted from zero, both zeros being 0.
fn steps(dtype: DType, bits: u64) -> i64 {
    let sign = 1u64 << (dtype.bits() - 1);
    let magnitude = (bits & (sign - 1)) as i64;
    if bits & sign == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(x: f32) -> u64 {
        u64::from(x.to_bits())
    }

    #[test]
    fn ulps_are_counted_across_zero_and_into_infinity() {
        let near = |a: f32, b: f32, n| agrees(DType::F32, f32s(a), f32s(b), Allowed::Ulps(n));
        assert!(near(1.0, 1.0f32.next_up(), 1) && !near(1.0, 1.0f32.next_up().next_up(), 1));
        assert!(near(f32::from_bits(1), -f32::from_bits(1), 2) && near(0.0, -0.0, 0));
        assert!(near(f32::MAX, f32::INFINITY, 1) && !near(f32::NAN, f32::INFINITY, 100));
        assert!(near(f32::NAN, -f32::NAN, 0));
    }

    #[test]
    fn zeros_differ_where_nothing_is_allowed() {
        assert!(!agrees(DType::F32, f32s(0.0), f32s(-0.0), Allowed::Equal));
    }
}
