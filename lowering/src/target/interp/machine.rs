//! Runs one program instance: values, blocks, loops and branches.

use std::collections::BTreeSet;
use std::rc::Rc;

use cranelift_entity::SecondaryMap;

use super::memory::Memory;
use super::{Arg, Cause, Fault, Options, Report, dot, moves};
use crate::op::scalar;
use crate::tile::{Block, Inst, Names, Op, Program, Type, Value};

/// The elements of a tile, row-major, each in the low bits of a word.
pub(super) type Tile = Rc<Vec<u64>>;

/// A launch in progress.
pub(super) struct Machine<'l, 'b> {
    pub(super) program: &'l Program,
    grid: [u32; 3],
    id: [u32; 3],
    options: Options,
    steps: u64,
    memory: Memory<'l, 'b>,
    values: SecondaryMap<Value, Option<Tile>>,
    checks: BTreeSet<u32>,
}

impl<'l, 'b> Machine<'l, 'b> {
    pub(super) fn new(program: &'l Program, grid: [u32; 3], args: &'l mut [Arg<'b>], options: Options) -> Self {
        Machine {
            program,
            grid,
            id: [0; 3],
            options,
            steps: 0,
            memory: Memory::new(program, args, options.races),
            values: SecondaryMap::new(),
            checks: BTreeSet::new(),
        }
    }

    pub(super) fn report(self) -> Report {
        let (loaded, stored) = self.memory.traffic();
        Report { checks: self.checks.into_iter().collect(), loaded, stored }
    }

    pub(super) fn run(&mut self, id: [u32; 3]) -> Result<(), Fault> {
        self.id = id;
        let [x, y, z] = id.map(u64::from);
        let [nx, ny, _] = self.grid.map(u64::from);
        self.memory.enter(x + nx * (y + ny * z));
        self.block(self.program.body).map(drop)
    }

    /// Elements of a value that has been computed.
    pub(super) fn get(&self, value: Value) -> Tile {
        self.values[value].clone().expect("a verified program defines values before their uses")
    }

    pub(super) fn set(&mut self, value: Value, tile: Tile) {
        self.values[value] = Some(tile);
    }

    /// The scalar argument of a parameter.
    pub(super) fn scalar(&self, param: crate::tile::Param) -> u64 {
        self.memory.scalar(param)
    }

    fn block(&mut self, block: Block) -> Result<Vec<Tile>, Fault> {
        let data = &self.program.blocks[block];
        for &inst in &data.insts {
            self.inst(inst).map_err(|stop| self.fault(inst, *stop))?;
        }
        Ok(data.yields.iter().map(|&y| self.get(y)).collect())
    }

    /// Names the instruction that failed, unless an inner one was named already.
    fn fault(&self, inst: Inst, stop: Stop) -> Fault {
        match stop {
            Stop::Fault(fault) => fault,
            Stop::Cause(cause) => Fault {
                at: Names::new(self.program).line(self.program, inst),
                place: self.program.insts[inst].place,
                program: self.id,
                cause,
            },
        }
    }

    fn inst(&mut self, inst: Inst) -> Result<(), Box<Stop>> {
        let program = self.program;
        let data = &program.insts[inst];
        self.steps += 1;
        if let Some(limit) = self.options.steps.filter(|&limit| self.steps > limit) {
            return Err(Cause::Steps { limit }.into());
        }
        let args: Vec<Tile> = data.args.iter().map(|&a| self.get(a)).collect();
        let ty = |i: usize| program.ty(data.args[i]);
        let result = data.results.first().map(|&r| program.ty(r));
        let len = result.map_or(1, Type::len);
        let tile = match &data.op {
            Op::Constant(bits) => vec![*bits; len],
            Op::Scalar(param) => vec![self.scalar(*param)],
            Op::ProgramId(axis) => vec![self.id[usize::from(*axis)].into()],
            Op::NumPrograms(axis) => vec![self.grid[usize::from(*axis)].into()],
            Op::Arange => (0..len as u64).collect(),
            Op::ExpandDims(_) | Op::Reshape => {
                self.set(data.results[0], args[0].clone());
                return Ok(());
            }
            Op::Broadcast => moves::broadcast(&args[0], &ty(0).shape, &program.ty(data.results[0]).shape),
            Op::Trans(perm) => moves::trans(&args[0], &ty(0).shape, perm),
            Op::Join => args[0].iter().zip(args[1].iter()).flat_map(|(&x, &y)| [x, y]).collect(),
            Op::Split => {
                for (i, &result) in data.results.iter().enumerate() {
                    self.set(result, Rc::new(args[0].iter().skip(i).step_by(2).copied().collect()));
                }
                return Ok(());
            }
            Op::Map(row) => {
                let from = program.ty(data.args[data.args.len() - 1]).dtype;
                let to = program.ty(data.results[0]).dtype;
                scalar::map(*row, from, to, &args.iter().map(|a| a.as_slice()).collect::<Vec<_>>())
            }
            Op::Load(param) => self.memory.load(*param, ty(0).dtype, &args)?,
            Op::Store(param, _) => return Ok(self.memory.store(*param, ty(0).dtype, &args)?),
            Op::Atomic(param, atomic) => self.memory.atomic(*param, *atomic, ty(0).dtype, &args)?,
            Op::Check(code) => {
                if args[0].contains(&0) {
                    self.checks.insert(*code);
                }
                return Ok(());
            }
            Op::Reduce { axis, combine } => {
                let shape = ty(0).shape.clone();
                self.reduce(&data.results, args, &shape, usize::from(*axis), *combine);
                return Ok(());
            }
            Op::Scan { axis, reverse, combine } => {
                let shape = ty(0).shape.clone();
                self.scan(&data.results, args, &shape, usize::from(*axis), *reverse, *combine);
                return Ok(());
            }
            Op::Exp2Approx => args[0].iter().map(|&x| scalar::exp2_approx(x)).collect(),
            Op::Dot(precision) => dot::dot(*precision, [ty(0), ty(1), ty(2)], &args),
            Op::Gather(axis) => moves::gather([&args[0], &args[1]], [ty(0), ty(1)], usize::from(*axis))?,
            Op::For { body, .. } => {
                let [low, high, step] = [0, 1, 2].map(|i| ty(i).dtype.sign_extend(args[i][0]));
                let carried = self.for_loop(*body, [low, high, step], ty(0).dtype.mask(), args[3..].to_vec())?;
                data.results.iter().zip(carried).for_each(|(&r, tile)| self.set(r, tile));
                return Ok(());
            }
            Op::If { then, other } => {
                let yields = self.block(if args[0][0] != 0 { *then } else { *other })?;
                data.results.iter().zip(yields).for_each(|(&r, tile)| self.set(r, tile));
                return Ok(());
            }
        };
        self.set(data.results[0], Rc::new(tile));
        Ok(())
    }

    fn for_loop(
        &mut self,
        body: Block,
        [low, high, step]: [i64; 3],
        mask: u64,
        mut carried: Vec<Tile>,
    ) -> Result<Vec<Tile>, Box<Stop>> {
        if step <= 0 {
            return Err(Cause::Step { step }.into());
        }
        let params = &self.program.blocks[body].params;
        let mut index = i128::from(low);
        while index < i128::from(high) {
            self.set(params[0], Rc::new(vec![index as u64 & mask]));
            for (&param, tile) in params[1..].iter().zip(carried) {
                self.set(param, tile);
            }
            carried = self.block(body)?;
            index += i128::from(step);
        }
        Ok(carried)
    }
}

/// Why an instruction stopped: by its own fault, or by that of an instruction inside its block.
pub(super) enum Stop {
    Cause(Cause),
    Fault(Fault),
}

impl From<Cause> for Box<Stop> {
    fn from(cause: Cause) -> Self {
        Box::new(Stop::Cause(cause))
    }
}

impl From<Fault> for Box<Stop> {
    fn from(fault: Fault) -> Self {
        Box::new(Stop::Fault(fault))
    }
}
