//! Computes constants and applies equations that never change a bit.  Each rule stands under its equation; the tables of
//! neutral elements and the like are in [`table`].

mod control;
mod conversions;
#[cfg(test)]
mod exhaustive;
mod moves;
mod table;

use smallvec::{SmallVec, smallvec};

use super::Pass;
use super::rewrite::{Replacement, Rewriter, rewrite};
use crate::dtype::DType;
use crate::op::{Pointwise, scalar};
use crate::tile::{Inst, InstData, Op, Program, Type, Value};

/// Folds constants and simplifies.
pub(super) const PASS: Pass = Pass { name: "fold", run: fold };

/// Gives what stands for an instruction, if its equation applies.
type Rule = fn(&mut Rewriter<'_>, &InstData) -> Option<Replacement>;

/// All rules; the first that applies is taken.
const RULES: &[Rule] = &[
    pointwise,
    conversions::casts,
    conversions::bitcasts,
    moves::of_constants,
    moves::that_stay,
    moves::in_a_row,
    control::masks,
    control::branches,
    control::loops,
    control::checks,
    control::reductions_of_one,
];

fn fold(program: &mut Program) {
    rewrite(program, &mut |rewriter: &mut Rewriter<'_>, inst: Inst| {
        let data = rewriter.program.insts[inst].clone();
        RULES.iter().find_map(|rule| rule(rewriter, &data))
    });
}

/// A row and what is known of its operands.
struct Map<'i> {
    op: Pointwise,
    args: &'i [Value],
    /// Bits of the operands that are constant.
    constants: SmallVec<[Option<u64>; 4]>,
    /// Element type of the (last) operand.
    dtype: DType,
    result: Type,
}

/// Rules on rows; the first that applies is taken.
const ON_ROWS: &[fn(&mut Rewriter<'_>, &Map<'_>) -> Option<Value>] = &[
    constants,
    table::neutral,
    table::absorbing,
    table::equal_operands,
    table::twice,
    negated_dividend,
    select,
    uniform,
];

fn pointwise(rewriter: &mut Rewriter<'_>, inst: &InstData) -> Option<Replacement> {
    let Op::Map(op) = inst.op else { return None };
    let map = Map {
        op,
        args: &inst.args,
        constants: inst.args.iter().map(|&a| rewriter.constant_bits(a)).collect(),
        dtype: rewriter.ty(*inst.args.last()?).dtype,
        result: rewriter.ty(inst.results[0]).clone(),
    };
    ON_ROWS.iter().find_map(|rule| rule(rewriter, &map)).map(|value| smallvec![value])
}

/// A row of constants is a constant.
fn constants(rewriter: &mut Rewriter<'_>, map: &Map<'_>) -> Option<Value> {
    let bits: Vec<u64> = map.constants.iter().copied().collect::<Option<_>>()?;
    let bits = scalar::eval(map.op, map.dtype, map.result.dtype, &bits);
    Some(rewriter.constant(map.result.clone(), bits))
}

/// `select(true, x, y) = x`, `select(false, x, y) = y`, `select(c, x, x) = x`
fn select(_: &mut Rewriter<'_>, map: &Map<'_>) -> Option<Value> {
    let (Pointwise::Select, &[_, x, y]) = (map.op, map.args) else { return None };
    match map.constants[0] {
        Some(0) => Some(y),
        Some(_) => Some(x),
        None => (x == y).then_some(x),
    }
}

/// `(−x) / y = −(x / y)`: what is 0 stays +0, by which quotients are faster.
fn negated_dividend(rewriter: &mut Rewriter<'_>, map: &Map<'_>) -> Option<Value> {
    let (Pointwise::Div, true, &[x, y]) = (map.op, map.dtype.is_float(), map.args) else { return None };
    let negated = rewriter.definition(x).filter(|inner| inner.op == Op::Map(Pointwise::Neg))?;
    let x = negated.args[0];
    let quotient = rewriter.push(Op::Map(Pointwise::Div), &[x, y], map.result.clone());
    Some(rewriter.push(Op::Map(Pointwise::Neg), &[quotient], map.result.clone()))
}

/// `op(broadcast(x), broadcast(y)) = broadcast(op(x, y))` for scalars `x` and `y`: once instead of once an element.
fn uniform(rewriter: &mut Rewriter<'_>, map: &Map<'_>) -> Option<Value> {
    if map.result.is_scalar() {
        return None;
    }
    let mut scalars = SmallVec::<[Value; 4]>::new();
    for (&arg, constant) in map.args.iter().zip(&map.constants) {
        if constant.is_none() {
            scalars.push(moves::broadcast_scalar(rewriter, arg)?);
        } else {
            scalars.push(arg);
        }
    }
    for (arg, constant) in scalars.iter_mut().zip(&map.constants) {
        if let Some(bits) = *constant {
            let ty = Type::scalar(rewriter.ty(*arg).dtype);
            *arg = rewriter.constant(ty, bits);
        }
    }
    let result = rewriter.push(Op::Map(map.op), &scalars, Type::scalar(map.result.dtype));
    Some(rewriter.push(Op::Broadcast, &[result], map.result.clone()))
}

#[cfg(test)]
mod tests;
