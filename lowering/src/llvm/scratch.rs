//! Tiles in another layout, by way of scratch memory: written as they are, read as they are wanted.
//!
//! Where both layouts have runs of sixteen bytes in registers, those are written and read at once, else of eight or four.
//! Pieces change places within a row such that what threads touch together lies in different banks: eight of them, where
//! pieces have sixteen bytes.  A permutation of places that is linear over XOR does that (Phothilimthana and others: "Swizzle Inventor", 2019).

use inkwell::values::{InstructionOpcode as I, PointerValue};

use super::emit::Thread;
use super::ir::Any;
use super::lower::Lower;
use super::threads::{bits_in, same_bits};
use super::value::{Reg, Tile};
use crate::dtype::DType;
use crate::layout::panels::Panels;
use crate::layout::{Layout, Linear};
use smallvec::smallvec;

/// Bytes of a piece.
pub(super) const PIECE: u32 = 16;

/// Bytes of the smallest one that is worth to be put together.
const LEAST: u32 = 4;

/// Bytes that all banks hold, which as many threads reach at a time as that is pieces.
const BANKS: u32 = 128;

/// Tiles in pieces, in scratch memory.
struct Pieces {
    dtype: DType,
    /// Bits of an element's number in its piece.
    bits: u32,
    /// From coordinates to places.
    places: Linear,
}

impl Pieces {
    /// Pieces of `2^bits` elements whose coordinates are their places.
    fn as_they_lie(layout: &Layout, dtype: DType, bits: u32) -> Pieces {
        Pieces { dtype, bits, places: Linear::identity(layout.shape.iter().product::<u32>().ilog2()) }
    }

    /// Bytes of a piece.
    fn bytes(&self) -> u32 {
        (self.dtype.bytes() as u32) << self.bits
    }

    /// Bytes of a tile.
    fn size(&self) -> u32 {
        (self.dtype.bytes() as u32) << self.places.bits()
    }

    /// How to go from one layout to the other in pieces of `2^bits` elements, if both have whole ones in registers.
    fn between(from: &Layout, to: &Layout, dtype: DType, bits: u32) -> Option<Pieces> {
        let together = (BANKS / dtype.bytes() as u32).ilog2() - bits;
        let all = from.shape.iter().product::<u32>().ilog2();
        let has_pieces = |layout: &Layout| (0..bits).all(|bit| layout.register.bases().contains(&(1 << bit)));
        if bits == 0 || all < bits + together || !has_pieces(from) || !has_pieces(to) {
            return None;
        }
        // Bits along which threads that act together differ: those that choose a bank may stay, others choose one too.
        let banks = bits..bits + together;
        let acting = |layout: &Layout| -> Vec<u32> {
            let lanes = layout.lane.bases().iter().take(together as usize).filter(|b| b.is_power_of_two());
            lanes.map(|b| b.trailing_zeros()).collect()
        };
        let (writing, reading) = (acting(from), acting(to));
        let mut moves: Vec<(u32, u32)> = Vec::new();
        for side in [&reading, &writing] {
            let taken = |moves: &[(u32, u32)], bank: u32| {
                side.contains(&bank) || moves.iter().any(|&(bit, to)| to == bank && side.contains(&bit))
            };
            for &bit in side.iter().filter(|bit| !banks.contains(bit) && **bit >= bits) {
                let free = banks.clone().rev().find(|&bank| !taken(&moves, bank));
                if let (Some(bank), false) = (free, moves.iter().any(|m| m.0 == bit)) {
                    moves.push((bit, bank));
                }
            }
        }
        let place = |bit: u32| moves.iter().filter(|m| m.0 == bit).fold(1 << bit, |place, m| place | 1 << m.1);
        Some(Pieces { dtype, bits, places: Linear::new((0..all).map(place)) })
    }
}

