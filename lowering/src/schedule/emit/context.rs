//! Writes expressions into a tile program.  Sizes, strides and offsets become arguments, so that the program's text
//! names a class of shapes; where a point lies comes in as one index value per axis.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::super::affine::{Affine, Axis, Check};
use super::super::expr::{Checks, Ex, Expr, Exprs, FIRST_GATHER};
use super::super::group::AxisData;
use super::super::plan::Arg;
use super::walk::{self, Tiles};
use super::{Emitted, Operand, messages, random, reduce};
use crate::dtype::DType;
use crate::graph::{Graph, Node, Slot};
use crate::op::Pointwise;
use crate::tile::{Builder, Param, Type, Value};

/// Stands for all parallel axes that tiles run along, walked as one.
const PARALLEL_RUN: Axis = FIRST_GATHER - 1;

/// Stands for all reduced axes that tiles run along, walked as one.
const WALKED_RUN: Axis = FIRST_GATHER - 2;

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
enum Factor {
    One,
    Number(Value),
}

/// An index expression's numbers, as arguments.
struct Numbers {
    constant: Option<Value>,
    factors: SmallVec<[(Axis, Factor); 4]>,
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
    args: Vec<Operand>,
    slots: FxHashMap<Slot, Value>,
    numbers: FxHashMap<Affine, Numbers>,
    limits: FxHashMap<i64, Value>,
    buffers: FxHashMap<Node, Param>,
    walked: Vec<bool>,
    runs: [Run; 2],
    varies: Vec<Varies>,
}

/// Which kinds of axes something varies along.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Varies {
    parallel: bool,
    walked: bool,
}

impl Varies {
    fn or(self, other: Varies) -> Varies {
        Varies { parallel: self.parallel || other.parallel, walked: self.walked || other.walked }
    }
}

/// A point of the domain, or a tile of points.
#[derive(Clone, Default)]
pub struct Point {
    /// Index along each axis: a scalar, or a tile.
    pub axes: Vec<Option<Value>>,
    /// Index along all parallel axes that tiles run along, as one.
    pub parallel_run: Option<Value>,
    /// Index along all reduced axes that tiles run along, as one.
    pub walked_run: Option<Value>,
    /// Which lanes of parallel axes lie inside; `None` for all.
    pub parallel_mask: Option<Value>,
    /// Which lanes of walked axes lie inside; `None` for all.
    pub walked_mask: Option<Value>,
    /// Results of reductions, by number.
    pub reduced: Vec<Option<Value>>,
    known: FxHashMap<Ex, Value>,
    checked: SmallVec<[Axis; 2]>,
}

