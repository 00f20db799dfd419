//! Computes equal things once.  Loads count where the program cannot have stored in between: from buffers it does not
//! write.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Pass;
use super::dce::is_pure;
use crate::tile::{Block, Inst, Op, ParamKind, Program, Type, Value};

/// Merges equal instructions.
pub(super) const PASS: Pass = Pass { name: "cse", run: merge_equal };

fn merge_equal(program: &mut Program) {
    let body = program.body;
    Merger { program, stands_for: FxHashMap::default() }.block(body, &mut vec![FxHashMap::default()]);
}

/// Everything that the results of a pure instruction depend on.
type Key = (Op, SmallVec<[Value; 4]>, SmallVec<[Type; 2]>);

/// The instructions that are in sight, by block from the outside in.
type Scopes = Vec<FxHashMap<Key, Inst>>;

struct Merger<'p> {
    program: &'p mut Program,
    stands_for: FxHashMap<Value, Value>,
}

impl Merger<'_> {
    fn block(&mut self, block: Block, scopes: &mut Scopes) {
        let mut insts = std::mem::take(&mut self.program.blocks[block].insts);
        insts.retain(|&inst| !self.merge(inst, scopes));
        let mut yields = std::mem::take(&mut self.program.blocks[block].yields);
        self.resolve(&mut yields);
        let data = &mut self.program.blocks[block];
        (data.insts, data.yields) = (insts, yields);
    }

    fn resolve(&self, values: &mut [Value]) {
        values.iter_mut().for_each(|v| *v = self.stands_for.get(v).copied().unwrap_or(*v));
    }

    /// Whether an equal instruction is in sight, which then stands for this one.
    fn merge(&mut self, inst: Inst, scopes: &mut Scopes) -> bool {
        let mut args = std::mem::take(&mut self.program.insts[inst].args);
        self.resolve(&mut args);
        self.program.insts[inst].args = args;
        let op = self.program.insts[inst].op.clone();
        for inner in op.blocks() {
            if matches!(op, Op::Reduce { .. } | Op::Scan { .. }) {
                // Closed: nothing outside is in sight.
                self.block(inner, &mut vec![FxHashMap::default()]);
            } else {
                scopes.push(FxHashMap::default());
                self.block(inner, scopes);
                scopes.pop();
            }
        }
        let Some(key) = self.key(inst) else { return false };
        let found = scopes.iter().rev().find_map(|scope| scope.get(&key).copied());
        if let Some(earlier) = found {
            let (old, new) = (&self.program.insts[inst].results, &self.program.insts[earlier].results);
            self.stands_for.extend(old.iter().copied().zip(new.iter().copied()));
        } else if let Some(scope) = scopes.last_mut() {
            scope.insert(key, inst);
        }
        found.is_some()
    }

    fn key(&self, inst: Inst) -> Option<Key> {
        let data = &self.program.insts[inst];
        let fixed = match data.op {
            Op::Load(param) => self.program.params[param].kind == ParamKind::Buffer { written: false },
            _ => is_pure(&data.op) && data.op.blocks().is_empty(),
        };
        let mut args = data.args.clone();
        if matches!(data.op, Op::Map(op) if op.row().commutes) {
            args.sort_unstable();
        }
        fixed.then(|| (data.op.clone(), args, data.results.iter().map(|&r| self.program.ty(r).clone()).collect()))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::passes::tests::check;

    #[test]
    fn equal_rows_merge_within_sight_and_stores_part_loads() {
        check(
            super::PASS,
            "%0: i32 = scalar p2
             %1: i32 = scalar p2
             %2: i32 = constant 1
             %3: i32 = add %0, %2
             %4: i32 = add %2, %1
             %5: f32 = load p0 %3
             %6: f32 = load p0 %4
             %7: f32 = load p1 %3
             store p1 %0, %5
             store p1 %1, %6
             %8: f32 = load p1 %3
             %9: f32 = add %7, %8
             %10: bool = scalar p3
             if %10 {
               %11: i32 = add %0, %2
               %12: i32 = sub %11, %0
               store p1 %12, %9
             } else {
               %13: i32 = sub %3, %0
               store p1 %13, %9
             }
             %14: 8xi32 = arange
             %15: i32 = reduce 0 %14 (%16: i32, %17: i32) {
               %18: i32 = constant 1
               %19: i32 = add %16, %18
               %20: i32 = add %18, %16
               %21: i32 = add %19, %20
               yield %21
             }
             %22: f32 = cast %15
             store p1 %15, %22",
            expect![[r#"
                %0: i32 = scalar p2
                %1: i32 = constant 1
                %2: i32 = add %0, %1
                %3: f32 = load p0 %2
                %4: f32 = load p1 %2
                store p1 %0, %3
                store p1 %0, %3
                %5: f32 = load p1 %2
                %6: f32 = add %4, %5
                %7: bool = scalar p3
                if %7 {
                  %8: i32 = sub %2, %0
                  store p1 %8, %6
                } else {
                  %9: i32 = sub %2, %0
                  store p1 %9, %6
                }
                %10: 8xi32 = arange
                %11: i32 = reduce 0 %10 (%12: i32, %13: i32) {
                  %14: i32 = constant 1
                  %15: i32 = add %12, %14
                  %16: i32 = add %15, %15
                  yield %16
                }
                %17: f32 = cast %11
                store p1 %11, %17
            "#]],
        );
    }
}
