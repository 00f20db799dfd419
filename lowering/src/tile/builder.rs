//! Builds tile programs, inferring result types.  A call that breaks a rule of the language panics at the caller:
//! templates are code, and what users write is checked before it comes here.

use std::panic::Location;

use smallvec::{SmallVec, smallvec};

use super::ir::{
    Atomic, Block, BlockData, Cache, InstData, Op, Param, ParamData, ParamKind, Place, Precision, Program, Shape, Type,
    Value,
};
use crate::dtype::DType;
use crate::op::Pointwise;

/// A program under construction and the block that instructions go to.
pub struct Builder {
    program: Program,
    block: Block,
}

/// A block that instructions go to, see [`Builder::open`].
#[derive(Debug)]
pub struct OpenBlock {
    block: Block,
    outer: Block,
}

impl Builder {
    /// Starts an empty program.
    pub fn new(name: impl Into<String>) -> Builder {
        let program = Program::new(name);
        Builder { block: program.body, program }
    }

    /// The finished program.
    pub fn finish(self) -> Program {
        self.program
    }

    /// Has so many warps share each instance, a power of two.
    pub fn warps(&mut self, warps: u32) {
        self.program.warps = warps;
    }

    /// Has the last ones not be there, less than half of them.  Their part of each tile is written nowhere and neutral in
    /// each reduction; other instructions leave every part with its warp.
    pub fn absent(&mut self, warps: u32) {
        self.program.absent = warps;
    }

