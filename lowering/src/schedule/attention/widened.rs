//! Attentions that were [spelled out](super::spelled) in a type of 16 bits, with f32 inside: the rows by which
//! [`find`](super::find) knows what it makes kernels of.
//!
//! With `l = max s + log Σ exp(s − max s)`, the weights are `exp(s − l)` and the gradient of the scores is
//! `p ∘ (g·vᵀ − Σ g ∘ result)`: the sum of a row's products with its weights, written as one over the result (Dao:
//! "FlashAttention-2", 2023).  What reached the scores by way of their maximum is 0 and is left out.

use cranelift_entity::PrimaryMap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::spelled::{self, Slopes, Spelled};
use crate::dtype::DType;
use crate::graph::{Graph, Movement, Node, NodeData, Op, Reduction, number};
use crate::op::Pointwise;
use crate::schedule::plan::Options;

/// The graph with its attentions in f32, and the node of `graph` that each new one stands for; `None` if it has none, or
/// if one of them would not become kernels: in f32 its rows cost more.
pub fn widened(graph: &Graph, options: &Options) -> Option<(Graph, PrimaryMap<Node, Node>)> {
    if !super::is_wanted(options) {
        return None;
    }
    let found = spelled::find(graph);
    if found.is_empty() {
        return None;
    }
    let mut by_root: FxHashMap<Node, &Spelled> = FxHashMap::default();
    found.iter().for_each(|spelled| by_root.extend(spelled.roots().map(|root| (root, spelled))));
    let inner = found.iter().flat_map(|spelled| spelled.inner.iter().copied()).collect();
    let out = Graph { slots: graph.slots.clone(), inputs: graph.inputs, ..Graph::default() };
    let (origins, new, forward, results) = Default::default();
    let mut writer = Writer { from: graph, out, origins, new, forward, results };
    let inner: rustc_hash::FxHashSet<Node> = inner;
    for node in graph.nodes.keys().filter(|node| !inner.contains(node)) {
        match by_root.get(&node) {
            Some(spelled) if node == spelled.sum => writer.forward(spelled),
            Some(spelled) => writer.backward(spelled, node),
            None => {
                writer.bring(node);
            }
        }
    }
    writer.out.outputs = graph.outputs.iter().map(|n| writer.new[n]).collect();
    let kernels = super::find(&writer.out, options);
    let known = writer.results.iter().all(|result| kernels.contains_key(result));
    known.then_some((writer.out, writer.origins))
}

struct Writer<'a> {
    from: &'a Graph,
    out: Graph,
    origins: PrimaryMap<Node, Node>,
    new: FxHashMap<Node, Node>,
    /// By the weighted sum.
    forward: FxHashMap<Node, Forward>,
    /// What kernels shall write.
    results: Vec<Node>,
}

/// What the gradients are computed from.
#[derive(Clone, Copy)]
struct Forward {
    product: Node,
    scores: Node,
    /// What was taken from the scores, and the sums of the exponentials.
    most: Node,
    total: Node,
}

/// Rows that are computed in f32: what they begin with, and what they became.
struct Wide<'a> {
    spelled: &'a Spelled,
    known: FxHashMap<Node, Node>,
}

