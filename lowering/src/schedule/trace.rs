//! Follows a node's value back to loads: views become index arithmetic, pointwise rows become expressions.  Knows
//! which nodes have buffers, not how kernels are formed.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::affine::{Affine, Axis, Check, Indivisible};
use super::expr::{Checks, Ex, Expr, Exprs, FIRST_GATHER, GatherAxis};
use super::plan::Layout;
use super::view;
use crate::dtype::DType;
use crate::graph::{Graph, Index, Movement, Node, NodeData, Op, PadDim};
use crate::op::Pointwise;

/// Index of a point of a tensor, one sum per axis.
pub type Coords = SmallVec<[Affine; 6]>;

/// Why a value cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It can once this axis of the domain is divided into an outer one and an inner one of this extent.
    SplitAxis(Axis, u64),
    /// This node must have a buffer first.
    Materialize(Node),
    /// It is computed by this kernel, but at another point.
    Barrier(Node),
}

/// Where the nodes that have buffers lie.
pub type Places = FxHashMap<Node, Layout>;

/// Follows values within one kernel.
pub struct Tracer<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// Nodes with buffers.
    pub places: &'a Places,
    /// Extents of the domain's axes.
    pub extents: &'a [u64],
    /// What is found.
    pub exprs: Exprs,
    /// Nodes that this kernel computes, whether or not they have buffers.
    pub roots: FxHashSet<Node>,
    /// Those computed so far, with the point at which they are.
    pub own: FxHashMap<Node, (Coords, Ex)>,
    known: FxHashMap<(Node, Coords, Checks), Ex>,
}

impl<'a> Tracer<'a> {
    /// Nothing followed yet.
    pub fn new(graph: &'a Graph, places: &'a Places, extents: &'a [u64]) -> Self {
        let (exprs, roots, own, known) = Default::default();
        Tracer { graph, places, extents, exprs, roots, own, known }
    }

    /// Extent of an axis; of a computed index nothing is known before it was checked.
    fn extent(&self, axis: Axis) -> i64 {
        match axis < FIRST_GATHER {
            true => self.extents[axis as usize] as i64,
            false => i64::from(i32::MAX),
        }
    }

    /// The value of `node` at `coords`, needed where `checks` hold.
    pub fn value(&mut self, node: Node, coords: &[Affine], checks: &Checks) -> Result<Ex, Stop> {
        let key = (node, Coords::from(coords), checks.clone());
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let found = self.follow(node, coords, checks)?;
        self.known.insert(key, found);
        Ok(found)
    }

    fn follow(&mut self, node: Node, coords: &[Affine], checks: &Checks) -> Result<Ex, Stop> {
        if let Some((at, ex)) = self.own.get(&node) {
            return if at.as_slice() == coords { Ok(*ex) } else { Err(Stop::Barrier(node)) };
        }
        let graph = self.graph;
        let data = &graph.nodes[node];
        if let Some(layout) = self.places.get(&node).filter(|_| !self.roots.contains(&node)) {
            return Ok(self.load(node, data, layout, coords, checks));
        }
        let ex = match &data.op {
            Op::Constant(bits) => self.exprs.add(Expr::Constant(*bits), data.dtype),
            Op::Scalar(slot) => self.exprs.add(Expr::Slot(*slot), data.dtype),
            Op::Iota(axis) => self.exprs.add(Expr::Index(coords[*axis as usize].clone()), data.dtype),
            Op::Random(dist, key, counter) => {
                let at = address(&Layout::contiguous(&data.dims), coords);
                self.exprs.add(Expr::Random { dist: *dist, key: *key, counter: *counter, at }, data.dtype)
            }
            Op::Map(op) => {
                let mut args = SmallVec::new();
                for &arg in &data.args {
                    args.push(self.value(arg, coords, checks)?);
                }
                self.exprs.add(Expr::Map(*op, args), data.dtype)
            }
            Op::Move(movement) => {
                if let Some((base, layout)) = strided(graph, self.places, node)
                    && !self.roots.contains(&base)
                {
                    return Ok(self.load(base, data, &layout, coords, checks));
                }
                self.moved(node, movement, coords, checks)?
            }
            Op::Gather(index, axis) => self.gathered(data, *index, *axis as usize, coords, checks)?,
            _ => return Err(Stop::Materialize(node)),
        };
        Ok(ex)
    }

