//! AMD's matrix instructions: which there are, where they want their operands, and how LLVM calls them.
//!
//! Source of the arrangements: AMD Instinct MI200 (CDNA2), MI300 (CDNA3), RDNA3 and RDNA4 Instruction Set Architecture
//! guides, chapters on matrix arithmetic, as AMD's Matrix Instruction Calculator prints them.  The tests have the same
//! tables a second time, as its formulas.
//!
//! CDNA2 takes f16 and bf16 operands and sums below the normal numbers for zero (CDNA3 and RDNA do not).

use crate::dtype::DType;
use crate::layout::fragment::Bit::{self, Column, Free, Row};
use crate::layout::fragment::{Fragment, Matrix};
use crate::llvm::ir::{Any, Ir, built};
use crate::tile::Precision;

/// A row of the instruction per lane, neighbours along k in a lane's registers, the rest of k over groups of 16 lanes.
const A4: Fragment = rows(&[Column(1), Column(2)], &[Row(1), Row(2), Row(4), Row(8), Column(4), Column(8)]);
const B4: Fragment = rows(&[Row(1), Row(2)], &[Column(1), Column(2), Column(4), Column(8), Row(4), Row(8)]);
/// The same with eight neighbours.
const A8: Fragment = rows(&[Column(1), Column(2), Column(4)], &[Row(1), Row(2), Row(4), Row(8), Column(8), Column(16)]);
const B8: Fragment = rows(&[Row(1), Row(2), Row(4)], &[Column(1), Column(2), Column(4), Column(8), Row(8), Row(16)]);
/// The same with two.
const A2: Fragment = rows(&[Column(1)], &[Row(1), Row(2), Row(4), Row(8), Column(2), Column(4)]);
const B2: Fragment = rows(&[Row(1)], &[Column(1), Column(2), Column(4), Column(8), Row(2), Row(4)]);
/// A column of the result per lane, four neighbours down in its registers.
const C4: Fragment = rows(&[Row(1), Row(2)], &[Column(1), Column(2), Column(4), Column(8), Row(4), Row(8)]);

/// RDNA3: both halves of a wave hold the operands, all of k in a lane's registers.
const A16: Fragment = rows(&[Column(1), Column(2), Column(4), Column(8)], &[Row(1), Row(2), Row(4), Row(8), Free]);
const B16: Fragment = rows(&[Row(1), Row(2), Row(4), Row(8)], &[Column(1), Column(2), Column(4), Column(8), Free]);
/// RDNA3: the halves hold every other row.
const C_ODD: Fragment = rows(&[Row(2), Row(4), Row(8)], &[Column(1), Column(2), Column(4), Column(8), Row(1)]);

/// RDNA4: a half of a wave holds every other group of four along k…
const A_FOURS: Fragment = rows(&[Column(1), Column(2), Column(8)], &[Row(1), Row(2), Row(4), Row(8), Column(4)]);
const B_FOURS: Fragment = rows(&[Row(1), Row(2), Row(8)], &[Column(1), Column(2), Column(4), Column(8), Row(4)]);
/// … of bytes, one half of k …
const A_EIGHTS: Fragment = rows(&[Column(1), Column(2), Column(4)], &[Row(1), Row(2), Row(4), Row(8), Column(8)]);
const B_EIGHTS: Fragment = rows(&[Row(1), Row(2), Row(4)], &[Column(1), Column(2), Column(4), Column(8), Row(8)]);
/// … and of the result, the upper or the lower rows.
const C_HALF: Fragment = rows(&[Row(1), Row(2), Row(4)], &[Column(1), Column(2), Column(4), Column(8), Row(8)]);

const fn rows(register: &'static [Bit], lane: &'static [Bit]) -> Fragment {
    Fragment { register, lane }
}

/// An instruction for a product of 16×16×k.
const fn instruction(name: &'static str, [operand, sum]: [DType; 2], k: u32, [a, b, c]: [Fragment; 3]) -> Matrix {
    Matrix { name, operand, sum, precision: Precision::Ieee, extents: [16, 16, k], a, b, c }
}

const F16: [DType; 2] = [DType::F16, DType::F32];
const BF16: [DType; 2] = [DType::Bf16, DType::F32];
const F32: [DType; 2] = [DType::F32, DType::F32];
const I8: [DType; 2] = [DType::I8, DType::I32];
const U8: [DType; 2] = [DType::U8, DType::U32];

