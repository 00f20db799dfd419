//! Reductions of terms that are mostly there as a whole, as those of chunks are of which the last is filled up: written once
//! with checks, and once without, for points all of whose terms are inside what is read.

use super::super::affine::Check;
use super::super::expr::FIRST_GATHER;
use super::super::group::Body;
use super::context::Emitter;
use super::point::Point;
use super::reduce::{Lanes, Terms, emit};
use crate::op::Pointwise;
use crate::tile::Value;

/// As [`emit`], both ways where that is possible.
pub fn emit_checked(e: &mut Emitter, body: &Body, terms: &Terms, lanes: Lanes, point: &mut Point) {
    let Some(inside) = terms.inside(e, point) else { return emit(e, body, terms, lanes, point) };
    let part = |e: &mut Emitter, unchecked: bool| {
        e.unchecked = unchecked;
        emit(e, body, terms, lanes, &mut point.clone());
        e.unchecked = false;
    };
    e.either(inside, |e| part(e, true), |e| part(e, false));
}

impl Terms {
    /// Whether all checks hold for all terms at a point, by one comparison each; nothing where there are none, or it takes
    /// more.
    fn inside(&self, e: &mut Emitter, point: &Point) -> Option<Value> {
        let checks = e.exprs.checks();
        let alone = self.run == self.first && self.inner.is_empty();
        // What begins inside and only grows is inside where it ends.
        let grows = |check: &&Check| {
            let at = &check.at;
            let up = at.constant >= 0 && at.terms.iter().all(|&(axis, by)| axis < FIRST_GATHER && by >= 0);
            up && at.denominator == 1 && check.divisor == 1
        };
        if checks.is_empty() || !alone || point.parallel_mask.is_some() || !checks.iter().all(|check| grows(&check)) {
            return None;
        }
        let one = e.int(1);
        let last = e.op(Pointwise::Sub, self.count, one);
        let mut end = e.inside(point);
        (end.axes[self.first], end.walked_run) = (Some(last), Some(last));
        let holds = e.holds(&checks, &mut end)?;
        e.b.ty(holds).is_scalar().then_some(holds)
    }
}
