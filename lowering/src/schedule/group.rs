//! A group: rows that share a kernel because they run over one domain, and what that kernel computes.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::affine::{Affine, Axis};
use super::expr::{Ex, Exprs};
use super::trace::{Coords, Places, Stop, Tracer, address};
use crate::dtype::DType;
use crate::graph::{Dims, Graph, Node, Op, Reduction};
use crate::schedule::plan::Layout;

/// An axis of the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisData {
    /// Extent.
    pub extent: u64,
    /// Whether the kernel's reductions run along it.
    pub reduced: bool,
}

/// The points that a kernel visits.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Extents, without those of 1, in the order of the tensors.
    pub full: Dims,
    /// Which of them are reduced.
    pub reduced: SmallVec<[bool; 6]>,
    /// Each as a sum over the axes.
    coords: Coords,
    /// The axes: first parallel ones, then reduced ones.
    pub axes: Vec<AxisData>,
}

/// What is written: the node's value at each point, or at each parallel point.
#[derive(Clone, Debug)]
pub struct Store {
    /// Whose value.
    pub node: Node,
    /// Where in its buffer, which is contiguous.
    pub at: Affine,
    /// The value.
    pub value: Ex,
    /// Whether it depends on the reduced axes.
    pub full: bool,
}

/// One reduction over all reduced axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    /// With what.
    pub kind: Reduction,
    /// Of what, per point.
    pub input: Ex,
    /// Element type of the result.
    pub dtype: DType,
}

/// What a kernel computes.
#[derive(Clone, Debug)]
pub struct Body {
    /// The points.
    pub domain: Domain,
    /// Expressions.
    pub exprs: Exprs,
    /// Reductions, by number.
    pub folds: Vec<Fold>,
    /// Results.
    pub stores: Vec<Store>,
}

/// Extents other than 1.
pub fn squeezed(dims: &[u64]) -> Dims {
    dims.iter().copied().filter(|&n| n != 1).collect()
}

impl Domain {
    /// A domain over `dims`, reduced along `axes` of them.
    pub fn new(dims: &[u64], axes: &[u8]) -> Domain {
        let kept = || (0..dims.len()).filter(|&i| dims[i] != 1);
        let full: Dims = kept().map(|i| dims[i]).collect();
        let reduced: SmallVec<[bool; 6]> = kept().map(|i| axes.contains(&(i as u8))).collect();
        let order = (0..full.len()).filter(|&i| !reduced[i]).chain((0..full.len()).filter(|&i| reduced[i]));
        let mut coords: Coords = SmallVec::from_elem(Affine::number(0), full.len());
        let mut list = Vec::new();
        for i in order {
            coords[i] = Affine::axis(list.len() as Axis);
            list.push(AxisData { extent: full[i], reduced: reduced[i] });
        }
        Domain { full, reduced, coords, axes: list }
    }

    /// Whether anything is reduced.
    pub fn has_reduced(&self) -> bool {
        self.reduced.contains(&true)
    }

    /// The extents that are not reduced.
    pub fn parallel(&self) -> Dims {
        self.full.iter().zip(&self.reduced).filter(|(_, r)| !**r).map(|(&n, _)| n).collect()
    }

    /// Whether a tensor of these extents has one element per point.
    pub fn is_full(&self, dims: &[u64]) -> bool {
        squeezed(dims) == self.full
    }

    /// The point of a tensor with one element per point (or per parallel point).
    pub fn point(&self, dims: &[u64], full: bool) -> Coords {
        let mut own = self.coords.iter().zip(&self.reduced).filter(|(_, r)| full || !**r).map(|(c, _)| c);
        dims.iter().map(|&n| if n == 1 { None } else { own.next() }.cloned().unwrap_or(Affine::number(0))).collect()
    }

    /// The point of a reduction's result.
    fn reduced_point(&self, input: &[u64], axes: &[u8]) -> Coords {
        let mut point = self.point(input, true);
        for &a in axes {
            point[a as usize] = Affine::number(0);
        }
        point
    }

    /// Divides an axis into an outer one and an inner one of extent `inner`.
    pub fn split(&mut self, axis: Axis, inner: u64) {
        let at = axis as usize;
        let AxisData { extent, reduced } = self.axes[at];
        self.axes[at].extent = extent / inner;
        self.axes.insert(at + 1, AxisData { extent: inner, reduced });
        for c in &mut self.coords {
            *c = c.substitute(|a| match a {
                a if a < axis => Affine::axis(a),
                a if a == axis => Affine::axis(a).scale(inner as i64).plus(&Affine::axis(a + 1)),
                a => Affine::axis(a + 1),
            });
        }
    }
}

