//! Every pointwise operation, one row each: what it takes, what it means, how it becomes machine code.

use super::math;
use crate::dtype::{Class, DType};

/// How a row becomes machine code.
#[derive(Clone, Copy)]
pub enum Lower {
    /// Each target has an instruction, or a short exact sequence, for it.
    Native,
    /// Rewritten into native rows before code generation; 16-bit floats are widened first.
    Expand(math::Expansion),
}

/// Which element types the operands may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Floats.
    Floats,
    /// Integers.
    Ints,
    /// Floats and integers.
    Numbers,
    /// Integers and booleans, as bit patterns.
    Bits,
    /// Everything.
    All,
}

/// The element type of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// That of the operands.
    Same,
    /// `bool`.
    Bool,
    /// Whatever the instruction names (conversions).
    Named,
}

/// The value a row stands for, on wide numbers.
#[derive(Clone, Copy)]
pub enum Oracle {
    /// On floats alone.
    Float(fn(&[f64]) -> f64),
    /// On integers alone, before wrapping to the element type that is passed along.
    Int(fn(&[i128], DType) -> i128),
    /// On both.
    Both(fn(&[f64]) -> f64, fn(&[i128], DType) -> i128),
    /// Defined by the interpreter alone: conversions.
    Conversion,
}

/// What the rest of the compiler may ask about an op.
pub struct Row {
    /// The op whose row this is.
    pub op: Pointwise,
    /// The name used in printed programs.
    pub name: &'static str,
    /// Number of operands.
    pub arity: usize,
    /// Element types of the operands.  All operands agree, but for the condition of `select`.
    pub takes: Takes,
    /// Element type of the result.
    pub gives: Gives,
    /// What it computes.
    pub oracle: Oracle,
    /// How it becomes machine code.
    pub lower: Lower,
    /// Largest error against the oracle in f32 and f64, in units in the last place.
    pub ulp: u32,
    /// Whether the operands of a binary op may change places.
    pub commutes: bool,
    /// Rough cost on a processor, in additions; decides between computing twice and storing.
    pub cost: u32,
}

macro_rules! pointwise {
    ($($op:ident $name:literal $arity:literal $takes:ident $gives:ident $ulp:literal $cost:literal $commutes:literal, $lower:expr, $oracle:expr;)+) => {
        /// A pointwise operation; everything known about it is in its [`Row`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Pointwise { $(#[doc = concat!("`", $name, "`")] $op),+ }

        impl Pointwise {
            /// Every row, in order.
            pub const ALL: &[Pointwise] = &[$(Pointwise::$op),+];
        }

        /// The table of pointwise rows.
        pub static TABLE: &[Row] = &[$(Row {
            op: Pointwise::$op, name: $name, arity: $arity, takes: Takes::$takes, gives: Gives::$gives,
            oracle: $oracle, lower: $lower, ulp: $ulp, commutes: $commutes, cost: $cost,
        }),+];
    };
}

use Lower::{Expand, Native};
use Oracle::{Both, Conversion, Float, Int};