impl Point {
    /// A point at which nothing is known yet.
    pub fn new(axes: usize, reduced: usize) -> Point {
        Point { axes: vec![None; axes], reduced: vec![None; reduced], ..Point::default() }
    }
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
        let walked_from = reduce::run_start(axes, tiles);
        let mut e = Emitter {
            b: Builder::new(name),
            exprs,
            index,
            graph,
            args: Vec::new(),
            slots: FxHashMap::default(),
            numbers: FxHashMap::default(),
            limits: FxHashMap::default(),
            buffers: FxHashMap::default(),
            walked: axes.iter().map(|a| a.reduced).collect(),
            runs: [
                Run::new(PARALLEL_RUN, axes, walk::row_start(&extents, tiles), extents.len()),
                Run::new(WALKED_RUN, axes, walked_from, axes.len()),
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
        Emitted { program: self.b.finish(), grid, args: self.args, checks: messages(self.exprs) }
    }

    /// A number that differs from launch to launch, known to be a multiple of `divisor`.
    pub fn argument(&mut self, value: i64, divisor: u32) -> Value {
        self.args.push(Operand::Scalar(Arg::Literal(value as u64)));
        self.b.scalar(self.index, divisor)
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

    /// Puts a result into the memory of an operand: one parameter, which is the result's buffer.
    pub fn share(&mut self, result: Node, operand: Node) {
        let param = self.buffers[&operand];
        self.b.mark_written(param);
        for arg in self.args.iter_mut().filter(|a| **a == Operand::Node(operand)) {
            *arg = Operand::Node(result);
        }
        self.buffers.insert(result, param);
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
        let constant = (at.constant != 0).then(|| self.argument(at.constant, 1));
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
            .map(|&(axis, c)| (axis, if c == 1 { Factor::One } else { Factor::Number(self.argument(c, 1)) }))
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
        self.b.push(crate::tile::Op::For { body, stages: 1 }, &args, &types).to_vec()
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

    /// An index expression at a point.
    pub fn place(&mut self, at: &Affine, point: &mut Point) -> Value {
        let Some(numbers) = self.numbers.get(at) else { unreachable!("{at:?} was not prepared") };
        let (constant, factors) = (numbers.constant, numbers.factors.clone());
        let mut sum = constant;
        // Scalars first: what does not vary over the tile is added once.
        let mut tiles: SmallVec<[Value; 4]> = SmallVec::new();
        for (axis, factor) in factors {
            let index = self.axis_index(axis, point);
            let term = match factor {
                Factor::One => index,
                Factor::Number(n) => self.op(Pointwise::Mul, index, n),
            };
            if self.b.ty(term).is_scalar() {
                sum = Some(sum.map_or(term, |s| self.op(Pointwise::Add, s, term)));
            } else {
                tiles.push(term);
            }
        }
        for term in tiles {
            sum = Some(sum.map_or(term, |s| self.op(Pointwise::Add, s, term)));
        }
        let sum = sum.unwrap_or_else(|| self.int(0));
        if at.denominator == 1 {
            return sum;
        }
        let by = self.int(at.denominator);
        self.op(Pointwise::Div, sum, by)
    }

    fn expr_varies(&self, expr: &Expr) -> Varies {
        let checks = |c: &Checks| c.iter().fold(Varies::default(), |v, c| v.or(self.place_varies(&c.at)));
        match expr {
            Expr::Constant(_) | Expr::Slot(_) => Varies::default(),
            Expr::Index(at) | Expr::Random { at, .. } => self.place_varies(at),
            Expr::Load { at, checks: c, .. } => self.place_varies(at).or(checks(c)),
            Expr::Map(_, args) => args.iter().fold(Varies::default(), |v, a| v.or(self.varies[a.as_u32() as usize])),
            Expr::Guard { checks: c, value, .. } => checks(c).or(self.varies[value.as_u32() as usize]),
            Expr::Reduced(_) => Varies { parallel: true, walked: false },
        }
    }

    fn place_varies(&self, at: &Affine) -> Varies {
        let axis = |axis: Axis| match axis < FIRST_GATHER {
            true => {
                let walked = self.walked[axis as usize];
                Varies { parallel: !walked, walked }
            }
            false => self.varies[self.exprs.gathers[(axis - FIRST_GATHER) as usize].index.as_u32() as usize],
        };
        at.terms.iter().fold(Varies::default(), |v, t| v.or(axis(t.0)))
    }

    /// The mask of what varies so.
    fn mask(&mut self, varies: Varies, point: &Point) -> Option<Value> {
        let parallel = point.parallel_mask.filter(|_| varies.parallel);
        match (parallel, point.walked_mask.filter(|_| varies.walked)) {
            (Some(p), Some(w)) => Some(self.op(Pointwise::And, p, w)),
            (p, w) => p.or(w),
        }
    }

    /// The same point with new indices along walked axes: what does not vary along them stays known.
    pub fn inside(&self, point: &Point) -> Point {
        let mut inner = point.clone();
        inner.known.retain(|ex, _| !self.varies[ex.as_u32() as usize].walked);
        let gathers = &self.exprs.gathers;
        let fixed = |a: &mut Axis| !self.varies[gathers[(*a - FIRST_GATHER) as usize].index.as_u32() as usize].walked;
        inner.checked.retain(fixed);
        inner
    }

    /// Computes ahead of a loop what does not vary inside it.
    pub fn hoist(&mut self, ex: Ex, point: &mut Point) {
        if point.known.contains_key(&ex) {
            return;
        }
        if !self.varies[ex.as_u32() as usize].walked {
            self.value(ex, point);
            return;
        }
        let exprs = self.exprs;
        match &exprs.list[ex].expr {
            Expr::Map(_, args) => args.iter().for_each(|&a| self.hoist(a, point)),
            Expr::Guard { value, .. } => self.hoist(*value, point),
            _ => {}
        }
    }

    fn axis_index(&mut self, axis: Axis, point: &mut Point) -> Value {
        if axis == PARALLEL_RUN || axis == WALKED_RUN {
            let run = if axis == PARALLEL_RUN { point.parallel_run } else { point.walked_run };
            let Some(run) = run else { unreachable!("no tile runs here") };
            return run;
        }
        if axis < FIRST_GATHER {
            let Some(index) = point.axes[axis as usize] else { unreachable!("axis {axis} has no index here") };
            return index;
        }
        let exprs = self.exprs;
        let gather = &exprs.gathers[(axis - FIRST_GATHER) as usize];
        let (code, limit) = (u32::from(axis - FIRST_GATHER) + 1, self.limits[&gather.limit]);
        let picked = self.value(gather.index, point);
        if !point.checked.contains(&axis) {
            point.checked.push(axis);
            let dtype = self.b.ty(picked).dtype;
            let zero = self.b.int(dtype, 0);
            let limit = self.b.cast(limit, dtype);
            let low = self.op(Pointwise::Ge, picked, zero);
            let high = self.op(Pointwise::Lt, picked, limit);
            let mut inside = self.op(Pointwise::And, low, high);
            if let Some(mask) = self.mask(self.varies[gather.index.as_u32() as usize], point) {
                let outside = self.b.map(Pointwise::Not, &[mask]);
                inside = self.op(Pointwise::Or, inside, outside);
            }
            self.b.check(inside, code);
        }
        self.b.cast(picked, self.index)
    }

    /// Whether checks hold at a point.
    fn holds(&mut self, checks: &Checks, point: &mut Point) -> Option<Value> {
        let mut all: Option<Value> = None;
        for Check { at, limit, divisor } in checks {
            let (v, zero, limit) = (self.place(at, point), self.int(0), self.limits[limit]);
            let low = self.op(Pointwise::Ge, v, zero);
            let high = self.op(Pointwise::Lt, v, limit);
            let mut one = self.op(Pointwise::And, low, high);
            if *divisor > 1 {
                let by = self.int(*divisor);
                let quotient = self.op(Pointwise::Div, v, by);
                let whole = self.op(Pointwise::Mul, quotient, by);
                let divides = self.op(Pointwise::Eq, whole, v);
                one = self.op(Pointwise::And, one, divides);
            }
            all = Some(all.map_or(one, |a| self.op(Pointwise::And, a, one)));
        }
        all
    }

    /// The value of an expression at a point.
    pub fn value(&mut self, ex: Ex, point: &mut Point) -> Value {
        if let Some(&known) = point.known.get(&ex) {
            return known;
        }
        let exprs = self.exprs;
        let data = &exprs.list[ex];
        let value = match &data.expr {
            Expr::Constant(bits) => self.b.constant(data.dtype, *bits),
            Expr::Slot(slot) => self.slot(*slot, data.dtype),
            Expr::Index(at) => {
                let v = self.place(at, point);
                self.b.cast(v, data.dtype)
            }
            Expr::Load { node, at, checks } => self.load(*node, at, checks, data.dtype, point),
            Expr::Map(op @ (Pointwise::Cast | Pointwise::Bitcast), args) => {
                let x = self.value(args[0], point);
                self.b.convert(*op, x, data.dtype)
            }
            Expr::Map(op, args) => {
                let args: SmallVec<[Value; 3]> = args.iter().map(|&a| self.value(a, point)).collect();
                self.b.map(*op, &args)
            }
            Expr::Guard { checks, value, fill } => {
                let value = self.value(*value, point);
                let fill = self.b.constant(data.dtype, *fill);
                match self.holds(checks, point) {
                    Some(inside) => self.b.map(Pointwise::Select, &[inside, value, fill]),
                    None => value,
                }
            }
            Expr::Reduced(number) => match point.reduced[*number as usize] {
                Some(value) => value,
                None => unreachable!("reduction {number} is not complete here"),
            },
            Expr::Random { dist, key, counter, at } => {
                let at = self.place(at, point);
                let (key, counter) = (self.slots[key], self.slots[counter]);
                random::emit(&mut self.b, *dist, data.dtype, key, counter, at)
            }
        };
        point.known.insert(ex, value);
        value
    }

    fn load(&mut self, node: Node, at: &Affine, checks: &Checks, dtype: DType, point: &mut Point) -> Value {
        let offset = self.place(at, point);
        let mut mask = self.holds(checks, point);
        if let Some(lanes) = self.mask(self.place_varies(at), point) {
            mask = Some(mask.map_or(lanes, |m| self.op(Pointwise::And, m, lanes)));
        }
        let param = self.buffers[&node];
        match mask {
            None => self.b.load(param, offset),
            Some(mask) => {
                let zero = self.b.constant(dtype, 0);
                self.b.load_masked(param, offset, mask, zero)
            }
        }
    }

    /// Writes a value at a point, where the lanes lie inside; `full` if it varies along walked axes.
    pub fn store(&mut self, node: Node, at: &Affine, value: Value, full: bool, point: &mut Point) {
        let offset = self.place(at, point);
        let param = self.buffers[&node];
        let mask = self.mask(Varies { parallel: true, walked: full }, point);
        self.b.store(param, offset, value, mask);
    }
}
