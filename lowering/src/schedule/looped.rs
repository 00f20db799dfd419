//! Rows with an order of their own along one axis: small matrix products, scatters and prefixes.  Each point of the
//! other axes walks that axis from front to back; operands are followed back to loads as in any kernel.  Pointwise rows
//! may finish a product where it was summed up.

use smallvec::SmallVec;

use super::affine::{Affine, Axis, Check, Indivisible};
use super::expr::{Ex, Expr, Exprs, FIRST_GATHER};
use super::group::{Body, Domain, Store};
use super::plan::Layout;
use super::trace::{Coords, Places, Stop, Tracer, address};
use crate::graph::{Graph, Index, Node, Op, Reduction, Update};

/// What happens at each step along the axis.
#[derive(Clone, Debug)]
pub enum Walk {
    /// `acc += a·b`, stored at the end.
    Product {
        /// Left factor.
        a: Ex,
        /// Right factor.
        b: Ex,
    },
    /// `out[index] = out[index] ∘ value`, in a buffer that already holds the data.
    Scatter {
        /// What is put there.
        value: Ex,
        /// How it meets what is there.
        update: Update,
        /// Where the index lies inside; nothing is written elsewhere.
        inside: Check,
    },
    /// `acc = acc ∘ x`, stored at each step.
    Prefix {
        /// Operand.
        x: Ex,
        /// With what.
        kind: Reduction,
    },
}

/// What a looped kernel computes.
#[derive(Clone, Debug)]
pub struct Looped {
    /// Points; the reduced axis (if its extent is not 1) is the one that is walked.
    pub domain: Domain,
    /// Expressions.
    pub exprs: Exprs,
    /// The step.
    pub walk: Walk,
    /// Where results go.
    pub at: Affine,
    /// Whether anybody wants the row's own results.
    pub is_stored: bool,
    /// What else is written at the end of a product: rows of which [`Expr::Reduced`]`(0)` is the product, rounded to its
    /// type.
    pub tail: Vec<Store>,
}

/// Pointwise rows that finish a product: what they compute, and which.
pub type Tail<'a> = (&'a Body, &'a [Node]);

/// Follows the operands of a looped row, dividing the walked axis into several if that `may` be.
pub fn trace(graph: &Graph, places: &Places, node: Node, may: bool) -> Result<Looped, Stop> {
    trace_finished(graph, places, (node, None), may)
}

/// Likewise, those of a product and of the rows that finish it.
pub fn trace_finished(
    graph: &Graph,
    places: &Places,
    (node, tail): (Node, Option<Tail>),
    may: bool,
) -> Result<Looped, Stop> {
    let data = &graph.nodes[node];
    let mut domain = match &data.op {
        Op::Contract => {
            let k = *graph.dims(data.args[0]).last().unwrap_or(&1);
            let dims: SmallVec<[u64; 8]> = data.dims.iter().copied().chain([k]).collect();
            Domain::new(&dims, &[data.dims.len() as u8])
        }
        Op::Scatter(index, axis, _) => Domain::new(&scatter_dims(graph, node, *index, *axis), &[*axis]),
        Op::Scan(_, axis) => Domain::new(&data.dims, &[*axis]),
        other => unreachable!("{other:?} is not looped"),
    };
    loop {
        match trace_once(graph, places, &domain, (node, tail)) {
            Err(Stop::SplitAxis(axis, inner)) if may || !domain.axes[axis as usize].reduced => {
                domain.split(axis, inner)
            }
            // The walked axis stays whole.
            Err(Stop::SplitAxis(..)) => return Err(Stop::Materialize(widest_operand(graph, places, &domain, node))),
            other => return other,
        }
    }
}

/// Extents of what is scattered.
fn scatter_dims(graph: &Graph, node: Node, index: Index, axis: u8) -> SmallVec<[u64; 8]> {
    let data = &graph.nodes[node];
    match index {
        Index::Elements => graph.dims(data.args[1]).iter().copied().collect(),
        Index::Positions => {
            let mut dims: SmallVec<[u64; 8]> = data.dims.iter().copied().collect();
            dims[axis as usize] = graph.dims(data.args[1])[0];
            dims
        }
    }
}

/// The first operand that does not follow without dividing the walked axis.
fn widest_operand(graph: &Graph, places: &Places, domain: &Domain, node: Node) -> Node {
    let args = &graph.nodes[node].args;
    let open = args.iter().copied().find(|a| !places.contains_key(a));
    debug_assert!(open.is_some(), "{domain:?}");
    open.unwrap_or(args[0])
}

