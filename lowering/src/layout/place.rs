//! Layouts of tiles: constructors, and how the shape operations of the tile language act on them.
//!
//! A coordinate is written as one number, the element's row-major index.  Since extents are powers of two, the bits of
//! that number are the bits of the coordinates along the axes, the last axis lowest; so `reshape` and `expand_dims`
//! change no basis at all, and `trans` permutes bits.

use std::fmt;

use smallvec::SmallVec;

use super::Linear;
use crate::tile::Shape;

/// Which element of a tile lives in which place.
///
/// Register bits are independent of each other and of the other bits; lane and warp bits may be *free*: where a tile has
/// fewer elements than there are lanes, or an axis was reduced away, several lanes hold the same element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Extents of the tile.
    pub shape: Shape,
    /// Register bits to coordinate.
    pub register: Linear,
    /// Lane bits to coordinate.
    pub lane: Linear,
    /// Warp bits to coordinate.
    pub warp: Linear,
}

/// Number of coordinate bits of a shape.
pub fn bits_of(shape: &[u32]) -> u32 {
    shape.iter().map(|n| n.trailing_zeros()).sum()
}

impl Layout {
    /// Lanes, then warps, then registers take the coordinate bits in the order of `axes`, the fastest first.
    pub fn blocked(shape: &[u32], axes: &[usize], lane_bits: u32, warp_bits: u32) -> Layout {
        Layout::packed(shape, axes, 0, lane_bits, warp_bits)
    }

    /// [`blocked`](Layout::blocked) behind `packed` bits that registers take first: each lane holds runs of neighbours,
    /// which it can load at once.
    pub fn packed(shape: &[u32], axes: &[usize], packed: u32, lane_bits: u32, warp_bits: u32) -> Layout {
        let order: Vec<u32> = axes.iter().flat_map(|&axis| axis_bits(shape, axis)).map(|bit| 1 << bit).collect();
        let (first, rest) = order.split_at(order.len().min(packed as usize));
        let mut rest = rest.iter().copied();
        let mut take = |n: u32| Linear::new((0..n).map(|_| rest.next().unwrap_or(0)));
        let (lane, warp) = (take(lane_bits), take(warp_bits));
        Layout { shape: shape.into(), register: Linear::new(first.iter().copied().chain(rest)), lane, warp }
    }

    /// [`blocked`](Layout::blocked) with the last axis fastest: lanes hold neighbours in row-major order.
    pub fn row_major(shape: &[u32], lane_bits: u32, warp_bits: u32) -> Layout {
        let axes: Vec<usize> = (0..shape.len()).rev().collect();
        Layout::blocked(shape, &axes, lane_bits, warp_bits)
    }

    /// Number of registers.
    pub fn registers(&self) -> usize {
        1 << self.register.bits()
    }

    /// The row-major index of the element in a place of the first warp.
    pub fn at(&self, register: u32, lane: u32) -> u32 {
        self.register.apply(register) ^ self.lane.apply(lane)
    }

    /// A register and lane of the first warp that hold the element.
    pub fn find(&self, coordinate: u32) -> Option<(u32, u32)> {
        let place = self.lane.beside(&self.register).solve(coordinate)?;
        Some((place >> self.lane.bits(), place & ((1 << self.lane.bits()) - 1)))
    }

    /// Positions in a coordinate of the bits of one axis, lowest first.
    pub fn axis_bits(&self, axis: usize) -> std::ops::Range<u32> {
        axis_bits(&self.shape, axis)
    }

    /// The coordinate along one axis.
    pub fn along(&self, coordinate: u32, axis: usize) -> u32 {
        let bits = self.axis_bits(axis);
        coordinate >> bits.start & ((1u64 << bits.len()) - 1) as u32
    }

    /// The bits of a register's number that do not change what it holds, where the elements of aligned runs are equal:
    /// `run` tells their length along an axis.
    pub fn equal_registers(&self, run: impl Fn(usize) -> u32) -> usize {
        let within = |base: u32| {
            let axis = (0..self.shape.len()).find(|&axis| self.axis_bits(axis).contains(&base.trailing_zeros()));
            axis.is_some_and(|axis| base.is_power_of_two() && self.along(base, axis) < run(axis))
        };
        let bits = self.register.bases().iter().enumerate();
        bits.filter(|&(_, &base)| within(base)).fold(0, |equal, (i, _)| equal | 1 << i)
    }

