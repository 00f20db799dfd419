//! What rows on f32 and narrower types should give: the same functions on f64, good to an ulp of f64 or two, which is
//! some 10⁻⁹ of an ulp of f32.

use kiln_lowering::op::Pointwise;
use kiln_lowering::op::pointwise::Oracle;

/// A function of one or two numbers.
pub type Wide = fn(&[f64]) -> f64;

/// The row's function on f64; `None` for rows that are no functions of floats.
///
/// It is the row's own oracle (the standard library's function) but where that is slow, being made for f64, or our own.
pub fn wide(op: Pointwise) -> Option<Wide> {
    Some(match op {
        Pointwise::Erf => |a| libm::erf(a[0]),
        Pointwise::Asinh => |a| libm::asinh(a[0]),
        // Below its domain libm's takes a logarithm of what cancellation left.
        Pointwise::Acosh => |a| if a[0] < 1.0 { f64::NAN } else { libm::acosh(a[0]) },
        Pointwise::Atanh => |a| libm::atanh(a[0]),
        _ => match op.row().oracle {
            Oracle::Float(f) | Oracle::Both(f, _) => f,
            Oracle::Int(_) | Oracle::Conversion => return None,
        },
    })
}
