//! Where matrix instructions want the elements of their operands, and how a warp, or several, tile a product with them.
//!
//! A matrix instruction of a warp computes `c + a·b` for one small product `m×n×k`.  Each of its operands is a *fragment*:
//! a layout of a fixed matrix over registers and lanes, which every vendor draws as a table and which is always linear.
//! A tile of a program is covered by fragments, row by row; their registers follow one another, so that a fragment of a
//! tile is a run of the tile's registers.
//!
//! Knows no instructions: they are rows of the target's [`Spec`](crate::spec::Spec).

use super::panels::Panels;
use super::{Layout, Linear};
use crate::dtype::DType;
use crate::tile::Precision;

/// What a bit of a register's, lane's or warp's number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bit {
    /// So many rows down.
    Row(u32),
    /// So many columns across.
    Column(u32),
    /// Nothing: both hold the same element.
    Free,
}

/// The arrangement of an operand of a matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Bits of the number of an element among a lane's elements, in the order in which registers hold them.
    pub register: &'static [Bit],
    /// Bits of the lane's number.
    pub lane: &'static [Bit],
}

/// A matrix instruction of a warp: `c + a·b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// What the target knows it by.
    pub name: &'static str,
    /// Element type of `a` and `b`.
    pub operand: DType,
    /// Element type of `c` and of the result.
    pub sum: DType,
    /// What it does to its operands before it multiplies them: nothing, or rounding to tf32.
    pub precision: Precision,
    /// Extents `m`, `n`, `k`.
    pub extents: [u32; 3],
    /// `m×k`
    pub a: Fragment,
    /// `k×n`
    pub b: Fragment,
    /// `m×n`, for `c` and for the result.
    pub c: Fragment,
}

/// How warps share a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// What one warp computes is halved along its longer side, so that it reads the fewest rows and columns.
    Sides,
    /// Each warp has rows of its own, as long as there are several, so that a row of the result, and of what is multiplied
    /// next, stays in one warp.
    Rows,
}

/// The layouts of a product of tiles by a matrix instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Of `a`: fragments `(i, l)` in the order `i·K + l`.
    pub a: Layout,
    /// Of `b`: fragments `(l, j)` in the order `l·N + j`.
    pub b: Layout,
    /// Of the accumulator: fragments `(i, j)` in the order `i·N + j`.
    pub c: Layout,
    /// Fragments of one warp down (`M`), across (`N`) and along the terms (`K`).
    pub fragments: [u32; 3],
    /// How `b` lies in scratch memory, where warps read it from there together.
    pub panels: Option<Panels>,
    /// How `a` lies there, transposed, where they read that too.
    pub left: Option<Panels>,
}

impl Matrix {
    /// The cover of a product of extents `m`, `n`, `k` by `2^warp_bits` warps; `None` where the extents are no multiples
    /// of the instruction's.
    pub fn tiling(&self, extents: [u32; 3], warp_bits: u32, split: Split) -> Option<Tiling> {
        if extents.iter().zip(self.extents).any(|(&tile, own)| tile % own != 0) {
            return None;
        }
        let [m, n, k] = extents;
        let mut warps = Vec::new();
        let (mut rows, mut columns) = (m, n);
        for _ in 0..warp_bits {
            let (down, across) = (rows > self.extents[0], columns > self.extents[1]);
            if down && (split == Split::Rows || rows >= columns || !across) {
                rows /= 2;
                warps.push(Bit::Row(rows));
            } else if across {
                columns /= 2;
                warps.push(Bit::Column(columns));
            } else {
                warps.push(Bit::Free);
            }
        }
        let keep = |kept: fn(&Bit) -> bool| -> Vec<Bit> {
            warps.iter().map(|bit| if kept(bit) { *bit } else { Bit::Free }).collect()
        };
        let [own_m, own_n, own_k] = self.extents;
        Some(Tiling {
            a: self.a.tiled([own_m, own_k], [rows, k], [m, k], &keep(|bit| matches!(bit, Bit::Row(_)))),
            b: self.b.tiled([own_k, own_n], [k, columns], [k, n], &keep(|bit| matches!(bit, Bit::Column(_)))),
            c: self.c.tiled([own_m, own_n], [rows, columns], [m, n], &warps),
            fragments: [rows / own_m, columns / own_n, k / own_k],
            panels: None,
            left: None,
        })
    }

