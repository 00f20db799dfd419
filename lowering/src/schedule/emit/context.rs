//! A tile program being written.  Sizes, strides and offsets become arguments, so that the program's text names a class
//! of shapes; where a point lies comes in as one index value per axis (see [`Point`](super::Point)).

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::super::affine::{Affine, Axis};
use super::super::expr::{Checks, Expr, Exprs, FIRST_GATHER};
use super::super::grain::Grain;
use super::super::group::AxisData;
use super::super::plan::Arg;
use super::combine::carried;
use super::point::Varies;
use super::walk::{self, Tiles};
use super::{Emitted, Operand, messages, reduce};
use crate::dtype::DType;
use crate::graph::{Graph, Node, Reduction, Slot};
use crate::op::Pointwise;
use crate::tile::{Builder, Param, Type, Value};

/// Stands for all parallel axes that tiles run along, walked as one.
pub(super) const PARALLEL_RUN: Axis = FIRST_GATHER - 1;

/// Stands for all reduced axes that tiles run along, walked as one.
pub(super) const WALKED_RUN: Axis = FIRST_GATHER - 2;

/// Axes that tiles run along, each with its distance in row-major order.
struct Run {
    name: Axis,
    axes: Vec<(Axis, i64)>,
}

impl Run {
    fn new(name: Axis, axes: &[AxisData], from: usize, to: usize) -> Run {
        let pitch = |at: usize| axes[at + 1..to].iter().map(|a| a.extent).product::<u64>() as i64;
        Run { name, axes: (from..to).map(|at| (at as Axis, pitch(at))).collect() }
    }
}

/// A factor of an index.
#[derive(Clone, Copy)]
pub(super) enum Factor {
    One,
    Number(Value),
}

/// An index expression's numbers, as arguments.
pub(super) struct Numbers {
    pub(super) constant: Option<Value>,
    pub(super) factors: SmallVec<[(Axis, Factor); 4]>,
}

/// A program under construction.
pub struct Emitter<'a> {
    /// The program.
    pub b: Builder,
    /// Its expressions.
    pub exprs: &'a Exprs,
    /// Type of index arithmetic.
    pub index: DType,
    graph: &'a Graph,
    /// What sizes are asked to be multiples of.
    aligned: u32,
    /// Bytes of a result from which on it is written past the caches.
    streams: u64,
    /// Whether all that a tile takes is asked for first.
    pub(super) asks_first: bool,
    /// Whether extremes are carried as floats.
    compares_floats: bool,
    /// Whether all checks are known to hold.
    pub(super) unchecked: bool,
    args: Vec<Operand>,
    pub(super) slots: FxHashMap<Slot, Value>,
    pub(super) numbers: FxHashMap<Affine, Numbers>,
    pub(super) limits: FxHashMap<i64, Value>,
    pub(super) buffers: FxHashMap<Node, Param>,
    /// Results whose places were touched before: those of operands, and where something was left.
    pub(super) touched: FxHashSet<Node>,
    pub(super) walked: Vec<bool>,
    runs: [Run; 2],
    pub(super) varies: Vec<Varies>,
}