pointwise! {
//  op       name       n takes   gives ulp cost comm  lowering                     meaning
    Add      "add"      2 Numbers Same  0 1   true,  Native,                      Both(|a| a[0] + a[1], |a, _| a[0] + a[1]);
    Sub      "sub"      2 Numbers Same  0 1   false, Native,                      Both(|a| a[0] - a[1], |a, _| a[0] - a[1]);
    Mul      "mul"      2 Numbers Same  0 1   true,  Native,                      Both(|a| a[0] * a[1], |a, _| a[0].wrapping_mul(a[1]));
    // Integers divide towards zero; by zero they give 0.
    Div      "div"      2 Numbers Same  0 4   false, Native,                      Both(|a| a[0] / a[1], |a, _| if a[1] == 0 { 0 } else { a[0] / a[1] });
    // The remainder has the divisor's sign (floor modulo); modulo zero an integer gives 0, a float NaN.
    Rem      "rem"      2 Numbers Same  0 46  false, Expand(math::remainder),     Both(floor_rem, |a, _| if a[1] == 0 { 0 } else { (a[0] % a[1] + a[1]) % a[1] });
    Fma      "fma"      3 Floats  Same  0 1   false, Native,                      Float(|a| a[0].mul_add(a[1], a[2]));
    Neg      "neg"      1 Numbers Same  0 1   false, Native,                      Both(|a| -a[0], |a, _| -a[0]);
    Abs      "abs"      1 Numbers Same  0 1   false, Native,                      Both(|a| a[0].abs(), |a, _| a[0].abs());
    // NaN if either operand is; −0 is below +0.
    Min      "min"      2 Numbers Same  0 2   true,  Native,                      Both(|a| minimum(a[0], a[1]), |a, _| a[0].min(a[1]));
    Max      "max"      2 Numbers Same  0 2   true,  Native,                      Both(|a| -minimum(-a[0], -a[1]), |a, _| a[0].max(a[1]));
    // −1, 0 or 1; a NaN and a zero of either sign give 0.
    Sign     "sign"     1 Numbers Same  0 4   false, Expand(math::sign),          Both(|a| if a[0] > 0.0 { 1.0 } else if a[0] < 0.0 { -1.0 } else { 0.0 }, |a, _| a[0].signum());
    Sqrt     "sqrt"     1 Floats  Same  0 4   false, Native,                      Float(|a| a[0].sqrt());
    Recip    "recip"    1 Floats  Same  0 4   false, Expand(math::recip),         Float(|a| 1.0 / a[0]);
    Floor    "floor"    1 Floats  Same  0 1   false, Native,                      Float(|a| a[0].floor());
    Ceil     "ceil"     1 Floats  Same  0 1   false, Native,                      Float(|a| a[0].ceil());
    Trunc    "trunc"    1 Floats  Same  0 1   false, Native,                      Float(|a| a[0].trunc());
    // Ties go to the even neighbour.
    Round    "round"    1 Floats  Same  0 1   false, Native,                      Float(|a| a[0].round_ties_even());
    Eq       "eq"       2 All     Bool  0 1   true,  Native,                      Both(|a| truth(a[0] == a[1]), |a, _| (a[0] == a[1]).into());
    Ne       "ne"       2 All     Bool  0 1   true,  Native,                      Both(|a| truth(a[0] != a[1]), |a, _| (a[0] != a[1]).into());
    Lt       "lt"       2 All     Bool  0 1   false, Native,                      Both(|a| truth(a[0] < a[1]), |a, _| (a[0] < a[1]).into());
    Le       "le"       2 All     Bool  0 1   false, Native,                      Both(|a| truth(a[0] <= a[1]), |a, _| (a[0] <= a[1]).into());
    Gt       "gt"       2 All     Bool  0 1   false, Native,                      Both(|a| truth(a[0] > a[1]), |a, _| (a[0] > a[1]).into());
    Ge       "ge"       2 All     Bool  0 1   false, Native,                      Both(|a| truth(a[0] >= a[1]), |a, _| (a[0] >= a[1]).into());
    And      "and"      2 Bits    Same  0 1   true,  Native,                      Int(|a, _| a[0] & a[1]);
    Or       "or"       2 Bits    Same  0 1   true,  Native,                      Int(|a, _| a[0] | a[1]);
    Xor      "xor"      2 Bits    Same  0 1   true,  Native,                      Int(|a, _| a[0] ^ a[1]);
    Not      "not"      1 Bits    Same  0 1   false, Native,                      Int(|a, d| if d == DType::Bool { 1 - a[0] } else { !a[0] });
    // Shift counts are taken modulo the width; the right shift of a signed integer keeps the sign.
    Shl      "shl"      2 Ints    Same  0 1   false, Native,                      Int(|a, d| a[0] << shift_count(a[1], d));
    Shr      "shr"      2 Ints    Same  0 1   false, Native,                      Int(|a, d| a[0] >> shift_count(a[1], d));
    // The high half of the double-width product.
    MulHi    "mulhi"    2 Ints    Same  0 2   true,  Native,                      Int(|a, d| a[0].wrapping_mul(a[1]) >> d.bits());
    // Operands: condition (bool), value where it holds, value where it does not.
    Select   "select"   3 All     Same  0 1   false, Native,                      Both(|a| if a[0] != 0.0 { a[1] } else { a[2] }, |a, _| if a[0] != 0 { a[1] } else { a[2] });
    // Float to float rounds to nearest, ties to even. Float to integer truncates and saturates, NaN gives 0.
    // Integer to integer wraps. To bool: whether it differs from zero.
    Cast     "cast"     1 All     Named 0 1   false, Native,                      Conversion;
    // Between types of one width.
    Bitcast  "bitcast"  1 All     Named 0 1   false, Native,                      Conversion;
    IsNan    "is_nan"   1 Floats  Bool  0 1   false, Expand(math::is_nan),        Float(|a| truth(a[0].is_nan()));
    IsInf    "is_inf"   1 Floats  Bool  0 2   false, Expand(math::is_inf),        Float(|a| truth(a[0].is_infinite()));
    Exp      "exp"      1 Floats  Same  2 25  false, Expand(math::exp),           Float(|a| a[0].exp());
    // e^−|x|: what exp is of a number that is known to be no greater than 0, for less.
    ExpBelow "exp_below" 1 Floats Same 2 20 false, Expand(math::exp_below),       Float(|a| (-a[0].abs()).exp());
    Expm1    "expm1"    1 Floats  Same  2 29  false, Expand(math::expm1),         Float(|a| a[0].exp_m1());
    Log      "log"      1 Floats  Same  2 39  false, Expand(math::log),           Float(|a| a[0].ln());
    Log1p    "log1p"    1 Floats  Same  2 51  false, Expand(math::log1p),         Float(|a| a[0].ln_1p());
    Sin      "sin"      1 Floats  Same  2 120 false, Expand(math::sin),           Float(|a| a[0].sin());
    Cos      "cos"      1 Floats  Same  2 120 false, Expand(math::cos),           Float(|a| a[0].cos());
    Tan      "tan"      1 Floats  Same  2 130 false, Expand(math::tan),           Float(|a| a[0].tan());
    Sinh     "sinh"     1 Floats  Same  2 39  false, Expand(math::sinh),          Float(|a| a[0].sinh());
    Cosh     "cosh"     1 Floats  Same  2 26  false, Expand(math::cosh),          Float(|a| a[0].cosh());
    Tanh     "tanh"     1 Floats  Same  2 36  false, Expand(math::tanh),          Float(|a| a[0].tanh());
    Asin     "asin"     1 Floats  Same  2 28  false, Expand(math::asin),          Float(|a| a[0].asin());
    Acos     "acos"     1 Floats  Same  2 40  false, Expand(math::acos),          Float(|a| a[0].acos());
    Atan     "atan"     1 Floats  Same  2 29  false, Expand(math::atan),          Float(|a| a[0].atan());
    Asinh    "asinh"    1 Floats  Same  2 75  false, Expand(math::asinh),         Float(math::reference::asinh);
    Acosh    "acosh"    1 Floats  Same  2 74  false, Expand(math::acosh),         Float(math::reference::acosh);
    Atanh    "atanh"    1 Floats  Same  2 65  false, Expand(math::atanh),         Float(math::reference::atanh);
    Atan2    "atan2"    2 Floats  Same  2 57  false, Expand(math::atan2),         Float(|a| a[0].atan2(a[1]));
    // Integers: a negative exponent gives 0, but for the bases 1 and −1.
    Pow      "pow"      2 Numbers Same  2 95  false, Expand(math::pow),           Both(|a| a[0].powf(a[1]), int_pow);
    // Infinite if either operand is.
    Hypot    "hypot"    2 Floats  Same  2 12  true,  Expand(math::hypot),         Float(|a| a[0].hypot(a[1]));
    Erf      "erf"      1 Floats  Same  2 31  false, Expand(math::erf),           Float(math::reference::erf);
    // 1 / (1 + exp(−x))
    Sigmoid  "sigmoid"  1 Floats  Same  2 30  false, Expand(math::sigmoid),       Float(sigmoid);
}

