//! The points over which a node is computed, and which nodes can be computed over the same points.

use crate::graph::{Graph, Node, Op};
use crate::schedule::group::{Domain, squeezed};

/// The extents over which a node is computed, and the axes along which it is reduced.
pub fn domain_of(graph: &Graph, node: Node) -> (Vec<u64>, Vec<u8>) {
    let data = &graph.nodes[node];
    match &data.op {
        Op::Reduce(_, axes) => (graph.dims(data.args[0]).to_vec(), axes.to_vec()),
        _ => (data.dims.to_vec(), Vec::new()),
    }
}

/// The domain of a group once `node` joins it, if it fits.
pub fn join_domain(graph: &Graph, domain: &Domain, node: Node) -> Option<Domain> {
    let (dims, axes) = domain_of(graph, node);
    if axes.is_empty() {
        let fits = domain.is_full(&dims) || domain.has_reduced() && squeezed(&dims) == domain.parallel();
        return fits.then(|| domain.clone());
    }
    let wanted = Domain::new(&dims, &axes);
    match domain.has_reduced() {
        true => (wanted.full == domain.full && wanted.reduced == domain.reduced).then(|| domain.clone()),
        false => (wanted.full == domain.full).then_some(wanted),
    }
}
