//! Exchange between the lanes of a wave: which instruction reaches which lane.
//!
//! | partner | CDNA | RDNA |
//! |---|---|---|
//! | lane ⊕ 1…15 | one or two data-parallel primitives | one |
//! | lane ⊕ 16…31 | `ds_swizzle` | `v_permlanex16` |
//! | lane ⊕ 32…63 | `ds_bpermute` | – |
//! | any, the same for all lanes | `v_readlane` | `v_readlane` |
//! | any | `ds_bpermute` | `ds_bpermute` |
//!
//! Data-parallel primitives (DPP) are modifiers of vector instructions: LLVM folds them into the instruction that uses
//! the value, so that a step of a reduction is one instruction.  Permutations by `v_permlane` take two; those by `ds_…` go
//! through the hardware of shared memory, without touching it, and take as long as a load from there.
//!
//! Sources: CDNA3 ISA guide, 4.4.2 and 12.3; RDNA3 ISA guide, 6.4 and 12.3.

use inkwell::values::InstructionOpcode as I;

use crate::llvm::ir::{Any, Ir};

/// `quad_perm`: two bits for each of four lanes, the lane to read.
const QUAD: u32 = 0;
/// `row_ror:8`: a rotation of 16 lanes by half of them, which is ⊕ 8.
const ROTATED_8: u32 = 0x128;
/// `row_mirror`: the order of 16 lanes reversed, ⊕ 15.
const MIRRORED_16: u32 = 0x140;
/// `row_half_mirror`: the order of 8 lanes reversed, ⊕ 7.
const MIRRORED_8: u32 = 0x141;
/// `row_xmask:n`, RDNA only: ⊕ n.
const XOR: u32 = 0x160;

/// The number of the own lane in its wave, i32: how many lanes come before it.
pub(super) fn number<'c>(ir: &Ir<'c>, lanes: u32) -> Any<'c> {
    let below = |half: &str, sofar| ir.intrinsic(&format!("llvm.amdgcn.mbcnt.{half}"), &[], &[ir.i32(u32::MAX), sofar]);
    let low = below("lo", ir.i32(0));
    if lanes == 64 { below("hi", low) } else { low }
}

/// The value of lane `own ⊕ mask`, for a 32-bit value; `lane` is the number of the own lane.
pub(super) fn exchange<'c>(ir: &Ir<'c>, lanes: u32, lane: Any<'c>, x: Any<'c>, mask: u32) -> Any<'c> {
    let (near, far) = (mask % 16, mask / 16);
    match (lanes, far) {
        (_, 0) if near == 0 => x,
        (64, 0) => primitives(near).into_iter().flatten().fold(x, |x, control| dpp(ir, x, control)),
        (64, 1) => swizzle(ir, x, mask),
        (32, 0) => dpp(ir, x, XOR | near),
        (32, 1) => other_row(ir, x, near),
        _ => from_lane(ir, x, ir.binary(I::Xor, lane, ir.i32(mask))),
    }
}

/// The value of lane `index`, an i32 that may differ from lane to lane.
pub(super) fn from_lane<'c>(ir: &Ir<'c>, x: Any<'c>, index: Any<'c>) -> Any<'c> {
    if index.into_int_value().is_const() {
        return ir.intrinsic("llvm.amdgcn.readlane", &[x.get_type()], &[x, index]);
    }
    let address = ir.binary(I::Shl, index, ir.i32(2));
    ir.intrinsic("llvm.amdgcn.ds.bpermute", &[], &[address, x])
}

/// The controls whose XORs make up `mask`, below 16.
fn primitives(mask: u32) -> [Option<u32>; 2] {
    let within_quad =
        |mask: u32| (mask != 0).then(|| QUAD | (0..4).fold(0, |control, i| control | (i ^ mask) << (2 * i)));
    match mask / 4 {
        0 => [within_quad(mask), None],
        1 => [Some(MIRRORED_8), within_quad(mask ^ 7)],
        2 => [Some(ROTATED_8), within_quad(mask ^ 8)],
        _ => [Some(MIRRORED_16), within_quad(mask ^ 15)],
    }
}

fn dpp<'c>(ir: &Ir<'c>, x: Any<'c>, control: u32) -> Any<'c> {
    let (rows, banks, bound) = (ir.i32(15), ir.i32(15), ir.bit(true));
    let nothing = ir.poison(x.get_type());
    ir.intrinsic("llvm.amdgcn.update.dpp", &[x.get_type()], &[nothing, x, ir.i32(control), rows, banks, bound])
}

/// Bit mode: lane number AND 31, OR 0, XOR `mask`.
fn swizzle<'c>(ir: &Ir<'c>, x: Any<'c>, mask: u32) -> Any<'c> {
    ir.intrinsic("llvm.amdgcn.ds.swizzle", &[], &[x, ir.i32(mask << 10 | 31)])
}

/// Lane `i ⊕ mask` of the other 16 lanes: four bits for each of them.
fn other_row<'c>(ir: &Ir<'c>, x: Any<'c>, mask: u32) -> Any<'c> {
    let select = |from: u32| ir.i32((0..8).fold(0, |bits, i| bits | ((from + i) ^ mask) << (4 * i)));
    let nothing = ir.poison(x.get_type());
    let (any_lane, bound) = (ir.bit(false), ir.bit(true));
    ir.intrinsic("llvm.amdgcn.permlanex16", &[x.get_type()], &[nothing, x, select(0), select(8), any_lane, bound])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the controls mean, from the tables of the ISA guides.
    fn source(lane: u32, control: u32) -> u32 {
        match control {
            0..=0xff => lane & !3 | control >> (2 * (lane & 3)) & 3,
            ROTATED_8 => lane & !15 | (lane + 8) & 15,
            MIRRORED_16 => lane & !15 | (15 - (lane & 15)),
            MIRRORED_8 => lane & !7 | (7 - (lane & 7)),
            _ => panic!("{control:#x}"),
        }
    }

    #[test]
    fn primitives_reach_every_lane_of_a_row() {
        for mask in 1..16 {
            for lane in 0..64 {
                let reached = primitives(mask).into_iter().flatten().fold(lane, source);
                assert_eq!(reached, lane ^ mask, "lane {lane}, mask {mask}");
            }
        }
    }
}
