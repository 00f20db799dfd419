//! What forbids a node to share a group's kernel: one rule after the other, each with a name and what it says.  The
//! last word has the tracer, which writes the shared kernel or says what it could not follow.

use rustc_hash::{FxHashMap, FxHashSet};

use super::domain::{domain_of, join_domain};
use super::score::score;
use super::{Group, Work};
use crate::graph::{Graph, Node};
use crate::schedule::group::{self, Body, Domain};
use crate::schedule::trace::{Places, Stop};

/// How many groups back a row looks for company.  What runs together waits together, so that a longer reach keeps more in
/// memory; but the update of a parameter finds its gradient only beyond the backward pass of all layers.
pub const REACH: usize = 256;

/// Most loads and stores that one kernel makes.
pub const MOST_OPERANDS: usize = 24;

/// A node that looks for company, and a group of pointwise rows and reductions that may be it.
pub struct Pair<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// Nodes with buffers so far.
    pub places: &'a Places,
    /// All groups so far.
    pub groups: &'a [Group],
    /// Which group computes a node.
    pub group_of: &'a FxHashMap<Node, usize>,
    /// Number of the group.
    pub at: usize,
    /// What it computes into buffers.
    pub roots: &'a [Node],
    /// How.
    pub body: &'a Body,
    /// The node.
    pub node: Node,
    /// Nodes with buffers that the node is made of.
    pub reads: &'a FxHashSet<Node>,
}

/// Whether a pair may share a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Join,
    /// It may not.
    Refuse(Reason),
}

/// A condition for sharing a kernel.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What it asks for, and why.
    pub says: &'static str,
    /// Whether a pair keeps it.
    pub judge: fn(&Pair) -> Verdict,
}

/// Every rule, in the order in which they are asked: the cheapest first.
pub const RULES: &[Rule] = &[
    Rule {
        name: "company",
        says: "they read a value in common, or one reads what the other computes: otherwise a shared kernel saves nothing",
        judge: |pair| refuse_if(score(pair) == 0, Reason::NothingShared),
    },
    Rule { name: "domain", says: "both are computed over the same points, reduced along the same axes", judge: domain },
    Rule {
        name: "operands",
        says: "together they have at most 24 loads and stores, which a kernel's registers can address",
        judge: |pair| {
            let operands = pair.group().reads.union(pair.reads).count() + pair.roots.len();
            refuse_if(operands > MOST_OPERANDS, Reason::ManyOperands)
        },
    },
    Rule {
        name: "order",
        says: "nothing that must run between the group and the node depends on the group",
        judge: |pair| {
            let mut needed = pair.reads.iter().filter_map(|n| pair.group_of.get(n)).filter(|&&h| h != pair.at);
            refuse_if(needed.any(|&h| pair.groups[h].before.contains(&pair.at)), Reason::Circle)
        },
    },
];

fn refuse_if(broken: bool, reason: Reason) -> Verdict {
    if broken { Verdict::Refuse(reason) } else { Verdict::Join }
}

fn domain(pair: &Pair) -> Verdict {
    if join_domain(pair.graph, &pair.body.domain, pair.node).is_some() {
        return Verdict::Join;
    }
    let (dims, axes) = domain_of(pair.graph, pair.node);
    let same = pair.body.domain.full == Domain::new(&dims, &axes).full;
    Verdict::Refuse(if same { Reason::OtherAxes } else { Reason::OtherExtents })
}

impl Pair<'_> {
    /// The group.
    pub fn group(&self) -> &Group {
        &self.groups[self.at]
    }
}

/// What all rules say.
pub fn judge(pair: &Pair) -> Verdict {
    let refusal = RULES.iter().map(|rule| (rule.judge)(pair)).find(|&verdict| verdict != Verdict::Join);
    refusal.unwrap_or(Verdict::Join)
}

/// The kernel that computes both, once the rules allow it.
pub fn merge(pair: &Pair) -> Result<Body, Reason> {
    let Some(domain) = join_domain(pair.graph, &pair.body.domain, pair.node) else { return Err(Reason::OtherExtents) };
    let roots: Vec<Node> = pair.roots.iter().copied().chain([pair.node]).collect();
    let body = group::trace(pair.graph, pair.places, domain, &roots).map_err(|stop| match stop {
        Stop::Barrier(_) => Reason::OtherPoint,
        Stop::Materialize(_) | Stop::SplitAxis(..) => Reason::View,
    })?;
    // A node that has got a buffer since the group was formed must not become something to wait for.
    let known = |n: Node| pair.group().reads.contains(&n) || pair.reads.contains(&n);
    if body.exprs.loads().all(known) { Ok(body) } else { Err(Reason::Late) }
}