impl<'c> Lower<'_, 'c> {
    /// A tile in another layout, by way of scratch memory.
    pub fn through_scratch(&self, thread: Thread<'c>, tile: &Tile<'c>, layout: &Layout) -> Tile<'c> {
        let dtype = same_bits(self.first(tile.regs[0]).get_type());
        let whole = (PIECE / dtype.bytes() as u32).ilog2();
        if let Some(pieces) = Pieces::between(&tile.layout, layout, dtype, whole) {
            return self.through_pieces(thread, tile, layout, &pieces);
        }
        let worth = |bits: &u32| (dtype.bytes() as u32) << bits >= LEAST;
        for bits in (1..=whole).rev().filter(worth) {
            let Some(order) = runs_first(&tile.layout, layout, bits) else { continue };
            let [from, to] = [&tile.layout, layout].map(|layout| moved(layout, &order));
            if let Some(pieces) = Pieces::between(&from, &to, dtype, bits) {
                let tile = Tile { layout: from, regs: tile.regs.clone() };
                let regs = self.through_pieces(thread, &tile, &to, &pieces).regs;
                return Tile { layout: layout.clone(), regs };
            }
        }
        let ir = self.ir;
        // Rows begin an odd number of words apart, so that the elements of a column lie in different banks.
        let gap = if layout.shape.len() > 1 { 4u32.div_ceil(dtype.bytes() as u32) } else { 0 };
        let base = self.share(thread, tile, gap, dtype, &|_, x| x);
        let regs = (0..layout.registers() as u32).map(|r| {
            let address = self.emit.address(ir, base, dtype, self.in_scratch(layout, thread, r, gap));
            let x = ir.load(ir.memory_type(dtype), address, dtype.bytes() as u32);
            self.one(self.as_register(dtype, x), layout.is_uniform())
        });
        Tile { regs: regs.collect(), layout: layout.clone() }
    }

    fn through_pieces(&self, thread: Thread<'c>, tile: &Tile<'c>, layout: &Layout, pieces: &Pieces) -> Tile<'c> {
        let (ir, dtype) = (self.ir, pieces.dtype);
        let vector = ir.wide(ir.memory_type(dtype), 1 << pieces.bits);
        let base = self.handed_over(thread, &tile.layout, pieces.size(), |base| {
            self.write_pieces(thread, tile, pieces, base);
        });
        let mut at = Places::new(self, thread, layout, pieces, base);
        let mut regs: Vec<Option<Reg<'c>>> = vec![None; layout.registers()];
        for (first, members) in runs(layout, pieces.bits) {
            let x = ir.load(vector, at.of(first), pieces.bytes());
            for (&r, i) in members.iter().zip(0..) {
                let x = self.as_register(dtype, ir.extract(x, i));
                regs[r as usize] = Some(self.one(x, layout.is_uniform()));
            }
        }
        Tile { regs: regs.into_iter().flatten().collect(), layout: layout.clone() }
    }
}