impl<'a> Emitter<'a> {
    /// Starts a program that visits `axes` in `tiles`; every size that it may need becomes an argument now, ahead
    /// of all loops.
    pub fn new(
        name: &str,
        graph: &'a Graph,
        exprs: &'a Exprs,
        (axes, tiles): (&[AxisData], Tiles),
        index: DType,
        stored: &[&Affine],
    ) -> Emitter<'a> {
        let extents: Vec<u64> = axes.iter().filter(|a| !a.reduced).map(|a| a.extent).collect();
        let parallel = walk::row_start(&extents, tiles)..extents.len();
        let walked = reduce::run_start(axes, tiles)..axes.len();
        Emitter::with_runs(name, graph, exprs, (axes, tiles.grain), [parallel, walked], index, stored)
    }

    /// Likewise, the parallel and the reduced axes that tiles run along being given.
    pub fn with_runs(
        name: &str,
        graph: &'a Graph,
        exprs: &'a Exprs,
        (axes, grain): (&[AxisData], Grain),
        [parallel, walked]: [Range<usize>; 2],
        index: DType,
        stored: &[&Affine],
    ) -> Emitter<'a> {
        let mut e = Emitter {
            b: Builder::new(name),
            exprs,
            index,
            graph,
            aligned: grain.aligned,
            streams: grain.streams,
            asks_first: grain.asks_first,
            compares_floats: grain.compares_floats,
            unchecked: false,
            args: Vec::new(),
            slots: FxHashMap::default(),
            numbers: FxHashMap::default(),
            limits: FxHashMap::default(),
            buffers: FxHashMap::default(),
            touched: FxHashSet::default(),
            walked: axes.iter().map(|a| a.reduced).collect(),
            runs: [
                Run::new(PARALLEL_RUN, axes, parallel.start, parallel.end),
                Run::new(WALKED_RUN, axes, walked.start, walked.end),
            ],
            varies: Vec::new(),
        };
        for data in exprs.list.values() {
            e.varies.push(e.expr_varies(&data.expr));
            match &data.expr {
                Expr::Load { node, at, checks } => {
                    e.buffer(*node, false);
                    e.prepare(at);
                    e.prepare_checks(checks);
                }
                Expr::Index(at) => e.prepare(at),
                Expr::Guard { checks, .. } => e.prepare_checks(checks),
                Expr::Slot(slot) => {
                    e.slot(*slot, data.dtype);
                }
                Expr::Random { key, counter, at, .. } => {
                    e.prepare(at);
                    e.slot(*key, DType::U64);
                    e.slot(*counter, DType::U64);
                }
                Expr::Constant(_) | Expr::Map(..) | Expr::Reduced(_) => {}
            }
        }
        for at in stored {
            e.prepare(at);
        }
        for gather in &exprs.gathers {
            e.limit(gather.limit);
        }
        e
    }

    /// The finished kernel.
    pub fn finish(self, grid: [u32; 3]) -> Emitted {
        Emitted { program: self.b.finish(), grid, args: self.args, checks: messages(self.exprs), share: None }
    }

    /// A number that differs from launch to launch, known to be a multiple of `divisor`.
    pub fn argument(&mut self, value: i64, divisor: u32) -> Value {
        self.args.push(Operand::Scalar(Arg::Literal(value as u64)));
        self.b.scalar(self.index, divisor)
    }

    /// A size, stride or offset.  Where the machine's wide accesses ask for it, whether it is a multiple of the widest is a
    /// part of the class.
    pub fn size(&mut self, value: i64) -> Value {
        let divisor = if value % i64::from(self.aligned) == 0 { self.aligned } else { 1 };
        self.argument(value, divisor)
    }

    /// A distance of elements.  Of those that are multiples of the widest access it is said that they are positive, if they
    /// are: an engine that copies rows takes no others.
    fn stride(&mut self, value: i64) -> Value {
        let (stride, least) = (self.size(value), i64::from(self.aligned));
        if least == 1 || value <= 0 || value % least != 0 {
            return stride;
        }
        let least = self.int(least);
        self.op(Pointwise::Max, stride, least)
    }

    /// The buffer that holds a node.
    pub fn buffer(&mut self, node: Node, written: bool) -> Param {
        if let Some(&param) = self.buffers.get(&node) {
            return param;
        }
        let param = self.b.buffer(self.graph.dtype(node), written);
        self.args.push(Operand::Node(node));
        self.buffers.insert(node, param);
        param
    }

    /// Element type of a node.
    pub fn dtype(&self, node: Node) -> DType {
        self.graph.dtype(node)
    }

    /// A buffer between two kernels.
    pub fn scratch(&mut self, number: usize, dtype: DType, written: bool) -> Param {
        self.args.push(Operand::Scratch(number));
        self.b.buffer(dtype, written)
    }

    /// The buffers of all results.  `inplace` names those that share an operand's buffer, and that operand.
    pub fn results(&mut self, nodes: impl Iterator<Item = Node>, inplace: &[(Node, Node)]) {
        for node in nodes {
            match inplace.iter().find(|p| p.0 == node) {
                Some(&(_, operand)) => self.share(node, operand),
                None => {
                    self.buffer(node, true);
                }
            }
        }
    }

    /// Puts a result into the memory of an operand: one parameter, which is the result's buffer.
    pub fn share(&mut self, result: Node, operand: Node) {
        let param = self.buffers[&operand];
        self.b.mark_written(param);
        for arg in self.args.iter_mut().filter(|a| **a == Operand::Node(operand)) {
            *arg = Operand::Node(result);
        }
        self.buffers.insert(result, param);
        self.touched.insert(result);
    }

    /// Whether a result is large enough to be written past the caches, and its place does not lie in them anyway.
    pub(super) fn is_streamed(&self, node: Node) -> bool {
        let bytes = self.graph.nodes[node].len() * self.graph.dtype(node).bytes() as u64;
        bytes >= self.streams && !self.touched.contains(&node)
    }

    /// The type in which a reduction of `dtype` is carried.
    pub fn carried(&self, kind: Reduction, dtype: DType) -> DType {
        if self.compares_floats { dtype } else { carried(kind, dtype) }
    }

    /// The value bound to a slot.
    pub fn slot(&mut self, slot: Slot, dtype: DType) -> Value {
        if let Some(&value) = self.slots.get(&slot) {
            return value;
        }
        self.args.push(Operand::Scalar(Arg::Slot(slot)));
        let value = self.b.scalar(dtype, 1);
        self.slots.insert(slot, value);
        value
    }

    fn limit(&mut self, limit: i64) -> Value {
        if let Some(&value) = self.limits.get(&limit) {
            return value;
        }
        let value = self.argument(limit, 1);
        self.limits.insert(limit, value);
        value
    }

    fn prepare_checks(&mut self, checks: &Checks) {
        for check in checks {
            self.prepare(&check.at);
            self.limit(check.limit);
        }
    }

    /// Makes arguments of an index expression's numbers.  0 and 1 stay what they are: they are part of the class.
    fn prepare(&mut self, at: &Affine) {
        if self.numbers.contains_key(at) {
            return;
        }
        let constant = (at.constant != 0).then(|| self.size(at.constant));
        let mut terms = at.terms.clone();
        // A tile's elements lie side by side where the axes that it runs along are walked as one.
        for run in self.runs.iter().filter(|run| run.axes.len() > 1) {
            let pitch = run.axes.last().map_or(0, |&(axis, _)| at.coefficient(axis));
            if pitch != 0 && run.axes.iter().all(|&(a, n)| at.coefficient(a) == pitch * n) {
                terms.retain(|t| !run.axes.iter().any(|r| r.0 == t.0));
                terms.push((run.name, pitch));
            }
        }
        let factors = terms
            .iter()
            .map(|&(axis, c)| (axis, if c == 1 { Factor::One } else { Factor::Number(self.stride(c)) }))
            .collect();
        self.numbers.insert(at.clone(), Numbers { constant, factors });
    }

    /// A constant of the index type.
    pub fn int(&mut self, value: i64) -> Value {
        self.b.int(self.index, value)
    }

    /// A binary row on index values; scalars broadcast.
    pub fn op(&mut self, op: Pointwise, x: Value, y: Value) -> Value {
        self.b.map(op, &[x, y])
    }

    /// `for i in (low..high).step_by(step)`, carrying values.
    pub fn for_loop(
        &mut self,
        range: (Value, Value, Value),
        carried: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        self.for_loop_in(1, range, carried, body)
    }

    /// The same in stages: what an iteration loads may be asked for so many before it, less one.
    pub fn for_loop_in(
        &mut self,
        stages: u8,
        (low, high, step): (Value, Value, Value),
        carried: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<Type> = carried.iter().map(|&x| self.b.ty(x).clone()).collect();
        let params: Vec<Type> = [self.b.ty(low).clone()].into_iter().chain(types.iter().cloned()).collect();
        let (open, params) = self.b.open(&params);
        let yields = body(self, params[0], &params[1..]);
        let body = self.b.close(open, &yields);
        let args: Vec<Value> = [low, high, step].into_iter().chain(carried.iter().copied()).collect();
        self.b.push(crate::tile::Op::For { body, stages }, &args, &types).to_vec()
    }

    /// Runs one of two pieces of code, for what they write.
    pub fn either(&mut self, condition: Value, then: impl FnOnce(&mut Self), other: impl FnOnce(&mut Self)) {
        let (open, _) = self.b.open(&[]);
        then(self);
        let then = self.b.close(open, &[]);
        let (open, _) = self.b.open(&[]);
        other(self);
        let other = self.b.close(open, &[]);
        self.b.push(crate::tile::Op::If { then, other }, &[condition], &[]);
    }

    /// Runs `then` where `condition` holds; elsewhere the results are `other`.
    pub fn if_then(
        &mut self,
        condition: Value,
        other: &[Value],
        then: impl FnOnce(&mut Self) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<Type> = other.iter().map(|&x| self.b.ty(x).clone()).collect();
        let (open, _) = self.b.open(&[]);
        let yields = then(self);
        let then = self.b.close(open, &yields);
        let (open, _) = self.b.open(&[]);
        let other = self.b.close(open, other);
        self.b.push(crate::tile::Op::If { then, other }, &[condition], &types).to_vec()
    }
}
