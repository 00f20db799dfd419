//! What a loop's body loads and does nothing with but multiply, by several warps together: such a factor can be copied to
//! scratch memory ahead of its iteration.

use rustc_hash::FxHashSet;

use super::lower::Lower;
use super::scratch::{PIECE, Panelled};
use crate::layout::Layout;
use crate::layout::fragment::Tiling;
use crate::layout::panels::Panels;
use crate::tile::{Block, Inst, Op, ParamKind, Value};

/// A factor that a loop's body loads, and does nothing with but multiply.
pub(super) struct Factor {
    /// The operands of products that it is.
    pub operands: Vec<Value>,
    /// The load and what turns its tile, and how that lies in panels.
    pub way: Vec<Inst>,
    pub lie: Panelled,
    /// Bytes before it in a slot.
    pub before: u32,
}

/// What becomes of a loaded tile.
struct Found {
    operands: Vec<Value>,
    way: Vec<Inst>,
    lies: Vec<Panelled>,
}

impl<'c> Lower<'_, 'c> {
    /// The sums of a loop's body that nothing is done with but to carry them to the next product, if there is no other
    /// product of several warps: the results, and the values that carry them.
    pub fn flying(&self, body: Block, factors: &[Factor]) -> Vec<Value> {
        let program = self.program;
        let block = &program.blocks[body];
        let mut found = Vec::new();
        for &inst in &block.insts {
            let data = &program.insts[inst];
            let (Op::Dot(_), &[a, b, sums], &[result]) = (&data.op, &data.args[..], &data.results[..]) else {
                continue;
            };
            let Some((_, tiling)) = self.layouts.product(result).filter(|(_, t)| t.panels.is_some()) else { continue };
            let copied = [a, b].iter().all(|x| factors.iter().any(|f| f.operands.contains(x))) && tiling.left.is_some();
            let carried = block.params[1..].iter().position(|&p| p == sums);
            let alone = self.readers(sums) == 1 && self.readers(result) == 1;
            match carried {
                Some(at) if copied && alone && block.yields[at] == result => found.extend([result, sums]),
                _ => return Vec::new(),
            }
        }
        found
    }

    /// What a loop's body loads for products of several warps and nothing else, in whole pieces from buffers that nobody
    /// writes to, at places that follow from the index; and the instructions that compute those.
    pub fn factors(&self, body: Block) -> (Vec<Factor>, Vec<Inst>) {
        let block = &self.program.blocks[body];
        let inside: FxHashSet<Inst> = block.insts.iter().copied().collect();
        let mut factors: Vec<Factor> = Vec::new();
        let mut needed = FxHashSet::default();
        for &load in &block.insts {
            let Some(factor) = self.factor(&inside, load) else { continue };
            let mut own = FxHashSet::default();
            let args = &self.program.insts[load].args;
            if args.iter().take(2).all(|&x| self.follows(body, &inside, x, &mut own)) {
                needed.extend(own);
                let before = factors.last().map_or(0, |last| last.before + last.lie.size());
                factors.push(Factor { before, ..factor });
            }
        }
        let places = block.insts.iter().copied().filter(|inst| needed.contains(inst)).collect();
        (factors, places)
    }

    /// What is loaded for products alone, which all want it to lie in the same way.
    fn factor(&self, inside: &FxHashSet<Inst>, load: Inst) -> Option<Factor> {
        let program = self.program;
        let data = &program.insts[load];
        let Op::Load(param) = data.op else { return None };
        let loaded = data.results[0];
        let (dtype, home) = (self.ty(loaded).dtype, self.layouts[loaded].clone());
        let constant = !matches!(program.params[param].kind, ParamKind::Buffer { written: true });
        let zero = data.args.get(2).is_none_or(|&other| self.is_zero(other));
        let run = self.run_of_threads(data.args[0], data.args.get(1), dtype, &home)?;
        if !constant || !zero || run * dtype.bytes() as u32 != PIECE {
            return None;
        }
        let mut found = Found { operands: Vec::new(), way: vec![load], lies: Vec::new() };
        if !self.only_multiplied(inside, loaded, &home, &mut found) {
            return None;
        }
        let Found { operands, way, lies } = found;
        let mut lies = lies.into_iter();
        let lie = lies.next()?;
        let alike = lie.is_whole() && lies.all(|other| other.lies_like(&lie));
        alike.then_some(Factor { operands, way, lie, before: 0 })
    }

    /// Whether all who read a value that lies so are products of several warps, or turn it for such; collects how they want
    /// it to lie.
    fn only_multiplied(&self, inside: &FxHashSet<Inst>, value: Value, layout: &Layout, found: &mut Found) -> bool {
        let program = self.program;
        let readers = || program.insts.iter().filter(|(_, data)| data.args.contains(&value));
        let mut seen = 0;
        for (inst, data) in readers().filter(|(inst, _)| inside.contains(inst)) {
            match &data.op {
                Op::Trans(perm) => {
                    found.way.push(inst);
                    if !self.only_multiplied(inside, data.results[0], &layout.transposed(perm), found) {
                        return false;
                    }
                }
                Op::Dot(_) => {
                    let tiling = self.layouts.product(data.results[0]).map(|(_, tiling)| tiling);
                    let panels = |panels: fn(&Tiling) -> Option<Panels>| tiling.and_then(panels);
                    let wanted = match data.args.iter().position(|&arg| arg == value) {
                        Some(1) => panels(|t| t.panels).map(|panels| (layout.clone(), panels)),
                        Some(0) => panels(|t| t.left).map(|panels| (layout.transposed(&[1, 0]), panels)),
                        _ => None,
                    };
                    let Some((layout, panels)) = wanted else { return false };
                    found.operands.push(value);
                    found.lies.push(Panelled::new(&layout, self.ty(value).dtype, panels));
                }
                _ => return false,
            }
            seen += 1;
        }
        seen == self.readers(value)
    }

    /// How many operands of instructions and results of blocks a value is.
    fn readers(&self, value: Value) -> usize {
        let args = self.program.insts.values().flat_map(|data| data.args.iter());
        let yields = self.program.blocks.values().flat_map(|block| block.yields.iter());
        args.chain(yields).filter(|&&x| x == value).count()
    }

    /// Whether a value is 0 throughout, and not −0.
    fn is_zero(&self, value: Value) -> bool {
        let Some(inst) = self.layouts.definition(value) else { return false };
        let data = &self.program.insts[inst];
        match data.op {
            Op::Constant(bits) => bits == 0,
            Op::Broadcast => self.is_zero(data.args[0]),
            _ => false,
        }
    }

    /// Whether a value follows from the index of a loop and from what is known before it; collects the instructions of its
    /// body that compute it.
    pub fn follows(&self, body: Block, inside: &FxHashSet<Inst>, value: Value, own: &mut FxHashSet<Inst>) -> bool {
        let program = self.program;
        let Some(inst) = self.layouts.definition(value) else {
            return !program.blocks[body].params[1..].contains(&value);
        };
        if !inside.contains(&inst) || own.contains(&inst) {
            return true;
        }
        let data = &program.insts[inst];
        own.insert(inst);
        data.op.is_pure() && data.args.iter().all(|&arg| self.follows(body, inside, arg, own))
    }
}