    /// The cover where `group` warps at a time multiply together, the instruction's rows of one warp below those of
    /// the warp before it; groups share the rows, and each warp has all columns.
    pub fn tiling_together(&self, [m, n, k]: [u32; 3], warp_bits: u32, group: u32) -> Option<Tiling> {
        let [own_m, own_n, own_k] = self.extents;
        let below = own_m * group;
        let groups = (1u32 << warp_bits).checked_div(group).filter(|&groups| groups > 0)?;
        if m % (below * groups) != 0 || n % own_n != 0 || k % own_k != 0 {
            return None;
        }
        let rows = m / groups;
        let inside = (0..group.ilog2()).map(|bit| Bit::Row(own_m << bit));
        let warps: Vec<Bit> = inside.chain((0..groups.ilog2()).map(|bit| Bit::Row(rows << bit))).collect();
        let free = vec![Bit::Free; warps.len()];
        Some(Tiling {
            a: self.a.tiled([below, own_k], [rows, k], [m, k], &warps),
            b: self.b.tiled([own_k, own_n], [k, n], [k, n], &free),
            c: self.c.tiled([below, own_n], [rows, n], [m, n], &warps),
            fragments: [rows / below, n / own_n, k / own_k],
            panels: None,
            left: None,
        })
    }
}

impl Tiling {
    /// The same product, its terms and the columns of `b` taken in an order in which lanes hold runs of so many neighbours
    /// along them, as wide loads leave them.  1 for whatever order the instruction has.
    pub fn in_runs(&self, terms: u32, columns: u32) -> Tiling {
        let terms = self.b.in_runs(0, terms);
        let columns = self.b.in_runs(1, columns);
        Tiling {
            a: self.a.reordered(1, &terms),
            b: self.b.reordered(0, &terms).reordered(1, &columns),
            c: self.c.reordered(1, &columns),
            fragments: self.fragments,
            panels: self.panels,
            left: self.left,
        }
    }
}

/// The first instruction for a product of these element types (of the operands, of the sums), precision and extents, and
/// the product's cover by `2^warp_bits` warps.
pub fn choose(
    matrices: &'static [Matrix],
    [operand, sum]: [DType; 2],
    precision: Precision,
    extents: [u32; 3],
    (warp_bits, split): (u32, Split),
) -> Option<(&'static Matrix, Tiling)> {
    // What is exact serves every precision; what rounds, those that ask for it.
    let fits = |m: &&Matrix| m.precision == Precision::Ieee || precision != Precision::Ieee;
    let typed = matrices.iter().filter(|m| m.operand == operand && m.sum == sum).filter(fits);
    typed.filter_map(|matrix| Some((matrix, matrix.tiling(extents, warp_bits, split)?))).next()
}

