//! The steps a random program is made of; each adds one or a few values to the pool.

use smallvec::{SmallVec, smallvec};

use super::generator::{Generator, LENGTH};
use crate::dtype::DType;
use crate::op::Pointwise;
use crate::tile::{Atomic, Builder, Op, Precision, Type, Value};

/// Every kind of step; a kind that does not fit adds nothing.
const STEPS: &[fn(&mut Generator<'_>)] = &[
    row, row, row, row, row, row, conversion, conversion, bitcast, moves, moves, join, split, load, reduce, reduce,
    scan, gather, dot, repeat, branch, check, atomic,
];

impl Generator<'_> {
    pub(super) fn step(&mut self) {
        let step = self.random.pick(STEPS);
        step(self);
    }

    /// A few steps inside a block.
    fn inside(&mut self) {
        self.depth += 1;
        for _ in 0..1 + self.random.below(4) {
            self.step();
        }
        self.depth -= 1;
    }
}

fn row(g: &mut Generator<'_>) {
    let row = g.random.pick(&g.features.rows).row();
    if row.result(DType::F32).is_none() {
        return;
    }
    let x = g.any();
    let accepted: Vec<DType> = g.features.dtypes.iter().copied().filter(|&d| row.accepts(d)).collect();
    if accepted.is_empty() {
        return;
    }
    let mut ty = g.b.ty(x).clone();
    if !row.accepts(ty.dtype) {
        ty.dtype = g.random.pick(&accepted);
    }
    let mut args: SmallVec<[Value; 4]> = (1..row.arity).map(|_| g.fit_any(&ty)).collect();
    let x = g.b.cast(x, ty.dtype);
    args.insert(g.random.below(row.arity), x);
    if row.op == Pointwise::Select {
        args[0] = g.fit_any(&ty.with(DType::Bool));
    }
    let result = g.b.map(row.op, &args);
    g.pool.push(result);
}

fn conversion(g: &mut Generator<'_>) {
    let (x, dtype) = (g.any(), g.dtype());
    let result = g.b.cast(x, dtype);
    g.pool.push(result);
}

fn bitcast(g: &mut Generator<'_>) {
    let mut x = g.any();
    let ty = g.b.ty(x).clone();
    let fits = |d: &DType| d.bits() == ty.dtype.bits() && *d != DType::Bool;
    let to: Vec<DType> = g.features.dtypes.iter().copied().filter(fits).collect();
    if ty.dtype == DType::Bool || to.is_empty() {
        return;
    }
    if ty.dtype.is_float() {
        // Which NaN it is must not show.
        let nan = g.b.map(Pointwise::Ne, &[x, x]);
        let zero = g.b.constant(ty.dtype, 0);
        x = g.b.map(Pointwise::Select, &[nan, zero, x]);
    }
    let to = g.random.pick(&to);
    let result = g.b.convert(Pointwise::Bitcast, x, to);
    g.pool.push(result);
}

fn moves(g: &mut Generator<'_>) {
    let x = g.any();
    let ty = g.b.ty(x).clone();
    let rank = ty.shape.len();
    let result = match g.random.below(4) {
        0 if rank < 5 => {
            let axis = g.random.below(rank + 1) as u8;
            g.b.expand_dims(x, axis)
        }
        1 => {
            let n = ty.len() as u32;
            let first = 1 << g.random.below(n.ilog2() as usize + 1);
            g.b.reshape(x, &[first, n / first])
        }
        2 if rank > 1 => {
            let mut perm: Vec<u8> = (0..rank as u8).collect();
            for i in 1..rank {
                perm.swap(i, g.random.below(i + 1));
            }
            g.b.trans(x, &perm)
        }
        _ => {
            let mut shape = ty.shape.clone();
            if rank == 0 {
                shape.push(1);
            }
            let mut len = ty.len() as u32;
            for n in shape.iter_mut().filter(|n| **n == 1) {
                while len < g.features.elements && !g.random.once_in(3) {
                    (*n, len) = (*n * 2, len * 2);
                }
            }
            g.b.broadcast(x, &shape)
        }
    };
    g.pool.push(result);
}

fn join(g: &mut Generator<'_>) {
    let x = g.any();
    let mut ty = g.b.ty(x).clone();
    if ty.len() as u32 * 2 > g.features.elements || ty.shape.len() > 4 {
        return;
    }
    let y = g.fit_any(&ty);
    ty.shape.push(2);
    let result = g.b.push(Op::Join, &[x, y], &[ty])[0];
    g.pool.push(result);
}

