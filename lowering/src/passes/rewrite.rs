//! The walk that rewriting passes share: visits every instruction after its operands and inner blocks, and lets a rule
//! put others in its place.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::dtype::DType;
use crate::op::{Expander, Pointwise, Term};
use crate::tile::{Block, Inst, InstData, Op, Place, Program, Shape, Type, Value};

/// Values that stand in for an instruction's results, in order; of an instruction without results: nothing.
pub(super) type Replacement = SmallVec<[Value; 2]>;

/// A program on its way from one form to another.
pub(super) struct Rewriter<'p> {
    pub(super) program: &'p mut Program,
    /// Instructions of the block being rebuilt, so far.
    out: Vec<Inst>,
    /// Where the instruction that is being replaced was written.
    place: Option<Place>,
    stands_for: FxHashMap<Value, Value>,
    definitions: SecondaryMap<Value, PackedOption<Inst>>,
}

/// Visits every instruction; those for which `rule` gives a replacement are dropped.
pub(super) fn rewrite(program: &mut Program, rule: &mut dyn FnMut(&mut Rewriter<'_>, Inst) -> Option<Replacement>) {
    let body = program.body;
    let mut rewriter = Rewriter {
        program,
        out: Vec::new(),
        place: None,
        stands_for: FxHashMap::default(),
        definitions: SecondaryMap::new(),
    };
    rewriter.block(body, rule);
}

impl<'p> Rewriter<'p> {
    fn block(&mut self, block: Block, rule: &mut dyn FnMut(&mut Rewriter<'_>, Inst) -> Option<Replacement>) {
        let outer = std::mem::take(&mut self.out);
        for inst in std::mem::take(&mut self.program.blocks[block].insts) {
            self.resolve_operands(inst);
            for inner in self.program.insts[inst].op.blocks() {
                self.block(inner, rule);
            }
            self.place = self.program.insts[inst].place;
            match rule(self, inst) {
                Some(values) => {
                    let results = self.program.insts[inst].results.clone();
                    debug_assert_eq!(results.len(), values.len());
                    self.stands_for.extend(results.into_iter().zip(values));
                }
                None => self.append(inst),
            }
        }
        let mut yields = std::mem::take(&mut self.program.blocks[block].yields);
        yields.iter_mut().for_each(|y| *y = self.resolve(*y));
        let data = &mut self.program.blocks[block];
        (data.yields, data.insts) = (yields, std::mem::replace(&mut self.out, outer));
    }

    fn resolve(&self, value: Value) -> Value {
        self.stands_for.get(&value).copied().unwrap_or(value)
    }

    fn resolve_operands(&mut self, inst: Inst) {
        let mut args = std::mem::take(&mut self.program.insts[inst].args);
        args.iter_mut().for_each(|a| *a = self.resolve(*a));
        self.program.insts[inst].args = args;
    }

    fn append(&mut self, inst: Inst) {
        for &result in &self.program.insts[inst].results {
            self.definitions[result] = inst.into();
        }
        self.out.push(inst);
    }

    /// Moves the instructions of an inner block here; gives what the block yields.
    pub(super) fn splice(&mut self, block: Block) -> Replacement {
        let data = std::mem::take(&mut self.program.blocks[block]);
        self.out.extend(data.insts);
        SmallVec::from_vec(data.yields)
    }

    /// The instruction that defines a value; none for the parameters of blocks.
    pub(super) fn definition(&self, value: Value) -> Option<&InstData> {
        self.definitions[value].expand().map(|inst| &self.program.insts[inst])
    }

    /// The bits of all elements, where the value is a constant.
    pub(super) fn constant_bits(&self, value: Value) -> Option<u64> {
        match self.definition(value)?.op {
            Op::Constant(bits) => Some(bits),
            _ => None,
        }
    }

    /// Type of a value.
    pub(super) fn ty(&self, value: Value) -> &Type {
        self.program.ty(value)
    }

    /// Adds an instruction with one result.
    pub(super) fn push(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let result = self.program.values.push(ty);
        let data = InstData { op, args: SmallVec::from_slice(args), results: smallvec![result], place: self.place };
        let inst = self.program.insts.push(data);
        self.append(inst);
        result
    }

    /// Adds an instruction without results.
    pub(super) fn effect(&mut self, op: Op, args: &[Value]) {
        let data = InstData { op, args: SmallVec::from_slice(args), results: smallvec![], place: self.place };
        let inst = self.program.insts.push(data);
        self.append(inst);
    }

    /// A tile whose elements all have these bits.
    pub(super) fn constant(&mut self, ty: Type, bits: u64) -> Value {
        self.push(Op::Constant(bits), &[], ty)
    }

    /// Writes rows on tiles of one shape here.
    pub(super) fn on(&mut self, shape: Shape) -> OnTile<'_, 'p> {
        OnTile { rewriter: self, shape }
    }
}

/// An expander that writes rows into the program, all on tiles of one shape.
pub(super) struct OnTile<'r, 'p> {
    rewriter: &'r mut Rewriter<'p>,
    shape: Shape,
}

/// The term that names a value of the program.
pub(super) fn term(value: Value) -> Term {
    Term(value.as_u32())
}

/// The value that a term names.
pub(super) fn value(term: Term) -> Value {
    Value::from_u32(term.0)
}

impl Expander for OnTile<'_, '_> {
    fn row(&mut self, op: Pointwise, args: &[Term]) -> Term {
        let from = self.dtype(args[args.len() - 1]);
        match op.row().result(from) {
            Some(to) => self.map(op, args, to),
            None => panic!("`{}` is written with `convert`", op.row().name),
        }
    }

    fn convert(&mut self, op: Pointwise, arg: Term, to: DType) -> Term {
        self.map(op, &[arg], to)
    }

    fn constant(&mut self, dtype: DType, bits: u64) -> Term {
        let ty = Type { dtype, shape: self.shape.clone() };
        term(self.rewriter.constant(ty, bits))
    }

    fn exp2_approx(&mut self, x: Term) -> Term {
        let ty = self.rewriter.ty(value(x)).clone();
        term(self.rewriter.push(Op::Exp2Approx, &[value(x)], ty))
    }

    fn dtype(&self, term: Term) -> DType {
        self.rewriter.ty(value(term)).dtype
    }
}

impl OnTile<'_, '_> {
    fn map(&mut self, op: Pointwise, args: &[Term], dtype: DType) -> Term {
        if let crate::op::pointwise::Lower::Expand(expansion) = op.row().lower {
            return expansion(self, args);
        }
        let args: SmallVec<[Value; 4]> = args.iter().map(|&t| value(t)).collect();
        let ty = Type { dtype, shape: self.shape.clone() };
        term(self.rewriter.push(Op::Map(op), &args, ty))
    }
}