/// Follows all roots of a kernel over one domain, dividing axes as their reshapes demand.
pub fn trace(graph: &Graph, places: &Places, mut domain: Domain, roots: &[Node]) -> Result<Body, Stop> {
    loop {
        match trace_once(graph, places, &domain, roots) {
            Err(Stop::SplitAxis(axis, inner)) => domain.split(axis, inner),
            Err(stop) => return Err(stop),
            Ok(mut body) => {
                body.domain = domain;
                return Ok(body);
            }
        }
    }
}

fn trace_once(graph: &Graph, places: &Places, domain: &Domain, roots: &[Node]) -> Result<Body, Stop> {
    let extents: Vec<u64> = domain.axes.iter().map(|a| a.extent).collect();
    let mut tracer = Tracer::new(graph, places, &extents);
    tracer.roots = roots.iter().copied().collect::<FxHashSet<_>>();
    let mut folds: Vec<Fold> = Vec::new();
    let mut results: Vec<Ex> = Vec::new();
    let mut stores = Vec::new();
    for &node in roots {
        let data = &graph.nodes[node];
        let (point, value, full) = match &data.op {
            Op::Reduce(kind, axes) => {
                let input = &graph.nodes[data.args[0]].dims;
                let x = tracer.value(data.args[0], &domain.point(input, true), &SmallVec::new())?;
                let fold = Fold { kind: *kind, input: x, dtype: data.dtype };
                let number = folds.iter().position(|f| *f == fold).unwrap_or_else(|| {
                    folds.push(fold);
                    results.push(tracer.exprs.add_reduced(x, data.dtype));
                    folds.len() - 1
                });
                (domain.reduced_point(input, axes), results[number], false)
            }
            _ => {
                let full = domain.is_full(&data.dims);
                let point = domain.point(&data.dims, full);
                (point.clone(), tracer.value(node, &point, &SmallVec::new())?, full && domain.has_reduced())
            }
        };
        let at = address(&Layout::contiguous(&data.dims), &point);
        tracer.own.insert(node, (point, value));
        stores.push(Store { node, at, value, full });
    }
    Ok(Body { domain: domain.clone(), exprs: tracer.exprs, folds, stores })
}

/// Follows the value of `from`, to be stored in the buffer of `to`, which has the same extents.
pub fn copy(graph: &Graph, places: &Places, from: Node, to: Node) -> Result<Body, Stop> {
    let dims = &graph.nodes[to].dims;
    let mut domain = Domain::new(dims, &[]);
    loop {
        let extents: Vec<u64> = domain.axes.iter().map(|a| a.extent).collect();
        let mut tracer = Tracer::new(graph, places, &extents);
        let point = domain.point(dims, true);
        match tracer.value(from, &point, &SmallVec::new()) {
            Err(Stop::SplitAxis(axis, inner)) => domain.split(axis, inner),
            Err(stop) => return Err(stop),
            Ok(value) => {
                let at = address(&Layout::contiguous(dims), &point);
                let store = Store { node: to, at, value, full: false };
                return Ok(Body { domain, exprs: tracer.exprs, folds: Vec::new(), stores: vec![store] });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Pointwise;

    /// The value of `f32[4, 6]` under views, stored: how many loads and axes it takes.
    fn traced(view: impl FnOnce(&mut Graph, Node) -> Node) -> Result<Body, Stop> {
        let mut graph = Graph::new();
        let x = graph.input(DType::F32, &[4, 6]);
        let moved = view(&mut graph, x);
        let root = graph.map(Pointwise::Neg, &[moved]);
        let places = [(x, Layout::contiguous(&[4, 6]))].into_iter().collect();
        let domain = Domain::new(graph.dims(root), &[]);
        trace(&graph, &places, domain, &[root])
    }

    #[test]
    fn views_of_computed_values_become_index_arithmetic() {
        // neg(reshape(exp(x)ᵀ, [24])) needs the axis of 24 divided into 6 and 4.
        let body = traced(|g, x| {
            let e = g.map(Pointwise::Exp, &[x]);
            let t = g.permute(e, &[1, 0]);
            g.reshape(t, &[24])
        })
        .unwrap();
        assert_eq!(body.domain.axes.iter().map(|a| a.extent).collect::<Vec<_>>(), [6, 4]);
        assert_eq!(body.exprs.list.len(), 3);
    }

    #[test]
    fn an_uneven_reshape_of_a_transposed_value_needs_a_buffer() {
        let stop = traced(|g, x| {
            let e = g.map(Pointwise::Exp, &[x]);
            let t = g.permute(e, &[1, 0]);
            g.reshape(t, &[8, 3])
        });
        assert!(matches!(stop, Err(Stop::Materialize(_))));
    }
}
