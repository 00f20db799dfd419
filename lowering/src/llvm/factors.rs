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
    /// The axis of the loaded tile along which rows of panels lie, if that is the same for all products.
    pub along: Option<usize>,
    /// What the body computes to know where it lies, in order.
    pub places: Vec<Inst>,
}

/// What becomes of a loaded tile.
struct Found {
    operands: Vec<Value>,
    way: Vec<Inst>,
    lies: Vec<Panelled>,
    along: Vec<usize>,
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
    /// writes to, at places that follow from the index.
    pub fn factors(&self, body: Block) -> Vec<Factor> {
        let block = &self.program.blocks[body];
        let inside: FxHashSet<Inst> = block.insts.iter().copied().collect();
        let mut factors: Vec<Factor> = Vec::new();
        for &load in &block.insts {
            let Some(factor) = self.factor(&inside, load) else { continue };
            let mut own = FxHashSet::default();
            let args = &self.program.insts[load].args;
            if args.iter().take(2).all(|&x| self.follows(body, &inside, x, &mut own)) {
                let before = factors.last().map_or(0, |last| last.before + last.lie.size());
                let places = block.insts.iter().copied().filter(|inst| own.contains(inst)).collect();
                factors.push(Factor { before, places, ..factor });
            }
        }
        factors
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
        let mut found = Found { operands: Vec::new(), way: vec![load], lies: Vec::new(), along: Vec::new() };
        if !self.only_multiplied(inside, loaded, (&home, [0, 1]), &mut found) {
            return None;
        }
        let Found { operands, way, lies, along } = found;
        let along = along.first().copied().filter(|first| along.iter().all(|axis| axis == first));
        let mut lies = lies.into_iter();
        let lie = lies.next()?;
        let alike = lie.is_whole() && lies.all(|other| other.lies_like(&lie));
        alike.then_some(Factor { operands, way, lie, before: 0, along, places: Vec::new() })
    }

    /// Whether all who read a value that lies so are products of several warps, or turn it for such; collects how they want
    /// it to lie.  `axes` are those of the loaded tile that its own are.
    fn only_multiplied(
        &self,
        inside: &FxHashSet<Inst>,
        value: Value,
        (layout, axes): (&Layout, [usize; 2]),
        found: &mut Found,
    ) -> bool {
        let program = self.program;
        let readers = || program.insts.iter().filter(|(_, data)| data.args.contains(&value));
        let mut seen = 0;
        for (inst, data) in readers().filter(|(inst, _)| inside.contains(inst)) {
            match &data.op {
                Op::Trans(perm) => {
                    found.way.push(inst);
                    let turned = [0, 1].map(|axis| axes[perm[axis] as usize]);
                    if !self.only_multiplied(inside, data.results[0], (&layout.transposed(perm), turned), found) {
                        return false;
                    }
                }
                Op::Dot(_) => {
                    let tiling = self.layouts.product(data.results[0]).map(|(_, tiling)| tiling);
                    let panels = |panels: fn(&Tiling) -> Option<Panels>| tiling.and_then(panels);
                    let wanted = match data.args.iter().position(|&arg| arg == value) {
                        Some(1) => panels(|t| t.panels).map(|panels| (layout.clone(), panels, axes[panels.axis])),
                        Some(0) => {
                            let turned = |panels: Panels| (layout.transposed(&[1, 0]), panels, axes[1 - panels.axis]);
                            panels(|t| t.left).map(turned)
                        }
                        _ => None,
                    };
                    let Some((layout, panels, along)) = wanted else { return false };
                    found.operands.push(value);
                    found.along.push(along);
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
    pub fn is_zero(&self, value: Value) -> bool {
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
