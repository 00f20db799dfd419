//! Computes a graph node by node on the oracle: slow, and right by definition.

use kiln_lowering::graph::{Array, oracle};

use super::memory::Pool;
use super::place::{Place, gather};
use crate::record::Work;
use kiln_lowering::schedule::Layout;
use std::sync::Arc;

/// The places of the graph's outputs.
pub(super) fn run(
    pool: &Arc<Pool>,
    work: &Work,
    operands: &[Option<Place>],
) -> Result<Vec<Place>, String> {
    let mut inputs = Vec::new();
    let nodes = work
        .graph
        .nodes
        .values()
        .filter(|n| matches!(n.op, kiln_lowering::graph::Op::Input(_)));
    for (node, place) in nodes.zip(operands) {
        let bytes = match place {
            Some(place) => gather(place, node.dtype.bytes(), &node.dims)?,
            None => vec![0; node.len() as usize * node.dtype.bytes()],
        };
        inputs.push(Array::from_bytes(node.dtype, &node.dims, &bytes));
    }
    let outputs = oracle::run(&work.graph, &inputs, &work.scalars).map_err(|e| format!("{e:?}"))?;
    outputs
        .into_iter()
        .map(|array| {
            let bytes = array.to_bytes();
            let buffer = pool.allocate(bytes.len())?;
            buffer.fill_from(&bytes);
            Ok(Place {
                buffer,
                layout: Layout::contiguous(&array.dims),
            })
        })
        .collect()
}
