//! Runs expansions on numbers: records the rows once, then applies them one by one to blocks of operands.
//!
//! Knows native rows only, on f32, f64, integers and booleans; an expansion that uses anything else panics.

use super::super::expander::{Expander, Term};
use super::super::pointwise::{Lower, Pointwise};
use crate::dtype::{Class, DType};

/// An expansion as a list of native rows.
pub struct Recording {
    steps: Vec<(Step, DType)>,
}

enum Step {
    Operand(usize),
    Constant(u64),
    Row(Pointwise, Vec<Term>),
}

impl Recording {
    /// What `op` becomes on operands of type `dtype`.
    pub fn of(op: Pointwise, dtype: DType) -> Recording {
        let mut recording = Recording { steps: Vec::new() };
        let operands: Vec<Term> =
            (0..op.row().arity).map(|i| recording.push(Step::Operand(i), dtype)).collect();
        match op.row().lower {
            Lower::Native => recording.row(op, &operands),
            Lower::Expand(expand) => {
                let result = expand(&mut recording, &operands);
                assert_eq!(result.0 as usize + 1, recording.steps.len(), "{}: the result is the last row", op.row().name);
                result
            }
        };
        recording
    }

    /// Number of rows, constants and operands not counted.
    pub fn rows(&self) -> usize {
        self.steps.iter().filter(|(step, _)| matches!(step, Step::Row(..))).count()
    }

    /// The results for operands given as bit patterns, one slice an operand, all of one length.
    pub fn run(&self, operands: &[&[u64]]) -> Vec<u64> {
        let mut values: Vec<Vec<u64>> = Vec::with_capacity(self.steps.len());
        let length = operands[0].len();
        for (step, dtype) in &self.steps {
            let value = match step {
                Step::Operand(i) => operands[*i].to_vec(),
                Step::Constant(bits) => vec![*bits; length],
                Step::Row(op, args) => {
                    let from = self.steps[args.last().map_or(0, |t| t.0 as usize)].1;
                    let args: Vec<&[u64]> = args.iter().map(|t| &values[t.0 as usize][..]).collect();
                    apply(*op, from, *dtype, &args)
                }
            };
            values.push(value);
        }
        values.pop().unwrap_or_default()
    }

    fn push(&mut self, step: Step, dtype: DType) -> Term {
        self.steps.push((step, dtype));
        Term(self.steps.len() as u32 - 1)
    }
}

impl Expander for Recording {
    fn row(&mut self, op: Pointwise, args: &[Term]) -> Term {
        let row = op.row();
        let dtype = self.dtype(args[args.len() - 1]);
        assert!(matches!(row.lower, Lower::Native), "{} is not a native row", row.name);
        assert_eq!(args.len(), row.arity, "{} takes {} operands", row.name, row.arity);
        assert!(row.accepts(dtype), "{} does not take {dtype}", row.name);
        for (i, &arg) in args.iter().enumerate() {
            let wanted = if op == Pointwise::Select && i == 0 { DType::Bool } else { dtype };
            assert_eq!(self.dtype(arg), wanted, "operand {i} of {}", row.name);
        }
        let result = row.result(dtype).unwrap_or_else(|| panic!("{} needs a type: use convert", row.name));
        self.push(Step::Row(op, args.to_vec()), result)
    }

    fn convert(&mut self, op: Pointwise, arg: Term, to: DType) -> Term {
        assert!(op != Pointwise::Bitcast || self.dtype(arg).bits() == to.bits(), "bitcast between widths");
        self.push(Step::Row(op, vec![arg]), to)
    }

    fn constant(&mut self, dtype: DType, bits: u64) -> Term {
        self.push(Step::Constant(bits), dtype)
    }

    fn dtype(&self, term: Term) -> DType {
        self.steps[term.0 as usize].1
    }
}

fn apply(op: Pointwise, from: DType, to: DType, args: &[&[u64]]) -> Vec<u64> {
    use Pointwise as P;
    match op {
        P::Select => (0..args[0].len()).map(|i| if args[0][i] != 0 { args[1][i] } else { args[2][i] }).collect(),
        P::Bitcast => args[0].to_vec(),
        P::Cast => args[0].iter().map(|&x| cast(x, from, to)).collect(),
        _ if from == DType::F32 => float::<f32>(op, args),
        _ if from == DType::F64 => float::<f64>(op, args),
        _ => integer(op, from, args),
    }
}

trait Real: Copy + PartialOrd {
    fn of_bits(bits: u64) -> Self;
    fn pattern(self) -> u64;
    fn binary(op: Pointwise) -> fn(Self, Self) -> Self;
    fn unary(op: Pointwise) -> fn(Self) -> Self;
    fn fma(self, y: Self, z: Self) -> Self;
}