impl Fragment {
    /// The layout of a tile of extents `whole`, of which one warp holds `part` in fragments of extents `own`.
    fn tiled(&self, own: [u32; 2], part: [u32; 2], whole: [u32; 2], warps: &[Bit]) -> Layout {
        let coordinate = |bit: &Bit| match *bit {
            Bit::Row(rows) => rows * whole[1],
            Bit::Column(columns) => columns,
            Bit::Free => 0,
        };
        let doubling =
            |axis: usize| std::iter::successors(Some(own[axis]), |x| Some(x * 2)).take_while(move |&x| x < part[axis]);
        let across = doubling(1).map(Bit::Column);
        let down = doubling(0).map(Bit::Row);
        let register: Vec<Bit> = self.register.iter().copied().chain(across).chain(down).collect();
        let linear = |bits: &[Bit]| Linear::new(bits.iter().map(coordinate));
        Layout { shape: whole[..].into(), register: linear(&register), lane: linear(self.lane), warp: linear(warps) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Bit::{Column, Row};

    /// A toy: 2×2×2 on four lanes.
    const TOY: Matrix = Matrix {
        name: "toy",
        operand: DType::F16,
        sum: DType::F32,
        precision: Precision::Ieee,
        extents: [2, 2, 2],
        a: Fragment { register: &[], lane: &[Row(1), Column(1)] },
        b: Fragment { register: &[Row(1)], lane: &[Column(1), Bit::Free] },
        c: Fragment { register: &[], lane: &[Column(1), Row(1)] },
    };

    #[test]
    fn fragments_follow_one_another_row_by_row() {
        let tiling = TOY.tiling([4, 2, 8], 0, Split::Sides).unwrap();
        assert_eq!(tiling.a.to_string(), "register [2 4 16] lane [8 1]");
        assert_eq!(tiling.b.to_string(), "register [2 4 8] lane [1 0]");
        assert_eq!(tiling.c.to_string(), "register [4] lane [1 2]");
        assert_eq!(tiling.fragments, [2, 1, 4]);
    }

    #[test]
    fn warps_halve_the_longer_side_and_share_what_they_both_read() {
        let tiling = TOY.tiling([8, 8, 2], 2, Split::Sides).unwrap();
        assert_eq!(tiling.fragments, [2, 2, 1]);
        assert_eq!(tiling.c.to_string(), "register [2 16] lane [1 8] warp [32 4]");
        assert_eq!(tiling.a.to_string(), "register [4] lane [2 1] warp [8 0]");
        assert_eq!(tiling.b.to_string(), "register [8 2] lane [1 0] warp [0 4]");
    }

    #[test]
    fn warps_keep_rows_whole_where_they_are_asked_to() {
        let tiling = TOY.tiling([8, 16, 2], 2, Split::Rows).unwrap();
        assert_eq!(tiling.c.warp.bases(), [64, 32]);
        assert_eq!(tiling.fragments, [1, 8, 1]);
    }

    #[test]
    fn warps_that_find_nothing_to_do_repeat_what_others_do() {
        let tiling = TOY.tiling([4, 2, 2], 2, Split::Sides).unwrap();
        assert_eq!(tiling.c.to_string(), "register [] lane [1 2] warp [4 0]");
    }

    /// An operand that is loaded with neighbours in registers, whichever order the instruction has.
    #[test]
    fn terms_and_columns_come_in_runs() {
        let tiling = TOY.tiling([2, 8, 8], 0, Split::Sides).unwrap();
        assert_eq!(tiling.b.to_string(), "register [8 2 4 16 32] lane [1 0]");
        // Registers take the low bits of the rows (8, 16 of which were the upper two) and of the columns (2, 4).
        let runs = tiling.in_runs(4, 4);
        assert_eq!(runs.b.to_string(), "register [8 1 2 16 32] lane [4 0]");
        assert_eq!(runs.a.to_string(), tiling.a.to_string());
        assert_eq!(runs.c.to_string(), "register [1 2] lane [4 8]");
    }

    /// Two groups of two warps: warps of a group have neighbouring fragments, groups a half of the rows each.
    #[test]
    fn groups_take_rows_that_follow_one_another() {
        let tiling = TOY.tiling_together([16, 4, 2], 2, 2).unwrap();
        assert_eq!(tiling.c.to_string(), "register [2 16] lane [1 4] warp [8 32]");
        assert_eq!(tiling.a.to_string(), "register [8] lane [2 1] warp [4 16]");
        assert_eq!(tiling.b.to_string(), "register [4 2] lane [1 0] warp [0 0]");
        assert_eq!(tiling.fragments, [2, 2, 1]);
        assert_eq!(TOY.tiling_together([4, 4, 2], 2, 2), None);
    }

    #[test]
    fn other_extents_have_no_cover() {
        assert_eq!(TOY.tiling([4, 1, 2], 0, Split::Sides), None);
    }
}
