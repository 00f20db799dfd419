//! How much company a group is to a node: what both would read, once instead of twice.

use super::rules::Pair;

/// An operand in common with one element per point of the group's domain.
const FULL: u64 = 100;

/// A smaller one that the group itself computes: it saves a launch.
const OWN: u64 = 1;

/// Operands in common, of which one per point counts for more than all that are smaller.  Sizes do not enter: a batch
/// of another size must form the same groups.  A bias or a scale in common is no reason to share a kernel.
pub fn score(pair: &Pair) -> u64 {
    let (roots, body) = (pair.roots, pair.body);
    let shared = pair.reads.iter().filter(|n| roots.contains(n) || pair.group().reads.contains(n));
    let weight = |n| match (body.domain.is_full(pair.graph.dims(n)), roots.contains(&n)) {
        (true, _) => FULL,
        (false, true) => OWN,
        (false, false) => 0,
    };
    shared.map(|&n| weight(n)).sum()
}
