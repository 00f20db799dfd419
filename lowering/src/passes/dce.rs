//! Drops what nobody uses.  Loops and branches stay for the effects inside them, or for their results.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use rustc_hash::FxHashSet;

use super::Pass;
use crate::tile::{Block, Inst, Op, Program, Value};

/// Drops unused instructions.
pub(super) const PASS: Pass = Pass { name: "dce", run: drop_dead };

fn drop_dead(program: &mut Program) {
    let mut liveness = Liveness::default();
    liveness.block(program, program.body, None);
    while let Some(inst) = liveness.pending.pop() {
        liveness.spread(program, inst);
    }
    sweep(program, program.body, &liveness.live);
}

#[derive(Default)]
struct Liveness {
    live: FxHashSet<Inst>,
    pending: Vec<Inst>,
    definitions: SecondaryMap<Value, PackedOption<Inst>>,
    owners: SecondaryMap<Inst, PackedOption<Inst>>,
}

impl Liveness {
    /// Notes who defines and owns what; instructions with effects of their own are live.
    fn block(&mut self, program: &Program, block: Block, owner: Option<Inst>) {
        for &inst in &program.blocks[block].insts {
            let data = &program.insts[inst];
            self.owners[inst] = owner.into();
            data.results.iter().for_each(|&r| self.definitions[r] = inst.into());
            for inner in data.op.blocks() {
                self.block(program, inner, Some(inst));
            }
            if data.op.has_effect() && data.op.blocks().is_empty() {
                self.keep(inst);
            }
        }
    }

    fn keep(&mut self, inst: Inst) {
        if self.live.insert(inst) {
            self.pending.push(inst);
        }
    }

    /// What a live instruction needs: its operands, what its blocks yield, and the instruction it stands in.
    fn spread(&mut self, program: &Program, inst: Inst) {
        let data = &program.insts[inst];
        let yields = data.op.blocks().into_iter().flat_map(|b| &program.blocks[b].yields);
        for &value in data.args.iter().chain(yields) {
            if let Some(definition) = self.definitions[value].expand() {
                self.keep(definition);
            }
        }
        if let Some(owner) = self.owners[inst].expand() {
            self.keep(owner);
        }
    }
}

fn sweep(program: &mut Program, block: Block, live: &FxHashSet<Inst>) {
    let mut insts = std::mem::take(&mut program.blocks[block].insts);
    insts.retain(|inst| live.contains(inst));
    for &inst in &insts {
        for inner in program.insts[inst].op.blocks() {
            sweep(program, inner, live);
        }
    }
    program.blocks[block].insts = insts;
}

/// Whether running the operation twice, or not at all, changes nothing but its results.
pub(super) fn is_pure(op: &Op) -> bool {
    !op.has_effect() && !matches!(op, Op::Load(_))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::passes::tests::check;

    #[test]
    fn unused_rows_and_loops_go_and_effects_stay() {
        check(
            super::PASS,
            "%0: i32 = scalar p2
             %1: i32 = neg %0
             %2: i32 = for %0, %0, %0, %1 (%3: i32, %4: i32) {
               %5: i32 = add %3, %4
               yield %5
             }
             %6: i32 = for %0, %0, %0, %0 (%7: i32, %8: i32) {
               %9: i32 = neg %7
               %10: bool = scalar p3
               if %10 {
                 %11: f32 = cast %8
                 %12: f32 = neg %11
                 store p1 %7, %11
               } else {
               }
               yield %9
             }",
            expect![[r#"
                %0: i32 = scalar p2
                %1: i32 = for %0, %0, %0, %0 (%2: i32, %3: i32) {
                  %4: i32 = neg %2
                  %5: bool = scalar p3
                  if %5 {
                    %6: f32 = cast %3
                    store p1 %2, %6
                  } else {
                  }
                  yield %4
                }
            "#]],
        );
    }
}
