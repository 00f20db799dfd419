//! Which nodes get buffers whatever their surroundings, and why.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{Graph, Movement, Node, Op, random};
use crate::schedule::attention::{self, Kernel};
use crate::schedule::implicit;
use crate::schedule::plan::Options;

/// A pointwise value used by two kernels is computed twice up to this cost, in additions; above, it gets a buffer.
const RECOMPUTE: u32 = 4;

/// A costly pointwise value is computed at this many points for each point of a kernel; above, it gets a buffer.  Views
/// of sums of views multiply: without a bound, sums of neighbours of sums of neighbours grow as a power of their depth.
const MOST_POINTS: u32 = 16;

/// Most rows that one kernel computes one after the other: compilers follow them by calling themselves.
const LONGEST: u32 = 512;

/// Why a node has a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kept {
    /// It is a reduction's result, which exists once the whole of its operand was seen.
    Reduced,
    /// It is made by a kernel of its own: a product, a sort, a scatter, a prefix.
    Made,
    /// The user holds it.
    Wanted,
    /// It is costly and used by several kernels: computed once.
    Shared,
    /// It is costly and read many times over: computed once.
    Repeated,
    /// It is made of as many rows as one kernel computes.
    Long,
    /// Its reader sees it through a view that index arithmetic cannot express, or addresses it by strides.
    Viewed,
    /// Fusing is off.
    Unfused,
}

impl Kept {
    /// The reason in words.
    pub const fn says(self) -> &'static str {
        match self {
            Kept::Reduced => "a reduction's result exists once its whole operand was seen",
            Kept::Made => "it is made by a kernel of its own",
            Kept::Wanted => "the program holds it",
            Kept::Shared => "costly and used by several kernels: computed once",
            Kept::Repeated => "costly and read many times over: computed once",
            Kept::Long => "as many rows lie behind it as one kernel computes",
            Kept::Viewed => "its reader needs it in memory, addressed by strides",
            Kept::Unfused => "fusing is off",
        }
    }
}

/// Nodes that get buffers whatever their surroundings.
pub fn roots(graph: &Graph, attentions: &FxHashMap<Node, Rc<Kernel>>, options: &Options) -> FxHashMap<Node, Kept> {
    let mut roots: FxHashMap<Node, Kept> = attentions.keys().map(|&node| (node, Kept::Made)).collect();
    let inside = attention::inner(attentions);
    for (node, data) in &graph.nodes {
        if inside.contains(&node) {
            continue;
        }
        if !options.fuse && !data.op.is_free() {
            roots.insert(node, Kept::Unfused);
        } else if matches!(data.op, Op::Reduce(..)) {
            roots.insert(node, Kept::Reduced);
        } else if !data.op.is_free() && !data.op.is_pointwise() && !matches!(data.op, Op::Gather(..)) {
            roots.insert(node, Kept::Made);
        }
    }
    let implicit = graph.nodes.keys().filter_map(|node| implicit::kept(graph, node, options));
    roots.extend(implicit.flatten().map(|node| (node, Kept::Viewed)));
    for &output in &graph.outputs {
        // A view shares the buffer of what it views.
        let node = viewed(graph, output);
        if !matches!(graph.nodes[node].op, Op::Input(_) | Op::Move(_) | Op::Constant(_) | Op::Scalar(_)) {
            roots.entry(node).or_insert(Kept::Wanted);
        }
    }
    keep_long(graph, &mut roots, &inside);
    // What several kernels would each compute anew, at a cost, gets a buffer too.
    let mut cost: FxHashMap<Node, u32> = FxHashMap::default();
    for (node, data) in &graph.nodes {
        let own = match &data.op {
            Op::Map(op) => op.row().cost,
            Op::Random(..) => random::COST,
            Op::Gather(..) => 3,
            _ => 0,
        };
        let args = data.args.iter().filter(|a| !roots.contains_key(a)).map(|a| cost[a]).sum::<u32>();
        cost.insert(node, own.saturating_add(args).min(1 << 20));
    }
    // What is costly and seen many times over is computed once.
    for data in graph.nodes.values() {
        let repeats = matches!(data.op, Op::Move(Movement::Expand | Movement::Window(_)));
        if repeats && data.len() > graph.nodes[data.args[0]].len() {
            let seen = viewed(graph, data.args[0]);
            if matches!(graph.nodes[seen].op, Op::Map(_)) && !inside.contains(&seen) && cost[&seen] >= RECOMPUTE {
                roots.entry(seen).or_insert(Kept::Repeated);
            }
        }
    }
    // Where each node's value ends up, up to two roots, and at how many points a kernel needs it.
    let mut ends: FxHashMap<Node, Vec<Node>> = FxHashMap::default();
    let mut points: FxHashMap<Node, Points> = FxHashMap::default();
    for (node, data) in graph.nodes.iter().rev() {
        let reached = ends.remove(&node).unwrap_or_default();
        let needed = points.remove(&node).unwrap_or_default().count();
        let computed = matches!(data.op, Op::Map(_) | Op::Random(..) | Op::Gather(..)) && !inside.contains(&node);
        if computed && cost[&node] >= RECOMPUTE {
            if reached.len() > 1 {
                roots.entry(node).or_insert(Kept::Shared);
            } else if needed > MOST_POINTS {
                roots.entry(node).or_insert(Kept::Repeated);
            }
        }
        let kept = roots.contains_key(&node);
        let passed = if kept { vec![node] } else { reached };
        let count = if kept { 1 } else { needed };
        for (at, &arg) in data.args.iter().enumerate() {
            let elsewhere = at == 0 && matches!(data.op, Op::Move(_) | Op::Gather(..));
            points.entry(arg).or_default().add(count, elsewhere);
            let list = ends.entry(arg).or_default();
            for &end in &passed {
                if list.len() < 2 && !list.contains(&end) {
                    list.push(end);
                }
            }
        }
    }
    roots
}

