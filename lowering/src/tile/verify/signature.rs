//! What each operation asks of its operands, attributes and results.

use super::{Rule, Verifier};
use crate::dtype::DType;
use crate::op::Pointwise;
use crate::tile::ir::{Atomic, Inst, InstData, Op, Param, ParamKind, Shape, Type};

/// One instruction under inspection.
struct Check<'v, 'p> {
    verifier: &'v mut Verifier<'p>,
    inst: Inst,
    args: Vec<Type>,
    results: Vec<Type>,
}

/// Reports what is wrong with the operands and results of one instruction; all of its values exist.
pub(super) fn check(verifier: &mut Verifier<'_>, inst: Inst, data: &InstData) {
    let types = |values: &[_]| values.iter().map(|&v| verifier.program.ty(v).clone()).collect::<Vec<Type>>();
    let (args, results) = (types(&data.args), types(&data.results));
    Check { verifier, inst, args, results }.op(&data.op);
}

const OFFSETS: &[DType] = &[DType::I32, DType::I64];

impl Check<'_, '_> {
    fn fail(&mut self, rule: Rule) {
        self.verifier.report(Some(self.inst), rule);
    }

    /// Whether the operands are as many as wanted; the types of fewer are not looked at.
    fn operands(&mut self, want: &'static str, fits: impl Fn(usize) -> bool) -> bool {
        let got = self.args.len();
        if !fits(got) {
            self.fail(Rule::Operands { want, got });
        }
        fits(got)
    }

    fn none(&mut self) {
        self.operands("no", |n| n == 0);
    }

    /// Reports an operand for which `fits` fails.
    fn operand(&mut self, index: usize, want: impl Into<String>, fits: bool) -> bool {
        if !fits {
            let got = self.args[index].clone();
            self.fail(Rule::Operand { index, want: want.into(), got });
        }
        fits
    }

    fn same(&mut self, index: usize, want: &Type) {
        let fits = self.args[index] == *want;
        self.operand(index, want.to_string(), fits);
    }

    fn gives(&mut self, want: &[Type]) {
        if self.results.len() != want.len() {
            return self.fail(Rule::Results { want: want.len(), got: self.results.len() });
        }
        for (index, want) in want.iter().enumerate() {
            if self.results[index] != *want {
                let got = self.results[index].clone();
                self.fail(Rule::Result { index, want: want.to_string(), got });
            }
        }
    }

    /// The only result, if there is exactly one.
    fn one(&mut self) -> Option<Type> {
        if self.results.len() != 1 {
            self.fail(Rule::Results { want: 1, got: self.results.len() });
            return None;
        }
        Some(self.results[0].clone())
    }

    fn result_is(&mut self, want: &str, fits: impl Fn(&Type) -> bool) -> bool {
        let Some(got) = self.one() else { return false };
        let good = fits(&got);
        if !good {
            self.fail(Rule::Result { index: 0, want: want.into(), got });
        }
        good
    }

    fn axis(&mut self, got: u8, below: usize) -> bool {
        if usize::from(got) >= below {
            self.fail(Rule::Axis { below, got });
        }
        usize::from(got) < below
    }

    fn op(&mut self, op: &Op) {
        match op {
            Op::Constant(bits) => {
                self.none();
                let Some(ty) = self.one() else { return };
                let top = if ty.dtype == DType::Bool { 1 } else { ty.dtype.mask() };
                if *bits > top {
                    self.fail(Rule::Constant { dtype: ty.dtype, bits: *bits });
                }
            }
            Op::Scalar(param) => {
                self.none();
                match self.verifier.program.params.get(*param) {
                    Some(data) if matches!(data.kind, ParamKind::Scalar { .. }) => {
                        self.gives(&[Type::scalar(data.dtype)]);
                    }
                    _ => self.fail(Rule::Param { want: "a scalar", param: *param }),
                }
            }
            Op::ProgramId(axis) | Op::NumPrograms(axis) => {
                self.none();
                self.axis(*axis, 3);
                self.gives(&[Type::scalar(DType::I32)]);
            }
            Op::Arange => {
                self.none();
                self.result_is("one axis of i32", |ty| ty.shape.len() == 1 && ty.dtype == DType::I32);
            }
            Op::Broadcast | Op::ExpandDims(_) | Op::Reshape | Op::Trans(_) | Op::Join | Op::Split => self.moves(op),
            Op::Map(row) => self.map(*row),
            Op::Load(_) | Op::Store(..) | Op::Atomic(..) => self.memory(op),
            Op::Check(_) => {
                if self.operands("1", |n| n == 1) {
                    let fits = self.args[0].dtype == DType::Bool;
                    self.operand(0, "bool", fits);
                }
                self.gives(&[]);
            }
            Op::Reduce { .. } | Op::Scan { .. } => self.combines(op),
            Op::Dot(_) => self.dot(),
            Op::Exp2Approx => {
                if self.operands("1", |n| n == 1) {
                    let ty = self.args[0].clone();
                    self.operand(0, "f32", ty.dtype == DType::F32);
                    self.gives(&[ty]);
                }
            }
            Op::Gather(axis) => self.gather(*axis),
            Op::For { .. } | Op::If { .. } => self.control(op),
        }
    }

