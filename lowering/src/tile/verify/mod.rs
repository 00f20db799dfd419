//! Lists every broken rule of a tile program: the walk over blocks, scopes and definitions.  What each operation asks of
//! its operands is in `signature`.

mod rule;
mod signature;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

pub use rule::{MAX_ELEMENTS, MAX_RANK, Rule, Violation};

use super::ir::{Block, Inst, InstData, Op, ParamKind, Program, Type, Value};
use super::print::Names;

/// Every rule that the program breaks, in the order of its text; empty for a valid program.
pub fn verify(program: &Program) -> Vec<Violation> {
    let mut verifier = Verifier::new(program);
    verifier.program();
    verifier.found
}

struct Verifier<'p> {
    program: &'p Program,
    names: Option<Names>,
    found: Vec<Violation>,
    /// Values that the current position may use.
    visible: FxHashSet<Value>,
    /// Values defined anywhere so far.
    defined: FxHashSet<Value>,
    blocks: FxHashSet<Block>,
    insts: FxHashSet<Inst>,
}

impl<'p> Verifier<'p> {
    fn new(program: &'p Program) -> Self {
        Verifier {
            program,
            names: None,
            found: Vec::new(),
            visible: FxHashSet::default(),
            defined: FxHashSet::default(),
            blocks: FxHashSet::default(),
            insts: FxHashSet::default(),
        }
    }

    fn program(&mut self) {
        let name = &self.program.name;
        let word = name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        if !word || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            self.report(None, Rule::Name { got: name.clone() });
        }
        for (param, data) in &self.program.params {
            if data.kind == (ParamKind::Scalar { divisor: 0 }) {
                self.report(None, Rule::Divisor { param });
            }
        }
        let body = self.program.body;
        self.block(body, None, false);
        self.block_interface(None, body, &[], &[]);
    }

    fn report(&mut self, inst: Option<Inst>, rule: Rule) {
        let names = self.names.get_or_insert_with(|| Names::new(self.program));
        let at = inst.map_or_else(|| format!("program {}", self.program.name), |i| names.line(self.program, i));
        let place = inst.and_then(|i| self.program.insts.get(i)).and_then(|i| i.place);
        self.found.push(Violation { at, place, rule });
    }

    /// Checks the contents of a block that `owner` owns; what it defines is out of sight afterwards.
    fn block(&mut self, block: Block, owner: Option<Inst>, closed: bool) {
        let Some(data) = self.program.blocks.get(block) else { return self.report(owner, Rule::NoBlock) };
        if !self.blocks.insert(block) {
            return self.report(owner, Rule::SharedBlock);
        }
        // A closed block sees nothing of what surrounds it.
        let outside = if closed { Some(std::mem::take(&mut self.visible)) } else { None };
        let mut mine = Vec::new();
        self.define(owner, &data.params, &mut mine);
        for &inst in &data.insts {
            let Some(inst_data) = self.program.insts.get(inst) else {
                self.report(owner, Rule::NoInst);
                continue;
            };
            if !self.insts.insert(inst) {
                self.report(Some(inst), Rule::Repeated);
                continue;
            }
            if closed {
                self.combine_member(inst, inst_data);
            }
            self.inst(inst, inst_data);
            self.define(Some(inst), &inst_data.results, &mut mine);
        }
        for (index, y) in data.yields.iter().enumerate() {
            if !self.visible.contains(y) {
                self.report(owner, Rule::UndefinedYield { index });
            }
        }
        match outside {
            Some(outside) => self.visible = outside,
            None => mine.iter().for_each(|v| _ = self.visible.remove(v)),
        }
    }

    fn define(&mut self, at: Option<Inst>, values: &[Value], mine: &mut Vec<Value>) {
        for &value in values {
            let Some(ty) = self.program.values.get(value) else {
                self.report(at, Rule::NoValue);
                continue;
            };
            self.ty(at, ty);
            if self.defined.insert(value) {
                self.visible.insert(value);
                mine.push(value);
            } else {
                self.report(at, Rule::Redefined);
            }
        }
    }

    fn ty(&mut self, at: Option<Inst>, ty: &Type) {
        let elements = ty.shape.iter().try_fold(1u32, |n, &m| n.checked_mul(m));
        if ty.shape.iter().any(|n| !n.is_power_of_two()) {
            self.report(at, Rule::Extent { got: ty.clone() });
        } else if ty.shape.len() > MAX_RANK || elements.is_none_or(|n| n > MAX_ELEMENTS) {
            self.report(at, Rule::Size { got: ty.clone() });
        }
    }

    fn inst(&mut self, inst: Inst, data: &InstData) {
        let closed = matches!(data.op, Op::Reduce { .. } | Op::Scan { .. });
        for block in data.op.blocks() {
            self.block(block, Some(inst), closed);
        }
        let mut whole = true;
        for (index, arg) in data.args.iter().enumerate() {
            whole &= self.program.values.get(*arg).is_some();
            if !self.visible.contains(arg) {
                self.report(Some(inst), Rule::Undefined { index });
            }
        }
        whole &= data.results.iter().all(|&r| self.program.values.get(r).is_some());
        if whole {
            signature::check(self, inst, data);
        }
    }

    /// A combine block is applied to whatever pairs the target forms, so it holds nothing but arithmetic on scalars.
    fn combine_member(&mut self, inst: Inst, data: &InstData) {
        let scalar = |&v: &Value| self.program.values.get(v).is_none_or(Type::is_scalar);
        let arithmetic = matches!(data.op, Op::Constant(_) | Op::Scalar(_) | Op::Map(_));
        if !arithmetic || !data.results.iter().all(scalar) {
            self.report(Some(inst), Rule::InCombine);
        }
    }

    /// Compares a block's parameters and yields with what its owner needs.
    fn block_interface(&mut self, owner: Option<Inst>, block: Block, params: &[Type], yields: &[Type]) {
        let Some(data) = self.program.blocks.get(block) else { return };
        let types = |values: &[Value]| -> SmallVec<[Type; 4]> {
            values.iter().filter_map(|&v| self.program.values.get(v).cloned()).collect()
        };
        let (got_params, got_yields) = (types(&data.params), types(&data.yields));
        if got_params.as_slice() != params {
            self.report(owner, Rule::BlockParams { want: list(params), got: list(&got_params) });
        }
        if got_yields.as_slice() != yields {
            self.report(owner, Rule::Yields { want: list(yields), got: list(&got_yields) });
        }
    }
}

fn list(types: &[Type]) -> String {
    format!("({})", types.iter().map(Type::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