fn truth(b: bool) -> f64 {
    f64::from(u8::from(b))
}

/// The smaller, NaN if either is, −0 below +0.
fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_negative() { a } else { b }
    } else {
        a.min(b)
    }
}

/// Without overflow on the side where the result is small.
fn sigmoid(a: &[f64]) -> f64 {
    let power = (-a[0].abs()).exp();
    (if a[0] < 0.0 { power } else { 1.0 }) / (1.0 + power)
}

/// `a − b·⌊a/b⌋`, exactly.
fn floor_rem(a: &[f64]) -> f64 {
    let r = a[0] % a[1];
    if r != 0.0 && (r < 0.0) != (a[1] < 0.0) { r + a[1] } else { r }
}

fn shift_count(count: i128, dtype: DType) -> i128 {
    count & i128::from(dtype.bits() - 1)
}

/// `base` to the power of `exponent`, modulo 2 to the power of the width.
fn int_pow(a: &[i128], dtype: DType) -> i128 {
    let (base, mut exponent) = (a[0], a[1]);
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => {
                if exponent % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let mask = (1i128 << dtype.bits()) - 1;
    let (mut square, mut product) = (base & mask, 1i128);
    while exponent > 0 {
        if exponent & 1 == 1 {
            product = product.wrapping_mul(square) & mask;
        }
        square = square.wrapping_mul(square) & mask;
        exponent >>= 1;
    }
    product
}

impl Pointwise {
    /// Everything known about this op.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The op of that printed name.
    pub fn parse(name: &str) -> Option<Pointwise> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.op)
    }
}

impl Row {
    /// Whether it gives bits of its operands as they are, so that no rounding is needed.
    pub fn moves_bits(&self) -> bool {
        matches!(self.op, Pointwise::Select | Pointwise::Bitcast)
    }

    /// Whether operands of this element type are allowed.
    pub fn accepts(&self, dtype: DType) -> bool {
        match self.takes {
            Takes::Floats => dtype.is_float(),
            Takes::Ints => dtype.is_int(),
            Takes::Numbers => dtype.class() != Class::Bool,
            Takes::Bits => !dtype.is_float(),
            Takes::All => true,
        }
    }

    /// The element type of the result for operands of type `dtype`; `None` where the instruction names it.
    pub fn result(&self, dtype: DType) -> Option<DType> {
        match self.gives {
            Gives::Same => Some(dtype),
            Gives::Bool => Some(DType::Bool),
            Gives::Named => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum_and_names_are_unique() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.op as usize, i);
            assert_eq!(Pointwise::parse(row.name), Some(row.op));
        }
    }

    #[test]
    fn integer_powers_wrap_and_take_negative_exponents() {
        assert_eq!(int_pow(&[3, 4], DType::I32), 81);
        assert_eq!(int_pow(&[2, 40], DType::I32), 0);
        assert_eq!(int_pow(&[-1, -3], DType::I32), -1);
        assert_eq!(int_pow(&[5, -1], DType::I32), 0);
    }
}