    fn moves(&mut self, op: &Op) {
        let count = if *op == Op::Join { 2 } else { 1 };
        if !self.operands(if count == 2 { "2" } else { "1" }, |n| n == count) {
            return;
        }
        let x = self.args[0].clone();
        match op {
            Op::Broadcast => {
                let Some(ty) = self.one() else { return };
                let stretches = ty.shape.len() == x.shape.len()
                    && x.shape.iter().zip(&ty.shape).all(|(&from, &to)| from == to || from == 1);
                if ty.dtype != x.dtype || !(x.is_scalar() || stretches) {
                    self.operand(0, format!("what stretches to {ty}"), false);
                }
            }
            Op::ExpandDims(axis) => {
                if self.axis(*axis, x.shape.len() + 1) {
                    let mut ty = x;
                    ty.shape.insert(usize::from(*axis), 1);
                    self.gives(&[ty]);
                }
            }
            Op::Reshape => {
                let (dtype, len) = (x.dtype, elements(&x));
                let want = format!("{len} elements of {dtype}");
                self.result_is(&want, |ty| ty.dtype == dtype && elements(ty) == len);
            }
            Op::Trans(perm) => {
                let rank = x.shape.len();
                let mut seen: Vec<u8> = perm.to_vec();
                seen.sort_unstable();
                if seen.len() != rank || !seen.iter().enumerate().all(|(i, &p)| i == usize::from(p)) {
                    return self.fail(Rule::Permutation { rank, got: perm.to_vec() });
                }
                let shape = perm.iter().map(|&p| x.shape[usize::from(p)]).collect();
                self.gives(&[Type { dtype: x.dtype, shape }]);
            }
            Op::Join => {
                self.same(1, &x);
                let mut ty = x;
                ty.shape.push(2);
                self.gives(&[ty]);
            }
            _ => {
                if self.operand(0, "a last axis of extent 2", x.shape.last() == Some(&2)) {
                    let mut ty = x;
                    ty.shape.pop();
                    self.gives(&[ty.clone(), ty]);
                }
            }
        }
    }

    fn map(&mut self, op: Pointwise) {
        let row = op.row();
        let want = ["0", "1", "2", "3"][row.arity.min(3)];
        if !self.operands(want, |n| n == row.arity) {
            return;
        }
        let last = self.args[row.arity - 1].clone();
        self.operand(row.arity - 1, format!("{:?}", row.takes).to_lowercase(), row.accepts(last.dtype));
        for index in 0..row.arity - 1 {
            let condition = op == Pointwise::Select && index == 0;
            self.same(index, &last.with(if condition { DType::Bool } else { last.dtype }));
        }
        match row.result(last.dtype) {
            Some(dtype) => self.gives(&[last.with(dtype)]),
            None if op == Pointwise::Bitcast => {
                let want = format!("{} bits and the shape of the operand, and no bool", last.dtype.bits());
                self.result_is(&want, |ty| {
                    let bool = ty.dtype == DType::Bool || last.dtype == DType::Bool;
                    ty.shape == last.shape && ty.dtype.bits() == last.dtype.bits() && !bool
                });
            }
            None => _ = self.result_is("the shape of the operand", |ty| ty.shape == last.shape),
        }
    }

    /// The element type of a buffer parameter.
    fn buffer(&mut self, param: Param, stores: bool) -> Option<DType> {
        let data = self.verifier.program.params.get(param);
        let (want, dtype) = match data.map(|d| (&d.kind, d.dtype)) {
            Some((ParamKind::Buffer { written }, dtype)) if *written || !stores => return Some(dtype),
            Some((ParamKind::Buffer { .. }, dtype)) => ("a buffer declared `out`", Some(dtype)),
            _ => ("a buffer", None),
        };
        self.fail(Rule::Param { want, param });
        dtype
    }

    fn memory(&mut self, op: &Op) {
        let (param, mask) = match op {
            Op::Load(param) => (*param, 1),
            Op::Store(param, _) | Op::Atomic(param, _) => (*param, 2),
            _ => return,
        };
        let load = mask == 1;
        let Some(dtype) = self.buffer(param, !load) else { return };
        let counted = if load {
            self.operands("1 or 3", |n| n == 1 || n == 3)
        } else {
            self.operands("2 or 3", |n| n == 2 || n == 3)
        };
        if !counted {
            return;
        }
        let offsets = self.args[0].clone();
        self.operand(0, "offsets in i32 or i64", OFFSETS.contains(&offsets.dtype));
        let element = offsets.with(dtype);
        // A load has its mask before the other value, a store its value before the mask.
        let value = if load { 2 } else { 1 };
        if value < self.args.len() {
            self.same(value, &element);
        }
        if mask < self.args.len() {
            self.same(mask, &offsets.with(DType::Bool));
        }
        if let Op::Atomic(_, atomic) = op {
            let wide = dtype.bytes() >= 4;
            if !wide || *atomic == Atomic::Or && !dtype.is_int() {
                self.fail(Rule::Atomic { got: dtype });
            }
        }
        if matches!(op, Op::Store(..)) { self.gives(&[]) } else { self.gives(&[element]) }
    }

