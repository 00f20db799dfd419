//! Walks a program in order and hands each instruction to its family.

use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;

use super::ahead::Laid;
use super::emit::Emit;
use super::ir::{Any, Ir};
use super::kept::Kept;
use super::value::{Form, Reg, Tile, form, lane_steps};
use super::{cast, compare, float, int};
use crate::analysis::axis::{self, Info};
use crate::dtype::DType;
use crate::layout::Layout;
use crate::layout::assign::Assignment;
use crate::op::Pointwise;
use crate::spec::Spec;
use crate::tile::{Block, Inst, Op, Program, Type, Value};

/// Emits the body of `program` at the builder's position.
pub fn lower_body<'c>(ir: &Ir<'c>, emit: &dyn Emit<'c>, program: &Program, spec: &Spec) {
    let infos = axis::analyse(program);
    let layouts = Assignment::new(program, &infos, spec);
    let mut lower = Lower {
        ir,
        emit,
        program,
        spec,
        infos,
        layouts,
        tiles: FxHashMap::default(),
        again: Vec::new(),
        stages: 1,
        laid: Laid::default(),
        kept: Vec::new(),
    };
    lower.block(program.body);
}

/// The machine for a program, with all of its warps unless each of those that are started has all it needs by itself.
pub fn started(program: &Program, spec: Spec) -> Spec {
    let alone = || Assignment::new(program, &axis::analyse(program), &spec).keeps_to_warps(program, spec.warps);
    if spec.absent == 0 || alone() { spec } else { Spec { absent: 0, ..spec } }
}

/// One program being lowered.
pub(super) struct Lower<'a, 'c> {
    pub ir: &'a Ir<'c>,
    pub emit: &'a dyn Emit<'c>,
    pub program: &'a Program,
    pub spec: &'a Spec,
    /// What is known of each value.
    pub infos: SecondaryMap<Value, Info>,
    /// Where each value lives.
    pub layouts: Assignment,
    /// What has been computed so far.
    pub tiles: FxHashMap<Value, Tile<'c>>,
    /// Values computed once more in another layout, usable until the end of the block that is being lowered.
    pub again: Vec<(Value, Tile<'c>)>,
    /// How many stages the loop has that is being lowered; 1 outside of loops.
    pub stages: u8,
    /// What it has copied to scratch memory ahead.
    pub laid: Laid<'c>,
    /// What stays there until the block ends that is being lowered.
    pub kept: Vec<Kept>,
}

impl<'c> Lower<'_, 'c> {
    /// Lowers the instructions of a block.
    pub fn block(&mut self, block: Block) {
        let (outer, kept) = (self.again.len(), self.kept.len());
        let program = self.program;
        let mut rest = program.blocks[block].insts.as_slice();
        while let Some(&inst) = rest.first() {
            let chained = if self.thread().is_some() { self.chain(rest) } else { 0 };
            if chained == 0 {
                self.inst(inst);
            }
            rest = &rest[chained.max(1)..];
        }
        self.keep_only(kept);
        self.again.truncate(outer);
    }

    /// Lowers an instruction.
    pub fn inst(&mut self, inst: Inst) {
        self.walk(inst);
        self.emit.end_of_instruction();
    }