macro_rules! real {
    ($t:ty, $bits:ty) => {
        impl Real for $t {
            #[inline(always)]
            fn of_bits(bits: u64) -> Self {
                <$t>::from_bits(bits as $bits)
            }
            #[inline(always)]
            fn pattern(self) -> u64 {
                u64::from(self.to_bits())
            }
            fn binary(op: Pointwise) -> fn(Self, Self) -> Self {
                match op {
                    Pointwise::Min => |x, y| {
                        if x.is_nan() || x < y || (x == y && x.is_sign_negative()) { x } else { y }
                    },
                    Pointwise::Max => |x, y| {
                        if x.is_nan() || x > y || (x == y && x.is_sign_positive()) { x } else { y }
                    },
                    other => panic!("{} on floats", other.row().name),
                }
            }
            fn unary(op: Pointwise) -> fn(Self) -> Self {
                match op {
                    Pointwise::Floor => <$t>::floor,
                    Pointwise::Ceil => <$t>::ceil,
                    Pointwise::Trunc => <$t>::trunc,
                    Pointwise::Round => <$t>::round_ties_even,
                    Pointwise::Sqrt => <$t>::sqrt,
                    other => panic!("{} on floats", other.row().name),
                }
            }
            #[inline(always)]
            fn fma(self, y: Self, z: Self) -> Self {
                self.mul_add(y, z)
            }
        }
    };
}

real!(f32, u32);
real!(f64, u64);

fn float<T>(op: Pointwise, args: &[&[u64]]) -> Vec<u64>
where
    T: Real + std::ops::Add<Output = T> + std::ops::Sub<Output = T> + std::ops::Mul<Output = T> + std::ops::Div<Output = T>,
{
    use Pointwise as P;
    fn map<T: Real>(x: &[u64], f: impl Fn(T) -> u64) -> Vec<u64> {
        x.iter().map(|&x| f(T::of_bits(x))).collect()
    }
    fn zip<T: Real>(args: &[&[u64]], f: impl Fn(T, T) -> u64) -> Vec<u64> {
        args[0].iter().zip(args[1]).map(|(&x, &y)| f(T::of_bits(x), T::of_bits(y))).collect()
    }
    // Neg and Abs act on the sign alone, NaNs included.
    let sign = if size_of::<T>() == 8 { 1 << 63 } else { 1 << 31 };
    match op {
        P::Add => zip::<T>(args, |x, y| (x + y).pattern()),
        P::Sub => zip::<T>(args, |x, y| (x - y).pattern()),
        P::Mul => zip::<T>(args, |x, y| (x * y).pattern()),
        P::Div => zip::<T>(args, |x, y| (x / y).pattern()),
        P::Eq => zip::<T>(args, |x, y| (x == y).into()),
        P::Ne => zip::<T>(args, |x, y| (x != y).into()),
        P::Lt => zip::<T>(args, |x, y| (x < y).into()),
        P::Le => zip::<T>(args, |x, y| (x <= y).into()),
        P::Gt => zip::<T>(args, |x, y| (x > y).into()),
        P::Ge => zip::<T>(args, |x, y| (x >= y).into()),
        P::Neg => args[0].iter().map(|&x| x ^ sign).collect(),
        P::Abs => args[0].iter().map(|&x| x & !sign).collect(),
        P::Fma => (0..args[0].len())
            .map(|i| T::of_bits(args[0][i]).fma(T::of_bits(args[1][i]), T::of_bits(args[2][i])).pattern())
            .collect(),
        P::Min | P::Max => {
            let f = T::binary(op);
            zip::<T>(args, |x, y| f(x, y).pattern())
        }
        _ => {
            let f = T::unary(op);
            map::<T>(args[0], |x| f(x).pattern())
        }
    }
}

fn mask(dtype: DType) -> u64 {
    if dtype == DType::Bool { 1 } else { u64::MAX >> (64 - dtype.bits()) }
}

/// The number in the low bits of `x`, sign-extended for signed types.
fn widen(x: u64, dtype: DType) -> i64 {
    let unused = 64 - dtype.bits();
    if dtype.is_signed() { (x << unused) as i64 >> unused } else { x as i64 }
}

