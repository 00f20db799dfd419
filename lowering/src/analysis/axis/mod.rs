//! What is known of integer tiles along each axis: how far neighbours count up by one, how far they are equal, and what
//! divides them.  Loads become vector loads, and divisions are done once per vector, on the strength of it.
//!
//! The lattice is Triton's.  Along an axis, cut a tile into aligned runs: within runs of `contiguity` elements each is
//! one more than the one before; within runs of `constancy` all are equal; the first element of each run of
//! `contiguity` is a multiple of `divisibility`.  All three are powers of two, and 1 says nothing.
//!
//! Index arithmetic on program ids is taken not to wrap around; nothing else is assumed about ranges.

mod rows;

use cranelift_entity::SecondaryMap;
use smallvec::{SmallVec, smallvec};

use rows::{binary, cast, compare, fold, sign_extend};

use crate::dtype::DType;
use crate::op::Pointwise;
use crate::tile::{Block, Inst, Op, ParamKind, Program, Type, Value};

/// What is known along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Length of the aligned runs that count up by one.
    pub contiguity: u32,
    /// Divides the first element of each such run.
    pub divisibility: u64,
    /// Length of the aligned runs of equal elements.
    pub constancy: u32,
}

/// What is known of a value.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Info {
    /// One entry per axis; a scalar has one, of extent 1.
    pub axes: SmallVec<[Axis; 4]>,
    /// The one value of all elements, sign-extended from the element type.
    pub constant: Option<i64>,
    /// Whether no element is negative.
    pub nonnegative: bool,
}

/// Greatest power of two that is kept track of.
const MOST: u64 = 1 << 62;

impl Axis {
    const UNKNOWN: Axis = Axis { contiguity: 1, divisibility: 1, constancy: 1 };

    /// What divides the elements at multiples of `run`.
    pub fn divisor_at(self, run: u32) -> u64 {
        if run >= self.contiguity { self.divisibility } else { self.divisibility.min(u64::from(run)) }
    }

    fn join(self, other: Axis) -> Axis {
        let contiguity = self.contiguity.min(other.contiguity);
        Axis {
            contiguity,
            divisibility: self.divisor_at(contiguity).min(other.divisor_at(contiguity)),
            constancy: self.constancy.min(other.constancy),
        }
    }
}

impl Info {
    fn unknown(ty: &Type) -> Info {
        Info { axes: smallvec![Axis::UNKNOWN; ty.shape.len().max(1)], constant: None, nonnegative: false }
    }

    fn uniform(ty: &Type, divisibility: u64) -> Info {
        let axes = extents(ty).iter().map(|&n| Axis { contiguity: 1, divisibility, constancy: n }).collect();
        Info { axes, constant: None, nonnegative: false }
    }

    fn constant(ty: &Type, value: i64) -> Info {
        let mut info = Info::uniform(ty, power_of_two_in(value));
        info.constant = Some(value);
        info.nonnegative = value >= 0;
        info
    }

    /// What holds of both: where two paths meet.
    fn join(&self, other: &Info) -> Info {
        Info {
            axes: self.axes.iter().zip(&other.axes).map(|(&a, &b)| a.join(b)).collect(),
            constant: self.constant.filter(|_| self.constant == other.constant),
            nonnegative: self.nonnegative && other.nonnegative,
        }
    }
}

fn extents(ty: &Type) -> SmallVec<[u32; 4]> {
    if ty.is_scalar() { smallvec![1] } else { ty.shape.clone() }
}

fn power_of_two_in(value: i64) -> u64 {
    if value == 0 { MOST } else { (1 << value.trailing_zeros()).min(MOST) }
}

/// What is known of every value of `program`.
pub fn analyse(program: &Program) -> SecondaryMap<Value, Info> {
    let mut analysis = Analysis { program, infos: SecondaryMap::new() };
    analysis.block(program.body);
    analysis.infos
}

struct Analysis<'p> {
    program: &'p Program,
    infos: SecondaryMap<Value, Info>,
}

