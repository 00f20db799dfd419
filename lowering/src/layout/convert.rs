//! Plans how a tile gets from one layout to another: nothing, moves of registers, shuffles of lanes, exchanges between
//! the two.  What crosses warps goes through shared memory, which is for the target to arrange.

use super::factor::{Factors, factor};
use super::{Layout, Linear};

/// One step of a conversion, on all registers at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Register `r` becomes register `from[r].0`, its lane `i` lane `from[r].1[i]` of that.
    Move(Vec<(u32, Vec<u32>)>),
    /// Registers that differ in bit `register` swap lanes: the one with that bit clear gives its lanes with bit `lane`
    /// set for the other's lanes with bit `lane` clear.
    Exchange {
        /// Bit of the register number.
        register: u32,
        /// Bit of the lane number.
        lane: u32,
    },
    /// Lane `i` of register `r` becomes lane `from[r][i].1` of register `from[r][i].0`.
    Pick(Vec<Vec<(u32, u32)>>),
}

/// How a tile gets from one layout to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Within each warp, by these steps; none where the layouts agree.
    Steps(Vec<Step>),
    /// Between warps: write in the old layout, meet at a barrier, read in the new one.
    Shared,
}

/// Plans a conversion; both layouts hold all elements of a tile of the same extents.
pub fn plan(from: &Layout, to: &Layout) -> Plan {
    debug_assert_eq!(from.shape, to.shape);
    if from == to {
        return Plan::Steps(Vec::new());
    }
    if from.warp != to.warp {
        return Plan::Shared;
    }
    let (old, new) = (from.lane.beside(&from.register), to.lane.beside(&to.register));
    // Where a place holds an element that others hold too, any will do; the factorisation wants each just once.
    if old.bits() == new.bits() && old.is_injective() && new.is_injective() {
        let places: Option<Vec<u32>> = new.bases().iter().map(|&b| old.solve(b)).collect();
        if let Some(places) = places {
            return Plan::Steps(steps(&factor(&Linear::new(places), from.lane.bits()), from.lane.bits()));
        }
    }
    pick(from, to).map_or(Plan::Shared, |step| Plan::Steps(vec![step]))
}

fn steps(factors: &Factors, lanes: u32) -> Vec<Step> {
    let identity = Linear::identity(factors.before.bits());
    let step = |map: &Linear| (*map != identity).then(|| Step::Move(moves(map, lanes)));
    let exchanges = (0..factors.exchanges).map(|i| Step::Exchange { register: i, lane: i });
    step(&factors.before).into_iter().chain(exchanges).chain(step(&factors.after)).collect()
}

fn moves(map: &Linear, lanes: u32) -> Vec<(u32, Vec<u32>)> {
    let low = (1 << lanes) - 1;
    let registers = 0..1u32 << (map.bits() - lanes);
    let from = registers.map(|r| {
        let place = map.apply(r << lanes);
        (place >> lanes, (0..=low).map(|lane| (place ^ map.apply(lane)) & low).collect())
    });
    from.collect()
}

/// The conversion element by element: right for any layouts, cheap where each register comes from few.
fn pick(from: &Layout, to: &Layout) -> Option<Step> {
    let lane = |r: u32| (0..1u32 << to.lane.bits()).map(|lane| from.find(to.at(r, lane))).collect::<Option<Vec<_>>>();
    (0..to.registers() as u32).map(lane).collect::<Option<Vec<_>>>().map(Step::Pick)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a plan makes of registers that hold their coordinates.
    fn run(from: &Layout, plan: &Plan) -> Vec<Vec<u32>> {
        let lanes = 1u32 << from.lane.bits();
        let mut regs: Vec<Vec<u32>> =
            (0..from.registers() as u32).map(|r| (0..lanes).map(|l| from.at(r, l)).collect()).collect();
        let Plan::Steps(steps) = plan else { panic!("no steps") };
        for step in steps {
            regs = match step {
                Step::Move(from) => from
                    .iter()
                    .map(|(r, lanes)| lanes.iter().map(|&l| regs[*r as usize][l as usize]).collect())
                    .collect(),
                Step::Pick(from) => from
                    .iter()
                    .map(|lanes| lanes.iter().map(|&(r, l)| regs[r as usize][l as usize]).collect())
                    .collect(),
                Step::Exchange { register, lane } => {
                    let source = |r: u32, l: u32| {
                        let (a, b) = (r >> register & 1, l >> lane & 1);
                        (r ^ (a ^ b) << register, l ^ (a ^ b) << lane)
                    };
                    let all = 0..regs.len() as u32;
                    all.map(|r| (0..lanes).map(|l| source(r, l)).map(|(r, l)| regs[r as usize][l as usize]).collect())
                        .collect()
                }
            };
        }
        regs
    }

    fn shape_and_order() -> impl Strategy<Value = (Vec<u32>, Vec<usize>, Vec<usize>)> {
        prop::collection::vec(0u32..4, 1..4).prop_flat_map(|bits| {
            let axes: Vec<usize> = (0..bits.len()).collect();
            let shape: Vec<u32> = bits.iter().map(|b| 1 << b).collect();
            (Just(shape), Just(axes.clone()).prop_shuffle(), Just(axes).prop_shuffle())
        })
    }

    proptest! {
        #[test]
        fn plans_put_every_element_into_its_place((shape, a, b) in shape_and_order(), lanes in 0u32..5) {
            let (from, to) = (Layout::blocked(&shape, &a, lanes, 0), Layout::blocked(&shape, &b, lanes, 0));
            for (reg, r) in run(&from, &plan(&from, &to)).iter().zip(0..) {
                for (&coordinate, lane) in reg.iter().zip(0..) {
                    prop_assert_eq!(coordinate, to.at(r, lane));
                }
            }
        }

        #[test]
        fn slices_convert_too((shape, a, b) in shape_and_order(), lanes in 0u32..5, axis in 0usize..3) {
            let axis = axis % shape.len();
            let from = Layout::blocked(&shape, &a, lanes, 0).sliced(axis);
            let to = Layout::blocked(&shape, &b, lanes, 0).sliced(axis);
            for (reg, r) in run(&from, &plan(&from, &to)).iter().zip(0..) {
                for (&coordinate, lane) in reg.iter().zip(0..) {
                    prop_assert_eq!(coordinate, to.at(r, lane));
                }
            }
        }
    }

    #[test]
    fn a_transpose_takes_as_many_exchanges_as_there_are_lane_bits() {
        let from = Layout::row_major(&[16, 16], 4, 0);
        let Plan::Steps(steps) = plan(&from, &Layout::blocked(&[16, 16], &[0, 1], 4, 0)) else { panic!("no steps") };
        assert_eq!(steps.iter().filter(|s| matches!(s, Step::Exchange { .. })).count(), 4);
    }
}