fn split(g: &mut Generator<'_>) {
    let x = g.any_tile();
    let ty = g.b.ty(x).clone();
    let n = ty.len() as u32;
    if n < 2 {
        return;
    }
    let x = g.reshape(x, &[n / 2, 2]);
    let half = Type::tile(ty.dtype, &[n / 2]);
    let halves = g.b.push(Op::Split, &[x], &[half.clone(), half]);
    g.pool.extend(halves);
}

fn load(g: &mut Generator<'_>) {
    let (param, dtype) = g.random.pick(&g.inputs);
    let x = g.any();
    let mut at = g.below(x, LENGTH);
    if g.random.once_in(2) {
        let shape = g.b.ty(x).shape.clone();
        at = g.lanes(&shape);
        if g.random.once_in(2) {
            let last = g.b.int(DType::I32, i64::from(LENGTH) - 1);
            at = g.b.map(Pointwise::Sub, &[last, at]);
        }
    }
    let ty = g.b.ty(at).clone();
    if g.random.once_in(2) {
        at = g.b.cast(at, DType::I64);
    }
    let result = if g.random.once_in(2) {
        g.b.load(param, at)
    } else {
        let mask = g.fit_any(&ty.with(DType::Bool));
        let other = g.fit_any(&ty.with(dtype));
        g.b.load_masked(param, at, mask, other)
    };
    g.pool.push(result);
}

/// `a ∘ b` on scalars of one type, or on pairs of a value and an index.
fn combine(choice: usize, b: &mut Builder, left: &[Value], right: &[Value]) -> SmallVec<[Value; 2]> {
    let (x, y) = (left[0], right[0]);
    if let (Some(&i), Some(&j)) = (left.get(1), right.get(1)) {
        let first = b.map(Pointwise::Ge, &[x, y]);
        return smallvec![b.map(Pointwise::Select, &[first, x, y]), b.map(Pointwise::Select, &[first, i, j])];
    }
    let dtype = b.ty(x).dtype;
    let rows = if dtype == DType::Bool {
        [Pointwise::And, Pointwise::Or, Pointwise::Xor, Pointwise::And]
    } else {
        [Pointwise::Add, Pointwise::Max, Pointwise::Min, Pointwise::Mul]
    };
    if choice < rows.len() || dtype == DType::Bool {
        return smallvec![b.map(rows[choice % 4], &[x, y])];
    }
    // Neither commutes nor associates.
    let two = b.constant(dtype, crate::op::scalar::cast(DType::U8, dtype, 2));
    let twice = b.mul(x, two);
    smallvec![b.map(Pointwise::Sub, &[twice, y])]
}

fn operands(g: &mut Generator<'_>) -> (SmallVec<[Value; 2]>, u8, usize) {
    let x = g.any_tile();
    let shape = g.b.ty(x).shape.clone();
    let mut xs: SmallVec<[Value; 2]> = smallvec![x];
    if g.random.once_in(3) {
        xs.push(g.lanes(&shape));
    }
    (xs, g.random.below(shape.len()) as u8, g.random.below(6))
}

fn reduce(g: &mut Generator<'_>) {
    let (xs, axis, choice) = operands(g);
    let results = g.b.reduce(&xs, axis, |b, l, r| combine(choice, b, l, r));
    g.pool.extend(results);
}

fn scan(g: &mut Generator<'_>) {
    let (xs, axis, choice) = operands(g);
    let reverse = g.random.once_in(2);
    let results = g.b.scan(&xs, axis, reverse, |b, l, r| combine(choice, b, l, r));
    g.pool.extend(results);
}

fn gather(g: &mut Generator<'_>) {
    let x = g.any_tile();
    let ty = g.b.ty(x).clone();
    let axis = g.random.below(ty.shape.len());
    let index = g.fit_any(&ty.with(DType::I32));
    let index = g.below(index, ty.shape[axis]);
    let result = g.b.push(Op::Gather(axis as u8), &[x, index], &[ty])[0];
    g.pool.push(result);
}

