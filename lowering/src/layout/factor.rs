//! Takes an invertible map of places apart into what machines can do.  Knows nothing of tiles.
//!
//! Let `M` say, for each place of a new arrangement, which place of the old one holds its element; split places into
//! lane and register.  Two kinds of map are cheap:
//!
//! - *moves*, where the old register does not depend on the new lane: each register of the new arrangement is one
//!   register of the old, with its lanes shuffled, differently from register to register if need be;
//! - *exchanges* of a register bit and a lane bit: two registers swap halves.
//!
//! Moves are the block-triangular matrices, a parabolic subgroup `P` of the general linear group, and the double cosets
//! `P\GL/P` are told apart by one number, the rank `k` of the block that maps new lanes to old registers.  So every `M`
//! is a move, then `k` exchanges, then a move, and no fewer exchanges will do.  A transpose of 16×16 over 16 lanes has
//! `k = 4`.  The factors come out of Gaussian elimination with only the row and column operations that moves allow.

use super::Linear;

/// `M = before · exchanges · after`, each acting on places (lane bits below register bits).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factors {
    /// Reads the old arrangement: a move.
    pub before: Linear,
    /// How many exchanges follow: lane bit `i` with register bit `i`, for `i` below this.
    pub exchanges: u32,
    /// Gives the new arrangement: a move.
    pub after: Linear,
}

/// Takes `map`, an invertible map of `lanes` lane bits and the register bits above them, apart.
pub fn factor(map: &Linear, lanes: u32) -> Factors {
    let mut work = Elimination {
        m: rows(map),
        before: rows(&Linear::identity(map.bits())),
        after: rows(&Linear::identity(map.bits())),
    };
    let (l, n) = (lanes as usize, map.bits() as usize);

    // The block from lanes to registers becomes a unit matrix of size k in its corner.
    let mut k = 0;
    for column in 0..l {
        let Some(row) = (l + k..n).find(|&row| work.has(row, column)) else { continue };
        work.swap_rows(row, l + k);
        work.swap_columns(column, k);
        for row in (l..n).filter(|&row| row != l + k) {
            if work.has(row, k) {
                work.add_row(l + k, row);
            }
        }
        for column in (0..l).filter(|&column| column != k) {
            if work.has(l + k, column) {
                work.add_column(k, column);
            }
        }
        k += 1;
    }
    // Its pivots clear the rest of their rows and columns: register columns may take lane columns, lane rows register rows.
    for i in 0..k {
        (l..n).for_each(|column| {
            if work.has(l + i, column) {
                work.add_column(i, column)
            }
        });
        (0..l).for_each(|row| {
            if work.has(row, i) {
                work.add_row(l + i, row)
            }
        });
    }
    // What is left of the registers, and of the lanes, becomes a unit matrix.
    for i in l + k..n {
        let Some(pivot) = (l..l + k).chain(i..n).find(|&column| work.has(i, column)) else { break };
        work.swap_columns(pivot, i);
        (l..n).filter(|&column| column != i).for_each(|column| {
            if work.has(i, column) {
                work.add_column(i, column)
            }
        });
    }
    for i in k..l {
        let Some(pivot) = (0..k).chain(i..l).find(|&row| work.has(row, i)) else { break };
        work.swap_rows(pivot, i);
        (0..l).filter(|&row| row != i).for_each(|row| {
            if work.has(row, i) {
                work.add_row(i, row)
            }
        });
    }
    for i in k..l {
        (l..n).for_each(|column| {
            if work.has(i, column) {
                work.add_column(i, column)
            }
        });
    }
    for i in l + k..n {
        (0..l).for_each(|row| {
            if work.has(row, i) {
                work.add_row(i, row)
            }
        });
    }
    // The block from registers to lanes is now of size k and invertible.
    for i in 0..k {
        let Some(pivot) = (i..k).find(|&row| work.has(row, l + i)) else { break };
        work.swap_rows(pivot, i);
        (0..k).filter(|&row| row != i).for_each(|row| {
            if work.has(row, l + i) {
                work.add_row(i, row)
            }
        });
    }
    Factors { before: map_of(&work.before), exchanges: k as u32, after: map_of(&work.after) }
}

/// Keeps `map = before · m · after` while `m` is reduced.  Matrices are rows of bits.
struct Elimination {
    m: Vec<u32>,
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Elimination {
    fn has(&self, row: usize, column: usize) -> bool {
        self.m[row] >> column & 1 == 1
    }

    fn add_row(&mut self, from: usize, to: usize) {
        self.m[to] ^= self.m[from];
        add_column(&mut self.before, to, from);
    }

    fn add_column(&mut self, from: usize, to: usize) {
        add_column(&mut self.m, from, to);
        self.after[from] ^= self.after[to];
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        self.m.swap(a, b);
        swap_columns(&mut self.before, a, b);
    }

    fn swap_columns(&mut self, a: usize, b: usize) {
        swap_columns(&mut self.m, a, b);
        self.after.swap(a, b);
    }
}

fn add_column(m: &mut [u32], from: usize, to: usize) {
    m.iter_mut().for_each(|row| *row ^= (*row >> from & 1) << to);
}

fn swap_columns(m: &mut [u32], a: usize, b: usize) {
    m.iter_mut().for_each(|row| {
        let differ = (*row >> a ^ *row >> b) & 1;
        *row ^= differ << a | differ << b;
    });
}

/// The rows of a map's matrix, whose columns are the bases.
fn rows(map: &Linear) -> Vec<u32> {
    (0..map.bits()).map(|row| map.bases().iter().enumerate().fold(0, |r, (i, &b)| r | (b >> row & 1) << i)).collect()
}

fn map_of(rows: &[u32]) -> Linear {
    Linear::new((0..rows.len()).map(|i| rows.iter().enumerate().fold(0, |b, (row, &r)| b | (r >> i & 1) << row)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Invertible maps: products of elementary ones.
    fn invertible(bits: u32) -> impl Strategy<Value = Linear> {
        prop::collection::vec((0..bits, 0..bits, any::<bool>()), 0..40).prop_map(move |steps| {
            let mut bases: Vec<u32> = Linear::identity(bits).bases().to_vec();
            for (a, b, swap) in steps.into_iter().filter(|(a, b, _)| a != b) {
                if swap {
                    bases.swap(a as usize, b as usize);
                } else {
                    bases[a as usize] ^= bases[b as usize];
                }
            }
            Linear::new(bases)
        })
    }

    fn exchange(bits: u32, lanes: u32, k: u32) -> Linear {
        Linear::new((0..bits).map(|i| match i {
            i if i < k => 1 << (lanes + i),
            i if i >= lanes && i < lanes + k => 1 << (i - lanes),
            i => 1 << i,
        }))
    }

    fn is_move(map: &Linear, lanes: u32) -> bool {
        map.is_injective() && map.bases()[..lanes as usize].iter().all(|&b| b >> lanes == 0)
    }

    proptest! {
        #[test]
        fn the_product_of_the_factors_is_the_map(map in invertible(9), lanes in 0u32..=9) {
            let Factors { before, exchanges, after } = factor(&map, lanes);
            prop_assert!(is_move(&before, lanes) && is_move(&after, lanes));
            prop_assert_eq!(after.then(&exchange(9, lanes, exchanges)).then(&before), map.clone());
            let block = Linear::new(map.bases()[..lanes as usize].iter().map(|b| b >> lanes));
            prop_assert_eq!(exchanges, block.rank());
        }
    }
}