impl Analysis<'_> {
    fn block(&mut self, block: Block) {
        for &inst in &self.program.blocks[block].insts {
            self.inst(inst);
        }
    }

    fn inst(&mut self, inst: Inst) {
        let data = &self.program.insts[inst];
        match &data.op {
            Op::For { body, .. } => return self.for_loop(inst, *body),
            Op::If { then, other } => {
                self.block(*then);
                self.block(*other);
                let arms = self.program.blocks[*then].yields.iter().zip(&self.program.blocks[*other].yields);
                for (&result, (&a, &b)) in data.results.iter().zip(arms) {
                    self.infos[result] = self.infos[a].join(&self.infos[b]);
                }
                return;
            }
            _ => {}
        }
        if let [result] = data.results[..] {
            self.infos[result] = self.result(&data.op, &data.args, self.program.ty(result));
        } else {
            for &result in &data.results {
                self.infos[result] = Info::unknown(self.program.ty(result));
            }
        }
    }

    /// Carried values: assume that the first iteration's facts hold for all, and weaken them until they do.  A loop in a
    /// loop is gone through again with weaker facts around it, and goes on from what it has found before.
    fn for_loop(&mut self, inst: Inst, body: Block) {
        let data = &self.program.insts[inst];
        let (low, step) = (&self.infos[data.args[0]], &self.infos[data.args[2]]);
        let divisibility = low.axes[0].divisibility.min(step.axes[0].divisibility);
        let nonnegative = low.nonnegative && step.nonnegative;
        let block = &self.program.blocks[body];
        let index = Axis { contiguity: 1, divisibility, constancy: 1 };
        self.infos[block.params[0]] = Info { axes: smallvec![index], constant: None, nonnegative };
        for (&param, &first) in block.params[1..].iter().zip(&data.args[3..]) {
            let before = Some(&self.infos[param]).filter(|info| !info.axes.is_empty());
            let first = &self.infos[first];
            self.infos[param] = before.map_or_else(|| first.clone(), |before| before.join(first));
        }
        loop {
            self.block(body);
            let mut settled = true;
            for (&param, &next) in block.params[1..].iter().zip(&block.yields) {
                let joined = self.infos[param].join(&self.infos[next]);
                settled &= joined == self.infos[param];
                self.infos[param] = joined;
            }
            if settled {
                break;
            }
        }
        for (&result, &param) in data.results.iter().zip(&block.params[1..]) {
            self.infos[result] = self.infos[param].clone();
        }
    }

    fn result(&self, op: &Op, args: &[Value], ty: &Type) -> Info {
        let arg = |i: usize| &self.infos[args[i]];
        match op {
            Op::Constant(bits) => match ty.dtype {
                d if d.is_float() => Info::uniform(ty, 1),
                d => Info::constant(ty, sign_extend(*bits, d)),
            },
            Op::Scalar(param) => match self.program.params[*param].kind {
                ParamKind::Scalar { divisor } => Info::uniform(ty, power_of_two_in(i64::from(divisor))),
                ParamKind::Buffer { .. } => Info::unknown(ty),
            },
            Op::ProgramId(_) | Op::NumPrograms(_) => Info { nonnegative: true, ..Info::uniform(ty, 1) },
            Op::Arange => Info {
                axes: smallvec![Axis { contiguity: ty.shape[0], divisibility: MOST, constancy: 1 }],
                constant: None,
                nonnegative: true,
            },
            Op::Broadcast => {
                let from = self.program.ty(args[0]);
                let extents = extents(ty);
                let axes = extents.iter().enumerate().map(|(i, &n)| {
                    let a = arg(0).axes[if from.is_scalar() { 0 } else { i }];
                    let repeated = from.is_scalar() || from.shape[i] != n;
                    if repeated { Axis { contiguity: 1, divisibility: a.divisibility, constancy: n } } else { a }
                });
                Info { axes: axes.collect(), ..*arg(0) }
            }
            Op::ExpandDims(axis) => {
                let from = self.program.ty(args[0]);
                let mut info = arg(0).clone();
                let divisibility = info.axes.iter().map(|a| a.divisor_at(1)).min().unwrap_or(1);
                if from.is_scalar() {
                    info.axes.clear();
                }
                info.axes.insert(*axis as usize, Axis { contiguity: 1, divisibility, constancy: 1 });
                info
            }
            Op::Trans(perm) => Info { axes: perm.iter().map(|&p| arg(0).axes[p as usize]).collect(), ..*arg(0) },
            Op::Reshape => {
                let divisibility = arg(0).axes.iter().map(|a| a.divisor_at(1)).min().unwrap_or(1);
                let axes = extents(ty).iter().map(|_| Axis { divisibility, ..Axis::UNKNOWN }).collect();
                let mut info = Info { axes, ..*arg(0) };
                if info.constant.is_some() {
                    info = Info { axes: Info::uniform(ty, divisibility).axes, ..info };
                }
                info
            }
            Op::Map(op) => self.map(*op, args, ty),
            _ => Info::unknown(ty),
        }
    }

    fn map(&self, op: Pointwise, args: &[Value], ty: &Type) -> Info {
        let infos: SmallVec<[&Info; 3]> = args.iter().map(|&a| &self.infos[a]).collect();
        let from = self.program.ty(args[args.len() - 1]).dtype;
        if let Some(value) = fold(op, &infos, from, ty.dtype) {
            return Info::constant(ty, value);
        }
        let mut info = Info::unknown(ty);
        for (i, axis) in info.axes.iter_mut().enumerate() {
            axis.constancy = infos.iter().map(|a| a.axes[i].constancy).min().unwrap_or(1);
        }
        if from.is_float() || ty.dtype.is_float() {
            return info;
        }
        match op {
            Pointwise::Select => {
                let (c, joined) = (infos[0], infos[1].join(infos[2]));
                if let Some(c) = c.constant {
                    return infos[if c != 0 { 1 } else { 2 }].clone();
                }
                for (i, axis) in info.axes.iter_mut().enumerate() {
                    axis.contiguity = joined.axes[i].contiguity.min(c.axes[i].constancy);
                    axis.divisibility = joined.axes[i].divisor_at(axis.contiguity);
                }
                info.nonnegative = joined.nonnegative;
            }
            Pointwise::Cast if ty.dtype.is_int() && from.is_int() => return cast(infos[0], from, ty.dtype),
            _ if ty.dtype == DType::Bool => compare(op, &infos, &mut info),
            _ if infos.len() == 2 => binary(op, infos[0], infos[1], &mut info),
            _ => {}
        }
        info
    }
}

#[cfg(test)]
mod tests;
