//! A point of the domain while a kernel is written, and along which axes values vary: what does not vary along the
//! walked axes is computed once, and only what varies along an axis needs that axis' mask.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::super::affine::{Affine, Axis};
use super::super::expr::{Checks, Ex, Expr, FIRST_GATHER};
use super::context::{Emitter, PARALLEL_RUN, WALKED_RUN};
use crate::op::Pointwise;
use crate::tile::Value;

/// Which kinds of axes something varies along.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Varies {
    pub(super) parallel: bool,
    pub(super) walked: bool,
}

impl Varies {
    fn or(self, other: Varies) -> Varies {
        Varies { parallel: self.parallel || other.parallel, walked: self.walked || other.walked }
    }
}

/// A point of the domain, or a tile of points.
#[derive(Clone, Default)]
pub struct Point {
    /// Index along each axis: a scalar, or a tile.
    pub axes: Vec<Option<Value>>,
    /// Index along all parallel axes that tiles run along, as one.
    pub parallel_run: Option<Value>,
    /// Index along all reduced axes that tiles run along, as one.
    pub walked_run: Option<Value>,
    /// Which lanes of parallel axes lie inside; `None` for all.
    pub parallel_mask: Option<Value>,
    /// Which lanes of walked axes lie inside; `None` for all.
    pub walked_mask: Option<Value>,
    /// Results of reductions, by number.
    pub reduced: Vec<Option<Value>>,
    pub(super) known: FxHashMap<Ex, Value>,
    pub(super) checked: SmallVec<[Axis; 2]>,
}

impl Point {
    /// A point at which nothing is known yet.
    pub fn new(axes: usize, reduced: usize) -> Point {
        Point { axes: vec![None; axes], reduced: vec![None; reduced], ..Point::default() }
    }
}

impl Emitter<'_> {
    pub(super) fn expr_varies(&self, expr: &Expr) -> Varies {
        let checks = |c: &Checks| c.iter().fold(Varies::default(), |v, c| v.or(self.place_varies(&c.at)));
        match expr {
            Expr::Constant(_) | Expr::Slot(_) => Varies::default(),
            Expr::Index(at) | Expr::Random { at, .. } => self.place_varies(at),
            Expr::Load { at, checks: c, .. } => self.place_varies(at).or(checks(c)),
            Expr::Map(_, args) => args.iter().fold(Varies::default(), |v, a| v.or(self.varies[a.as_u32() as usize])),
            Expr::Guard { checks: c, value, .. } => checks(c).or(self.varies[value.as_u32() as usize]),
            Expr::Reduced(_) => Varies { parallel: true, walked: false },
        }
    }

    /// Whether a value differs from term to term.
    pub(super) fn varies_walked(&self, ex: Ex) -> bool {
        self.varies[ex.as_u32() as usize].walked
    }

    pub(super) fn place_varies(&self, at: &Affine) -> Varies {
        at.terms.iter().fold(Varies::default(), |v, t| v.or(self.axis_varies(t.0)))
    }

    pub(super) fn axis_varies(&self, axis: Axis) -> Varies {
        let walked = match axis {
            PARALLEL_RUN => false,
            WALKED_RUN => true,
            axis if axis < FIRST_GATHER => self.walked[axis as usize],
            axis => return self.varies[self.exprs.gathers[(axis - FIRST_GATHER) as usize].index.as_u32() as usize],
        };
        Varies { parallel: !walked, walked }
    }

    /// The mask of what varies so.
    pub(super) fn mask(&mut self, varies: Varies, point: &Point) -> Option<Value> {
        let (parallel, walked) = (point.parallel_mask, point.walked_mask);
        self.both(parallel.filter(|_| varies.parallel), walked.filter(|_| varies.walked))
    }

    /// Where two masks hold; `None` is everywhere.
    pub(super) fn both(&mut self, x: Option<Value>, y: Option<Value>) -> Option<Value> {
        match (x, y) {
            (Some(x), Some(y)) => Some(self.op(Pointwise::And, x, y)),
            (x, y) => x.or(y),
        }
    }

    /// The same point with new indices along walked axes: what does not vary along them stays known.
    pub fn inside(&self, point: &Point) -> Point {
        let mut inner = point.clone();
        inner.known.retain(|ex, _| !self.varies[ex.as_u32() as usize].walked);
        let gathers = &self.exprs.gathers;
        let fixed = |a: &mut Axis| !self.varies[gathers[(*a - FIRST_GATHER) as usize].index.as_u32() as usize].walked;
        inner.checked.retain(fixed);
        inner
    }

    /// Asks for what these values take from memory, where that comes first; what is looked up by a computed index waits.
    pub fn ask(&mut self, wanted: impl IntoIterator<Item = Ex>, point: &mut Point) {
        if !self.asks_first {
            return;
        }
        let exprs = self.exprs;
        let mut open: Vec<Ex> = wanted.into_iter().filter(|ex| !point.known.contains_key(ex)).collect();
        let mut loads: Vec<Ex> = Vec::new();
        while let Some(ex) = open.pop() {
            let expr = &exprs.list[ex].expr;
            match expr {
                Expr::Load { at, checks, .. } if is_at_hand(at) && checks.iter().all(|c| is_at_hand(&c.at)) => {
                    loads.push(ex);
                }
                _ => open.extend(expr.operands().iter().filter(|ex| !point.known.contains_key(ex))),
            }
        }
        loads.sort_unstable();
        loads.dedup();
        for ex in loads {
            self.value(ex, point);
        }
    }

    /// Computes ahead of a loop what does not vary inside it.
    pub fn hoist(&mut self, ex: Ex, point: &mut Point) {
        self.hoist_unseen(ex, point, &mut FxHashSet::default());
    }

    /// Likewise, what was not met yet: an expression may have many users.
    fn hoist_unseen(&mut self, ex: Ex, point: &mut Point, seen: &mut FxHashSet<Ex>) {
        if point.known.contains_key(&ex) || !seen.insert(ex) {
            return;
        }
        if !self.varies[ex.as_u32() as usize].walked {
            self.value(ex, point);
            return;
        }
        let exprs = self.exprs;
        match &exprs.list[ex].expr {
            Expr::Map(_, args) => args.iter().for_each(|&a| self.hoist_unseen(a, point, seen)),
            Expr::Guard { value, .. } => self.hoist_unseen(*value, point, seen),
            _ => {}
        }
    }
}

/// Whether a place is known without looking anything up.
fn is_at_hand(at: &Affine) -> bool {
    at.terms.iter().all(|&(axis, _)| axis < FIRST_GATHER)
}

#[cfg(test)]
mod tests {
    use crate::DType;
    use crate::graph::{Array, Graph, Reduction};
    use crate::op::Pointwise;
    use crate::schedule::{Grain, Options, execute};

    /// Each sum has the one before twice: sixty of them have one way back for each bit of a number of sixty.
    #[test]
    fn operands_of_many_users_are_followed_once() {
        let mut g = Graph::new();
        let mut x = g.input(DType::F32, &[3, 10]);
        for _ in 0..60 {
            x = g.map(Pointwise::Add, &[x, x]);
        }
        let sum = g.reduce(Reduction::Sum, x, &[1], DType::F32);
        g.outputs.push(sum);
        let options = Options::new(true, None, Grain::of_vectors(4));
        let ones = Array::from_floats(DType::F32, &[3, 10], &[1.0; 30]);
        let got = execute::run(&g, (&[ones], &[]), &options, false).unwrap().remove(0);
        assert_eq!(got.floats(), [10.0 * 60f64.exp2(); 3]);
    }
}