/// Of gfx90a.
pub(super) const CDNA2: &[Matrix] = &[
    instruction("llvm.amdgcn.mfma.f32.16x16x16f16", F16, 16, [A4, B4, C4]),
    instruction("llvm.amdgcn.mfma.f32.16x16x16bf16.1k", BF16, 16, [A4, B4, C4]),
    instruction("llvm.amdgcn.mfma.i32.16x16x16i8", I8, 16, [A4, B4, C4]),
];

/// Of gfx942.
pub(super) const CDNA3: &[Matrix] = &[
    instruction("llvm.amdgcn.mfma.f32.16x16x16f16", F16, 16, [A4, B4, C4]),
    instruction("llvm.amdgcn.mfma.f32.16x16x16bf16.1k", BF16, 16, [A4, B4, C4]),
    instruction("llvm.amdgcn.mfma.i32.16x16x32.i8", I8, 32, [A8, B8, C4]),
    // What AMD calls xf32.
    Matrix { precision: Precision::Tf32, ..instruction("llvm.amdgcn.mfma.f32.16x16x8.xf32", F32, 8, [A2, B2, C4]) },
];

/// Of gfx11.
pub(super) const RDNA3: &[Matrix] = &[
    instruction("llvm.amdgcn.wmma.f32.16x16x16.f16", F16, 16, [A16, B16, C_ODD]),
    instruction("llvm.amdgcn.wmma.f32.16x16x16.bf16", BF16, 16, [A16, B16, C_ODD]),
    instruction("llvm.amdgcn.wmma.i32.16x16x16.iu8", I8, 16, [A16, B16, C_ODD]),
    instruction("llvm.amdgcn.wmma.i32.16x16x16.iu8", U8, 16, [A16, B16, C_ODD]),
];

/// Of gfx12.
pub(super) const RDNA4: &[Matrix] = &[
    instruction("llvm.amdgcn.wmma.f32.16x16x16.f16", F16, 16, [A_FOURS, B_FOURS, C_HALF]),
    instruction("llvm.amdgcn.wmma.f32.16x16x16.bf16", BF16, 16, [A_FOURS, B_FOURS, C_HALF]),
    instruction("llvm.amdgcn.wmma.i32.16x16x16.iu8", I8, 16, [A_EIGHTS, B_EIGHTS, C_HALF]),
    instruction("llvm.amdgcn.wmma.i32.16x16x16.iu8", U8, 16, [A_EIGHTS, B_EIGHTS, C_HALF]),
];

/// `c + a·b`
pub(super) fn multiply<'c>(ir: &Ir<'c>, matrix: &Matrix, a: &[Any<'c>], b: &[Any<'c>], c: &[Any<'c>]) -> Vec<Any<'c>> {
    let [a, b] = [a, b].map(|xs| operand(ir, matrix, xs));
    let c = side_by_side(ir, c);
    let sum = if matrix.name.contains("mfma") {
        // No broadcast of parts of an operand, no permutation of lanes.
        let plain = ir.i32(0);
        ir.intrinsic(matrix.name, &[], &[a, b, c, plain, plain, plain])
    } else {
        let types = [c.get_type(), a.get_type()];
        match matrix.operand {
            DType::I8 | DType::U8 => {
                // Sums wrap around.
                let (signed, clamped) = (ir.bit(matrix.operand == DType::I8), ir.bit(false));
                ir.intrinsic(matrix.name, &types, &[signed, a, signed, b, c, clamped])
            }
            _ => ir.intrinsic(matrix.name, &types, &[a, b, c]),
        }
    };
    (0..ir.width(sum)).map(|i| ir.extract(sum, i)).collect()
}

/// The elements of one lane as the instruction takes them: floats as a vector, bytes as one integer (CDNA) or by the word
/// (RDNA).
fn operand<'c>(ir: &Ir<'c>, matrix: &Matrix, xs: &[Any<'c>]) -> Any<'c> {
    let x = side_by_side(ir, xs);
    let words = xs.len() as u32 / 4;
    let ty = match matrix.operand {
        float if float.is_float() => return x,
        _ if !matrix.name.contains("mfma") => ir.wide(ir.context.i32_type().into(), words),
        _ if words == 1 => ir.context.i32_type().into(),
        _ => ir.context.i64_type().into(),
    };
    built(ir.builder.build_bit_cast(x, ty, ""))
}

fn side_by_side<'c>(ir: &Ir<'c>, xs: &[Any<'c>]) -> Any<'c> {
    let empty = ir.poison(ir.wide(xs[0].get_type(), xs.len() as u32));
    xs.iter().zip(0..).fold(empty, |vector, (&x, i)| ir.insert(vector, x, i))
}