    fn load(&mut self, node: Node, seen: &NodeData, layout: &Layout, coords: &[Affine], checks: &Checks) -> Ex {
        let at = address(layout, coords);
        self.exprs.add(Expr::Load { node, at, checks: checks.clone() }, seen.dtype)
    }

    fn moved(&mut self, node: Node, movement: &Movement, coords: &[Affine], checks: &Checks) -> Result<Ex, Stop> {
        let graph = self.graph;
        let data = &graph.nodes[node];
        let source = data.args[0];
        let from = &graph.nodes[source].dims;
        let inner: Coords = match movement {
            Movement::Permute(perm) => {
                let mut inner: Coords = SmallVec::from_elem(Affine::number(0), perm.len());
                for (c, &p) in coords.iter().zip(perm) {
                    inner[p as usize] = c.clone();
                }
                inner
            }
            Movement::Expand => {
                from.iter().zip(coords).map(|(&n, c)| if n == 1 { Affine::number(0) } else { c.clone() }).collect()
            }
            Movement::Slice(ranges) => {
                ranges.iter().zip(coords).map(|(r, c)| c.scale(r.step).offset(r.start as i64)).collect()
            }
            Movement::Window(windows) => {
                let mut inner = Coords::from(&coords[..from.len()]);
                for (w, k) in windows.iter().zip(&coords[from.len()..]) {
                    let axis = w.axis as usize;
                    inner[axis] = inner[axis].scale(w.step as i64).plus(&k.scale(w.dilation as i64));
                }
                inner
            }
            Movement::Reshape => match self.reshaped(from, &data.dims, coords) {
                Ok(inner) => inner,
                Err(Indivisible::SplitAxis(axis, n)) if axis < FIRST_GATHER => return Err(Stop::SplitAxis(axis, n)),
                Err(_) => return Err(Stop::Materialize(source)),
            },
            Movement::Pad { dims, fill } => return self.padded(source, dims, *fill, coords, checks),
        };
        self.value(source, &inner, checks)
    }

    /// Coordinates before a reshape: the index over each run of axes with the same product, divided anew.
    pub(super) fn reshaped(&self, from: &[u64], to: &[u64], coords: &[Affine]) -> Result<Coords, Indivisible> {
        let mut inner: Coords = SmallVec::from_elem(Affine::number(0), from.len());
        let (mut i, mut j) = (from.len(), to.len());
        while i > 0 {
            // The shortest runs ending at i and j with one product.
            let (last_i, last_j) = (i, j);
            i -= 1;
            let mut left = from[i];
            let mut right = 1;
            while left != right {
                if left > right {
                    j -= 1;
                    right *= to[j];
                } else {
                    i -= 1;
                    left *= from[i];
                }
            }
            let mut linear = Affine::number(0);
            let mut stride = 1;
            for k in (j..last_j).rev() {
                linear = linear.plus(&coords[k].scale(stride));
                stride *= to[k] as i64;
            }
            for k in (i + 1..last_i).rev() {
                let (quotient, rest) = linear.divide(from[k], |axis| self.extent(axis))?;
                inner[k] = rest;
                linear = quotient;
            }
            inner[i] = linear;
        }
        Ok(inner)
    }

