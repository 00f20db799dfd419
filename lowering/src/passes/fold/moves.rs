//! Moves of elements that have nothing to move, or that follow one another.

use smallvec::smallvec;

use crate::passes::rewrite::{Replacement, Rewriter};
use crate::tile::{InstData, Op, Value};

/// Whether the operation puts elements of its one operand elsewhere, each at least once.
fn is_move(op: &Op) -> bool {
    matches!(op, Op::Broadcast | Op::ExpandDims(_) | Op::Reshape | Op::Trans(_))
}

/// The scalar that a tile repeats.
pub(super) fn broadcast_scalar(rewriter: &Rewriter<'_>, tile: Value) -> Option<Value> {
    let inst = rewriter.definition(tile)?;
    (inst.op == Op::Broadcast && rewriter.ty(inst.args[0]).is_scalar()).then(|| inst.args[0])
}

/// A move of equal elements gives equal elements.
pub(super) fn of_constants(rewriter: &mut Rewriter<'_>, inst: &InstData) -> Option<Replacement> {
    if !is_move(&inst.op) {
        return None;
    }
    let ty = rewriter.ty(inst.results[0]).clone();
    if let Some(bits) = rewriter.constant_bits(inst.args[0]) {
        return Some(smallvec![rewriter.constant(ty, bits)]);
    }
    let scalar = broadcast_scalar(rewriter, inst.args[0])?;
    Some(smallvec![if ty.is_scalar() { scalar } else { rewriter.push(Op::Broadcast, &[scalar], ty) }])
}

/// A broadcast or reshape to the same extents, and a transposition that keeps every axis, give their operand.
pub(super) fn that_stay(rewriter: &mut Rewriter<'_>, inst: &InstData) -> Option<Replacement> {
    let stays = match &inst.op {
        Op::Broadcast | Op::Reshape => rewriter.ty(inst.args[0]) == rewriter.ty(inst.results[0]),
        Op::Trans(perm) => perm.iter().enumerate().all(|(i, &p)| i == usize::from(p)),
        _ => false,
    };
    stays.then(|| smallvec![inst.args[0]])
}

/// `reshape(reshape(x)) = reshape(x)`, `trans(trans(x, p), q) = trans(x, p∘q)`, `broadcast(broadcast(x)) = broadcast(x)`
pub(super) fn in_a_row(rewriter: &mut Rewriter<'_>, inst: &InstData) -> Option<Replacement> {
    let inner = rewriter.definition(*inst.args.first()?)?;
    let op = match (&inst.op, &inner.op) {
        (Op::Reshape, Op::Reshape | Op::ExpandDims(_)) => Op::Reshape,
        (Op::Broadcast, Op::Broadcast) => Op::Broadcast,
        (Op::Trans(outer), Op::Trans(inner)) => Op::Trans(outer.iter().map(|&o| inner[usize::from(o)]).collect()),
        _ => return None,
    };
    let x = inner.args[0];
    let ty = rewriter.ty(inst.results[0]).clone();
    let same = *rewriter.ty(x) == ty
        && !matches!(&op, Op::Trans(p) if p.iter().enumerate().any(|(i, &p)| i != usize::from(p)));
    Some(smallvec![if same { x } else { rewriter.push(op, &[x], ty) }])
}
