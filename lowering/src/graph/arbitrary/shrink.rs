//! Makes a failing case smaller: fewer outputs, and nodes replaced by inputs that hold their values.

use super::Case;
use crate::graph::array::Array;
use crate::graph::ir::{Graph, Node, NodeData, Op};
use crate::graph::oracle;

/// The smallest case found for which `fails` holds, as it does for `case`.
pub fn minimize(case: Case, fails: impl Fn(&Case) -> bool) -> Case {
    let mut least = case;
    while let Some(smaller) = smaller(&least).into_iter().find(|c| fails(c)) {
        least = smaller;
    }
    least
}

/// Cases a step smaller, the greatest steps first.
fn smaller(case: &Case) -> Vec<Case> {
    let graph = &case.graph;
    let values = oracle::evaluate(graph, &case.inputs, &case.slots).unwrap_or_default();
    let mut all = Vec::new();
    if graph.outputs.len() > 1 {
        all.extend(graph.outputs.iter().map(|&output| rebuild(case, &[output], &[])));
    }
    // One node alone, on inputs; then whatever comes out before the end; then each node cut in turn.
    let interior: Vec<Node> =
        graph.nodes.iter().filter(|(_, data)| !matches!(data.op, Op::Input(_))).map(|(node, _)| node).collect();
    if !values.is_empty() {
        for &node in &interior {
            let cuts: Vec<Node> = graph.nodes[node].args.to_vec();
            all.push(rebuild(case, &[node], &with_values(&cuts, &values)));
        }
    }
    all.extend(interior.iter().map(|&node| rebuild(case, &[node], &[])));
    if !values.is_empty() {
        all.extend(interior.iter().map(|&node| rebuild(case, &graph.outputs, &with_values(&[node], &values))));
    }
    all.retain(|c| size(&c.graph) < size(graph));
    all
}

/// What shrinking lessens: wanted nodes, then nodes, then those that are no inputs.
fn size(graph: &Graph) -> (usize, usize, usize) {
    let work = graph.nodes.values().filter(|data| !matches!(data.op, Op::Input(_))).count();
    (graph.outputs.len(), work, graph.nodes.len())
}

fn with_values<'a>(nodes: &[Node], values: &'a [Array]) -> Vec<(Node, &'a Array)> {
    nodes.iter().map(|&n| (n, &values[n.as_u32() as usize])).collect()
}

/// The part of a graph that the outputs need, with nodes cut to inputs.
fn rebuild(case: &Case, outputs: &[Node], cuts: &[(Node, &Array)]) -> Case {
    let graph = &case.graph;
    let is_cut = |node: Node| cuts.iter().find(|(n, _)| *n == node).map(|(_, value)| *value);
    let mut needed = vec![false; graph.nodes.len()];
    let mut todo = outputs.to_vec();
    while let Some(node) = todo.pop() {
        if !std::mem::replace(&mut needed[node.as_u32() as usize], true) && is_cut(node).is_none() {
            todo.extend(&graph.nodes[node].args);
        }
    }
    let mut new = Case { graph: Graph::new(), inputs: Vec::new(), slots: case.slots.clone() };
    new.graph.slots = graph.slots.clone();
    let mut names: Vec<Option<Node>> = vec![None; graph.nodes.len()];
    for (node, data) in &graph.nodes {
        if !needed[node.as_u32() as usize] {
            continue;
        }
        let given = match data.op {
            Op::Input(number) => case.inputs.get(number as usize),
            _ => is_cut(node),
        };
        let name = match given {
            Some(value) => {
                new.inputs.push(value.clone());
                new.graph.input(data.dtype, &data.dims)
            }
            None => {
                let args = data.args.iter().filter_map(|a| names[a.as_u32() as usize]).collect();
                new.graph.nodes.push(NodeData { args, ..data.clone() })
            }
        };
        names[node.as_u32() as usize] = Some(name);
    }
    new.graph.outputs = outputs.iter().filter_map(|n| names[n.as_u32() as usize]).collect();
    new
}
