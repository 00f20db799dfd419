//! Moves what a loop computes anew each time, with the same result, in front of it.  Not loads or gathers: a loop that
//! runs no time must not touch memory or fail.

use rustc_hash::FxHashSet;

use super::Pass;
use super::dce::is_pure;
use crate::tile::{Block, Inst, Op, Program, Value};

/// Hoists out of loops, from the innermost outwards.
pub(super) const PASS: Pass = Pass { name: "licm", run: hoist };

fn hoist(program: &mut Program) {
    let body = program.body;
    hoist_in(program, body);
}

fn hoist_in(program: &mut Program, block: Block) {
    let mut out = Vec::new();
    for inst in std::mem::take(&mut program.blocks[block].insts) {
        for inner in program.insts[inst].op.blocks() {
            hoist_in(program, inner);
        }
        if let Op::For { body, .. } = program.insts[inst].op {
            out.extend(invariants(program, body));
        }
        out.push(inst);
    }
    program.blocks[block].insts = out;
}

/// Takes the instructions out of a loop's body that do not depend on the iteration.
fn invariants(program: &mut Program, body: Block) -> Vec<Inst> {
    let mut varying: FxHashSet<Value> = program.blocks[body].params.iter().copied().collect();
    let mut moved = Vec::new();
    let mut insts = std::mem::take(&mut program.blocks[body].insts);
    insts.retain(|&inst| {
        let data = &program.insts[inst];
        let moves = is_pure(&data.op) && !matches!(data.op, Op::Gather(_));
        let stays = !moves || data.args.iter().any(|a| varying.contains(a));
        if stays {
            varying.extend(&data.results);
        } else {
            moved.push(inst);
        }
        stays
    });
    program.blocks[body].insts = insts;
    moved
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::passes::tests::check;

    #[test]
    fn invariant_rows_leave_all_the_loops_they_can() {
        check(
            super::PASS,
            "%0: i32 = scalar p2
             for %0, %0, %0 (%1: i32) {
               for %0, %0, %0 (%2: i32) {
                 %3: i32 = constant 5
                 %4: i32 = add %1, %3
                 %5: i32 = mul %4, %2
                 %6: 8xi32 = arange
                 %7: i32 = reduce 0 %6 (%8: i32, %9: i32) {
                   %10: i32 = add %8, %9
                   yield %10
                 }
                 %11: i32 = add %5, %7
                 %12: f32 = load p0 %3
                 store p1 %11, %12
               }
             }",
            expect![[r#"
                %0: i32 = scalar p2
                %1: i32 = constant 5
                %2: 8xi32 = arange
                %3: i32 = reduce 0 %2 (%4: i32, %5: i32) {
                  %6: i32 = add %4, %5
                  yield %6
                }
                for %0, %0, %0 (%7: i32) {
                  %8: i32 = add %7, %1
                  for %0, %0, %0 (%9: i32) {
                    %10: i32 = mul %8, %9
                    %11: i32 = add %10, %3
                    %12: f32 = load p0 %1
                    store p1 %11, %12
                  }
                }
            "#]],
        );
    }
}