impl Writer<'_> {
    /// A node as it is, with all that it is computed from.
    fn bring(&mut self, node: Node) -> Node {
        if let Some(&known) = self.new.get(&node) {
            return known;
        }
        let data = &self.from.nodes[node];
        let args: SmallVec<[Node; 3]> = data.args.iter().map(|&arg| self.bring(arg)).collect();
        let made = match self.turned_back(&data.op, &args) {
            Some(before) => before,
            None => self.out.nodes.push(NodeData { args, ..data.clone() }),
        };
        self.stands_for(node);
        self.new.insert(node, made);
        made
    }

    /// What is new stands for this.
    fn stands_for(&mut self, node: Node) {
        while self.origins.len() < self.out.nodes.len() {
            self.origins.push(node);
        }
    }

    /// The same in f32.
    fn bring_wide(&mut self, node: Node) -> Node {
        let (dtype, dims) = (self.from.dtype(node), self.from.dims(node));
        if let Op::Constant(bits) = self.from.nodes[node].op
            && dtype.is_float()
        {
            return self.out.constant(DType::F32, number::convert(dtype, bits, DType::F32), dims);
        }
        let made = self.bring(node);
        if dtype.is_float() { self.out.cast(made, DType::F32) } else { made }
    }

    /// A row of the attention in f32.
    fn row(&mut self, wide: &mut Wide<'_>, node: Node) -> Node {
        if let Some(&known) = wide.known.get(&node) {
            return known;
        }
        if !wide.spelled.inner.contains(&node) {
            let made = self.bring_wide(node);
            wide.known.insert(node, made);
            return made;
        }
        let data = &self.from.nodes[node];
        let args: SmallVec<[Node; 3]> = data.args.iter().map(|&arg| self.row(wide, arg)).collect();
        let dtype = if data.dtype.is_float() { DType::F32 } else { data.dtype };
        let made = match data.op {
            Op::Map(Pointwise::Cast) if dtype == self.out.dtype(args[0]) => args[0],
            _ => self.out.nodes.push(NodeData { args, dtype, ..data.clone() }),
        };
        wide.known.insert(node, made);
        made
    }

    /// `max(x, least)`
    fn at_least(&mut self, x: Node, narrow: DType, least: Option<u64>) -> Node {
        let Some(least) = least else { return x };
        let least =
            self.out.constant(DType::F32, number::convert(narrow, least, DType::F32), &self.out.dims(x).clone());
        self.out.map(Pointwise::Max, &[x, least])
    }

    /// `exp(scores − shift)`
    fn weights(&mut self, scores: Node, shift: Node) -> Node {
        let less = self.out.map(Pointwise::Sub, &[scores, shift]);
        self.out.map(Pointwise::Exp, &[less])
    }

    /// A product of f32, rounded: a result.
    fn rounded(&mut self, a: Node, b: Node, narrow: DType) -> Node {
        let sums = self.out.contract(a, b);
        let result = self.out.cast(sums, narrow);
        self.results.push(result);
        result
    }

    fn forward(&mut self, spelled: &Spelled) {
        let narrow = spelled.narrow;
        let factors = &self.from.nodes[spelled.product].args;
        let [q, k, v] = [factors[0], factors[1], self.from.nodes[spelled.sum].args[1]].map(|n| self.bring_wide(n));
        let product = self.out.contract(q, k);
        let mut wide = Wide { spelled, known: [(spelled.product, product)].into_iter().collect() };
        let scores = self.row(&mut wide, spelled.scores);
        let last = self.out.dims(scores).len() - 1;
        let most = self.out.reduce(Reduction::Max, scores, &[last], DType::F32);
        let most = self.at_least(most, narrow, spelled.least_most);
        let weights = self.weights(scores, most);
        let total = self.out.reduce(Reduction::Sum, weights, &[last], DType::F32);
        let total = self.at_least(total, narrow, spelled.least_total);
        let weights = self.out.map(Pointwise::Div, &[weights, total]);
        let result = self.rounded(weights, v, narrow);
        self.new.insert(spelled.sum, result);
        self.forward.insert(spelled.sum, Forward { product, scores, most, total });
        self.stands_for(spelled.sum);
    }

    /// All gradients, at the first of them.
    fn backward(&mut self, spelled: &Spelled, first: Node) {
        let (Some(slopes), false) = (&spelled.slopes, self.new.contains_key(&first)) else { return };
        let Forward { product, scores, most, total } = self.forward[&spelled.sum];
        let narrow = spelled.narrow;
        let factors = &self.from.nodes[spelled.product].args;
        let [q, k, v] = [factors[0], factors[1], self.from.nodes[spelled.sum].args[1]].map(|n| self.bring_wide(n));
        let last = self.out.dims(scores).len() - 1;
        let all = self.out.map(Pointwise::Log, &[total]);
        let norm = self.out.map(Pointwise::Add, &[most, all]);
        let weights = self.weights(scores, norm);

        let given = self.bring_wide(slopes.given);
        let result = self.out.cast(self.new[&spelled.sum], DType::F32);
        let both = self.out.map(Pointwise::Mul, &[given, result]);
        let common = self.out.reduce(Reduction::Sum, both, &[last], DType::F32);
        let v = self.turned(v);
        let of_weights = self.out.contract(given, v);
        let less = self.out.map(Pointwise::Sub, &[of_weights, common]);
        let of_scores = self.out.map(Pointwise::Mul, &[weights, less]);

        let known = [(spelled.product, product), (slopes.scores, of_scores)].into_iter();
        let mut wide = Wide { spelled, known: known.chain(self.masked(spelled, slopes, of_scores)).collect() };
        let inward = self.row(&mut wide, slopes.inward);
        let [k, across, down] = [k, weights, inward].map(|x| self.turned(x));
        let values = self.rounded(across, given, narrow);
        let queries = self.rounded(inward, k, narrow);
        let keys = self.rounded(down, q, narrow);
        let keys = self.turned(keys);
        self.new.extend([(slopes.values, values), (slopes.queries, queries), (slopes.keys, keys)]);
        self.stands_for(first);
    }

    /// Where a mask hid scores, their weights are 0, and so is their gradient: what sets it to 0 once more changes
    /// nothing.
    fn masked(&self, spelled: &Spelled, slopes: &Slopes, of_scores: Node) -> Option<(Node, Node)> {
        let select = |node: Node| match self.from.nodes[node].op {
            Op::Map(Pointwise::Select) => Some(&self.from.nodes[node].args),
            _ => None,
        };
        let hidden = select(spelled.scores)?;
        let is = |node: Node, wanted: f64| spelled::is_number(self.from, node, wanted);
        let masks = |node: &Node| {
            select(*node).is_some_and(|args| args[0] == hidden[0] && is(args[1], 0.0) && args[2] == slopes.scores)
        };
        let found = spelled.inner.iter().copied().find(masks)?;
        is(hidden[1], f64::NEG_INFINITY).then_some((found, of_scores))
    }

    /// What a permutation undoes: the gradient of `k` turned as `k` was, whose reader then finds it as it is written.
    fn turned_back(&self, op: &Op, args: &[Node]) -> Option<Node> {
        let Op::Move(Movement::Permute(back)) = op else { return None };
        let data = &self.out.nodes[args[0]];
        let Op::Move(Movement::Permute(there)) = &data.op else { return None };
        let undone = back.iter().enumerate().all(|(axis, &from)| usize::from(there[usize::from(from)]) == axis);
        undone.then(|| data.args[0])
    }

    /// With the last two axes exchanged.
    fn turned(&mut self, x: Node) -> Node {
        let rank = self.out.dims(x).len();
        let mut axes: Vec<usize> = (0..rank).collect();
        axes.swap(rank - 2, rank - 1);
        self.out.permute(x, &axes)
    }
}
