//! In which order the programs of an attention start.  Where some have more to do than others, those with most go first,
//! of as many members of the batch as have what their programs share in the machine's cache: then the last to end are
//! short, and what one has read the next one finds.  (Shah et al.: FlashAttention-3, 2024, orders its tiles so.)

use super::super::grain::Grain;
use super::context::Emitter;
use super::walk;
use crate::op::Pointwise;
use crate::tile::Value;

/// A program's tile, counted in the order in which they start, and its member of the batch; and the grid.
pub struct Started {
    pub tile: Value,
    pub member: Value,
    pub grid: [u32; 3],
}

/// Puts the programs of `members`, of so many tiles each, which share so many bytes, into an order; `uneven` if the first
/// tiles have more to do than the last ones.
pub fn start(e: &mut Emitter, (members, tiles): (u64, u64), shared: u64, uneven: bool, grain: Grain) -> Started {
    if !uneven || tiles > walk::MOST_ALONG_Y {
        let [tile, member] = [0, 1].map(|axis| walk::program(e, axis));
        return Started { tile, member, grid: [tiles as u32, members as u32, 1] };
    }
    let beside = side_by_side(members, grain.cache / shared.max(1));
    let [place, tile, group] = [0, 1, 2].map(|axis| walk::program(e, axis));
    let width = e.argument(beside as i64, 1);
    let before = e.op(Pointwise::Mul, group, width);
    let member = e.op(Pointwise::Add, before, place);
    Started { tile, member, grid: [beside as u32, tiles as u32, (members / beside) as u32] }
}

/// Into groups of how many members, `most` at most, they can be divided.
fn side_by_side(members: u64, most: u64) -> u64 {
    (1..=most.clamp(1, members.max(1))).rev().find(|n| members.is_multiple_of(*n)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_of_one_size() {
        for (members, most, wanted) in [(128, 8, 8), (96, 64, 48), (97, 64, 1), (12, 0, 1), (12, 100, 12), (0, 5, 1)] {
            assert_eq!(side_by_side(members, most), wanted, "{members} {most}");
        }
    }
}
