//! Expressions as instructions: indices, checks, loads and rows at a point.

use smallvec::SmallVec;

use super::super::affine::{Affine, Axis, Check};
use super::super::expr::{Checks, Ex, Expr, FIRST_GATHER};
use super::context::{Emitter, Factor, PARALLEL_RUN, WALKED_RUN};
use super::point::{Point, Varies};
use super::random;
use crate::dtype::DType;
use crate::graph::Node;
use crate::op::Pointwise;
use crate::tile::{Cache, Param, Value};

impl Emitter<'_> {
    /// An index expression at a point.
    pub fn place(&mut self, at: &Affine, point: &mut Point) -> Value {
        let Some(numbers) = self.numbers.get(at) else { unreachable!("{at:?} was not prepared") };
        let (constant, factors) = (numbers.constant, numbers.factors.clone());
        let mut terms: [SmallVec<[Value; 4]>; 2] = Default::default();
        for (axis, factor) in factors {
            let index = self.axis_index(axis, point);
            let term = match factor {
                Factor::One => index,
                Factor::Number(n) => self.op(Pointwise::Mul, index, n),
            };
            terms[usize::from(self.axis_varies(axis).walked)].push(term);
        }
        let has_tiles = |terms: &SmallVec<[Value; 4]>| terms.iter().any(|&term| !self.b.ty(term).is_scalar());
        let sum = match terms.iter().all(has_tiles) {
            // Along different axes: what does not vary along walked ones is added up once.
            true => {
                let (fixed, walked) = (self.sum(constant, &terms[0]), self.sum(None, &terms[1]));
                fixed.zip(walked).map(|(x, y)| self.op(Pointwise::Add, x, y))
            }
            false => self.sum(constant, &terms.concat()),
        };
        let sum = sum.unwrap_or_else(|| self.int(0));
        if at.denominator == 1 {
            return sum;
        }
        let by = self.int(at.denominator);
        self.op(Pointwise::Div, sum, by)
    }

    /// Terms and what there is already, scalars first: what does not vary over the tile is added once.
    fn sum(&mut self, first: Option<Value>, terms: &[Value]) -> Option<Value> {
        let (scalars, tiles): (Vec<Value>, Vec<Value>) = terms.iter().partition(|&&term| self.b.ty(term).is_scalar());
        let add = |sum: Option<Value>, term| Some(sum.map_or(term, |sum| self.op(Pointwise::Add, sum, term)));
        scalars.into_iter().chain(tiles).fold(first, add)
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
    pub(super) fn holds(&mut self, checks: &[Check], point: &mut Point) -> Option<Value> {
        let mut all: Option<Value> = None;
        let checks = if self.unchecked { &[] } else { checks };
        for Check { at, limit, divisor } in checks {
            let (v, limit) = (self.place(at, point), self.limits[limit]);
            // Without its sign, what lies below 0 is greater than any limit.
            let unsigned = if self.index == DType::I32 { DType::U32 } else { DType::U64 };
            let [bits, below] = [v, limit].map(|x| self.b.cast(x, unsigned));
            let mut one = self.op(Pointwise::Lt, bits, below);
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

    /// Reads an element, or a tile of them, where the lanes lie inside and the checks hold.
    pub(super) fn load(&mut self, node: Node, at: &Affine, checks: &Checks, dtype: DType, point: &mut Point) -> Value {
        let offset = self.place(at, point);
        let inside = self.holds(checks, point);
        let lanes = self.mask(self.place_varies(at), point);
        let mask = self.both(inside, lanes);
        self.read((self.buffers[&node], dtype), offset, mask)
    }

    /// The elements at some places of a buffer where the mask holds, and 0 elsewhere.
    pub(super) fn read(&mut self, (param, dtype): (Param, DType), offsets: Value, mask: Option<Value>) -> Value {
        match mask {
            None => self.b.load(param, offsets),
            Some(mask) => {
                let zero = self.b.constant(dtype, 0);
                self.b.load_masked(param, offsets, mask, zero)
            }
        }
    }

    /// Writes a result at a point, where the lanes lie inside; `full` if it varies along walked axes.
    pub fn store(&mut self, node: Node, at: &Affine, value: Value, full: bool, point: &mut Point) {
        let cache = if self.is_streamed(node) { Cache::Stream } else { Cache::Keep };
        self.write((node, at), (value, cache), full, point);
    }

    /// As [`store`](Emitter::store), what will be read again before the result lies there.
    pub fn leave(&mut self, node: Node, at: &Affine, value: Value, point: &mut Point) {
        self.touched.insert(node);
        self.write((node, at), (value, Cache::Keep), true, point);
    }

    fn write(&mut self, (node, at): (Node, &Affine), (value, cache): (Value, Cache), full: bool, point: &mut Point) {
        let offset = self.place(at, point);
        let param = self.buffers[&node];
        let mask = self.mask(Varies { parallel: true, walked: full }, point);
        self.b.store_cached(param, offset, (value, cache), mask);
    }
}
