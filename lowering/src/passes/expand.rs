//! Replaces rows without an instruction by their expansions into rows that have one.

use smallvec::{SmallVec, smallvec};

use super::Pass;
use super::rewrite::{Replacement, Rewriter, rewrite, term, value};
use crate::op::Term;
use crate::op::pointwise::Lower;
use crate::tile::{Inst, Op, Program};

/// Leaves native rows only.
pub(super) const PASS: Pass = Pass { name: "expand", run: expand_rows };

fn expand_rows(program: &mut Program) {
    rewrite(program, &mut expand);
}

fn expand(rewriter: &mut Rewriter<'_>, inst: Inst) -> Option<Replacement> {
    let data = &rewriter.program.insts[inst];
    let Op::Map(op) = data.op else { return None };
    let Lower::Expand(expansion) = op.row().lower else { return None };
    let args: SmallVec<[Term; 4]> = data.args.iter().map(|&a| term(a)).collect();
    let shape = rewriter.ty(data.results[0]).shape.clone();
    let result = expansion(&mut rewriter.on(shape), &args);
    Some(smallvec![value(result)])
}