    /// Lowers an instruction, what it takes of scratch memory staying its own.
    pub fn walk(&mut self, inst: Inst) {
        let program = self.program;
        let data = &program.insts[inst];
        if self.laid.has_done(inst) {
            return;
        }
        match &data.op {
            Op::Store(param, cache) => self.store((*param, *cache), &data.args),
            Op::Check(code) => self.check(data.args[0], *code),
            Op::For { body, stages } => {
                let outer = std::mem::replace(&mut self.stages, *stages);
                self.for_loop(&data.args, &data.results, *body);
                self.stages = outer;
            }
            Op::If { then, other } => self.if_else(data.args[0], &data.results, *then, *other),
            Op::Reduce { axis, combine } => self.reduce(&data.args, &data.results, *axis, *combine),
            Op::Scan { axis, reverse, combine } => self.scan(&data.args, &data.results, *axis, *reverse, *combine),
            Op::Split => self.split(data.args[0], &data.results),
            op => {
                let Some(&result) = data.results.first() else { return };
                // What only repeats comes into being where it is wanted: between threads nothing moves for its own sake.
                if self.thread().is_some() && matches!(op, Op::Broadcast | Op::ExpandDims(_)) {
                    return;
                }
                let layout = self.layouts[result].clone();
                let tile = match op {
                    Op::Load(param) => self.load(*param, &data.args, layout, self.ty(result).dtype),
                    Op::Atomic(param, atomic) => self.atomic(*param, *atomic, &data.args, layout),
                    Op::Dot(precision) => self.dot(result, &data.args, layout, *precision),
                    Op::Exp2Approx => self.exp2_approx(data.args[0], &layout),
                    Op::Gather(axis) => self.gather(&data.args, *axis, layout),
                    Op::Join => self.join(&data.args, layout),
                    _ => self.pure(result, op, &data.args, layout),
                };
                self.tiles.insert(result, tile);
            }
        }
    }