fn integer(op: Pointwise, dtype: DType, args: &[&[u64]]) -> Vec<u64> {
    use Pointwise as P;
    let (mask, bits, signed) = (mask(dtype), dtype.bits(), dtype.is_signed());
    let map = |f: fn(u64) -> u64| args[0].iter().map(|&x| f(x) & mask).collect();
    let zip = |f: &dyn Fn(u64, u64) -> u64| args[0].iter().zip(args[1]).map(|(&x, &y)| f(x, y) & mask).collect();
    let wide = |x| widen(x, dtype);
    // Flipping the sign bit maps the order of signed numbers to that of unsigned ones.
    let flip = if signed { 1 << (bits - 1) } else { 0 };
    let less = move |x: u64, y: u64| x ^ flip < y ^ flip;
    match op {
        P::Add => zip(&|x, y| x.wrapping_add(y)),
        P::Sub => zip(&|x, y| x.wrapping_sub(y)),
        P::Mul => zip(&|x, y| x.wrapping_mul(y)),
        P::Div if signed => zip(&|x, y| if y == 0 { 0 } else { wide(x).wrapping_div(wide(y)) as u64 }),
        P::Div => zip(&|x, y| x.checked_div(y).unwrap_or(0)),
        P::MulHi if signed => zip(&|x, y| (i128::from(wide(x)) * i128::from(wide(y)) >> bits) as u64),
        P::MulHi if bits == 32 => zip(&|x, y| x * y >> 32),
        P::MulHi => zip(&|x, y| (u128::from(x) * u128::from(y) >> bits) as u64),
        P::And => zip(&|x, y| x & y),
        P::Or => zip(&|x, y| x | y),
        P::Xor => zip(&|x, y| x ^ y),
        P::Shl => zip(&|x, y| x << (y & u64::from(bits - 1))),
        P::Shr if signed => zip(&|x, y| (wide(x) >> (y & u64::from(bits - 1))) as u64),
        P::Shr => zip(&|x, y| x >> (y & u64::from(bits - 1))),
        P::Eq => zip(&|x, y| (x == y).into()),
        P::Ne => zip(&|x, y| (x != y).into()),
        P::Lt => zip(&|x, y| less(x, y).into()),
        P::Gt => zip(&|x, y| less(y, x).into()),
        P::Le => zip(&|x, y| (!less(y, x)).into()),
        P::Ge => zip(&|x, y| (!less(x, y)).into()),
        P::Min => zip(&|x, y| if less(y, x) { y } else { x }),
        P::Max => zip(&|x, y| if less(x, y) { y } else { x }),
        P::Not => map(|x| !x),
        P::Neg => map(|x| x.wrapping_neg()),
        P::Abs => args[0].iter().map(|&x| wide(x).wrapping_abs() as u64 & mask).collect(),
        other => panic!("{} on integers", other.row().name),
    }
}

fn cast(x: u64, from: DType, to: DType) -> u64 {
    let number = match from {
        DType::F32 => f64::from(f32::from_bits(x as u32)),
        DType::F64 => f64::from_bits(x),
        _ if to == DType::F32 && from.is_signed() => return (widen(x, from) as f32).pattern(),
        _ if to == DType::F32 => return (x as f32).pattern(),
        _ if to == DType::F64 && from.is_signed() => return (widen(x, from) as f64).pattern(),
        _ if to == DType::F64 => return (x as f64).pattern(),
        _ if to == DType::Bool => return u64::from(x != 0),
        _ => return widen(x, from) as u64 & mask(to),
    };
    match (to, to.class()) {
        (DType::F32, _) => (number as f32).pattern(),
        (DType::F64, _) => number.pattern(),
        (_, Class::Bool) => u64::from(number != 0.0),
        (_, Class::Unsigned) => (number as u64).min(mask(to)),
        _ => {
            let limit = (mask(to) >> 1) as i64;
            (number as i64).clamp(-limit - 1, limit) as u64 & mask(to)
        }
    }
}

/// How far `got` is from `wanted`, in units in the last place of `wanted` as a number of type `dtype` (`f32` or `f64`);
/// infinite where one is NaN, infinite or of another sign than the other without reason.
pub fn ulps(got: f64, wanted: f64, dtype: DType) -> f64 {
    let rounded = if dtype == DType::F32 { f64::from(wanted as f32) } else { wanted };
    if got.is_nan() && wanted.is_nan() {
        return 0.0;
    }
    if got == rounded && (got != 0.0 || got.is_sign_negative() == wanted.is_sign_negative()) && (got == 0.0 || got.is_infinite()) {
        return 0.0;
    }
    if !got.is_finite() || !rounded.is_finite() || got.is_sign_negative() != wanted.is_sign_negative() {
        return f64::INFINITY;
    }
    let (digits, least) = if dtype == DType::F32 { (23, -126) } else { (52, -1022) };
    let exponent = (((wanted.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(least);
    // In two factors, as the unit of the smallest numbers has an inverse beyond the range.
    (got - wanted).abs() * 2f64.powi(-exponent / 2) * 2f64.powi(digits - exponent + exponent / 2)
}