    /// Whether every lane holds the same element.
    pub fn is_uniform(&self) -> bool {
        self.lane.bases().iter().all(|&b| b == 0)
    }

    /// Lanes that hold different elements, as a number of low lane bits; `None` where free bits lie below others.
    pub fn distinct_lane_bits(&self) -> Option<u32> {
        let used = self.lane.bases().iter().rposition(|&b| b != 0).map_or(0, |i| i as u32 + 1);
        let low = Linear::new(self.lane.bases()[..used as usize].iter().copied());
        low.is_injective().then_some(used)
    }

    /// The tile under other extents with the same number of elements.
    pub fn reshaped(&self, shape: &[u32]) -> Layout {
        debug_assert_eq!(bits_of(&self.shape), bits_of(shape));
        Layout { shape: shape.into(), ..self.clone() }
    }

    /// Axis `i` of the result is axis `perm[i]` of this tile.
    pub fn transposed(&self, perm: &[u8]) -> Layout {
        let shape: Shape = perm.iter().map(|&p| self.shape[p as usize]).collect();
        let mut moved = vec![0; bits_of(&shape) as usize];
        for (to, &from) in perm.iter().enumerate() {
            for (t, f) in axis_bits(&shape, to).zip(self.axis_bits(from as usize)) {
                moved[f as usize] = 1 << t;
            }
        }
        self.mapped(shape, &Linear::new(moved))
    }

    /// The layout of what is left when `axis` is reduced to one element or removed: its bits become free, and registers
    /// that differed along it alone are one.
    pub fn sliced(&self, axis: usize) -> Layout {
        let bits = self.axis_bits(axis);
        let mut shape = self.shape.clone();
        shape.remove(axis);
        let drop = Linear::new((0..bits_of(&self.shape)).map(|bit| match bit {
            b if b < bits.start => 1 << b,
            b if b < bits.end => 0,
            b => 1 << (b - bits.len() as u32),
        }));
        self.mapped(shape, &drop)
    }

    /// A layout whose warps do not share an axis: itself, or one in which every warp holds the whole tile.
    pub fn within_warps(&self, axis: usize) -> Layout {
        if self.warp.bases().iter().all(|&b| self.along(b, axis) == 0) {
            return self.clone();
        }
        let mut whole = Layout::row_major(&self.shape, self.lane.bits(), 0);
        whole.warp = Linear::new(self.warp.bases().iter().map(|_| 0));
        whole
    }

    /// The layout of an operand of `broadcast`: the axes where `shape` has extent 1 are squeezed to one element.
    pub fn squeezed(&self, shape: &[u32]) -> Layout {
        let mut layout = self.clone();
        for axis in (0..self.shape.len()).rev().filter(|&a| shape[a] != self.shape[a]) {
            layout = layout.sliced(axis);
            layout.shape.insert(axis, 1);
        }
        layout
    }

    /// The order of an axis' bits in which each lane holds runs of up to `run` neighbours along it: for each bit, the
    /// number that it gets.  Bits that warps hold stay above all others.
    pub fn in_runs(&self, axis: usize, run: u32) -> Vec<u32> {
        let bits = self.axis_bits(axis);
        let own = |map: &Linear| -> Vec<u32> {
            let along = map.bases().iter().filter(|b| b.is_power_of_two() && bits.contains(&b.trailing_zeros()));
            along.map(|b| b.trailing_zeros() - bits.start).collect()
        };
        let (registers, lanes, warps) = (own(&self.register), own(&self.lane), own(&self.warp));
        let (first, rest) = registers.split_at(registers.len().min(run.ilog2() as usize));
        let mut order = vec![0; bits.len()];
        let all = first.iter().chain(&lanes).chain(rest).chain(&warps);
        match run > 1 && all.clone().count() == bits.len() {
            true => all.zip(0..).for_each(|(&old, new)| order[old as usize] = new),
            false => order.iter_mut().zip(0..).for_each(|(place, bit)| *place = bit),
        }
        order
    }

