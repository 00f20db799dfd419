//! How much company a group is to a node: what both would read, once instead of twice.

use super::rules::Pair;
use crate::graph::Node;
use crate::schedule::expr::Expr;
use crate::schedule::group::Body;

/// An operand in common that differs from point to point of the group's domain.
const FULL: u64 = 100;

/// A smaller one that the group itself computes: it saves a launch.
const OWN: u64 = 1;

/// Operands in common, of which one per point counts for more than all that are smaller.  Sizes do not enter: a batch
/// of another size must form the same groups.  A bias or a scale in common is no reason to share a kernel.
pub fn score(pair: &Pair) -> u64 {
    let (roots, body) = (pair.roots, pair.body);
    let shared = pair.reads.iter().filter(|n| roots.contains(n) || pair.group().reads.contains(n));
    let weight = |n: Node| match (body.domain.is_full(pair.graph.dims(n)) || spans(body, n), roots.contains(&n)) {
        (true, _) => FULL,
        (false, true) => OWN,
        (false, false) => 0,
    };
    shared.map(|&n| weight(n)).sum()
}

/// Whether a kernel reads another element of `node` at each of its points: under a window or a transposition, too.
fn spans(body: &Body, node: Node) -> bool {
    let all = (1u128 << body.domain.axes.len()) - 1;
    body.exprs.list.values().any(|data| match &data.expr {
        Expr::Load { node: loaded, at, .. } => *loaded == node && body.exprs.followed(at) == all,
        _ => false,
    })
}
