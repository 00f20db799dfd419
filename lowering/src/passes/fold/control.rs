//! Masks, branches, loops and reductions whose outcome is known.

use smallvec::smallvec;

use crate::passes::rewrite::{Replacement, Rewriter};
use crate::tile::{InstData, Op};

/// A load under a mask that always holds needs none; under one that never does it gives `other`.  A store likewise.
pub(super) fn masks(rewriter: &mut Rewriter<'_>, inst: &InstData) -> Option<Replacement> {
    match inst.op {
        Op::Load(param) => {
            let mask = rewriter.constant_bits(*inst.args.get(1)?)?;
            if mask == 0 {
                return Some(smallvec![inst.args[2]]);
            }
            let ty = rewriter.ty(inst.results[0]).clone();
            Some(smallvec![rewriter.push(Op::Load(param), &inst.args[..1], ty)])
        }
        Op::Store(param, cache) => {
            let mask = rewriter.constant_bits(*inst.args.get(2)?)?;
            if mask != 0 {
                rewriter.effect(Op::Store(param, cache), &inst.args[..2]);
            }
            Some(smallvec![])
        }
        _ => None,
    }
}

/// `if true { a } else { b } = a`
pub(super) fn branches(rewriter: &mut Rewriter<'_>, inst: &InstData) -> Option<Replacement> {
    let Op::If { then, other } = inst.op else { return None };
    let condition = rewriter.constant_bits(inst.args[0])?;
    Some(rewriter.splice(if condition != 0 { then } else { other }))
}

/// A loop whose range is empty gives what it began with.
pub(super) fn loops(rewriter: &mut Rewriter<'_>, inst: &InstData) -> Option<Replacement> {
    let Op::For { .. } = inst.op else { return None };
    let bound = |i: usize| Some(rewriter.ty(inst.args[i]).dtype.sign_extend(rewriter.constant_bits(inst.args[i])?));
    (bound(0)? >= bound(1)? && bound(2)? > 0).then(|| inst.args[3..].iter().copied().collect())
}

/// A check that always holds reports nothing.
pub(super) fn checks(rewriter: &mut Rewriter<'_>, inst: &InstData) -> Option<Replacement> {
    let Op::Check(_) = inst.op else { return None };
    (rewriter.constant_bits(inst.args[0])? != 0).then(|| smallvec![])
}

/// Along an axis of extent 1, a reduction gives the elements as they are, and so does a scan.
pub(super) fn reductions_of_one(rewriter: &mut Rewriter<'_>, inst: &InstData) -> Option<Replacement> {
    let (Op::Reduce { axis, .. } | Op::Scan { axis, .. }) = inst.op else { return None };
    if rewriter.ty(inst.args[0]).shape[usize::from(axis)] != 1 {
        return None;
    }
    if let Op::Scan { .. } = inst.op {
        return Some(inst.args.iter().copied().collect());
    }
    let reshaped = inst.args.iter().zip(&inst.results).map(|(&x, &result)| {
        let ty = rewriter.ty(result).clone();
        rewriter.push(Op::Reshape, &[x], ty)
    });
    Some(reshaped.collect())
}
