//! Matrix products by a target's matrix instructions: the same loop for all of them.
//!
//! The target's [`Spec`](crate::spec::Spec) says which instructions there are and where they want their operands
//! ([`crate::layout::fragment`]), [`Emit::multiply`] emits one.  Operands are brought there like any other value that is
//! wanted in another layout.  Each accumulator takes its terms in ascending order of k, or where both operands are
//! loaded in runs along k, in the order in which those come to lie; in which order one instruction
//! adds its own is the hardware's affair.
//!
//! [`Emit::multiply`]: super::Emit::multiply

use inkwell::values::PointerValue;

use super::emit::{Left, Thread};
use super::ir::Any;
use super::lower::Lower;
use super::value::{Reg, Tile};
use crate::layout::Layout;
use crate::layout::fragment::{Matrix, Tiling};
use crate::layout::panels::Panels;
use crate::tile::{Precision, Value};

impl<'c> Lower<'_, 'c> {
    /// `a·b + acc` in fragments; the result lies as the instruction leaves it.
    pub fn matrix_product(
        &mut self,
        result: Value,
        args: &[Value],
        (matrix, tiling): (&Matrix, &Tiling),
        precision: Precision,
    ) -> Tile<'c> {
        if let (Some(panels), Some(thread)) = (&tiling.panels, self.thread()) {
            return self.product_together(thread, (result, args), (matrix, tiling), panels);
        }
        let [a, b] = [(args[0], &tiling.a), (args[1], &tiling.b)].map(|(x, layout)| self.registers(x, layout));
        let mut sums = self.registers(args[2], &tiling.c);
        let round = |l: &Self, xs: &[Any<'c>]| -> Vec<Any<'c>> { xs.iter().map(|&x| l.tf32(x)).collect() };
        if matrix.precision == Precision::Ieee {
            self.multiply_fragments(matrix, tiling, &a, &b, &mut sums);
        } else {
            let (a_head, b_head) = (round(self, &a), round(self, &b));
            if precision == Precision::Tf32x3 {
                let [a_tail, b_tail] = [&a, &b].map(|xs| xs.iter().map(|&x| self.tf32_tail(x)).collect::<Vec<_>>());
                self.multiply_fragments(matrix, tiling, &a_tail, &b_head, &mut sums);
                self.multiply_fragments(matrix, tiling, &a_head, &b_tail, &mut sums);
            }
            self.multiply_fragments(matrix, tiling, &a_head, &b_head, &mut sums);
        }
        Tile { layout: tiling.c.clone(), regs: sums.into_iter().map(Reg::Vector).collect() }
    }

    /// The product by warps together, which read `b` from scratch memory, and `a` from there or from registers.
    fn product_together(
        &mut self,
        thread: Thread<'c>,
        (result, args): (Value, &[Value]),
        (matrix, tiling): (&Matrix, &Tiling),
        panels: &Panels,
    ) -> Tile<'c> {
        let sums = self.begun(thread, (result, args), (matrix, tiling, panels));
        self.pass_turn(result);
        self.copy_due();
        let sums = self.sums_of(result, sums);
        Tile { layout: tiling.c.clone(), regs: sums.into_iter().map(Reg::Vector).collect() }
    }

    /// Begins the product; gives the sums, which need not be complete.
    fn begun(
        &mut self,
        thread: Thread<'c>,
        (result, args): (Value, &[Value]),
        (matrix, tiling, panels): (&Matrix, &Tiling, &Panels),
    ) -> Vec<Any<'c>> {
        let base = self.in_panels(thread, args[1], panels, false);
        let left = tiling.left.as_ref().map(|left| (left, self.in_panels(thread, args[0], left, true)));
        let a = if left.is_none() { self.registers(args[0], &tiling.a) } else { Vec::new() };
        let mut sums = self.registers(args[2], &tiling.c);
        let given = left.map_or(Left::Registers(&a), |(_, base)| Left::Scratch(base));
        self.take_turn(result);
        if let Some(together) = self.emit.multiply_together(self.ir, (matrix, tiling), base, given, &sums) {
            return together;
        }
        let read = |base, layout: &Layout, panels| self.read_panels(thread, base, layout, (panels, matrix.operand));
        let b = read(base, &tiling.b, panels);
        let a = left.map_or(a, |(left, base)| read(base, &tiling.a.transposed(&[1, 0]), left));
        self.multiply_fragments(matrix, tiling, &a, &b, &mut sums);
        sums
    }

    /// Where a factor's panels begin in scratch memory; `turned` for a first factor, which lies there transposed.
    fn in_panels(&mut self, thread: Thread<'c>, factor: Value, panels: &Panels, turned: bool) -> PointerValue<'c> {
        if let Some(base) = self.laid.at(factor) {
            return base;
        }
        let tile = self.factor_at_home(factor, turned);
        self.lay_in_panels(thread, &tile, panels)
    }

    /// A factor where it is; `turned` for a first factor, whose axes change places in panels.
    pub fn factor_at_home(&mut self, factor: Value, turned: bool) -> Tile<'c> {
        let home = self.layouts[factor].clone();
        let mut tile = self.tile(factor, &home);
        if turned {
            tile.layout = tile.layout.transposed(&[1, 0]);
        }
        tile
    }

    /// All products of fragments, the terms one after the other.
    fn multiply_fragments(&self, matrix: &Matrix, tiling: &Tiling, a: &[Any<'c>], b: &[Any<'c>], sums: &mut [Any<'c>]) {
        let [down, across, terms] = tiling.fragments.map(|n| n as usize);
        let [size_a, size_b, size_c] =
            [a.len() / (down * terms), b.len() / (terms * across), sums.len() / (down * across)];
        for l in 0..terms {
            for i in 0..down {
                for j in 0..across {
                    let a = &a[(i * terms + l) * size_a..][..size_a];
                    let b = &b[(l * across + j) * size_b..][..size_b];
                    let c = &mut sums[(i * across + j) * size_c..][..size_c];
                    let next = self.emit.multiply(self.ir, matrix, a, b, c);
                    c.copy_from_slice(&next);
                }
            }
        }
    }

    /// The elements of a value in a layout, register by register; what was just rounded, two at once if the target does
    /// that.
    fn registers(&mut self, x: Value, layout: &Layout) -> Vec<Any<'c>> {
        let dtype = self.ty(x).dtype;
        let exact = self.before_rounding(x, layout);
        if let Some(words) = exact.and_then(|exact| self.rounded_pairs(dtype, &exact.regs)) {
            return words.into_iter().flat_map(|word| [0, 1].map(|which| self.half(dtype, word, which))).collect();
        }
        let tile = self.tile(x, layout);
        tile.regs.iter().map(|&reg| self.vector(layout, reg)).collect()
    }
}