    fn combines(&mut self, op: &Op) {
        let (Op::Reduce { axis, combine } | Op::Scan { axis, combine, .. }) = op else { return };
        if !self.operands("at least 1", |n| n > 0) {
            return;
        }
        let shape = self.args[0].shape.clone();
        for index in 1..self.args.len() {
            let want = Type { dtype: self.args[index].dtype, shape: shape.clone() };
            self.same(index, &want);
        }
        let scalars: Vec<Type> = self.args.iter().map(|t| Type::scalar(t.dtype)).collect();
        let both: Vec<Type> = scalars.iter().chain(&scalars).cloned().collect();
        self.verifier.block_interface(Some(self.inst), *combine, &both, &scalars);
        if !self.axis(*axis, shape.len()) {
            return;
        }
        let mut want = self.args.clone();
        if matches!(op, Op::Reduce { .. }) {
            let mut kept = shape;
            kept.remove(usize::from(*axis));
            want.iter_mut().for_each(|ty| ty.shape = kept.clone());
        }
        self.gives(&want);
    }

    fn dot(&mut self) {
        if !self.operands("3", |n| n == 3) {
            return;
        }
        let (a, b, acc) = (self.args[0].clone(), self.args[1].clone(), self.args[2].clone());
        let tiles = [0, 1, 2].map(|i| {
            let fits = self.args[i].shape.len() == 2;
            self.operand(i, "two axes", fits)
        });
        if tiles.contains(&false) {
            return;
        }
        self.operand(0, "numbers", a.dtype != DType::Bool);
        self.same(1, &Type::tile(a.dtype, &[a.shape[1], b.shape[1]]));
        // Floats accumulate in f32, or f64; integers in an integer of their class at least as wide.
        let sums = match a.dtype {
            DType::F64 => acc.dtype == DType::F64,
            float if float.is_float() => acc.dtype == DType::F32,
            int => acc.dtype.class() == int.class() && acc.dtype.bytes() >= int.bytes(),
        };
        let fits = sums && acc.shape.as_slice() == [a.shape[0], b.shape[1]];
        self.operand(2, format!("{}x{} of the type that sums of {} have", a.shape[0], b.shape[1], a.dtype), fits);
        self.gives(&[acc]);
    }

    fn gather(&mut self, axis: u8) {
        if !self.operands("2", |n| n == 2) {
            return;
        }
        let (x, indices) = (self.args[0].clone(), self.args[1].clone());
        if !self.axis(axis, x.shape.len()) {
            return;
        }
        let others = |shape: &Shape| {
            let mut shape = shape.clone();
            shape.remove(usize::from(axis));
            shape
        };
        let agrees = indices.shape.len() == x.shape.len() && others(&indices.shape) == others(&x.shape);
        let want = "indices in i32 or i64 that differ from the source along the axis only";
        self.operand(1, want, agrees && OFFSETS.contains(&indices.dtype));
        self.gives(&[indices.with(x.dtype)]);
    }

    fn control(&mut self, op: &Op) {
        match op {
            Op::For { body, stages } => {
                if *stages == 0 {
                    self.fail(Rule::Stages);
                }
                if !self.operands("at least 3", |n| n >= 3) {
                    return;
                }
                let index = self.args[0].clone();
                self.operand(0, "an i32 or i64 scalar", index.is_scalar() && OFFSETS.contains(&index.dtype));
                self.same(1, &index);
                self.same(2, &index);
                let carried = self.args[3..].to_vec();
                let params: Vec<Type> = std::iter::once(index).chain(carried.iter().cloned()).collect();
                self.verifier.block_interface(Some(self.inst), *body, &params, &carried);
                self.gives(&carried);
            }
            Op::If { then, other } => {
                if self.operands("1", |n| n == 1) {
                    self.same(0, &Type::scalar(DType::Bool));
                }
                let results = self.results.clone();
                self.verifier.block_interface(Some(self.inst), *then, &[], &results);
                self.verifier.block_interface(Some(self.inst), *other, &[], &results);
            }
            _ => {}
        }
    }
}

/// Number of elements; saturates, for types that are themselves reported as too large.
fn elements(ty: &Type) -> u64 {
    ty.shape.iter().fold(1, |n, &m| n.saturating_mul(u64::from(m)))
}