/// The kernel that computes the rows of two groups, and those rows, where it may: over one domain, with few enough
/// operands, and with nothing that must run between the two.
pub fn unite(graph: &Graph, places: &Places, groups: &[Group], at: usize, other: usize) -> Option<(Body, Vec<Node>)> {
    let (one, two) = (&groups[at], &groups[other]);
    let (Work::Fused { body, roots: first }, Work::Fused { roots: second, .. }) = (&one.work, &two.work) else {
        return None;
    };
    let operands = one.reads.union(&two.reads).count() + first.len() + second.len();
    let between = |from: usize, to: &Group| to.before.iter().any(|&h| groups[h].before.contains(&from));
    if operands > MOST_OPERANDS || between(at, two) || between(other, one) {
        return None;
    }
    let mut domain = body.domain.clone();
    for &root in second {
        domain = join_domain(graph, &domain, root)?;
    }
    let mut roots: Vec<Node> = first.iter().chain(second).copied().collect();
    roots.sort_unstable();
    let body = group::trace(graph, places, domain, &roots).ok()?;
    let known = |n: Node| one.reads.contains(&n) || two.reads.contains(&n);
    let whole = body.exprs.loads().all(known);
    whole.then_some((body, roots))
}

macro_rules! reasons {
    ($($variant:ident $name:literal $says:literal;)*) => {
        /// Why two kernels are not one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $(#[doc = $says] $variant,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Reason] = &[$(Reason::$variant,)*];

            /// A short name.
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name,)* }
            }

            /// The reason in words.
            pub const fn says(self) -> &'static str {
                match self { $(Reason::$variant => $says,)* }
            }
        }
    };
}

reasons! {
    FromLibrary "product by BLAS" "the product comes from the BLAS, which writes it to memory";
    TailTaken "has its epilogue" "the product has its epilogue already, which is another kernel";
    OthersTail "other's epilogue" "the reader is the epilogue of another product, which it waits for";
    WaitsForMore "waits for more" "the reader also waits for what is not there yet when the product is";
    OtherOrder "other order" "the reader goes over the product in another order than that in which it is written";
    ToLibrary "operand of BLAS" "the BLAS reads its operands from memory";
    Sorted "sort" "a sort needs its operand whole, and gives its result whole";
    FromBlocks "product in blocks" "the product comes in blocks, which pointwise rows over all of its elements finish, and nothing else";
    FromLooped "own loop before" "a small product, scatter or prefix walks an axis in a kernel of its own";
    ToLooped "own loop after" "the reader walks an axis in a kernel of its own, and would compute this anew at each step";
    FromAttention "attention before" "an attention's result is complete once its last key was seen";
    ToAttention "attention after" "an attention reads each key and value once for every tile of queries, and would compute this as often";
    NothingShared "nothing shared" "they have no operand in common but biases and scales";
    OtherExtents "other extents" "they run over tensors of other extents";
    OtherAxes "other axes" "they reduce along other axes";
    ManyOperands "too many operands" "together they would have more than 24 operands";
    Circle "waits between" "what the reader also waits for needs this result first";
    OtherPoint "other points" "the reader needs this result at other points than the one at which it is computed";
    View "view" "a view between them cannot be written as index arithmetic";
    Late "late buffer" "the reader would make the first kernel wait for a buffer that comes later";
    Far "far apart" "more than 256 kernels were formed between them";
    Preferred "better company" "the reader shares more with another kernel";
    Unfused "fusing is off" "fusing is switched off";
}

/// What a group's kind forbids, for a reader of its results.
pub fn kinds(from: &Work, to: &Work) -> Option<Reason> {
    match (from, to) {
        (Work::Gemm(_), _) => Some(Reason::FromLibrary),
        (_, Work::Gemm(_)) => Some(Reason::ToLibrary),
        (Work::Sort(_), _) | (_, Work::Sort(_)) => Some(Reason::Sorted),
        (Work::Looped { .. }, _) => Some(Reason::FromLooped),
        (_, Work::Looped { .. }) => Some(Reason::ToLooped),
        (Work::Attention { .. } | Work::Slopes { .. }, _) => Some(Reason::FromAttention),
        (_, Work::Attention { .. } | Work::Slopes { .. }) => Some(Reason::ToAttention),
        (Work::Fused { .. } | Work::United, Work::Fused { .. } | Work::United) => None,
    }
}
