//! Merges neighbouring axes that every access walks as one: fewer loops, longer runs.

use super::super::affine::{Affine, Axis};
use super::super::expr::Exprs;
use super::super::group::AxisData;

/// Merges what can be merged, in the axes, the expressions and the places of results.
pub fn collapse<'a>(axes: &mut Vec<AxisData>, exprs: &mut Exprs, places: impl IntoIterator<Item = &'a mut Affine>) {
    let mut places: Vec<&mut Affine> = places.into_iter().collect();
    let mut outer = 0;
    while outer + 1 < axes.len() {
        let (a, b) = (axes[outer], axes[outer + 1]);
        let (at, next) = (outer as Axis, outer as Axis + 1);
        let as_one = |e: &Affine| e.coefficient(at) == e.coefficient(next) * b.extent as i64;
        if a.reduced != b.reduced || !exprs.affines().all(as_one) || !places.iter().all(|p| as_one(p)) {
            outer += 1;
            continue;
        }
        axes[outer].extent = a.extent * b.extent;
        axes.remove(outer + 1);
        let merged = |e: &Affine| {
            let terms = e.terms.iter().filter(|t| t.0 != at);
            let terms = terms.map(|&(axis, c)| {
                (if axis > at && axis < super::super::expr::FIRST_GATHER { axis - 1 } else { axis }, c)
            });
            Affine { terms: terms.collect(), ..e.clone() }
        };
        exprs.rewrite(merged);
        for place in &mut places {
            **place = merged(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::schedule::expr::Expr;

    #[test]
    fn contiguous_axes_become_one_and_broadcast_ones_do_not() {
        let axis = |extent| AxisData { extent, reduced: false };
        let mut axes = vec![axis(2), axis(3), axis(4)];
        let mut exprs = Exprs::default();
        let at = |c: [i64; 3]| (0..3).fold(Affine::number(0), |s, i| s.plus(&Affine::axis(i).scale(c[i as usize])));
        exprs.add(Expr::Index(at([0, 4, 1])), DType::I64);
        let mut place = at([12, 4, 1]);
        collapse(&mut axes, &mut exprs, [&mut place]);
        assert_eq!(axes, [axis(2), axis(12)]);
        assert_eq!(place, Affine::axis(0).scale(12).plus(&Affine::axis(1)));
    }
}
