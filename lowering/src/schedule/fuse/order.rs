//! Puts groups into an order in which they can run: each as early as its operands allow, a product's tail right after the
//! product, and what finishes a product's blocks in the product's own kernel.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Group, Work, finish, tail};
use crate::graph::{Graph, Node};
use crate::schedule::choice::{Class, Way};
use crate::schedule::plan::Options;
use crate::schedule::trace::{Places, strided};

struct Order<'a> {
    graph: &'a Graph,
    places: &'a Places,
    groups: &'a [Group],
    options: &'a Options,
}

/// The groups in an order in which they can run, each naming those before it by their new numbers; and in which way products
/// are computed that could be in another.
pub(super) fn ordered(
    (graph, places): (&Graph, &Places),
    groups: &[Group],
    options: &Options,
) -> (Vec<Group>, Vec<(Class, Way)>) {
    let mut decided = Vec::new();
    (Order { graph, places, groups, options }.list(&mut decided), decided)
}

impl Order<'_> {
    /// Whether all that must run before a group has run.
    fn is_ready(&self, at: usize, done: &FxHashMap<usize, usize>) -> bool {
        self.groups[at].before.iter().all(|h| done.contains_key(h))
    }

    /// The place in `order` of the kernel that can finish the product that group `at` has just computed.
    fn tail(&self, at: usize, order: &[usize], done: &FxHashMap<usize, usize>) -> Option<usize> {
        let Work::Gemm(product) = self.groups[at].work else { return None };
        let judge = |reader| {
            tail::judge((self.graph, self.places), self.groups, (at, reader), |h| done.contains_key(&h)).is_ok()
        };
        let found = self.options.fuse && !self.graph.nodes[product].is_empty();
        let mut readers = order.iter().enumerate().filter(|(_, at)| self.groups[**at].reads.contains(&product));
        readers.find(|(_, reader)| found && judge(**reader)).map(|(place, _)| place)
    }

    /// The kernel of the product that group `at` is and of the rows that finish it, whose place in `order` is given, where
    /// the two are one.
    fn finished(
        &self,
        at: usize,
        order: &[usize],
        done: &FxHashMap<usize, usize>,
        decided: &mut Vec<(Class, Way)>,
    ) -> Option<(usize, Work)> {
        let product = finish::product(self.graph, &self.groups[at].work, self.options)?;
        let tail = self.tail(at, order, done);
        let readers =
            order.iter().enumerate().filter(|(_, reader)| self.groups[**reader].reads.contains(&product.node));
        let ready = |reader: usize| self.groups[reader].before.iter().all(|h| done.contains_key(h));
        // The library's own tail is the one that the two ways are compared with.
        let mut readers =
            readers.filter(|&(place, &reader)| if product.by_library { tail == Some(place) } else { ready(reader) });
        readers.find_map(|(place, &reader)| {
            let is_wanted = self.is_wanted(product.node, reader);
            let reader = (&self.groups[reader], is_wanted);
            let work = finish::work((self.graph, self.places), product, reader, self.options, decided)?;
            Some((place, work))
        })
    }

    /// Whether a value is wanted by others than the group `reader`.
    fn is_wanted(&self, node: Node, reader: usize) -> bool {
        let (graph, places) = (self.graph, self.places);
        let is_seen = |&output: &Node| strided(graph, places, output).is_some_and(|(base, _)| base == node);
        let lives = |group: &Group| !matches!(group.work, Work::United);
        let mut others = self.groups.iter().enumerate().filter(|&(at, group)| at != reader && lives(group));
        others.any(|(_, group)| group.reads.contains(&node)) || graph.outputs.iter().any(is_seen)
    }

    fn list(&self, decided: &mut Vec<(Class, Way)>) -> Vec<Group> {
        let lives = |&at: &usize| !matches!(self.groups[at].work, Work::United);
        let mut order: Vec<usize> = (0..self.groups.len()).filter(lives).collect();
        let mut done: FxHashMap<usize, usize> = FxHashMap::default();
        let mut list: Vec<Group> = Vec::with_capacity(order.len());
        let mut last = None;
        while !order.is_empty() {
            let tail = last.and_then(|product| self.tail(product, &order, &done));
            let ready = tail.or_else(|| order.iter().position(|&at| self.is_ready(at, &done)));
            let Some(ready) = ready else { unreachable!("groups depend on each other in a circle") };
            let at = order.remove(ready);
            let mut group = self.groups[at].clone();
            group.is_tail = tail.is_some();
            done.insert(at, list.len());
            last = Some(at);
            if let Some((place, work)) = self.finished(at, &order, &done, decided) {
                let reader = order.remove(place);
                done.insert(reader, list.len());
                group.work = work;
                group.reads.extend(&self.groups[reader].reads);
                let own: FxHashSet<Node> = group.roots().iter().copied().collect();
                group.reads.retain(|n| !own.contains(n));
                group.before.extend(self.groups[reader].before.iter().filter(|&&h| h != at));
                last = None;
            }
            group.before = group.before.iter().map(|h| done[h]).collect();
            list.push(group);
        }
        list
    }
}
