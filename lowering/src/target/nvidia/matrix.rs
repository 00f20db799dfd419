//! NVIDIA's matrix instructions of a warp: which there are, where they want their operands, and how LLVM calls them.
//!
//! Source of the arrangements: PTX ISA, "Matrix fragments for mma.m16n8k8/k16/k32".  The tests have them a second time,
//! as its formulas.

use inkwell::types::BasicTypeEnum;

use crate::dtype::DType;
use crate::layout::fragment::Bit::{self, Column, Row};
use crate::layout::fragment::{Fragment, Matrix};
use crate::llvm::ir::{Any, Ir, built};
use crate::tile::Precision;

/// Two neighbours along k in a register of 32 bits.
const A2: Fragment = rows(&[Column(1), Row(8), Column(8)], &[Column(2), Column(4), Row(1), Row(2), Row(4)]);
const B2: Fragment = rows(&[Row(1), Row(8)], &[Row(2), Row(4), Column(1), Column(2), Column(4)]);
/// Four.
const A4: Fragment = rows(&[Column(1), Column(2), Row(8), Column(16)], &[Column(4), Column(8), Row(1), Row(2), Row(4)]);
const B4: Fragment = rows(&[Row(1), Row(2), Row(16)], &[Row(4), Row(8), Column(1), Column(2), Column(4)]);
/// One.
const A1: Fragment = rows(&[Row(8), Column(4)], &[Column(1), Column(2), Row(1), Row(2), Row(4)]);
const B1: Fragment = rows(&[Row(4)], &[Row(1), Row(2), Column(1), Column(2), Column(4)]);
/// Two neighbours across, in two rows.
const C: Fragment = rows(&[Column(1), Row(8)], &[Column(2), Column(4), Row(1), Row(2), Row(4)]);

const fn rows(register: &'static [Bit], lane: &'static [Bit]) -> Fragment {
    Fragment { register, lane }
}

/// An instruction for a product of 16×8×k.
const fn instruction(
    name: &'static str,
    [operand, sum]: [DType; 2],
    precision: Precision,
    k: u32,
    [a, b]: [Fragment; 2],
) -> Matrix {
    Matrix { name, operand, sum, precision, extents: [16, 8, k], a, b, c: C }
}

/// Since sm_80.
pub(super) const AMPERE: &[Matrix] = &[
    instruction("llvm.nvvm.mma.m16n8k16.row.col.f32.f32", [DType::F16, DType::F32], Precision::Ieee, 16, [A2, B2]),
    instruction("llvm.nvvm.mma.m16n8k16.row.col.bf16", [DType::Bf16, DType::F32], Precision::Ieee, 16, [A2, B2]),
    instruction("llvm.nvvm.mma.m16n8k8.row.col.tf32", [DType::F32, DType::F32], Precision::Tf32, 8, [A1, B1]),
    instruction("llvm.nvvm.mma.m16n8k32.row.col.s8", [DType::I8, DType::I32], Precision::Ieee, 32, [A4, B4]),
    instruction("llvm.nvvm.mma.m16n8k32.row.col.u8", [DType::U8, DType::U32], Precision::Ieee, 32, [A4, B4]),
];

/// Warps of a group, which multiply together on sm_90a.
pub(super) const GROUP: u32 = 4;

/// `c + a·b`
pub(super) fn multiply<'c>(ir: &Ir<'c>, matrix: &Matrix, a: &[Any<'c>], b: &[Any<'c>], c: &[Any<'c>]) -> Vec<Any<'c>> {
    // Halves are wanted as vectors.
    let halves = ir.wide(ir.scalar_type(DType::F16), 2);
    let operands = [a, b].into_iter().flat_map(|xs| words(ir, matrix, xs)).map(|word| match matrix.operand {
        DType::F16 => built(ir.builder.build_bit_cast(word, halves, "")),
        _ => word,
    });
    let args: Vec<Any<'c>> = operands.chain(c.iter().copied()).collect();
    let sums = ir.intrinsic(matrix.name, &[], &args).into_struct_value();
    (0..c.len() as u32).map(|i| built(ir.builder.build_extract_value(sums, i, ""))).collect()
}

/// The elements of one lane, 32 bits at a time.
pub(super) fn words<'c>(ir: &Ir<'c>, matrix: &Matrix, xs: &[Any<'c>]) -> Vec<Any<'c>> {
    let word: BasicTypeEnum<'c> = ir.context.i32_type().into();
    let each = 4 / matrix.operand.bytes();
    let pack = |xs: &[Any<'c>]| {
        if let [x] = xs {
            return ir.bitcast(*x, word);
        }
        let empty = ir.poison(ir.wide(xs[0].get_type(), xs.len() as u32));
        let vector = xs.iter().zip(0..).fold(empty, |vector, (&x, i)| ir.insert(vector, x, i));
        built(ir.builder.build_bit_cast(vector, word, ""))
    };
    xs.chunks(each).map(pack).collect()
}
