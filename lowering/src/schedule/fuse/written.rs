//! Chooses how a product's elements lie: the library writes any strides, so where a reader needs strides too, a result
//! written in the reader's order saves a copy (the heads of an attention, merged again).

use rustc_hash::FxHashSet;

use crate::graph::{Dims, Graph, Movement, Node, Op};
use crate::schedule::plan::Layout;
use crate::schedule::trace::{Places, strided};

/// The layout of `product` under which most of its readers that need strides get them; row-major if all are equal.
/// `needs_strides` tells the nodes that do.
pub fn layout(graph: &Graph, product: Node, needs_strides: impl Fn(Node) -> bool) -> Layout {
    let dims = &graph.nodes[product].dims;
    let plain = Layout::contiguous(dims);
    let mut views: FxHashSet<Node> = [product].into_iter().collect();
    let mut wanted: Vec<Node> = graph.outputs.iter().copied().filter(|&n| is_view_of(graph, n, product)).collect();
    let mut orders: Vec<Layout> = Vec::new();
    for (node, data) in graph.nodes.iter() {
        let seen = data.args.iter().filter(|a| views.contains(*a));
        match &data.op {
            Op::Move(movement) if views.contains(&data.args[0]) => {
                if let Movement::Permute(perm) = movement
                    && data.args[0] == product
                {
                    orders.extend(permuted(dims, perm));
                }
                views.insert(node);
            }
            _ if needs_strides(node) => wanted.extend(seen),
            _ => {}
        }
    }
    if orders.is_empty() || wanted.is_empty() {
        return plain;
    }
    let met = |layout: &Layout| {
        let places: Places = [(product, layout.clone())].into_iter().collect();
        wanted.iter().filter(|&&n| strided(graph, &places, n).is_some()).count()
    };
    let mut best = (met(&plain), plain);
    for order in orders {
        let count = met(&order);
        if count > best.0 {
            best = (count, order);
        }
    }
    best.1
}

/// Strides under which the permuted tensor is row-major, if rows stay rows: a product is written by rows.
fn permuted(dims: &Dims, perm: &[u8]) -> Option<Layout> {
    let last = dims.len().checked_sub(1)?;
    if perm.last() != Some(&(last as u8)) {
        return None;
    }
    let turned: Dims = perm.iter().map(|&p| dims[p as usize]).collect();
    let dense = Layout::contiguous(&turned);
    let mut layout = dense.clone();
    for (&p, &stride) in perm.iter().zip(&dense.strides) {
        layout.strides[p as usize] = stride;
    }
    Some(layout)
}

fn is_view_of(graph: &Graph, mut node: Node, of: Node) -> bool {
    while node != of {
        let Op::Move(_) = graph.nodes[node].op else { return false };
        node = graph.nodes[node].args[0];
    }
    true
}
