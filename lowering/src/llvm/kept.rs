//! First factors of a loop's products that are known before the loop, as the queries of an attention are: they stay in
//! scratch memory, from where warps multiply them together, and in no registers.

use inkwell::values::PointerValue;

use super::lower::Lower;
use super::ring::Ring;
use crate::layout::panels::Panels;
use crate::tile::{Block, Op, Value};

/// A factor that stays.
pub(super) struct Kept {
    value: Value,
    bytes: u32,
    /// What was held before it.
    held: u32,
}

impl<'c> Lower<'_, 'c> {
    /// Takes scratch memory for first factors of a loop's products that are known before it, until the block ends that the
    /// loop is in; gives those that were not there yet.
    pub fn reserve(&mut self, body: Block) -> Vec<(Value, Panels, PointerValue<'c>)> {
        let mut new = Vec::new();
        for (value, panels) in self.first_factors(body) {
            let fits = self.kept_bytes() + panels.size() <= Ring::room(self.spec);
            if fits && self.laid.at(value).is_none() {
                let at = self.emit.scratch(self.ir, panels.size());
                self.laid.bind(value, at);
                self.kept.push(Kept { value, bytes: panels.size(), held: self.emit.hold() });
                new.push((value, panels, at));
            }
        }
        new
    }

    /// Lays factors where memory was taken for them.
    pub fn lay_kept(&mut self, kept: &[(Value, Panels, PointerValue<'c>)]) {
        let Some(thread) = self.thread().filter(|_| !kept.is_empty()) else { return };
        // Another instruction's elements may still be read there.
        self.emit.barrier(self.ir);
        for &(value, panels, at) in kept {
            let tile = self.factor_at_home(value, true);
            self.lay_in_panels_at(thread, &tile, &panels, at);
        }
        self.emit.barrier(self.ir);
    }

    /// Bytes that are kept.
    pub fn kept_bytes(&self) -> u32 {
        self.kept.iter().map(|kept| kept.bytes).sum()
    }

    /// Keeps the first so many, and no more.
    pub fn keep_only(&mut self, count: usize) {
        let rest = self.kept.split_off(count);
        if let Some(first) = rest.first() {
            self.emit.let_go(first.held);
        }
        rest.iter().for_each(|kept| self.laid.unbind(kept.value));
    }

    /// Those of the products of a loop's body, and how they lie.
    fn first_factors(&self, body: Block) -> Vec<(Value, Panels)> {
        let program = self.program;
        let block = &program.blocks[body];
        let outside = |value: &Value| {
            let inside = self.layouts.definition(*value).is_some_and(|inst| block.insts.contains(&inst));
            !inside && !block.params.contains(value)
        };
        let products = block.insts.iter().map(|&inst| &program.insts[inst]).filter(|d| matches!(d.op, Op::Dot(_)));
        let found = products.filter(|data| outside(&data.args[0])).filter_map(|data| {
            let (_, tiling) = self.layouts.product(data.results[0])?;
            tiling.left.filter(|_| tiling.panels.is_some()).map(|panels| (data.args[0], panels))
        });
        let mut all: Vec<(Value, Panels)> = Vec::new();
        for (value, panels) in found {
            // In two ways at once it lies for nobody.
            if all.iter().all(|other| other.0 != value) {
                all.push((value, panels));
            }
        }
        all
    }
}