fn dot(g: &mut Generator<'_>) {
    if !g.features.dots {
        return;
    }
    let side = |g: &mut Generator<'_>| 1 << g.random.below(5);
    let (m, k, n) = (side(g), side(g), side(g));
    if [m * k, k * n, m * n].into_iter().any(|len| len > g.features.elements) {
        return;
    }
    let dtypes: Vec<DType> = g.features.dtypes.iter().copied().filter(|&d| d != DType::Bool).collect();
    let Some(&dtype) = dtypes.get(g.random.below(dtypes.len().max(1))) else { return };
    let sums = if dtype.is_float() { dtype.compute() } else { dtype };
    let (a, b) = (g.fit_any(&Type::tile(dtype, &[m, k])), g.fit_any(&Type::tile(dtype, &[k, n])));
    let acc = g.fit_any(&Type::tile(sums, &[m, n]));
    let precision = g.random.pick(Precision::ALL);
    let result = g.b.dot(a, b, acc, precision);
    g.pool.push(result);
}

fn repeat(g: &mut Generator<'_>) {
    if !g.features.control || g.depth > 1 {
        return;
    }
    let dtype = g.random.pick(&[DType::I32, DType::I64]);
    let x = g.any();
    let x = if g.b.ty(x).is_scalar() { x } else { g.b.int(DType::I32, 3) };
    let high = g.below(x, 4);
    let high = g.b.cast(high, dtype);
    let (low, step) = (g.b.int(dtype, -1), g.b.int(dtype, 1 + i64::from(g.random.once_in(2))));
    let carried: Vec<Value> = (0..1 + g.random.below(2)).map(|_| g.any()).collect();
    let types: Vec<Type> = carried.iter().map(|&c| g.b.ty(c).clone()).collect();
    let results = nested(g, |g, body| {
        // The builder is lent to the loop's closure and back again for every step inside.
        let mut b = std::mem::replace(&mut g.b, Builder::new(""));
        let results = b.for_loop((low, high, step), &carried, |b, index, values| {
            std::mem::swap(b, &mut g.b);
            g.pool.push(index);
            g.pool.extend(values);
            body(g);
            let yields = types.iter().map(|ty| g.fit_any(ty)).collect();
            std::mem::swap(b, &mut g.b);
            yields
        });
        g.b = b;
        results
    });
    g.pool.extend(results);
}

fn branch(g: &mut Generator<'_>) {
    if !g.features.control || g.depth > 1 {
        return;
    }
    let condition = g.fit_any(&Type::scalar(DType::Bool));
    let x = g.any();
    let ty = g.b.ty(x).clone();
    let results = nested(g, |g, body| {
        let mut b = std::mem::replace(&mut g.b, Builder::new(""));
        let outside = g.pool.len();
        let mut arm = |g: &mut Generator<'_>, b: &mut Builder| -> SmallVec<[Value; 2]> {
            std::mem::swap(b, &mut g.b);
            body(g);
            let yielded = g.fit_any(&ty);
            g.pool.truncate(outside);
            std::mem::swap(b, &mut g.b);
            smallvec![yielded]
        };
        let cell = std::cell::RefCell::new((&mut *g, &mut arm));
        let run = |b: &mut Builder| {
            let (g, arm) = &mut *cell.borrow_mut();
            arm(g, b)
        };
        let results = b.if_else(condition, run, run);
        g.b = b;
        results
    });
    g.pool.extend(results);
}

/// Lets `build` make a block whose values are out of sight afterwards.
fn nested(
    g: &mut Generator<'_>,
    build: impl FnOnce(&mut Generator<'_>, &mut dyn FnMut(&mut Generator<'_>)) -> SmallVec<[Value; 2]>,
) -> SmallVec<[Value; 2]> {
    let outside = g.pool.len();
    let results = build(g, &mut |g| g.inside());
    g.pool.truncate(outside);
    results
}

fn check(g: &mut Generator<'_>) {
    let x = g.any();
    let ty = g.b.ty(x).with(DType::Bool);
    let condition = g.fit_any(&ty);
    let code = g.random.below(4) as u32;
    g.b.check(condition, code);
    if g.random.once_in(4) {
        g.store(x);
    }
}

fn atomic(g: &mut Generator<'_>) {
    if !g.features.atomics {
        return;
    }
    let x = g.any();
    let ty = g.b.ty(x).with(DType::I32);
    let (at, value) = (g.below(x, 4), g.fit_any(&ty));
    let mask = g.random.once_in(2).then(|| g.fit_any(&ty.with(DType::Bool)));
    let param = g.shared(4);
    let op = g.random.pick(&[Atomic::Add, Atomic::Max, Atomic::Min, Atomic::Or]);
    g.b.atomic(param, op, at, value, mask);
}