impl<'c> Lower<'_, 'c> {
    fn write_pieces(&self, thread: Thread<'c>, tile: &Tile<'c>, pieces: &Pieces, base: PointerValue<'c>) {
        let (ir, dtype) = (self.ir, pieces.dtype);
        let vector = ir.wide(ir.memory_type(dtype), 1 << pieces.bits);
        let mut at = Places::new(self, thread, &tile.layout, pieces, base);
        for (first, members) in runs(&tile.layout, pieces.bits) {
            let x = members.iter().zip(0..).fold(ir.poison(vector), |x, (&r, i)| {
                ir.insert(x, self.as_stored(dtype, self.first(tile.regs[r as usize])), i)
            });
            ir.store(at.of(first), x, pieces.bytes());
        }
    }

    /// Writes a tile to scratch memory in panels, for instructions of several warps.
    pub fn lay_in_panels(&self, thread: Thread<'c>, tile: &Tile<'c>, panels: &Panels) -> PointerValue<'c> {
        let (tile, pieces) = self.panelled(tile, panels);
        self.handed_over(thread, &tile.layout, panels.size(), |base| self.write_panels(thread, &tile, &pieces, base))
    }

    /// The same to where `base` is, between two barriers.
    pub fn lay_in_panels_at(&self, thread: Thread<'c>, tile: &Tile<'c>, panels: &Panels, base: PointerValue<'c>) {
        let (tile, pieces) = self.panelled(tile, panels);
        self.on_first_copies(thread, &tile.layout, || self.write_panels(thread, &tile, &pieces, base));
    }

    /// A tile with places in panels for coordinates, and its pieces.
    fn panelled(&self, tile: &Tile<'c>, panels: &Panels) -> (Tile<'c>, Pieces) {
        let lie = Panelled::new(&tile.layout, same_bits(self.first(tile.regs[0]).get_type()), *panels);
        (Tile { layout: lie.layout, regs: tile.regs.clone() }, lie.pieces)
    }

    fn write_panels(&self, thread: Thread<'c>, tile: &Tile<'c>, pieces: &Pieces, base: PointerValue<'c>) {
        self.write_pieces(thread, tile, pieces, base);
        self.emit.publish(self.ir);
    }

    /// Starts to copy to panels what lies where `place` says, for the first register of each piece, and where the mask holds;
    /// zeros elsewhere.
    pub fn copy_to_panels(
        &self,
        place: &dyn Fn(u32) -> PointerValue<'c>,
        mask: Option<&Tile<'c>>,
        lie: &Panelled,
        base: PointerValue<'c>,
    ) {
        let Some(thread) = self.thread() else { return };
        let Panelled { layout, pieces, .. } = lie;
        self.on_first_copies(thread, layout, || {
            let mut at = Places::new(self, thread, layout, pieces, base);
            for first in lie.pieces() {
                let wanted = mask.map(|mask| self.first(mask.regs[first as usize]));
                self.emit.copy(self.ir, at.of(first), place(first), wanted);
            }
        });
    }

    /// What lies in panels, register by register, in a layout.
    pub fn read_panels(
        &self,
        thread: Thread<'c>,
        base: PointerValue<'c>,
        layout: &Layout,
        (panels, dtype): (&Panels, DType),
    ) -> Vec<Any<'c>> {
        let layout = placed(layout, panels);
        let pieces = Pieces::as_they_lie(&layout, dtype, 0);
        let mut at = Places::new(self, thread, &layout, &pieces, base);
        let ty = self.ir.memory_type(dtype);
        (0..layout.registers() as u32).map(|r| self.ir.load(ty, at.of(r), dtype.bytes() as u32)).collect()
    }
}

/// A tile on its way to panels.
pub(super) struct Panelled {
    /// Its layout, places for coordinates.
    layout: Layout,
    pieces: Pieces,
    panels: Panels,
}

impl Panelled {
    /// A tile in that layout, in pieces if its registers have whole ones.
    pub fn new(layout: &Layout, dtype: DType, panels: Panels) -> Panelled {
        let layout = placed(layout, &panels);
        let bits = (PIECE / dtype.bytes() as u32).ilog2();
        let whole = (0..bits).all(|bit| layout.register.bases().contains(&(1 << bit)));
        let pieces = Pieces::as_they_lie(&layout, dtype, if whole { bits } else { 0 });
        Panelled { layout, pieces, panels }
    }

    /// Bytes of the panels.
    pub fn size(&self) -> u32 {
        self.panels.size()
    }

    /// Where it goes.
    pub fn panels(&self) -> &Panels {
        &self.panels
    }

    /// Whether another tile puts the same elements in the same places.
    pub fn lies_like(&self, other: &Panelled) -> bool {
        self.layout == other.layout && self.size() == other.size()
    }

    /// The first register of each piece.
    pub fn pieces(&self) -> impl Iterator<Item = u32> {
        runs(&self.layout, self.pieces.bits).map(|(first, _)| first)
    }

    /// Whether every register is part of a whole piece.
    pub fn is_whole(&self) -> bool {
        self.pieces.bits > 0
    }
}

