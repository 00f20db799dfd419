//! Forms groups: decides which nodes get buffers, and which of those share a kernel.  Never looks at machines; what a
//! group becomes is decided when it is emitted.
//!
//! ```text
//!   roots    which nodes get buffers whatever their surroundings, and why
//!   score    how much company a group is to a node
//!   rules    what forbids them to share a kernel: a list, each with a name and its reason
//!   written  how a product's elements lie, so that its readers need no copy
//!   tail     which kernel finishes a product, part by part as it is computed
//!   finish   which product and tail are one kernel
//!   order    in which order the groups can run
//!   former   walks the nodes, asks the above, and keeps the groups free of circles
//!   explain  names, for a finished graph, the reason of each boundary that is left
//! ```

mod domain;
pub mod explain;
mod finish;
mod former;
mod order;
pub mod roots;
pub mod rules;
mod score;
pub mod tail;
mod written;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::attention::{Attention, slopes};
use super::choice::{Class, Way};
use super::group::Body;
use super::looped::Looped;
use super::trace::{Places, strided};
use crate::graph::{Graph, Node};

pub use explain::{Boundary, boundaries};
pub use former::groups;
pub use roots::Kept;
pub use rules::{RULES, Reason, Rule, Verdict};

/// What a group's kernel does.
#[derive(Clone, Debug)]
pub enum Work {
    /// Pointwise rows and reductions over one domain.
    Fused {
        /// Nodes with results, in order.
        roots: Vec<Node>,
        /// What it computes.
        body: Box<Body>,
    },
    /// A row that walks an axis, and what finishes it while it is at hand, if it is a product.
    Looped {
        /// The node, then those with results of what finishes it.
        roots: SmallVec<[Node; 2]>,
        /// What it computes.
        body: Box<Looped>,
        /// What the result's buffer must hold before.
        initial: Option<Box<Body>>,
    },
    /// An attention.
    Attention {
        /// The nodes whose values it writes: the result, and what gradients start from if there are any.
        roots: SmallVec<[Node; 2]>,
        /// What it computes.
        body: Box<Attention>,
    },
    /// Gradients of an attention.
    Slopes {
        /// The nodes whose values it writes.
        roots: SmallVec<[Node; 2]>,
        /// What it computes.
        body: Box<slopes::Body>,
    },
    /// A matrix product by the vendor's library, on strided operands.
    Gemm(Node),
    /// A sort.
    Sort(Node),
    /// Nothing any more: another group took its rows over.  Finished groups have none of these.
    United,
}

/// Rows that run together.
#[derive(Clone, Debug)]
pub struct Group {
    /// What is done.
    pub work: Work,
    /// Nodes whose buffers it reads.
    pub reads: FxHashSet<Node>,
    /// Groups that must run before, directly or not.
    pub before: FxHashSet<usize>,
    /// How many groups there were when it was started.
    pub formed: usize,
    /// Whether it is the tail of the product before it in the list of finished groups.
    pub is_tail: bool,
}

impl Group {
    /// Nodes whose values it writes to buffers.
    pub fn roots(&self) -> &[Node] {
        match &self.work {
            Work::Fused { roots, .. } => roots,
            Work::Attention { roots, .. } | Work::Slopes { roots, .. } | Work::Looped { roots, .. } => roots,
            Work::Gemm(root) | Work::Sort(root) => std::slice::from_ref(root),
            Work::United => &[],
        }
    }

    /// Nodes whose buffers it reads, sorted.
    pub fn loads(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = match &self.work {
            Work::Fused { body, .. } => body.exprs.loads().collect(),
            Work::Looped { body, initial, .. } => {
                body.exprs.loads().chain(initial.iter().flat_map(|i| i.exprs.loads())).collect()
            }
            Work::Attention { body, .. } => body.exprs.loads().chain(body.factors.iter().map(|f| f.0)).collect(),
            Work::Slopes { body, .. } => {
                body.exprs.loads().chain(body.factors.iter().chain(&body.rows).map(|f| f.0)).collect()
            }
            Work::Gemm(_) | Work::Sort(_) => self.reads.iter().copied().collect(),
            Work::United => Vec::new(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// All groups of a graph.
#[derive(Debug)]
pub struct Groups {
    /// The graph, with copies added where a view needs them.
    pub graph: Graph,
    /// In an order in which they can run.
    pub list: Vec<Group>,
    /// Nodes with buffers.
    pub places: Places,
    /// Why nodes have buffers that are no inputs.
    pub kept: FxHashMap<Node, Kept>,
    /// [`Plan::decided`](super::Plan::decided).
    pub decided: Vec<(Class, Way)>,
}

impl Groups {
    /// Nodes whose buffers the caller gets.
    pub fn outputs(&self) -> FxHashSet<Node> {
        self.graph.outputs.iter().filter_map(|&n| strided(&self.graph, &self.places, n)).map(|(base, _)| base).collect()
    }

    /// Rows that a kernel with these results computes, first the earliest.  A view counts where it is copied.
    pub fn rows(&self, roots: &[Node]) -> Vec<Node> {
        let graph = &self.graph;
        let mut seen: FxHashSet<Node> = FxHashSet::default();
        let mut open = roots.to_vec();
        while let Some(node) = open.pop() {
            let outside = self.places.contains_key(&node) && !roots.contains(&node);
            if !outside && seen.insert(node) {
                open.extend(graph.nodes[node].args.iter().copied());
            }
        }
        let counts = |n: &Node| !graph.nodes[*n].op.is_free() || roots.contains(n);
        let mut rows: Vec<Node> = seen.into_iter().filter(counts).collect();
        rows.sort_unstable();
        rows
    }
}

/// Nodes with buffers that the value of `node` is made of.
fn reads_of(graph: &Graph, places: &Places, node: Node) -> FxHashSet<Node> {
    let mut reads = FxHashSet::default();
    let mut seen = FxHashSet::default();
    let mut open = graph.nodes[node].args.to_vec();
    while let Some(node) = open.pop() {
        if !seen.insert(node) {
            continue;
        }
        match places.contains_key(&node) {
            true => {
                reads.insert(node);
            }
            false => open.extend(graph.nodes[node].args.iter().copied()),
        }
    }
    reads
}

#[cfg(test)]
mod tests;