    /// Type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        self.program.ty(value)
    }

    /// Declares a buffer parameter.
    pub fn buffer(&mut self, dtype: DType, written: bool) -> Param {
        self.program.params.push(ParamData { dtype, kind: ParamKind::Buffer { written } })
    }

    /// Lets the program store to a buffer that it was going to read only.
    pub fn mark_written(&mut self, buffer: Param) {
        self.program.params[buffer].kind = ParamKind::Buffer { written: true };
    }

    /// Declares a scalar parameter known to be a multiple of `divisor`.
    pub fn scalar_param(&mut self, dtype: DType, divisor: u32) -> Param {
        self.program.params.push(ParamData { dtype, kind: ParamKind::Scalar { divisor } })
    }

    /// Declares a scalar parameter and reads it.
    #[track_caller]
    pub fn scalar(&mut self, dtype: DType, divisor: u32) -> Value {
        let param = self.scalar_param(dtype, divisor);
        self.push1(Op::Scalar(param), &[], Type::scalar(dtype))
    }

    /// Appends an instruction whose result types are given.
    #[track_caller]
    pub fn push(&mut self, op: Op, args: &[Value], types: &[Type]) -> SmallVec<[Value; 2]> {
        let results = types.iter().map(|t| self.program.values.push(t.clone())).collect::<SmallVec<[Value; 2]>>();
        let inst = self.program.insts.push(InstData {
            op,
            args: SmallVec::from_slice(args),
            results: results.clone(),
            place: Some(Place(Location::caller())),
        });
        self.program.blocks[self.block].insts.push(inst);
        results
    }

    #[track_caller]
    fn push1(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        self.push(op, args, &[ty])[0]
    }

    /// A scalar constant by its bit pattern.
    #[track_caller]
    pub fn constant(&mut self, dtype: DType, bits: u64) -> Value {
        self.push1(Op::Constant(bits), &[], Type::scalar(dtype))
    }

    /// An i32 or i64 constant.
    #[track_caller]
    pub fn int(&mut self, dtype: DType, value: i64) -> Value {
        self.constant(dtype, value as u64 & (u64::MAX >> (64 - dtype.bits())))
    }

    /// Index of this program along a grid axis, i32.
    #[track_caller]
    pub fn program_id(&mut self, axis: u8) -> Value {
        self.push1(Op::ProgramId(axis), &[], Type::scalar(DType::I32))
    }

    /// Number of programs along a grid axis, i32.
    #[track_caller]
    pub fn num_programs(&mut self, axis: u8) -> Value {
        self.push1(Op::NumPrograms(axis), &[], Type::scalar(DType::I32))
    }

    /// `0 … n−1` as i32; `n` is a power of two.
    #[track_caller]
    pub fn arange(&mut self, n: u32) -> Value {
        assert!(n.is_power_of_two(), "arange takes a power of two, got {n}");
        self.push1(Op::Arange, &[], Type::tile(DType::I32, &[n]))
    }

    /// Repeats a scalar, or axes of extent 1, to `shape`.
    #[track_caller]
    pub fn broadcast(&mut self, x: Value, shape: &[u32]) -> Value {
        let ty = self.ty(x).clone();
        if ty.shape.as_slice() == shape {
            return x;
        }
        let fits = ty.is_scalar()
            || ty.shape.len() == shape.len() && ty.shape.iter().zip(shape).all(|(&a, &b)| a == b || a == 1);
        assert!(fits, "cannot broadcast {ty} to {shape:?}");
        self.push1(Op::Broadcast, &[x], Type::tile(ty.dtype, shape))
    }

    /// Inserts an axis of extent 1.
    #[track_caller]
    pub fn expand_dims(&mut self, x: Value, axis: u8) -> Value {
        let mut ty = self.ty(x).clone();
        ty.shape.insert(axis as usize, 1);
        self.push1(Op::ExpandDims(axis), &[x], ty)
    }

    /// The same elements in row-major order under other extents.
    #[track_caller]
    pub fn reshape(&mut self, x: Value, shape: &[u32]) -> Value {
        let ty = Type::tile(self.ty(x).dtype, shape);
        assert_eq!(ty.len(), self.ty(x).len(), "reshape keeps the number of elements");
        self.push1(Op::Reshape, &[x], ty)
    }

    /// The two halves along a last axis of extent 2.
    #[track_caller]
    pub fn split(&mut self, x: Value) -> [Value; 2] {
        let ty = self.ty(x);
        assert_eq!(ty.shape.last(), Some(&2), "split takes a last axis of extent 2");
        let half = Type { dtype: ty.dtype, shape: ty.shape[..ty.shape.len() - 1].into() };
        let halves = self.push(Op::Split, &[x], &[half.clone(), half]);
        [halves[0], halves[1]]
    }

    /// Axis `i` of the result is axis `perm[i]` of `x`.
    #[track_caller]
    pub fn trans(&mut self, x: Value, perm: &[u8]) -> Value {
        let ty = self.ty(x);
        let shape: Shape = perm.iter().map(|&p| ty.shape[p as usize]).collect();
        let ty = Type { dtype: ty.dtype, shape };
        self.push1(Op::Trans(SmallVec::from_slice(perm)), &[x], ty)
    }

    /// A pointwise row.  Scalars and extents of 1 are broadcast to the common shape.
    #[track_caller]
    pub fn map(&mut self, op: Pointwise, args: &[Value]) -> Value {
        let row = op.row();
        assert_eq!(row.arity, args.len(), "`{}` takes {} operands", row.name, row.arity);
        let args = self.common(args);
        let last = self.ty(args[args.len() - 1]).clone();
        assert!(row.accepts(last.dtype), "`{}` does not take {}", row.name, last.dtype);
        let from = usize::from(op == Pointwise::Select);
        for &a in &args[from..] {
            assert_eq!(self.ty(a).dtype, last.dtype, "operands of `{}` differ", row.name);
        }
        let Some(dtype) = row.result(last.dtype) else { panic!("`{}` is built with `convert`", row.name) };
        self.push1(Op::Map(op), &args, last.with(dtype))
    }

    /// `Cast` or `Bitcast` to `dtype`.
    #[track_caller]
    pub fn convert(&mut self, op: Pointwise, x: Value, dtype: DType) -> Value {
        let ty = self.ty(x).with(dtype);
        if self.ty(x).dtype == dtype {
            return x;
        }
        self.push1(Op::Map(op), &[x], ty)
    }

    /// A conversion of the number.
    #[track_caller]
    pub fn cast(&mut self, x: Value, dtype: DType) -> Value {
        self.convert(Pointwise::Cast, x, dtype)
    }

    /// Brings operands to one shape by broadcasting.
    #[track_caller]
    fn common(&mut self, args: &[Value]) -> SmallVec<[Value; 4]> {
        let rank = args.iter().map(|&a| self.ty(a).shape.len()).max().unwrap_or(0);
        let mut shape: Shape = smallvec![1; rank];
        for &a in args {
            let s = &self.program.ty(a).shape;
            assert!(s.is_empty() || s.len() == rank, "operands have ranks {} and {rank}", s.len());
            for (n, &m) in shape.iter_mut().zip(s) {
                assert!(*n == 1 || m == 1 || *n == m, "extents {n} and {m} do not agree");
                *n = (*n).max(m);
            }
        }
        args.iter().map(|&a| self.broadcast(a, &shape)).collect()
    }

    /// Reads `buffer` at element offsets; all of them must lie inside.
    #[track_caller]
    pub fn load(&mut self, buffer: Param, offsets: Value) -> Value {
        let ty = self.ty(offsets).with(self.program.params[buffer].dtype);
        self.push1(Op::Load(buffer), &[offsets], ty)
    }

    /// Reads where `mask` holds; elsewhere gives `other` (a scalar or a tile).
    #[track_caller]
    pub fn load_masked(&mut self, buffer: Param, offsets: Value, mask: Value, other: Value) -> Value {
        let args = self.common(&[offsets, mask, other]);
        let ty = self.ty(args[0]).with(self.program.params[buffer].dtype);
        self.push1(Op::Load(buffer), &args, ty)
    }

    /// Writes `value` at element offsets, where `mask` holds if there is one.
    #[track_caller]
    pub fn store(&mut self, buffer: Param, offsets: Value, value: Value, mask: Option<Value>) {
        self.store_cached(buffer, offsets, (value, Cache::Keep), mask);
    }

    /// As [`store`](Builder::store), with a wish of what caches do with the elements.
    #[track_caller]
    pub fn store_cached(&mut self, buffer: Param, offsets: Value, (value, cache): (Value, Cache), mask: Option<Value>) {
        assert_eq!(self.ty(value).dtype, self.program.params[buffer].dtype, "store to a buffer of another type");
        let args: SmallVec<[Value; 4]> = [offsets, value].into_iter().chain(mask).collect();
        let args = self.common(&args);
        self.push(Op::Store(buffer, cache), &args, &[]);
    }

    /// Read-modify-write at element offsets; gives the old elements.
    #[track_caller]
    pub fn atomic(&mut self, buffer: Param, op: Atomic, offsets: Value, value: Value, mask: Option<Value>) -> Value {
        let args: SmallVec<[Value; 4]> = [offsets, value].into_iter().chain(mask).collect();
        let args = self.common(&args);
        let ty = self.ty(args[1]).clone();
        self.push1(Op::Atomic(buffer, op), &args, ty)
    }

    /// Reports `code` to the launch where an element of `condition` is false.
    #[track_caller]
    pub fn check(&mut self, condition: Value, code: u32) {
        self.push(Op::Check(code), &[condition], &[]);
    }

    /// Combines tiles of one shape along an axis; `combine` gets the left and the right scalars.
    #[track_caller]
    pub fn reduce(
        &mut self,
        xs: &[Value],
        axis: u8,
        combine: impl FnOnce(&mut Builder, &[Value], &[Value]) -> SmallVec<[Value; 2]>,
    ) -> SmallVec<[Value; 2]> {
        let combine = self.combine_block(xs, combine);
        let types: Vec<Type> = xs
            .iter()
            .map(|&x| {
                let mut ty = self.ty(x).clone();
                ty.shape.remove(axis as usize);
                ty
            })
            .collect();
        self.push(Op::Reduce { axis, combine }, xs, &types)
    }

    /// Inclusive prefix of tiles of one shape along an axis.
    #[track_caller]
    pub fn scan(
        &mut self,
        xs: &[Value],
        axis: u8,
        reverse: bool,
        combine: impl FnOnce(&mut Builder, &[Value], &[Value]) -> SmallVec<[Value; 2]>,
    ) -> SmallVec<[Value; 2]> {
        let combine = self.combine_block(xs, combine);
        let types: Vec<Type> = xs.iter().map(|&x| self.ty(x).clone()).collect();
        self.push(Op::Scan { axis, reverse, combine }, xs, &types)
    }

    fn combine_block(
        &mut self,
        xs: &[Value],
        combine: impl FnOnce(&mut Builder, &[Value], &[Value]) -> SmallVec<[Value; 2]>,
    ) -> Block {
        let types: Vec<Type> = xs.iter().map(|&x| Type::scalar(self.ty(x).dtype)).collect();
        let both: Vec<Type> = types.iter().chain(&types).cloned().collect();
        self.block(&both, |b, params| {
            let (left, right) = params.split_at(params.len() / 2);
            combine(b, left, right)
        })
    }

    /// `a·b + acc` with `a: m×k`, `b: k×n`.
    #[track_caller]
    pub fn dot(&mut self, a: Value, b: Value, acc: Value, precision: Precision) -> Value {
        let ty = self.ty(acc).clone();
        assert_eq!(self.ty(a).shape[1], self.ty(b).shape[0], "dot: inner extents differ");
        assert_eq!(
            ty.shape.as_slice(),
            [self.ty(a).shape[0], self.ty(b).shape[1]],
            "dot: accumulator has another shape"
        );
        self.push1(Op::Dot(precision), &[a, b, acc], ty)
    }

    /// `2^x` of f32, within 4·10⁻⁶ of the value; the last bits are the machine's.
    #[track_caller]
    pub fn exp2_approx(&mut self, x: Value) -> Value {
        let ty = self.ty(x).clone();
        self.push1(Op::Exp2Approx, &[x], ty)
    }

    /// `for i in (low..high).step_by(step)`, carrying values.
    #[track_caller]
    pub fn for_loop(
        &mut self,
        (low, high, step): (Value, Value, Value),
        carried: &[Value],
        body: impl FnOnce(&mut Builder, Value, &[Value]) -> SmallVec<[Value; 2]>,
    ) -> SmallVec<[Value; 2]> {
        let types: Vec<Type> = carried.iter().map(|&x| self.ty(x).clone()).collect();
        let index = self.ty(low).clone();
        let params: Vec<Type> = std::iter::once(index).chain(types.iter().cloned()).collect();
        let body = self.block(&params, |b, params| body(b, params[0], &params[1..]));
        let yields = &self.program.blocks[body].yields;
        assert!(
            yields.len() == types.len() && yields.iter().zip(&types).all(|(&y, t)| self.program.ty(y) == t),
            "a loop yields values of the types that it carries"
        );
        let args: SmallVec<[Value; 4]> = [low, high, step].into_iter().chain(carried.iter().copied()).collect();
        self.push(Op::For { body, stages: 1 }, &args, &types)
    }

    /// Runs `then` where the scalar `condition` holds, `other` where not; both yield values of the same types.
    #[track_caller]
    pub fn if_else(
        &mut self,
        condition: Value,
        then: impl FnOnce(&mut Builder) -> SmallVec<[Value; 2]>,
        other: impl FnOnce(&mut Builder) -> SmallVec<[Value; 2]>,
    ) -> SmallVec<[Value; 2]> {
        let then = self.block(&[], |b, _| then(b));
        let other = self.block(&[], |b, _| other(b));
        let types: Vec<Type> = self.program.blocks[then].yields.iter().map(|&y| self.ty(y).clone()).collect();
        self.push(Op::If { then, other }, &[condition], &types)
    }

    fn block(&mut self, params: &[Type], fill: impl FnOnce(&mut Builder, &[Value]) -> SmallVec<[Value; 2]>) -> Block {
        let (open, params) = self.open(params);
        let yields = fill(self, &params);
        self.close(open, &yields)
    }

    /// Starts a block: what is appended until [`Builder::close`] goes there.
    pub fn open(&mut self, params: &[Type]) -> (OpenBlock, Vec<Value>) {
        let params: Vec<Value> = params.iter().map(|t| self.program.values.push(t.clone())).collect();
        let block = self.program.blocks.push(BlockData { params: params.clone(), ..BlockData::default() });
        let outer = std::mem::replace(&mut self.block, block);
        (OpenBlock { block, outer }, params)
    }

    /// Ends a block, which hands `yields` to the instruction around it.
    pub fn close(&mut self, open: OpenBlock, yields: &[Value]) -> Block {
        debug_assert!(self.block == open.block, "blocks are closed in the order in which they were opened");
        self.block = open.outer;
        self.program.blocks[open.block].yields = yields.to_vec();
        open.block
    }

    /// `x + y`
    #[track_caller]
    pub fn add(&mut self, x: Value, y: Value) -> Value {
        self.map(Pointwise::Add, &[x, y])
    }

    /// `x · y`
    #[track_caller]
    pub fn mul(&mut self, x: Value, y: Value) -> Value {
        self.map(Pointwise::Mul, &[x, y])
    }

    /// `x < y`
    #[track_caller]
    pub fn lt(&mut self, x: Value, y: Value) -> Value {
        self.map(Pointwise::Lt, &[x, y])
    }
}
