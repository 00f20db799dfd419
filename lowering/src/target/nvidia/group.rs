//! `wgmma`: products by four warps, each its sixteen rows, that read the second factor from shared memory, and the first
//! one from there or from registers.
//!
//! Sources: PTX ISA, "Asynchronous warpgroup level matrix multiply-accumulate instructions"; the registers of a warp are
//! arranged as for `mma.m16n8k16`, fragment beside fragment ("Register fragments and shared memory matrix layouts").

use std::fmt::Write;

use inkwell::values::{InstructionOpcode as I, PointerValue};

use super::assembly::assembly;
use super::matrix::{GROUP, words};
use crate::dtype::DType;
use crate::layout::fragment::{Matrix, Tiling};
use crate::layout::panels::Panels;
use crate::llvm::Left;
use crate::llvm::ir::{Any, Ir, built};

/// Rows that a group multiplies at once.
const ROWS: u32 = 64;

/// Rows of 128 bytes whose pieces change places, in the field of a descriptor that says so.
const SWIZZLED: u64 = 1 << 62;

/// Makes what this thread wrote to shared memory seen by the instructions.
pub(super) fn publish(ir: &Ir<'_>) {
    assembly(ir, "fence.proxy.async.shared::cta;", "~{memory}", &[], 0);
}

/// Waits until no more than so many groups of products are under way; gives the sums that are complete then.
pub(super) fn wait<'c>(ir: &Ir<'c>, groups: u32, sums: &[Any<'c>]) -> Vec<Any<'c>> {
    let count = sums.len() as u32;
    let text = format!("wgmma.wait_group.sync.aligned {groups};");
    let results = (0..count).map(|_| "=f".to_string());
    let tied = (0..count).map(|i| i.to_string());
    let constraints: Vec<String> = results.chain(tied).chain(["~{memory}".to_string()]).collect();
    assembly(ir, &text, &constraints.join(","), sums, count)
}

/// Starts `c + a·b` for all fragments of a tiling, `b` lying in panels from `base` on.
pub(super) fn multiply<'c>(
    ir: &Ir<'c>,
    (matrix, tiling): (&Matrix, &Tiling),
    warp: Any<'c>,
    base: PointerValue<'c>,
    a: Left<'_, 'c>,
    c: &[Any<'c>],
) -> Option<Vec<Any<'c>>> {
    let panels = tiling.panels.as_ref()?;
    let [down, across, terms] = tiling.fragments;
    let [_, width, depth] = matrix.extents;
    let dtype = match matrix.operand {
        DType::F16 => "f16",
        DType::Bf16 => "bf16",
        _ => return None,
    };
    let (given, left) = match a {
        Left::Registers(a) => (words(ir, matrix, a), None),
        Left::Scratch(base) => {
            let panels = tiling.left.as_ref()?;
            let rows = rows_of_group(ir, tiling, panels, warp);
            (vec![ir.binary(I::Add, descriptor(ir, panels, base), rows)], Some(panels))
        }
    };
    let given: Vec<Any<'c>> = given;
    let sums = c.len() as u32;
    let (each, all) = (sums / down, given.len() as u32);
    let list = |first: u32, count: u32| {
        let names: Vec<String> = (first..first + count).map(|i| format!("${i}")).collect();
        names.join(", ")
    };
    // Sums of nothing need not be handed in: the first products replace what is there.
    let fresh = c.iter().all(|x| matches!(x, Any::FloatValue(x) if x.is_null()));
    // Operands: the sums as they come out, the words of `a` or where it lies, where `b` lies, the sums as they go in.
    let mut text = String::from(
        "{ .reg .pred more, none; .reg .b64 left, place; setp.eq.u32 more, 0, 0; setp.ne.u32 none, 0, 0; \
         wgmma.fence.sync.aligned; ",
    );
    for l in 0..terms {
        let _ = write!(text, "add.s64 place, ${}, {}; ", sums + all, panels.before(0, l * depth) >> 4);
        for i in 0..down {
            let a = match left {
                None => format!("{{{}}}", list(sums + (i * terms + l) * 4, 4)),
                Some(left) => {
                    let before = left.before(0, l * depth) + left.before(1, i * ROWS);
                    let _ = write!(text, "add.s64 left, ${sums}, {}; ", before >> 4);
                    "left".into()
                }
            };
            let turned = left.map_or(String::new(), |left| format!(" {},", left.axis));
            let _ = write!(
                text,
                "wgmma.mma_async.sync.aligned.m64n{}k{depth}.f32.{dtype}.{dtype} {{{}}}, {a}, place, {}, 1, 1,{turned} {}; ",
                across * width,
                list(i * each, each),
                if fresh && l == 0 { "none" } else { "more" },
                panels.axis,
            );
        }
    }
    text.push_str("wgmma.commit_group.sync.aligned; }");
    let given_sums = if fresh { &[] } else { c };
    let tied = (0..given_sums.len()).map(|i| i.to_string());
    // Sums that nothing is handed in for must not share registers with what is.
    let out = if fresh { "=&f" } else { "=f" };
    let kind = if left.is_some() { "l" } else { "r" };
    let kinds = (0..sums).map(|_| out.to_string()).chain((0..all).map(|_| kind.into()));
    let constraints: Vec<String> =
        kinds.chain(["l".to_string()]).chain(tied).chain(["~{memory}".to_string()]).collect();
    let place = descriptor(ir, panels, base);
    let args: Vec<Any<'c>> = given.into_iter().chain([place]).chain(given_sums.iter().copied()).collect();
    Some(assembly(ir, &text, &constraints.join(","), &args, sums))
}

/// What the rows of the running warp's group add to the place of the first factor, in units of sixteen bytes.
fn rows_of_group<'c>(ir: &Ir<'c>, tiling: &Tiling, panels: &Panels, warp: Any<'c>) -> Any<'c> {
    let layout = &tiling.c;
    let zero: Any<'c> = ir.context.i64_type().const_zero().into();
    let groups = layout.warp.bases().iter().enumerate().skip(GROUP.ilog2() as usize);
    groups.fold(zero, |sum, (bit, &base)| {
        let own = ir.binary(I::And, ir.binary(I::LShr, warp, ir.i32(bit as u32)), ir.i32(1));
        let own = ir.convert(I::ZExt, own, ir.context.i64_type().into());
        let before = panels.before(1, layout.along(base, 0)) >> 4;
        ir.binary(I::Add, sum, ir.binary(I::Mul, own, ir.int_like(own, before.into())))
    })
}

/// What says where a factor lies: the address, the distance of the panels, that of groups of eight rows, each in units of
/// sixteen bytes ("Matrix descriptor format").
fn descriptor<'c>(ir: &Ir<'c>, panels: &Panels, base: PointerValue<'c>) -> Any<'c> {
    let address: Any<'c> = built(ir.builder.build_ptr_to_int(base, ir.context.i64_type(), "")).into();
    let int = |value: u64| ir.int_like(address, value as i64);
    let place = ir.binary(I::LShr, ir.binary(I::And, address, int(0x3ffff)), int(4));
    let [panel, rows] = panels.strides().map(|bytes| u64::from(bytes >> 4));
    ir.binary(I::Or, place, int(SWIZZLED | rows << 32 | panel << 16))
}