/// An order of the coordinates' bits in which those come first that registers of both layouts have, as many as tell the
/// elements of a piece apart.
fn runs_first(from: &Layout, to: &Layout, bits: u32) -> Option<Linear> {
    let all = from.shape.iter().product::<u32>().ilog2();
    let both = |bit: &u32| [from, to].iter().all(|layout| layout.register.bases().contains(&(1 << bit)));
    let first: Vec<u32> = (0..all).filter(both).take(bits as usize).collect();
    let place = |bit: u32| match first.iter().position(|&b| b == bit) {
        Some(i) => i as u32,
        None => bit + first.iter().filter(|&&b| b > bit).count() as u32,
    };
    (first.len() == bits as usize).then(|| Linear::new((0..all).map(|bit| 1 << place(bit))))
}

/// The layout with an element's place in panels for its coordinate.
fn placed(layout: &Layout, panels: &Panels) -> Layout {
    moved(layout, &panels.places())
}

/// The layout with the images of coordinates for coordinates.
fn moved(layout: &Layout, places: &Linear) -> Layout {
    let [register, lane, warp] = [&layout.register, &layout.lane, &layout.warp].map(|map| map.then(places));
    Layout { shape: smallvec![layout.shape.iter().product()], register, lane, warp }
}

/// The registers of each piece in the order of its elements, and the first of them.
fn runs(layout: &Layout, bits: u32) -> impl Iterator<Item = (u32, Vec<u32>)> {
    let own = |bit: u32| layout.register.bases().iter().position(|&b| b == 1 << bit).map_or(0, |i| 1u32 << i);
    let inside: Vec<u32> = (0..bits).map(own).collect();
    let mask: u32 = inside.iter().sum();
    let member = move |first: u32, i: u32| (0..bits).fold(first, |r, bit| r | ((i >> bit & 1) * inside[bit as usize]));
    let firsts = (0..layout.registers() as u32).filter(move |r| r & mask == 0);
    firsts.map(move |first| (first, (0..1 << bits).map(|i| member(first, i)).collect()))
}

/// Where the registers of the running thread lie.
struct Places<'l, 'a, 'c> {
    lower: &'l Lower<'a, 'c>,
    pieces: &'l Pieces,
    layout: &'l Layout,
    base: PointerValue<'c>,
    /// The thread's part of all places, and the bits that it may have.
    thread: Any<'c>,
    varied: u32,
    /// That part after some of those bits changed.
    changed: Vec<(u32, PointerValue<'c>)>,
}

impl<'l, 'a, 'c> Places<'l, 'a, 'c> {
    fn new(
        lower: &'l Lower<'a, 'c>,
        thread: Thread<'c>,
        layout: &'l Layout,
        pieces: &'l Pieces,
        base: PointerValue<'c>,
    ) -> Self {
        let moved = Layout {
            register: Linear::default(),
            lane: layout.lane.then(&pieces.places),
            warp: layout.warp.then(&pieces.places),
            ..layout.clone()
        };
        let varied = bits_in(&moved.lane) | bits_in(&moved.warp);
        let place = lower.coordinate(&moved, thread, 0);
        Places { lower, pieces, layout, base, thread: place, varied, changed: Vec::new() }
    }

    /// The place of a register: one address for all that differ in bits which the thread's part has not.
    fn of(&mut self, register: u32) -> PointerValue<'c> {
        let (l, dtype) = (self.lower, self.pieces.dtype);
        let fixed = self.pieces.places.apply(self.layout.register.apply(register));
        let (both, own) = (fixed & self.varied, fixed & !self.varied);
        let known = self.changed.iter().find(|c| c.0 == both).map(|c| c.1);
        let start = known.unwrap_or_else(|| {
            let place = if both == 0 { self.thread } else { l.ir.binary(I::Xor, self.thread, l.ir.i32(both)) };
            let start = l.emit.address(l.ir, self.base, dtype, place);
            self.changed.push((both, start));
            start
        });
        if own == 0 { start } else { l.emit.address(l.ir, start, dtype, l.ir.i32(own)) }
    }
}
