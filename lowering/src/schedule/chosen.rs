//! Scatters of one value per row into a constant: which element receives it is told by its number, so that whoever reads
//! the result computes it where it is needed, and nothing is filled first.  What a gradient that belongs to the greatest of
//! a row, or to its label, becomes.

use crate::graph::{Graph, Index, Node, NodeData, Op};
use crate::op::Pointwise;

/// `select(number = index, constant ∘ value, constant)` for a scatter of one value per row, if this is one.
pub fn chosen(graph: &mut Graph, data: &NodeData) -> Option<Node> {
    let Op::Scatter(Index::Elements, axis, update) = data.op else { return None };
    let [rest, index, value] = [data.args[0], data.args[1], data.args[2]];
    let is_constant = matches!(graph.nodes[rest].op, Op::Constant(_) | Op::Scalar(_));
    let mut row = data.dims.clone();
    row[axis as usize] = 1;
    let counts = graph.dtype(index).bits() >= 32;
    if !is_constant || !counts || *graph.dims(index) != row || data.is_empty() {
        return None;
    }
    let numbers = graph.iota(graph.dtype(index), axis.into(), &data.dims);
    // An index is what it finds among the numbers; one outside is reported.
    let found = graph.gather(Index::Elements, numbers, axis.into(), index);
    let [found, value] = [found, value].map(|x| graph.expand(x, &data.dims));
    let here = graph.map(Pointwise::Eq, &[numbers, found]);
    let value = update.row().map_or(value, |row| graph.map(row, &[rest, value]));
    Some(graph.map(Pointwise::Select, &[here, value, rest]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::graph::{Reduction, Update};
    use crate::schedule::plan::{InputData, Layout, Options};
    use crate::schedule::{Grain, Step, plan};

    /// The gradient of a maximum, added to another one: one kernel, which writes its result alone.
    #[test]
    fn the_gradient_of_a_maximum_is_no_scatter() {
        let mut g = Graph::new();
        let (x, other) = (g.input(DType::F32, &[9, 33]), g.input(DType::F32, &[9, 33]));
        let index = g.reduce(Reduction::ArgMax, x, &[1], DType::I32);
        let sum = g.reduce(Reduction::Sum, other, &[1], DType::F32);
        let zeros = g.constant(DType::F32, 0, &[9, 33]);
        let back = g.scatter(Index::Elements, Update::Add, zeros, 1, index, sum);
        let both = g.map(Pointwise::Add, &[other, back]);
        g.outputs.push(both);
        let input = InputData { layout: Layout::contiguous(&[9, 33]), buffer_len: 9 * 33, donated: false };
        let options = Options::new(true, None, Grain::of_vectors(4));
        let plan = plan(&g, &[input.clone(), input], &options);
        assert_eq!(plan.steps.iter().filter(|s| matches!(s, Step::Launch { .. })).count(), 1);
    }
}
