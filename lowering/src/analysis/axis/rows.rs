//! How rows on integers carry facts from operands to results, axis by axis.

use smallvec::SmallVec;

use super::{Axis, Info, MOST};
use crate::dtype::DType;
use crate::op::Pointwise;
use crate::op::pointwise::Oracle;

/// Integer results where every operand is a known constant, or one suffices.
pub(super) fn fold(op: Pointwise, args: &[&Info], from: DType, to: DType) -> Option<i64> {
    if from.is_float() || to.is_float() {
        return None;
    }
    let is = |i: usize, v: i64| args[i].constant == Some(v);
    match op {
        Pointwise::Mul if is(0, 0) || is(1, 0) => return Some(0),
        Pointwise::And if is(0, 0) || is(1, 0) => return Some(0),
        Pointwise::Lt if args[0].nonnegative && is(1, 0) => return Some(0),
        Pointwise::Gt if args[1].nonnegative && is(0, 0) => return Some(0),
        Pointwise::Ge if args[0].nonnegative && is(1, 0) => return Some(1),
        Pointwise::Le if args[1].nonnegative && is(0, 0) => return Some(1),
        _ => {}
    }
    let values = args.iter().map(|a| a.constant.map(|v| widen(v, from))).collect::<Option<SmallVec<[i128; 3]>>>()?;
    match op.row().oracle {
        Oracle::Int(f) | Oracle::Both(_, f) => Some(sign_extend(f(&values, from) as u64, to)),
        Oracle::Float(_) | Oracle::Conversion => None,
    }
}

pub(super) fn binary(op: Pointwise, x: &Info, y: &Info, info: &mut Info) {
    for (i, axis) in info.axes.iter_mut().enumerate() {
        let (a, b) = (x.axes[i], y.axes[i]);
        match op {
            Pointwise::Add => {
                axis.contiguity = a.contiguity.min(b.constancy).max(b.contiguity.min(a.constancy));
                axis.divisibility = a.divisor_at(axis.contiguity).min(b.divisor_at(axis.contiguity));
            }
            Pointwise::Sub => {
                axis.contiguity = a.contiguity.min(b.constancy);
                axis.divisibility = a.divisor_at(axis.contiguity).min(b.divisor_at(axis.contiguity));
            }
            // One or the other.
            Pointwise::Min | Pointwise::Max => axis.divisibility = a.divisor_at(1).min(b.divisor_at(1)),
            Pointwise::Mul if y.constant == Some(1) => *axis = a,
            Pointwise::Mul if x.constant == Some(1) => *axis = b,
            Pointwise::Mul => {
                axis.divisibility = a.divisor_at(1).saturating_mul(b.divisor_at(1)).min(MOST);
            }
            Pointwise::Shl => {
                if let Some(count @ 0..=32) = y.constant {
                    axis.divisibility = a.divisor_at(1).saturating_mul(1 << count).min(MOST);
                }
            }
            // A run of x that starts at a multiple of g and has length g lies between two multiples of g, and so
            // between two multiples of a divisor that is itself a multiple of g: there the quotient does not change.
            // Truncation and flooring agree as long as x is not negative.
            Pointwise::Div if y.constant == Some(1) => *axis = a,
            Pointwise::Div if x.nonnegative => axis.constancy = axis.constancy.max(aligned_run(a, b)),
            // Zero and negative divisors have rules of their own.
            Pointwise::Rem if x.nonnegative && y.constant.is_some_and(|y| y > 0) => {
                axis.contiguity = aligned_run(a, b);
                axis.divisibility = a.divisor_at(axis.contiguity).min(b.divisor_at(1));
            }
            Pointwise::And => {
                // Clearing low bits is a division and a multiplication, keeping them a remainder.
                if let Some(mask) = y.constant.filter(|&m| m != 0) {
                    let low = 1u64 << mask.trailing_zeros();
                    let run = u64::from(a.contiguity).min(a.divisibility);
                    axis.constancy = axis.constancy.max(run.min(low) as u32);
                    if mask > 0 && (mask as u64 + 1).is_power_of_two() {
                        axis.contiguity = run.min(mask as u64 + 1) as u32;
                        axis.divisibility = a.divisor_at(axis.contiguity);
                    } else {
                        axis.divisibility = low;
                    }
                }
            }
            Pointwise::Shr if x.nonnegative => {
                if let Some(count @ 0..=31) = y.constant {
                    let run = u64::from(a.contiguity).min(a.divisibility).min(1 << count);
                    axis.constancy = axis.constancy.max(run as u32);
                }
            }
            _ => {}
        }
    }
    info.nonnegative = match op {
        Pointwise::Rem => y.nonnegative,
        Pointwise::And | Pointwise::Max => x.nonnegative || y.nonnegative,
        Pointwise::Add | Pointwise::Mul | Pointwise::Div | Pointwise::Min | Pointwise::Or | Pointwise::Xor => {
            x.nonnegative && y.nonnegative
        }
        Pointwise::Shr => x.nonnegative,
        _ => false,
    };
}

/// Length of the runs of `x` that no multiple of `y`, itself constant along them, cuts in two.
fn aligned_run(x: Axis, y: Axis) -> u32 {
    u64::from(x.contiguity).min(x.divisibility).min(y.divisor_at(1)).min(u64::from(y.constancy)) as u32
}

/// Comparing a run with a constant gives one answer where no multiple of its length lies strictly inside.
pub(super) fn compare(op: Pointwise, args: &[&Info], info: &mut Info) {
    let [x, y] = args else { return };
    for (i, axis) in info.axes.iter_mut().enumerate() {
        let (a, b) = (x.axes[i], y.axes[i]);
        let run = match op {
            Pointwise::Lt | Pointwise::Ge => aligned_run(a, b),
            Pointwise::Gt | Pointwise::Le => aligned_run(b, a),
            _ => 1,
        };
        axis.constancy = axis.constancy.max(run);
    }
}

/// Between integers a run survives where it can't cross a point at which the narrower type wraps around; a run that
/// starts at a multiple of its length never does.
pub(super) fn cast(x: &Info, from: DType, to: DType) -> Info {
    let widest = from.bits().min(to.bits()).min(62);
    let axes = x.axes.iter().map(|a| {
        let contiguity = u64::from(a.contiguity).min(a.divisibility).min(1 << (widest - 1)) as u32;
        Axis {
            contiguity,
            // Wrapping adds multiples of the power of two that the narrower type has.
            divisibility: a.divisor_at(contiguity).min(1 << widest),
            constancy: a.constancy,
        }
    });
    let nonnegative =
        x.nonnegative && (to.bits() > from.bits() || to.bits() == from.bits() && to.is_signed() == from.is_signed());
    Info { axes: axes.collect(), constant: x.constant.map(|v| sign_extend(widen(v, from) as u64, to)), nonnegative }
}

/// The number that the low bits stand for, sign-extended whether or not the type is signed.
pub(super) fn sign_extend(bits: u64, dtype: DType) -> i64 {
    if dtype == DType::Bool {
        return i64::from(bits & 1 != 0);
    }
    let shift = 64 - dtype.bits();
    (bits << shift) as i64 >> shift
}

/// The number that a sign-extended constant of this type stands for.
fn widen(value: i64, dtype: DType) -> i128 {
    match dtype.bits() {
        _ if dtype.is_signed() || dtype == DType::Bool => i128::from(value),
        bits => i128::from(value) & ((1i128 << bits) - 1),
    }
}