/// Keeps pointwise rows behind which there are too many others, one after the other, for a kernel to follow.
fn keep_long(graph: &Graph, roots: &mut FxHashMap<Node, Kept>, inside: &FxHashSet<Node>) {
    let mut behind: FxHashMap<Node, u32> = FxHashMap::default();
    for (node, data) in &graph.nodes {
        let args = data.args.iter().filter(|&arg| !roots.contains_key(arg));
        let rows = args.map(|arg| behind[arg]).max().unwrap_or(0) + 1;
        behind.insert(node, rows);
        if rows > LONGEST && matches!(data.op, Op::Map(_)) && !inside.contains(&node) {
            roots.entry(node).or_insert(Kept::Long);
        }
    }
}

/// At how many points a kernel computes a node for each point of its own.
#[derive(Default)]
struct Points {
    /// For pointwise readers, which share them.
    same: u32,
    /// For views and gathers, each of which has its own.
    elsewhere: u32,
}

impl Points {
    fn add(&mut self, count: u32, elsewhere: bool) {
        match elsewhere {
            true => self.elsewhere = self.elsewhere.saturating_add(count),
            false => self.same = self.same.max(count),
        }
    }

    fn count(&self) -> u32 {
        self.same.saturating_add(self.elsewhere).max(1)
    }
}

/// What a node is a view of, elements added by pads aside.
fn viewed(graph: &Graph, mut node: Node) -> Node {
    while let Op::Move(movement) = &graph.nodes[node].op
        && !matches!(movement, Movement::Pad { .. })
    {
        node = graph.nodes[node].args[0];
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::op::Pointwise;
    use crate::schedule::Grain;

    /// Nobody is called more often than there are rows in a kernel.
    #[test]
    fn long_chains_are_several_kernels() {
        let mut g = Graph::new();
        let mut x = g.input(DType::F32, &[10]);
        for _ in 0..2 * LONGEST + 10 {
            x = g.map(Pointwise::Sqrt, &[x]);
        }
        g.outputs.push(x);
        let options = Options::new(true, None, Grain::of_vectors(4));
        let kept = roots(&g, &FxHashMap::default(), &options);
        let kept: Vec<Kept> = g.nodes.keys().filter_map(|node| kept.get(&node).copied()).collect();
        assert_eq!(kept, [Kept::Long, Kept::Long, Kept::Wanted]);
    }
}