    fn padded(
        &mut self,
        source: Node,
        dims: &[PadDim],
        fill: u64,
        coords: &[Affine],
        checks: &Checks,
    ) -> Result<Ex, Stop> {
        let graph = self.graph;
        let data = &graph.nodes[source];
        if data.is_empty() {
            return Ok(self.exprs.add(Expr::Constant(fill), data.dtype));
        }
        let mut inner = Coords::new();
        let mut new = Checks::new();
        for ((pad, c), &n) in dims.iter().zip(coords).zip(&data.dims) {
            let shifted = c.offset(-(pad.low as i64));
            let pitch = pad.interior as i64 + 1;
            let check = Check { at: shifted.clone(), limit: (n as i64 - 1) * pitch + 1, divisor: pitch };
            inner.push(shifted.divided(pitch));
            if !check.always(|axis| self.extent(axis)) {
                new.push(check);
            }
        }
        let mut all = checks.clone();
        all.extend(new.iter().cloned());
        all.sort();
        all.dedup();
        let value = self.value(source, &inner, &all)?;
        let dtype = data.dtype;
        Ok(match new.is_empty() {
            true => value,
            // A load gives 0 where it is not made.
            false if fill == 0 && matches!(self.exprs.list[value].expr, Expr::Load { .. }) => value,
            false => self.exprs.add(Expr::Guard { checks: new, value, fill }, dtype),
        })
    }

    fn gathered(
        &mut self,
        data: &NodeData,
        index: Index,
        axis: usize,
        coords: &[Affine],
        checks: &Checks,
    ) -> Result<Ex, Stop> {
        let (source, indices) = (data.args[0], data.args[1]);
        let picked = match index {
            Index::Elements => self.value(indices, coords, checks)?,
            Index::Positions => self.value(indices, &coords[axis..=axis], checks)?,
        };
        let pseudo = self.gather_axis(picked, source, axis);
        let mut inner = Coords::from(coords);
        inner[axis] = Affine::axis(pseudo);
        let limit = self.graph.dims(source)[axis] as i64;
        let check = Check { at: Affine::axis(pseudo), limit, divisor: 1 };
        let mut all = checks.clone();
        all.push(check.clone());
        all.sort();
        all.dedup();
        let value = self.value(source, &inner, &all)?;
        if self.exprs.meets(value, pseudo) {
            return Ok(value);
        }
        // What is the same at every index is read at none; the index is computed all the same, to be checked.
        let guard = Expr::Guard { checks: smallvec![check], value, fill: 0 };
        Ok(self.exprs.add(guard, data.dtype))
    }

    /// The pseudo-axis of a computed index, which the kernel will check.
    pub fn gather_axis(&mut self, index: Ex, data: Node, axis: usize) -> Axis {
        let limit = self.graph.dims(data)[axis] as i64;
        let known = self.exprs.gathers.iter().position(|g| g.index == index && g.limit == limit);
        let number = known.unwrap_or_else(|| {
            let message = format!("index out of range for axis {axis} of extent {limit}");
            self.exprs.gathers.push(GatherAxis { index, limit, message });
            self.exprs.gathers.len() - 1
        });
        FIRST_GATHER + number as Axis
    }

    /// A conversion of an expression.
    pub fn cast(&mut self, ex: Ex, dtype: DType) -> Ex {
        if self.exprs.list[ex].dtype == dtype {
            return ex;
        }
        self.exprs.add(Expr::Map(Pointwise::Cast, SmallVec::from_slice(&[ex])), dtype)
    }
}

/// The place of a point of a strided tensor.
pub fn address(layout: &Layout, coords: &[Affine]) -> Affine {
    let start = Affine::number(layout.offset);
    layout.strides.iter().zip(coords).fold(start, |sum, (&s, c)| sum.plus(&c.scale(s)))
}

/// The node with a buffer that `node` is a strided view of, and the view's layout.
pub fn strided(graph: &Graph, places: &Places, node: Node) -> Option<(Node, Layout)> {
    if let Some(layout) = places.get(&node) {
        return Some((node, layout.clone()));
    }
    let data = &graph.nodes[node];
    let Op::Move(movement) = &data.op else { return None };
    let (base, layout) = strided(graph, places, data.args[0])?;
    Some((base, view::moved(movement, &graph.nodes[data.args[0]], data, &layout)?))
}
