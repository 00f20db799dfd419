//! Finds a product's tail: the kernel that goes over the product's result in the order in which it lies, so that each
//! part of it can be finished as soon as the part is there.  Bias, activation, residual and the norm of a row are such,
//! whatever rows they are made of: what counts is which elements a point reads.

use super::rules::Reason;
use super::{Group, Groups, Work};
use crate::graph::{Graph, Node};
use crate::schedule::expr::Expr;
use crate::schedule::group::Body;
use crate::schedule::plan::Layout;
use crate::schedule::trace::Places;

/// Whether `reader` can be the tail of the product in group `at`, once the groups that `done` tells have run.
pub fn judge(
    (graph, places): (&Graph, &Places),
    groups: &[Group],
    (at, reader): (usize, usize),
    done: impl Fn(usize) -> bool,
) -> Result<(), Reason> {
    let (Work::Gemm(product), Work::Fused { body, .. }) = (&groups[at].work, &groups[reader].work) else {
        return Err(Reason::FromLibrary);
    };
    let dims = graph.dims(*product);
    let is_plain = places.get(product).is_some_and(|layout| layout.is_contiguous(dims));
    if !is_plain || !is_followed(body, *product) {
        return Err(Reason::OtherOrder);
    }
    let waits = groups[reader].before.iter().any(|&h| h != at && !done(h));
    if waits { Err(Reason::WaitsForMore) } else { Ok(()) }
}

/// Whether each point of a kernel reads no element of `product` but its own: those with its own number where both are
/// counted in row-major order, the reduced axes being the last ones.
fn is_followed(body: &Body, product: Node) -> bool {
    let extents: Vec<u64> = body.domain.axes.iter().map(|a| a.extent).collect();
    let strides = Layout::contiguous(&extents).strides;
    let own = |at: &super::super::affine::Affine| {
        let numbered = strides.iter().enumerate().filter(|(axis, _)| extents[*axis] > 1);
        at.constant == 0
            && at.denominator == 1
            && at.terms.iter().all(|t| (t.0 as usize) < extents.len())
            && numbered.clone().all(|(axis, &stride)| at.coefficient(axis as u8) == stride)
    };
    body.exprs.list.values().all(|data| match &data.expr {
        Expr::Load { node, at, checks } => *node != product || checks.is_empty() && own(at),
        _ => true,
    })
}

/// Why a kernel that reads the product of group `at` is not its tail, for finished groups.
pub fn reason(groups: &Groups, at: usize, reader: usize) -> Reason {
    let list = &groups.list;
    match judge((&groups.graph, &groups.places), list, (at, reader), |h| h < at) {
        Err(Reason::WaitsForMore) if list[reader].is_tail => Reason::OthersTail,
        Err(reason) => reason,
        Ok(()) => Reason::TailTaken,
    }
}