    /// The layout of the tile whose bits along `axis` have other numbers.
    pub fn reordered(&self, axis: usize, order: &[u32]) -> Layout {
        let bits = self.axis_bits(axis);
        let map = Linear::new((0..bits_of(&self.shape)).map(|bit| match bits.contains(&bit) {
            true => 1 << (bits.start + order[(bit - bits.start) as usize]),
            false => 1 << bit,
        }));
        self.mapped(self.shape.clone(), &map)
    }

    /// The same elements in each lane, in registers ordered such that neighbours along `axis` come first.
    pub fn neighbours_first(&self, axis: usize) -> Layout {
        let bits = self.axis_bits(axis);
        let mut register: Vec<u32> = self.register.bases().to_vec();
        register.sort_by_key(|&b| if bits.contains(&b.trailing_zeros()) { b } else { u32::MAX });
        Layout { register: Linear::new(register), ..self.clone() }
    }

    /// The layout after `map` on coordinates; register bits that became superfluous vanish.
    fn mapped(&self, shape: Shape, map: &Linear) -> Layout {
        let (lane, warp) = (self.lane.then(map), self.warp.then(map));
        let register = self.register.then(map);
        let fixed = lane.beside(&warp);
        let all = fixed.beside(&register);
        let free = all.free_bits() >> fixed.bits();
        let kept = register.bases().iter().enumerate().filter(|&(i, _)| free >> i & 1 == 0).map(|(_, &b)| b);
        let register = Linear::new(kept.collect::<SmallVec<[u32; 16]>>());
        Layout { shape, register, lane, warp }
    }
}

fn axis_bits(shape: &[u32], axis: usize) -> std::ops::Range<u32> {
    let low = bits_of(&shape[axis + 1..]);
    low..low + shape[axis].trailing_zeros()
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |map: &Linear| map.bases().iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        write!(f, "register [{}] lane [{}]", list(&self.register), list(&self.lane))?;
        if self.warp.bits() > 0 {
            write!(f, " warp [{}]", list(&self.warp))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_major_puts_neighbours_into_lanes() {
        let l = Layout::row_major(&[4, 32], 4, 0);
        assert_eq!(l.to_string(), "register [16 32 64] lane [1 2 4 8]");
        assert_eq!(l.at(3, 5), 3 * 16 + 5);
        assert_eq!(l.find(3 * 16 + 5), Some((3, 5)));
    }

    #[test]
    fn packed_lanes_hold_runs() {
        let l = Layout::packed(&[4, 32], &[1, 0], 2, 4, 0);
        assert_eq!(l.to_string(), "register [1 2 64] lane [4 8 16 32]");
        assert_eq!(Layout::packed(&[2], &[0], 2, 1, 0).to_string(), "register [1] lane [0]");
    }

    #[test]
    fn small_tiles_are_held_several_times() {
        let l = Layout::row_major(&[4], 4, 0);
        assert_eq!(l.to_string(), "register [] lane [1 2 0 0]");
        assert_eq!(l.distinct_lane_bits(), Some(2));
    }

    #[test]
    fn slicing_frees_the_bits_of_the_axis() {
        let l = Layout::row_major(&[4, 32], 4, 0);
        assert_eq!(l.sliced(1).to_string(), "register [1 2] lane [0 0 0 0]");
        assert_eq!(l.sliced(0).to_string(), "register [16] lane [1 2 4 8]");
        assert_eq!(l.squeezed(&[4, 1]).shape.as_slice(), [4, 1]);
    }

    #[test]
    fn registers_inside_runs_of_equal_elements_are_equal() {
        let l = Layout::packed(&[4, 32], &[1, 0], 3, 2, 0);
        assert_eq!(l.to_string(), "register [1 2 4 32 64] lane [8 16]");
        assert_eq!(l.equal_registers(|axis| [1, 4][axis]), 0b00011);
        assert_eq!(l.equal_registers(|axis| [4, 8][axis]), 0b11111);
    }

    #[test]
    fn transposing_twice_changes_nothing() {
        let l = Layout::row_major(&[4, 32, 2], 3, 0);
        assert_eq!(l.transposed(&[2, 0, 1]).transposed(&[1, 2, 0]), l);
        assert_eq!(l.transposed(&[1, 0, 2]), Layout::blocked(&[32, 4, 2], &[2, 0, 1], 3, 0));
    }
}
