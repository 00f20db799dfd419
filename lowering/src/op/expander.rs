//! What an expansion is written in: rows applied to values of one shape.  Knows neither tiles nor scalars.

use super::Pointwise;
use crate::dtype::DType;

/// A value inside an expansion, named by the expander that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Term(pub u32);

/// Where an expansion puts its rows: a tile program being rewritten, or an evaluator of scalars.
pub trait Expander {
    /// Applies a row whose result type follows from its operands.
    fn row(&mut self, op: Pointwise, args: &[Term]) -> Term;

    /// Applies `Cast` or `Bitcast`, whose result type is the caller's choice.
    fn convert(&mut self, op: Pointwise, arg: Term, to: DType) -> Term;

    /// A constant, given by its bit pattern in the low bits of `bits`.
    fn constant(&mut self, dtype: DType, bits: u64) -> Term;

    /// `2^x` of an f32, near enough for what is rounded to 16 bits next.
    fn exp2_approx(&mut self, x: Term) -> Term;

    /// The element type of a value.
    fn dtype(&self, term: Term) -> DType;
}

/// Shorthand that expansions are written with.
impl dyn Expander + '_ {
    /// A floating-point constant of the type of `like` (`f32` or `f64`).
    pub fn float(&mut self, like: Term, value: f64) -> Term {
        let dtype = self.dtype(like);
        let bits = match dtype {
            DType::F64 => value.to_bits(),
            _ => u64::from((value as f32).to_bits()),
        };
        self.constant(dtype, bits)
    }

    /// An integer constant of type `dtype`.
    pub fn int(&mut self, dtype: DType, value: i64) -> Term {
        self.constant(dtype, value as u64 & (u64::MAX >> (64 - dtype.bits())))
    }

    /// A conversion of the number, see [`Pointwise::Cast`].
    pub fn cast(&mut self, x: Term, to: DType) -> Term {
        self.convert(Pointwise::Cast, x, to)
    }

    /// A reinterpretation of the bits.
    pub fn bitcast(&mut self, x: Term, to: DType) -> Term {
        self.convert(Pointwise::Bitcast, x, to)
    }

    /// `x + y`
    pub fn add(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Add, &[x, y])
    }

    /// `x - y`
    pub fn sub(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Sub, &[x, y])
    }

    /// `x · y`
    pub fn mul(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Mul, &[x, y])
    }

    /// `x / y`
    pub fn div(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Div, &[x, y])
    }

    /// `x · y + z`, rounded once.
    pub fn fma(&mut self, x: Term, y: Term, z: Term) -> Term {
        self.row(Pointwise::Fma, &[x, y, z])
    }

    /// `if c { x } else { y }`
    pub fn select(&mut self, c: Term, x: Term, y: Term) -> Term {
        self.row(Pointwise::Select, &[c, x, y])
    }

    /// `−x`
    pub fn neg(&mut self, x: Term) -> Term {
        self.row(Pointwise::Neg, &[x])
    }

    /// `|x|`
    pub fn abs(&mut self, x: Term) -> Term {
        self.row(Pointwise::Abs, &[x])
    }

    /// `√x`
    pub fn sqrt(&mut self, x: Term) -> Term {
        self.row(Pointwise::Sqrt, &[x])
    }

    /// `⌊x⌋`
    pub fn floor(&mut self, x: Term) -> Term {
        self.row(Pointwise::Floor, &[x])
    }

    /// `x` rounded towards zero.
    pub fn trunc(&mut self, x: Term) -> Term {
        self.row(Pointwise::Trunc, &[x])
    }

    /// `x` rounded to the nearest integer, ties to even.
    pub fn round(&mut self, x: Term) -> Term {
        self.row(Pointwise::Round, &[x])
    }

    /// `!x`
    pub fn not(&mut self, x: Term) -> Term {
        self.row(Pointwise::Not, &[x])
    }

    /// `x == y`
    pub fn eq(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Eq, &[x, y])
    }

    /// `x != y`
    pub fn ne(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Ne, &[x, y])
    }

    /// `x < y`
    pub fn lt(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Lt, &[x, y])
    }

    /// `x <= y`
    pub fn le(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Le, &[x, y])
    }

    /// `x > y`
    pub fn gt(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Gt, &[x, y])
    }

    /// `x >= y`
    pub fn ge(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Ge, &[x, y])
    }

    /// `x & y`
    pub fn and(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::And, &[x, y])
    }

    /// `x | y`
    pub fn or(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Or, &[x, y])
    }

    /// `x ^ y`
    pub fn xor(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Xor, &[x, y])
    }

    /// `x << y`
    pub fn shl(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Shl, &[x, y])
    }

    /// `x >> y`
    pub fn shr(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::Shr, &[x, y])
    }

    /// The high half of the double-width product.
    pub fn mul_high(&mut self, x: Term, y: Term) -> Term {
        self.row(Pointwise::MulHi, &[x, y])
    }

    /// `min(x, limit)`, a NaN in `x` kept: one instruction where `Min` takes several.
    pub fn at_most(&mut self, x: Term, limit: f64) -> Term {
        let limit = self.float(x, limit);
        let above = self.gt(x, limit);
        self.select(above, limit, x)
    }

    /// `max(x, limit)`, a NaN in `x` kept.
    pub fn at_least(&mut self, x: Term, limit: f64) -> Term {
        let limit = self.float(x, limit);
        let below = self.lt(x, limit);
        self.select(below, limit, x)
    }

    /// Horner's scheme: `((c₀·x + c₁)·x + c₂)·x + …`, each step one fused multiply-add.
    pub fn horner(&mut self, x: Term, coefficients: &[f64]) -> Term {
        let mut sum = self.float(x, coefficients[0]);
        for &c in &coefficients[1..] {
            let c = self.float(x, c);
            sum = self.fma(sum, x, c);
        }
        sum
    }
}
