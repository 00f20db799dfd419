//! Loops, branches and checks.

use std::rc::Rc;

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{InstructionOpcode as I, PhiValue};

use super::ahead::Copies;
use super::ir::{Any, built};
use super::lower::Lower;
use super::ring::Turn;
use super::value::{Form, Reg, Tile};
use crate::layout::Layout;
use crate::tile::{Block, BlockData, Op, Value};

/// Bytes that a lane should have under way.
const UNDER_WAY: usize = 64;

/// Most operations on registers that are written out one after the other for it.
const LONGEST: usize = 400;

/// A loop whose bounds are known.
struct Counted<'a, 'c> {
    high: Any<'c>,
    step: Any<'c>,
    body: Block,
    layouts: &'a [Layout],
    forms: &'a [Form],
    /// What is copied ahead.
    copies: Option<&'a Rc<Copies<'c>>>,
}

impl<'c> Lower<'_, 'c> {
    /// `for i in (low..high).step_by(step)`.
    ///
    /// Tested at the top once and then at the bottom, on the distance that is left, so that an index near the end of
    /// its type's range cannot wrap around into another iteration.
    pub fn for_loop(&mut self, args: &[Value], results: &[Value], body: Block) {
        let (low, high, step) = (self.scalar(args[0]), self.scalar(args[1]), self.scalar(args[2]));
        let layouts: Vec<Layout> = results.iter().map(|&r| self.layouts[r].clone()).collect();
        let forms: Vec<Form> = results.iter().zip(&layouts).map(|(&r, l)| self.form(r, l)).collect();
        let initial: Vec<Tile<'c>> = args[3..].iter().zip(&layouts).map(|(&a, l)| self.tile(a, l)).collect();
        let initial = self.flat(&initial, &forms);

        let copies = self.begin_copies(body, (low, high, step));
        let counted = Counted { high, step, body, layouts: &layouts, forms: &forms, copies: copies.as_ref() };
        let (mut low, mut initial) = (low, initial);
        let times = if copies.is_some() { 1 } else { self.unrolled(body) };
        if times > 1 {
            // Several iterations at once as long as there are so many, so that all their loads can be under way.
            (low, initial) = self.iterate(&counted, low, &initial, times);
        }
        let (_, last) = self.iterate(&counted, low, &initial, 1);
        if let Some(copies) = &copies {
            self.end_copies(copies);
        }
        for (&result, tile) in results.iter().zip(self.unflat(last.into_iter(), &layouts, &forms)) {
            self.tiles.insert(result, tile);
        }
    }

    /// A loop that runs `times` iterations in one go while there are so many left; gives the index and the carried values
    /// behind it.
    ///
    /// Several at once only where neither `step·times` nor `high + step·times` leaves the range of the index: what is left
    /// can then be compared with the former, and the index behind the last iteration is one that the next loop stops at.
    fn iterate(
        &mut self,
        counted: &Counted<'_, 'c>,
        low: Any<'c>,
        initial: &[Any<'c>],
        times: u32,
    ) -> (Any<'c>, Vec<Any<'c>>) {
        let program = self.program;
        let &Counted { high, step, body, layouts, forms, copies } = counted;
        let data = &program.blocks[body];
        let whole = self.ir.binary(I::Mul, step, self.ir.int_like(step, i64::from(times)));
        let mut enough = self.ir.icmp(IntPredicate::SLT, low, high);
        if times > 1 {
            let left = self.ir.binary(I::Sub, high, low);
            let reach = self.ir.binary(I::Sub, whole, step);
            enough = self.ir.binary(I::And, enough, self.ir.icmp(IntPredicate::UGT, left, reach));
            enough = self.ir.binary(I::And, enough, self.has_room(high, step, (whole, times)));
        }
        let (start, inside, after) = (self.here(), self.new_block("loop"), self.new_block("after"));
        self.jump_if(enough, inside, after);

        self.ir.builder.position_at_end(inside);
        let index = built(self.ir.builder.build_phi(low.get_type(), ""));
        let carried: Vec<PhiValue<'c>> =
            initial.iter().map(|x| built(self.ir.builder.build_phi(x.get_type(), ""))).collect();
        let turn = copies.map(|_| [0; 2].map(|_| built(self.ir.builder.build_phi(self.ir.context.i32_type(), ""))));
        let mut next_turn = turn.map(|parts| Turn::of(parts.map(|phi| phi.as_basic_value())));
        let mut i = index.as_basic_value();
        let mut next: Vec<Any<'c>> = carried.iter().map(|phi| phi.as_basic_value()).collect();
        for number in 0..times {
            if number > 0 {
                i = self.ir.binary(I::Add, i, step);
            }
            next_turn = copies.zip(next_turn).map(|(copies, turn)| self.turn(copies, turn, i));
            let tiles = self.unflat(next.into_iter(), layouts, forms);
            for (&param, tile) in data.params[1..].iter().zip(tiles) {
                self.tiles.insert(param, tile);
            }
            let index_layout = self.layouts[data.params[0]].clone();
            let index_tile = self.splat(index_layout, i);
            self.tiles.insert(data.params[0], index_tile);
            let outer = self.again.len();
            self.block(body);
            self.end_turn();
            let yields: Vec<Tile<'c>> = data.yields.iter().zip(layouts).map(|(&y, l)| self.tile(y, l)).collect();
            next = self.flat(&yields, forms);
            self.again.truncate(outer);
        }
        let end = self.here();
        let left = self.ir.binary(I::Sub, high, i);
        let next_index = self.ir.binary(I::Add, i, step);
        let more = self.ir.icmp(IntPredicate::UGT, left, whole);
        let flies = data.yields.iter().any(|&y| self.laid.is_flying(y));
        let (left_from, last) = match flies {
            false => {
                self.jump_if(more, inside, after);
                (end, next.clone())
            }
            true => self.land(more, (inside, after), &next, data, (layouts, forms)),
        };
        index.add_incoming(&[(&low, start), (&next_index, end)]);
        if let (Some(phis), Some(next)) = (turn, next_turn) {
            for (phi, next) in phis.iter().zip(next.parts()) {
                phi.add_incoming(&[(&self.ir.i32(0), start), (&next, end)]);
            }
        }
        for ((phi, first), next) in carried.iter().zip(initial).zip(&next) {
            phi.add_incoming(&[(first, start), (next, end)]);
        }

        self.ir.builder.position_at_end(after);
        let (before, ends): (Vec<Any<'c>>, Vec<Any<'c>>) =
            ([low].iter().chain(initial).copied().collect(), [next_index].iter().chain(&last).copied().collect());
        let mut joined = self.either((&before, start), (&ends, left_from));
        let index = joined.remove(0);
        (index, joined)
    }

    /// Goes round a loop again, or leaves it once the products that are under way are complete; gives where it leaves from,
    /// and the values there.
    fn land(
        &mut self,
        more: Any<'c>,
        (inside, after): (BasicBlock<'c>, BasicBlock<'c>),
        values: &[Any<'c>],
        body: &BlockData,
        (layouts, forms): (&[Layout], &[Form]),
    ) -> (BasicBlock<'c>, Vec<Any<'c>>) {
        let landing = self.new_block("landing");
        self.jump_if(more, inside, landing);
        self.ir.builder.position_at_end(landing);
        let mut tiles = self.unflat(values.iter().copied(), layouts, forms);
        for (tile, _) in tiles.iter_mut().zip(&body.yields).filter(|(_, y)| self.laid.is_flying(**y)) {
            let sums: Vec<Any<'c>> = tile.regs.iter().map(|&reg| self.first(reg)).collect();
            let whole = self.emit.await_products(self.ir, 0, &sums);
            tile.regs = whole.into_iter().map(Reg::Vector).collect();
        }
        built(self.ir.builder.build_unconditional_branch(after));
        (landing, self.flat(&tiles, forms))
    }

    /// Whether `whole`, which is `step·times`, is in the range of the index, and `high + whole` too.
    fn has_room(&self, high: Any<'c>, step: Any<'c>, (whole, times): (Any<'c>, u32)) -> Any<'c> {
        let ir = self.ir;
        let most = i64::MAX >> (64 - step.into_int_value().get_type().get_bit_width());
        let fits = ir.icmp(IntPredicate::ULE, step, ir.int_like(step, most / i64::from(times)));
        let furthest = ir.binary(I::Sub, ir.int_like(high, most), whole);
        ir.binary(I::And, fits, ir.icmp(IntPredicate::SLE, high, furthest))
    }

    /// Whether all of a block runs whenever it does, and once: it has neither loops nor branches inside.
    pub fn is_straight(&self, block: Block) -> bool {
        let program = self.program;
        let jumps = |op: &Op| matches!(op, Op::For { .. } | Op::If { .. });
        !program.blocks[block].insts.iter().any(|&inst| jumps(&program.insts[inst].op))
    }

    /// How many iterations of a loop to run in one go: as many as it takes for a lane to have some loads under way, where
    /// lanes are threads and the loop is short and has no other inside.
    fn unrolled(&self, body: Block) -> u32 {
        let program = self.program;
        if self.thread().is_none() {
            return 1;
        }
        if !self.is_straight(body) {
            return 1;
        }
        let insts = || program.blocks[body].insts.iter().map(|&inst| &program.insts[inst]);
        let loads = insts().filter(|data| matches!(data.op, Op::Load(_)));
        let bytes: usize =
            loads.map(|data| self.layouts[data.results[0]].registers() * self.ty(data.results[0]).dtype.bytes()).sum();
        let length: usize = insts().map(|data| data.results.first().map_or(1, |&r| self.layouts[r].registers())).sum();
        match bytes {
            0 => 1,
            bytes => (UNDER_WAY / bytes).min(LONGEST / length.max(1)).clamp(1, 8) as u32,
        }
    }

    /// Both arms yield the results.
    pub fn if_else(&mut self, condition: Value, results: &[Value], then: Block, other: Block) {
        let program = self.program;
        let condition = self.scalar(condition);
        let layouts: Vec<Layout> = results.iter().map(|&r| self.layouts[r].clone()).collect();
        let forms: Vec<Form> = results.iter().zip(&layouts).map(|(&r, l)| self.form(r, l)).collect();
        let blocks = [self.new_block("then"), self.new_block("else")];
        let after = self.new_block("after");
        self.jump_if(condition, blocks[0], blocks[1]);
        let mut ends = Vec::new();
        for (block, start) in [then, other].into_iter().zip(blocks) {
            self.ir.builder.position_at_end(start);
            let outer = self.again.len();
            self.block(block);
            let yields = &program.blocks[block].yields;
            let tiles: Vec<Tile<'c>> = yields.iter().zip(&layouts).map(|(&y, l)| self.tile(y, l)).collect();
            ends.push((self.flat(&tiles, &forms), self.here()));
            self.again.truncate(outer);
            built(self.ir.builder.build_unconditional_branch(after));
        }
        self.ir.builder.position_at_end(after);
        self.meet(results, &layouts, &forms, (&ends[0].0, ends[0].1), (&ends[1].0, ends[1].1));
    }

    /// Reports `code` where any element of the condition is false.
    pub fn check(&mut self, condition: Value, code: u32) {
        let layout = self.layouts[condition].clone();
        let tile = self.tile(condition, &layout);
        let whole = tile
            .regs
            .iter()
            .map(|&r| if matches!(r, Reg::Uniform(_)) { self.first(r) } else { self.all(self.vector(&layout, r)) });
        let all = whole.collect::<Vec<_>>().into_iter().reduce(|x, y| self.ir.binary(I::And, x, y));
        if let Some(all) = all {
            self.emit.check(self.ir, all, code);
        }
    }

    /// Binds results to what comes from one of two blocks.
    fn meet(
        &mut self,
        results: &[Value],
        layouts: &[Layout],
        forms: &[Form],
        (left, from_left): (&[Any<'c>], BasicBlock<'c>),
        (right, from_right): (&[Any<'c>], BasicBlock<'c>),
    ) {
        let joined = self.either((left, from_left), (right, from_right));
        for (&result, tile) in results.iter().zip(self.unflat(joined.into_iter(), layouts, forms)) {
            self.tiles.insert(result, tile);
        }
    }

    /// Values that come from one of two blocks.
    fn either(
        &self,
        (left, from_left): (&[Any<'c>], BasicBlock<'c>),
        (right, from_right): (&[Any<'c>], BasicBlock<'c>),
    ) -> Vec<Any<'c>> {
        let join = |(x, y): (&Any<'c>, &Any<'c>)| {
            let phi = built(self.ir.builder.build_phi(x.get_type(), ""));
            phi.add_incoming(&[(x, from_left), (y, from_right)]);
            phi.as_basic_value()
        };
        left.iter().zip(right).map(join).collect()
    }

    /// The registers of several tiles one after the other, each tile in its form.
    fn flat(&self, tiles: &[Tile<'c>], forms: &[Form]) -> Vec<Any<'c>> {
        let registers = tiles.iter().zip(forms).flat_map(|(tile, &form)| {
            tile.regs.iter().map(move |&reg| match form {
                Form::Vector => self.vector(&tile.layout, reg),
                Form::Uniform | Form::Ramp => self.first(reg),
            })
        });
        registers.collect()
    }

    /// The tiles again.
    fn unflat(&self, mut xs: impl Iterator<Item = Any<'c>>, layouts: &[Layout], forms: &[Form]) -> Vec<Tile<'c>> {
        let tiles = layouts.iter().zip(forms).map(|(layout, &form)| Tile {
            regs: xs.by_ref().take(layout.registers()).map(|x| Reg::new(form, x)).collect(),
            layout: layout.clone(),
        });
        tiles.collect()
    }

    pub fn here(&self) -> BasicBlock<'c> {
        match self.ir.builder.get_insert_block() {
            Some(block) => block,
            None => panic!("bug in the lowering: the builder has no position"),
        }
    }

    pub fn new_block(&self, name: &str) -> BasicBlock<'c> {
        self.ir.context.insert_basic_block_after(self.here(), name)
    }

    pub fn jump_if(&self, condition: Any<'c>, then: BasicBlock<'c>, other: BasicBlock<'c>) {
        built(self.ir.builder.build_conditional_branch(condition.into_int_value(), then, other));
    }

    /// Two ways to the same number of values.
    pub fn branch_all(
        &self,
        condition: Any<'c>,
        then: impl FnOnce() -> Vec<Any<'c>>,
        other: impl FnOnce() -> Vec<Any<'c>>,
    ) -> Vec<Any<'c>> {
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        let (from_then, from_other) = self.branch_blocks(condition, || xs = then(), || ys = other());
        self.either((&xs, from_then), (&ys, from_other))
    }

    /// Runs one of two pieces of code and goes on after both; gives the blocks that they end in.
    pub fn branch_blocks(
        &self,
        condition: Any<'c>,
        then: impl FnOnce(),
        other: impl FnOnce(),
    ) -> (BasicBlock<'c>, BasicBlock<'c>) {
        let builder = &self.ir.builder;
        let (first, second, after) = (self.new_block("then"), self.new_block("else"), self.new_block("after"));
        self.jump_if(condition, first, second);
        builder.position_at_end(first);
        then();
        let from_then = self.here();
        built(builder.build_unconditional_branch(after));
        builder.position_at_end(second);
        other();
        let from_other = self.here();
        built(builder.build_unconditional_branch(after));
        builder.position_at_end(after);
        (from_then, from_other)
    }
}
