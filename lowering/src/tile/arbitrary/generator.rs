//! Builds one random program: what it starts from, what it ends with, and the values in between.

use smallvec::SmallVec;

use super::random::Random;
use super::{Case, Data, Features};
use crate::dtype::DType;
use crate::op::Pointwise;
use crate::tile::{Builder, Cache, Param, Type, Value};

/// Elements of an input buffer; a power of two, so that any integer can be masked into an offset.
pub(super) const LENGTH: u32 = 256;

/// A program under construction.
pub(super) struct Generator<'f> {
    pub(super) random: Random,
    pub(super) features: &'f Features,
    pub(super) b: Builder,
    pub(super) args: Vec<Data>,
    /// Values that the current position may use.
    pub(super) pool: Vec<Value>,
    /// Buffers that are only read.
    pub(super) inputs: Vec<(Param, DType)>,
    grid: [u32; 3],
    /// Index of this program along the whole grid.
    id: Option<Value>,
    /// Blocks around the current position.
    pub(super) depth: usize,
}

impl<'f> Generator<'f> {
    pub(super) fn new(seed: u64, features: &'f Features) -> Self {
        Generator {
            random: Random::new(seed),
            features,
            b: Builder::new(format!("seed_{seed}")),
            args: Vec::new(),
            pool: Vec::new(),
            inputs: Vec::new(),
            grid: [1; 3],
            id: None,
            depth: 0,
        }
    }

    pub(super) fn case(mut self) -> Case {
        self.grid = [1 + self.random.below(3) as u32, 1 + self.random.below(2) as u32, 1];
        self.start();
        for _ in 0..self.features.steps {
            self.step();
        }
        self.finish();
        Case { program: self.b.finish(), grid: self.grid, args: self.args }
    }

    /// The program's index, a few scalars, a few loaded tiles.
    fn start(&mut self) {
        let (x, y) = (self.b.program_id(0), self.b.program_id(1));
        let nx = self.b.num_programs(0);
        let row = self.b.mul(y, nx);
        let id = self.b.add(row, x);
        self.id = Some(id);
        self.pool.push(id);
        for _ in 0..2 {
            let dtype = self.dtype();
            let bits = self.random.element(dtype);
            self.args.push(Data::Scalar(bits));
            let scalar = self.b.scalar(dtype, 1);
            self.pool.push(scalar);
        }
        for _ in 0..1 + self.random.below(3) {
            let dtype = self.dtype();
            let bytes = self.random.elements(dtype, LENGTH as usize);
            let param = self.input(dtype, bytes);
            let shape = self.shape();
            let at = self.lanes(&shape);
            let loaded = self.b.load(param, at);
            self.pool.push(loaded);
        }
    }

    fn input(&mut self, dtype: DType, bytes: Vec<u8>) -> Param {
        self.args.push(Data::Buffer(bytes));
        let param = self.b.buffer(dtype, false);
        self.inputs.push((param, dtype));
        param
    }

    /// Stores the last values, each to a buffer of its own.
    fn finish(&mut self) {
        let last: Vec<Value> = self.pool.iter().rev().take(4).copied().collect();
        for value in last {
            self.store(value);
        }
    }

    /// Stores a value to a fresh buffer, every program to its own part; sometimes under a mask.
    pub(super) fn store(&mut self, value: Value) {
        let ty = self.b.ty(value).clone();
        let programs: u32 = self.grid.iter().product();
        let n = ty.len();
        self.args.push(Data::Buffer(vec![0x55; n * programs as usize * ty.dtype.bytes()]));
        let param = self.b.buffer(ty.dtype, true);
        let lanes = self.lanes(&ty.shape);
        let Some(id) = self.id else { return };
        let n = self.b.int(DType::I32, n as i64);
        let base = self.b.mul(id, n);
        let mut at = self.b.add(lanes, base);
        if self.random.once_in(2) {
            at = self.b.cast(at, DType::I64);
        }
        let mask = self.random.once_in(3).then(|| self.fit_any(&ty.with(DType::Bool)));
        let cache = if self.random.once_in(3) { Cache::Stream } else { Cache::Keep };
        self.b.store_cached(param, at, (value, cache), mask);
    }

    /// A buffer of i32 that programs share through atomics.
    pub(super) fn shared(&mut self, n: usize) -> Param {
        self.args.push(Data::Buffer(vec![0; 4 * n]));
        self.b.buffer(DType::I32, true)
    }

    /// 0, 1, 2, … in row-major order.
    pub(super) fn lanes(&mut self, shape: &[u32]) -> Value {
        if shape.is_empty() {
            return self.b.int(DType::I32, 0);
        }
        let lanes = self.b.arange(shape.iter().product());
        self.reshape(lanes, shape)
    }

    pub(super) fn dtype(&mut self) -> DType {
        self.random.pick(&self.features.dtypes)
    }

    /// A random shape of at most as many elements as wanted.
    fn shape(&mut self) -> SmallVec<[u32; 4]> {
        let mut left = self.features.elements.min(LENGTH);
        (0..1 + self.random.below(3))
            .map(|_| {
                let n = 1 << self.random.below(left.ilog2() as usize + 1);
                left /= n;
                n
            })
            .collect()
    }

    pub(super) fn reshape(&mut self, x: Value, shape: &[u32]) -> Value {
        if self.b.ty(x).shape.as_slice() == shape { x } else { self.b.reshape(x, shape) }
    }

    /// Some value of the pool.
    pub(super) fn any(&mut self) -> Value {
        // Later values more often: programs grow deep rather than wide.
        let n = self.pool.len();
        let back = self.random.below(n).min(self.random.below(n));
        self.pool[n - 1 - back]
    }

    /// Some value that is not a scalar.
    pub(super) fn any_tile(&mut self) -> Value {
        for _ in 0..4 {
            let x = self.any();
            if !self.b.ty(x).is_scalar() {
                return x;
            }
        }
        let shape = self.shape();
        self.lanes(&shape)
    }

    /// Some value, made to be of a type by casting and reshaping, or else a constant of it.
    pub(super) fn fit_any(&mut self, ty: &Type) -> Value {
        for _ in 0..3 {
            let x = self.any();
            let from = self.b.ty(x).clone();
            if from.is_scalar() || from.len() == ty.len() {
                let x = self.b.cast(x, ty.dtype);
                return if from.is_scalar() { self.b.broadcast(x, &ty.shape) } else { self.reshape(x, &ty.shape) };
            }
        }
        let bits = self.random.element(ty.dtype);
        let constant = self.b.constant(ty.dtype, bits);
        self.b.broadcast(constant, &ty.shape)
    }

    /// `x mod n` as offsets or indices, for `n` a power of two.
    pub(super) fn below(&mut self, x: Value, n: u32) -> Value {
        let x = self.b.cast(x, DType::I32);
        let mask = self.b.int(DType::I32, i64::from(n) - 1);
        self.b.map(Pointwise::And, &[x, mask])
    }
}
