//! The algebra of rows as tables.

use super::Map;
use crate::dtype::{Class, DType};
use crate::op::{Pointwise, scalar};
use crate::passes::rewrite::Rewriter;
use crate::tile::{Op, Value};
use Pointwise::*;

/// A constant of any type that has it.
#[derive(Clone, Copy, PartialEq)]
enum Number {
    Zero,
    /// −0.0; floats only.
    MinusZero,
    One,
    /// All bits.
    Ones,
}

use Number::{MinusZero, One, Ones, Zero};

impl Number {
    fn bits(self, dtype: DType) -> u64 {
        match self {
            Zero => 0,
            MinusZero => 1 << (dtype.bits() - 1),
            One => scalar::cast(DType::U8, dtype, 1),
            Ones if dtype == DType::Bool => 1,
            Ones => dtype.mask(),
        }
    }
}

/// The types for which an equation holds.
#[derive(Clone, Copy)]
enum On {
    Ints,
    Floats,
    Numbers,
    /// Integers and truth values.
    Bits,
}

impl On {
    fn holds(self, dtype: DType) -> bool {
        match self {
            On::Ints => dtype.is_int(),
            On::Floats => dtype.is_float(),
            On::Numbers => dtype.class() != Class::Bool,
            On::Bits => !dtype.is_float(),
        }
    }
}

/// `x ∘ c = x`.  For floats `x + 0` is none: it makes +0 of −0.
const NEUTRAL: &[(Pointwise, Number, On)] = &[
    (Add, Zero, On::Ints),
    (Add, MinusZero, On::Floats),
    (Sub, Zero, On::Numbers),
    (Mul, One, On::Numbers),
    (Div, One, On::Numbers),
    (Or, Zero, On::Bits),
    (Xor, Zero, On::Bits),
    (And, Ones, On::Bits),
    (Shl, Zero, On::Ints),
    (Shr, Zero, On::Ints),
];

/// `x ∘ c = c`
const ABSORBING: &[(Pointwise, Number, On)] =
    &[(Mul, Zero, On::Ints), (And, Zero, On::Bits), (Or, Ones, On::Bits), (MulHi, Zero, On::Ints)];

/// `x ∘ x = c`
const CANCELLING: &[(Pointwise, Number, On)] = &[
    (Sub, Zero, On::Ints),
    (Xor, Zero, On::Bits),
    (Eq, One, On::Bits),
    (Le, One, On::Bits),
    (Ge, One, On::Bits),
    (Ne, Zero, On::Bits),
    (Lt, Zero, On::Bits),
    (Gt, Zero, On::Bits),
];

/// `x ∘ x = x`
const IDEMPOTENT: &[Pointwise] = &[And, Or, Min, Max];

/// `f(g(x))` is `h(x)`, or `x` itself.
const TWICE: &[(Pointwise, Pointwise, On, Option<Pointwise>)] = &[
    (Neg, Neg, On::Numbers, None),
    (Not, Not, On::Bits, None),
    (Abs, Abs, On::Numbers, Some(Abs)),
    (Abs, Neg, On::Floats, Some(Abs)),
    (Floor, Floor, On::Floats, Some(Floor)),
    (Ceil, Ceil, On::Floats, Some(Ceil)),
    (Trunc, Trunc, On::Floats, Some(Trunc)),
    (Round, Round, On::Floats, Some(Round)),
];

/// The operand other than the constant that the table names, and that constant.
fn with_constant(map: &Map<'_>, table: &[(Pointwise, Number, On)]) -> Option<(Value, Value)> {
    let &[x, y] = map.args else { return None };
    let is = |i: usize| {
        let fits = |&&(op, number, on): &&(Pointwise, Number, On)| {
            op == map.op && on.holds(map.dtype) && map.constants[i] == Some(number.bits(map.dtype))
        };
        table.iter().any(|entry| fits(&entry))
    };
    if is(1) {
        Some((x, y))
    } else if map.op.row().commutes && is(0) {
        Some((y, x))
    } else {
        None
    }
}

pub(super) fn neutral(_: &mut Rewriter<'_>, map: &Map<'_>) -> Option<Value> {
    with_constant(map, NEUTRAL).map(|(x, _)| x)
}

pub(super) fn absorbing(_: &mut Rewriter<'_>, map: &Map<'_>) -> Option<Value> {
    with_constant(map, ABSORBING).map(|(_, constant)| constant)
}

pub(super) fn equal_operands(rewriter: &mut Rewriter<'_>, map: &Map<'_>) -> Option<Value> {
    let &[x, y] = map.args else { return None };
    if x != y {
        return None;
    }
    if IDEMPOTENT.contains(&map.op) {
        return Some(x);
    }
    let (_, number, _) = CANCELLING.iter().find(|(op, _, on)| *op == map.op && on.holds(map.dtype))?;
    let bits = number.bits(map.result.dtype);
    Some(rewriter.constant(map.result.clone(), bits))
}

pub(super) fn twice(rewriter: &mut Rewriter<'_>, map: &Map<'_>) -> Option<Value> {
    let &[x] = map.args else { return None };
    let inner = rewriter.definition(x)?;
    let Op::Map(inner_op) = inner.op else { return None };
    let holds = |(f, g, on, _): &&(_, _, On, _)| (*f, *g) == (map.op, inner_op) && on.holds(map.dtype);
    let (_, _, _, both) = TWICE.iter().find(holds)?;
    let innermost = inner.args[0];
    Some(match both {
        Some(op) => rewriter.push(Op::Map(*op), &[innermost], map.result.clone()),
        None => innermost,
    })
}
