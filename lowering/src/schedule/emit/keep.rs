//! Values that are costly and wanted by two passes over the terms: the first pass leaves them where the result will lie,
//! the second finds them there.  Bits stay the same, since only values of the result's own type are left.

use cranelift_entity::SecondaryMap;

use super::super::expr::{Ex, Expr};
use super::super::group::Body;
use super::context::Emitter;
use crate::graph::random;

/// A value of at least this cost, in additions, is left in memory and not computed again.
const WORTH_KEEPING: u32 = 12;

/// A value that lies in the place of a result until that is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    /// The value.
    pub(super) ex: Ex,
    /// Number of the store.
    pub(super) store: usize,
}

/// What a pass that feeds the reductions `folds` should leave in the places of the results `later`.
pub(super) fn choose(e: &Emitter, body: &Body, folds: &[usize], later: &[usize], kept: &[Keep]) -> Vec<Keep> {
    let computed = body.exprs.needed(folds.iter().map(|&i| body.folds[i].input));
    let costs = costs(body);
    let mut keeps: Vec<Keep> = Vec::new();
    for &store in later {
        let result = body.stores[store].value;
        let fits = |ex: &Ex| {
            body.exprs.list[*ex].dtype == body.exprs.list[result].dtype
                && e.varies_walked(*ex)
                && costs[*ex] >= WORTH_KEEPING
                && !kept.iter().chain(&keeps).any(|k| k.ex == *ex || k.store == store)
        };
        let wanted = body.exprs.needed([result]);
        let best = wanted.intersection(&computed).copied().filter(fits).max_by_key(|&ex| (costs[ex], ex));
        keeps.extend(best.map(|ex| Keep { ex, store }));
    }
    keeps
}

/// What each expression costs together with its operands.
fn costs(body: &Body) -> SecondaryMap<Ex, u32> {
    let mut costs: SecondaryMap<Ex, u32> = SecondaryMap::new();
    for (ex, data) in &body.exprs.list {
        let own = match &data.expr {
            Expr::Map(op, _) => op.row().cost,
            Expr::Random { .. } => random::COST,
            _ => 0,
        };
        let below: u32 = data.expr.operands().iter().map(|&x| costs[x]).fold(0, u32::saturating_add);
        costs[ex] = own.saturating_add(below).min(1 << 20);
    }
    costs
}