fn trace_once(
    graph: &Graph,
    places: &Places,
    domain: &Domain,
    (node, tail): (Node, Option<Tail>),
) -> Result<Looped, Stop> {
    let extents: Vec<u64> = domain.axes.iter().map(|a| a.extent).collect();
    let mut tracer = Tracer::new(graph, places, &extents);
    let data = &graph.nodes[node];
    let none = SmallVec::new();
    let out = Layout::contiguous(&data.dims);
    let mut stores = Vec::new();
    let (walk, at) = match &data.op {
        Op::Contract => {
            let k = *graph.dims(data.args[0]).last().unwrap_or(&1);
            let rank = data.dims.len();
            let dims: SmallVec<[u64; 8]> = data.dims.iter().copied().chain([k]).collect();
            let point = domain.point(&dims, true);
            let (batch, m, n, k) = (&point[..rank - 2], &point[rank - 2], &point[rank - 1], &point[rank]);
            let with = |i: &Affine, j: &Affine| -> Coords { batch.iter().chain([i, j]).cloned().collect() };
            let a = tracer.value(data.args[0], &with(m, k), &none)?;
            let b = tracer.value(data.args[1], &with(k, n), &none)?;
            if let Some(tail) = tail {
                stores = finished(&mut tracer, (node, a), &point[..rank], tail)?;
            }
            (Walk::Product { a, b }, address(&out, &point[..rank]))
        }
        Op::Scatter(index, axis, update) => {
            let axis = *axis as usize;
            let mut point = domain.point(&scatter_dims(graph, node, *index, axis as u8), true);
            let picked = match index {
                Index::Elements => tracer.value(data.args[1], &point, &none)?,
                Index::Positions => tracer.value(data.args[1], &point[axis..=axis], &none)?,
            };
            let value = tracer.value(data.args[2], &point, &none)?;
            point[axis] = Affine::axis(tracer.gather_axis(picked, node, axis));
            let inside = Check { at: point[axis].clone(), limit: data.dims[axis] as i64, divisor: 1 };
            (Walk::Scatter { value, update: *update, inside }, address(&out, &point))
        }
        Op::Scan(kind, _) => {
            let point = domain.point(&data.dims, true);
            let x = tracer.value(data.args[0], &point, &none)?;
            (Walk::Prefix { x, kind: *kind }, address(&out, &point))
        }
        other => unreachable!("{other:?} is not looped"),
    };
    Ok(Looped { domain: domain.clone(), exprs: tracer.exprs, walk, at, is_stored: true, tail: stores })
}

/// Follows what finishes `product`, made of `term`s, at a point of it.
fn finished(
    tracer: &mut Tracer,
    (product, term): (Node, Ex),
    point: &[Affine],
    (body, roots): Tail,
) -> Result<Vec<Store>, Stop> {
    let graph = tracer.graph;
    let data = &graph.nodes[product];
    let Some(order) = order(body, product, graph.nodes[product].len()) else { return Err(Stop::Barrier(product)) };
    // The tail's axes in the order in which the product's elements lie, and what each is at the product's point.
    let extents: SmallVec<[u64; 8]> = order.iter().map(|&axis| body.domain.axes[axis as usize].extent).collect();
    let split = |error| match error {
        Indivisible::SplitAxis(axis, inner) if axis < FIRST_GATHER => Stop::SplitAxis(axis, inner),
        _ => Stop::Barrier(product),
    };
    let inner = tracer.reshaped(&extents, &data.dims, point).map_err(split)?;
    let along = |axis: Axis| {
        order.iter().position(|&other| other == axis).map_or(Affine::number(0), |place| inner[place].clone())
    };
    let result = tracer.exprs.add_reduced(term, data.dtype);
    tracer.roots = roots.iter().copied().chain([product]).collect();
    tracer.own.insert(product, (point.into(), result));
    let mut stores = Vec::new();
    for &node in roots {
        let dims = &graph.nodes[node].dims;
        let here: Coords = body.domain.point(dims, true).iter().map(|c| c.substitute(along)).collect();
        let value = tracer.value(node, &here, &SmallVec::new())?;
        let at = address(&Layout::contiguous(dims), &here);
        tracer.own.insert(node, (here, value));
        stores.push(Store { node, at, value, full: false });
    }
    Ok(stores)
}

/// The axes of a pointwise kernel, without those of extent 1, in the order in which the `len` elements of `product` lie:
/// each point reads one element, all points all of them, and neighbours are neighbours.
pub fn order(body: &Body, product: Node, len: u64) -> Option<SmallVec<[Axis; 8]>> {
    let mut reads = body.exprs.list.values().filter_map(|data| match &data.expr {
        Expr::Load { node, at, checks } if *node == product => Some((at, checks)),
        _ => None,
    });
    let (at, _) = reads.clone().next()?;
    let extent = |axis: Axis| body.domain.axes[axis as usize].extent;
    let mut order: SmallVec<[Axis; 8]> = (0..body.domain.axes.len() as Axis).filter(|&axis| extent(axis) > 1).collect();
    let innermost = order.last().copied();
    order.sort_by_key(|&axis| std::cmp::Reverse(at.coefficient(axis)));
    let dense = order
        .iter()
        .rev()
        .try_fold(1, |stride: i64, &axis| (at.coefficient(axis) == stride).then_some(stride * extent(axis) as i64));
    let is_plain = at.constant == 0 && at.denominator == 1 && at.terms.iter().all(|t| t.0 < FIRST_GATHER);
    let alike = reads.all(|(other, checks)| other == at && checks.is_empty());
    let whole = dense == Some(len as i64);
    (is_plain && alike && whole && order.last().copied() == innermost).then_some(order)
}