    /// An instruction without effects, computed in a layout of the caller's choice.
    pub fn pure(&mut self, result: Value, op: &Op, args: &[Value], layout: Layout) -> Tile<'c> {
        if let Some(constant) = self.infos[result].constant {
            let bits = constant as u64;
            return self.splat(layout, self.ir.constant(self.ty(result).dtype, bits));
        }
        match op {
            Op::Constant(bits) => self.splat(layout, self.ir.constant(self.ty(result).dtype, *bits)),
            Op::Scalar(param) => self.splat(layout, self.emit.scalar(self.ir, *param)),
            Op::ProgramId(axis) => self.splat(layout, self.emit.program_id(self.ir, *axis)),
            Op::NumPrograms(axis) => self.splat(layout, self.emit.num_programs(self.ir, *axis)),
            Op::Map(op) => self.map(result, *op, args, layout),
            Op::Arange => self.arange(layout),
            Op::Broadcast => self.broadcast(args[0], layout),
            Op::ExpandDims(axis) => self.expand_dims(args[0], *axis, layout),
            Op::Reshape => self.reshape(args[0], layout),
            Op::Trans(perm) => self.trans(args[0], perm, layout),
            op => panic!("bug in the lowering: {op:?} is not lowered"),
        }
    }

    pub fn ty(&self, value: Value) -> &Type {
        self.program.ty(value)
    }

    /// How the lanes of a value's registers relate.  A thread has no use for what lane 0 would count up from.
    pub fn form(&self, value: Value, layout: &Layout) -> Form {
        match form(layout, &self.infos[value]) {
            Form::Ramp if self.thread().is_some() => Form::Vector,
            form => form,
        }
    }

    /// A tile of equal elements.
    pub fn splat(&self, layout: Layout, x: Any<'c>) -> Tile<'c> {
        Tile { regs: vec![Reg::Uniform(x); layout.registers()], layout }
    }

    /// The bits of a register's number that change what it holds: of registers that hold equal elements, one is computed.
    pub fn distinct(&self, value: Value, layout: &Layout) -> usize {
        let axes = &self.infos[value].axes;
        !layout.equal_registers(|axis| axes.get(axis).map_or(1, |known| known.constancy))
    }

    /// The scalar of a value without axes.
    pub fn scalar(&mut self, value: Value) -> Any<'c> {
        let layout = self.layouts[value].clone();
        let tile = self.tile(value, &layout);
        self.first(tile.regs[0])
    }

    /// The element of the first lane.
    pub fn first(&self, reg: Reg<'c>) -> Any<'c> {
        match reg {
            Reg::Uniform(x) | Reg::Ramp(x) => x,
            Reg::Vector(v) => self.ir.extract(v, 0),
        }
    }

    /// The elements of all lanes.
    pub fn vector(&self, layout: &Layout, reg: Reg<'c>) -> Any<'c> {
        let width = self.emit.width();
        match reg {
            Reg::Vector(v) => v,
            Reg::Uniform(x) => self.ir.splat(x, width),
            Reg::Ramp(x) => {
                let Some(steps) = lane_steps(layout, width) else { return self.ir.splat(x, width) };
                let steps = self.ir.ints(x.get_type(), steps.into_iter().map(u64::from));
                self.ir.binary(inkwell::values::InstructionOpcode::Add, self.ir.splat(x, width), steps)
            }
        }
    }

    /// A pointwise row, register by register: on scalars where the lanes are known to be equal or to count up.
    fn map(&mut self, result: Value, op: Pointwise, args: &[Value], layout: Layout) -> Tile<'c> {
        let form = self.form(result, &layout);
        let (from, to) = (self.ty(args[args.len() - 1]).dtype, self.ty(result).dtype);
        let args: Vec<Tile<'c>> = args.iter().map(|&a| self.tile(a, &layout)).collect();
        if (from, form) == (DType::F32, Form::Vector) {
            let regs = |r: usize| args.iter().map(|arg| arg.regs[r]).collect();
            if let Some(regs) = self.together(op, &(0..layout.registers()).map(regs).collect::<Vec<_>>()) {
                return Tile { regs, layout };
            }
        }
        if let (Pointwise::Div, DType::F32, Form::Vector, [x, y]) = (op, from, form, args.as_slice())
            && self.emit.divides_slowly()
            && let Some(divisor) = y.same_everywhere()
            && !x.regs.iter().all(|r| matches!(r, Reg::Uniform(_)))
        {
            return Tile { regs: self.divide_by_one(&layout, &x.regs, divisor), layout };
        }
        let distinct = self.distinct(result, &layout);
        let mut regs: Vec<Reg<'c>> = Vec::with_capacity(layout.registers());
        for r in 0..layout.registers() {
            let reg = match r & distinct {
                equal if equal < r => regs[equal],
                _ => {
                    let regs: Vec<Reg<'c>> = args.iter().map(|a| a.regs[r]).collect();
                    self.map_reg(op, (from, to), &layout, form, &regs)
                }
            };
            regs.push(reg);
        }
        Tile { regs, layout }
    }

    /// A pointwise row on one register each.
    pub fn map_reg(
        &self,
        op: Pointwise,
        (from, to): (DType, DType),
        layout: &Layout,
        form: Form,
        regs: &[Reg<'c>],
    ) -> Reg<'c> {
        let uniform = regs.iter().all(|r| matches!(r, Reg::Uniform(_)));
        let form = if uniform { Form::Uniform } else { form };
        if let (Pointwise::Div, Form::Vector, [x, Reg::Uniform(y)]) = (op, form, regs)
            && from.is_int()
            && let Some(quotient) = int::divide_by_scalar(self.ir, from, self.vector(layout, *x), *y)
        {
            return Reg::Vector(quotient);
        }
        let args: Vec<Any<'c>> = match form {
            Form::Uniform | Form::Ramp => regs.iter().map(|&r| self.first(r)).collect(),
            Form::Vector => regs.iter().map(|&r| self.vector(layout, r)).collect(),
        };
        Reg::new(form, self.row(op, from, to, &args))
    }

    /// A pointwise row on scalars or vectors.
    pub fn row(&self, op: Pointwise, from: DType, to: DType, args: &[Any<'c>]) -> Any<'c> {
        match op {
            Pointwise::Select => self.ir.select(args[0], args[1], args[2]),
            Pointwise::Cast => cast::cast(self.ir, self.emit, args[0], from, to),
            Pointwise::Bitcast => self.ir.bitcast(args[0], self.ir.scalar_type(to)),
            _ if compare::is_comparison(op) => compare::compare(self.ir, op, from, args[0], args[1]),
            _ if from.is_float() => float::row(self.ir, op, from, args),
            _ => int::row(self.ir, op, from, args),
        }
    }
}
