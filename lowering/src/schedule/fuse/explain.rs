//! Names the boundaries of finished groups: why the kernel that reads a value is not the one that computes it.  Asked
//! for by reports alone; nothing is decided here.

use rustc_hash::{FxHashMap, FxHashSet};

use super::rules::{Pair, REACH, Reason, Verdict, judge, kinds, merge};
use super::{Groups, Kept, Work, finish, reads_of, tail};
use crate::graph::Node;
use crate::schedule::plan::Options;

/// A value that one kernel stores and another one loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Number of the group that computes it.
    pub from: usize,
    /// Number of the group that reads it.
    pub to: usize,
    /// The value.
    pub node: Node,
    /// Why the reader has a kernel of its own.
    pub reason: Reason,
    /// Why the value is in memory at all, rather than computed anew by its reader.
    pub kept: Kept,
}

/// Every boundary between two groups, by reader, then by value.  Between a product and its tail there is none.
pub fn boundaries(groups: &Groups, options: &Options) -> Vec<Boundary> {
    let mut group_of: FxHashMap<Node, usize> = FxHashMap::default();
    for (at, group) in groups.list.iter().enumerate() {
        group_of.extend(group.roots().iter().map(|&n| (n, at)));
    }
    let mut found = Vec::new();
    for to in 0..groups.list.len() {
        for node in groups.list[to].loads() {
            let Some(&from) = group_of.get(&node).filter(|&&from| from != to) else { continue };
            if groups.list[to].is_tail && from + 1 == to {
                continue;
            }
            let reason =
                if options.fuse { reason((groups, options), &group_of, (from, to), node) } else { Reason::Unfused };
            let kept = groups.kept.get(&node).copied().unwrap_or(Kept::Viewed);
            found.push(Boundary { from, to, node, reason, kept });
        }
    }
    found
}

fn reason(
    (groups, options): (&Groups, &Options),
    group_of: &FxHashMap<Node, usize>,
    (from, to): (usize, usize),
    node: Node,
) -> Reason {
    let (list, graph, places) = (&groups.list, &groups.graph, &groups.places);
    if let (Work::Gemm(_), Work::Fused { .. }) = (&list[from].work, &list[to].work) {
        return tail::reason(groups, from, to);
    }
    if let (Some(_), Work::Fused { .. }) = (finish::product(graph, &list[from].work, options), &list[to].work) {
        let waits = list[to].before.iter().any(|&h| h > from);
        let taken = list[from].roots().len() > 1;
        return if taken {
            Reason::TailTaken
        } else if waits {
            Reason::WaitsForMore
        } else {
            Reason::FromBlocks
        };
    }
    if let Some(reason) = kinds(&list[from].work, &list[to].work) {
        return reason;
    }
    let Work::Fused { roots, body } = &list[from].work else { return Reason::FromLooped };
    // The first of the reader's values that is made of this one.
    let reader = list[to].roots().iter().find_map(|&root| {
        let reads = reads_of(graph, places, root);
        reads.contains(&node).then_some((root, reads))
    });
    let Some((root, reads)) = reader else { return Reason::Preferred };
    let pair = |reads| Pair { graph, places, groups: list, group_of, at: from, roots, body, node: root, reads };
    // What the reader's kernel computes itself is no obstacle between the two.
    let others: FxHashSet<Node> = reads.iter().copied().filter(|n| group_of.get(n) != Some(&to)).collect();
    if let Verdict::Refuse(reason) = judge(&pair(&others)) {
        return reason;
    }
    match merge(&pair(&reads)) {
        Err(reason) => reason,
        Ok(_) if list[to].formed >= list[from].formed + REACH => Reason::Far,
        Ok(_) => Reason::Preferred,
    }
}
