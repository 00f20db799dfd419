//! Computes f16 and bf16 rows in f32 and rounds each result; some are expanded right here, to what the rounding leaves of
//! them.  Moves of bits stay as they are.

use smallvec::{SmallVec, smallvec};

use super::Pass;
use super::rewrite::{Replacement, Rewriter, rewrite, term, value};
use crate::dtype::DType;
use crate::op::pointwise::Gives;
use crate::op::{Pointwise, Term, math};
use crate::tile::{Inst, Op, Program, Type, Value};

/// Computes 16-bit floats in f32.
pub(super) const PASS: Pass = Pass { name: "widen", run: widen_small_floats };

fn widen_small_floats(program: &mut Program) {
    rewrite(program, &mut widen);
}

/// `op(x, …) = round(op(wide(x), …))`
fn widen(rewriter: &mut Rewriter<'_>, inst: Inst) -> Option<Replacement> {
    let data = &rewriter.program.insts[inst];
    let Op::Map(op) = data.op else { return None };
    let args = data.args.clone();
    let ty = rewriter.ty(*args.last()?).clone();
    if ty.dtype.compute() == ty.dtype || op.row().moves_bits() || op.row().gives == Gives::Named {
        return None;
    }
    let result = wide_row(rewriter, op, &args, &ty);
    Some(smallvec![result])
}

fn wide_row(rewriter: &mut Rewriter<'_>, op: Pointwise, args: &[Value], narrow: &Type) -> Value {
    let wide = narrow.with(narrow.dtype.compute());
    let cast = Op::Map(Pointwise::Cast);
    let args: Vec<Value> = args.iter().map(|&a| rewriter.push(cast.clone(), &[a], wide.clone())).collect();
    if op.row().gives == Gives::Bool {
        return rewriter.push(Op::Map(op), &args, wide.with(DType::Bool));
    }
    let result = match math::on_small_floats(op, narrow.dtype) {
        Some(expansion) => {
            let args: SmallVec<[Term; 4]> = args.into_iter().map(term).collect();
            value(expansion(&mut rewriter.on(wide.shape), &args))
        }
        None => rewriter.push(Op::Map(op), &args, wide),
    };
    rewriter.push(cast, &[result], narrow.clone())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::passes::tests::check;

    #[test]
    fn arithmetic_is_wide_and_moves_are_not() {
        check(
            super::PASS,
            "%0: 8xbf16 = constant 1
             %1: 8xbf16 = fma %0, %0, %0
             %2: 8xbool = lt %1, %0
             %3: 8xbf16 = select %2, %0, %1
             %4: bf16 = reduce 0 %3 (%5: bf16, %6: bf16) {
               %7: bf16 = max %5, %6
               yield %7
             }",
            expect![[r#"
                %0: 8xbf16 = constant 1.0
                %1: 8xf32 = cast %0
                %2: 8xf32 = cast %0
                %3: 8xf32 = cast %0
                %4: 8xf32 = fma %1, %2, %3
                %5: 8xbf16 = cast %4
                %6: 8xf32 = cast %5
                %7: 8xf32 = cast %0
                %8: 8xbool = lt %6, %7
                %9: 8xbf16 = select %8, %0, %5
                %10: bf16 = reduce 0 %9 (%11: bf16, %12: bf16) {
                  %13: f32 = cast %11
                  %14: f32 = cast %12
                  %15: f32 = max %13, %14
                  %16: bf16 = cast %15
                  yield %16
                }
            "#]],
        );
    }
}
