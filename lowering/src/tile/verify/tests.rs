//! One misuse per rule.

use cranelift_entity::EntityRef;
use expect_test::{Expect, expect};
use smallvec::{SmallVec, smallvec};

use super::verify;
use crate::DType::*;
use crate::op::Pointwise;
use crate::tile::{Builder, Cache, Op, Param, Precision, Type, Value};

fn check(build: impl FnOnce(&mut Builder), want: Expect) {
    let mut b = Builder::new("bad");
    build(&mut b);
    let text: Vec<String> = verify(&b.finish()).iter().map(|v| format!("{}: {}\n", v.at, v.rule)).collect();
    want.assert_eq(&text.concat());
}

#[test]
fn every_violation_is_listed() {
    check(
        |b| {
            let x = b.constant(F32, 0);
            let y = b.constant(I32, 0);
            b.push(Op::Map(Pointwise::Add), &[x], &[Type::scalar(F32)]);
            b.push(Op::Map(Pointwise::Add), &[x, y], &[Type::scalar(I32)]);
            b.push(Op::Map(Pointwise::Exp), &[y], &[Type::scalar(F32)]);
            b.push(Op::Arange, &[], &[Type::tile(I32, &[48])]);
            b.push(Op::Map(Pointwise::Neg), &[Value::new(900)], &[Type::scalar(F32)]);
        },
        expect![[r#"
            %2: f32 = add %0: wants 2 operands, got 1
            %3: i32 = add %0, %1: operand 0 wants i32, got f32
            %4: f32 = exp %1: operand 0 wants floats, got i32
            %4: f32 = exp %1: result 0 wants i32, got f32
            %5: 48xi32 = arange: wants extents that are powers of two, got 48xi32
            %6: f32 = neg %?: operand 0 is not defined at this point
        "#]],
    );
}

#[test]
fn values_of_an_inner_block_end_with_it() {
    check(
        |b| {
            let zero = b.int(I32, 0);
            let mut inner = zero;
            b.for_loop((zero, zero, zero), &[], |b, i, _| {
                inner = b.add(i, i);
                smallvec![]
            });
            b.add(inner, zero);
        },
        expect![[r#"
            %3: i32 = add %2, %0: operand 0 is not defined at this point
        "#]],
    );
}

#[test]
fn combine_blocks_are_closed_and_do_arithmetic_only() {
    check(
        |b| {
            let p = b.buffer(I32, false);
            let zero = b.int(I32, 0);
            let x = b.arange(8);
            b.reduce(&[x], 0, |b, l, r| {
                let y = b.load(p, l[0]);
                let y = b.add(y, zero);
                smallvec![b.add(y, r[0])]
            });
            b.scan(&[x], 0, false, |_, l, r| SmallVec::from_slice(&[l[0], r[0]]));
        },
        expect![[r#"
            %5: i32 = load p0 %3: a combine block holds constants, scalars and pointwise rows, all of them scalar
            %6: i32 = add %5, %0: operand 1 is not defined at this point
            %8: 8xi32 = scan 0 %1: wants yields (i32), got (i32, i32)
        "#]],
    );
}

#[test]
fn memory_wants_buffers_offsets_masks_and_values() {
    check(
        |b| {
            let x = b.buffer(F32, false);
            let y = b.buffer(F16, true);
            let n = b.scalar_param(I64, 1);
            let at = b.arange(8);
            let tile = |d| Type::tile(d, &[8]);
            let v = b.push(Op::Load(x), &[at], &[tile(F32)])[0];
            b.push(Op::Load(x), &[at, at], &[tile(F32)]);
            b.push(Op::Load(x), &[v, at, at], &[tile(F32)]);
            b.push(Op::Load(n), &[at], &[tile(F32)]);
            b.push(Op::Store(x, Cache::Keep), &[at, v], &[]);
            b.push(Op::Store(y, Cache::Keep), &[at, v], &[]);
            b.push(Op::Store(Param::new(7), Cache::Keep), &[at, v], &[]);
            b.push(Op::Atomic(y, crate::tile::Atomic::Add), &[at, v], &[tile(F16)]);
        },
        expect![[r#"
            %2: 8xf32 = load p0 %0, %0: wants 1 or 3 operands, got 2
            %3: 8xf32 = load p0 %1, %0, %0: operand 0 wants offsets in i32 or i64, got 8xf32
            %3: 8xf32 = load p0 %1, %0, %0: operand 2 wants 8xf32, got 8xi32
            %3: 8xf32 = load p0 %1, %0, %0: operand 1 wants 8xbool, got 8xi32
            %4: 8xf32 = load p2 %0: wants a buffer, got p2
            store p0 %0, %1: wants a buffer declared `out`, got p0
            store p1 %0, %1: operand 1 wants 8xf16, got 8xf32
            store p7 %0, %1: wants a buffer, got p7
            %5: 8xf16 = atomic add p1 %0, %1: operand 1 wants 8xf16, got 8xf32
            %5: 8xf16 = atomic add p1 %0, %1: wants an atomic on numbers of 4 or 8 bytes (integers for `or`), got f16
        "#]],
    );
}

#[test]
fn moves_and_dots_want_matching_shapes() {
    check(
        |b| {
            let x = b.constant(F32, 0);
            let x = b.broadcast(x, &[4, 8]);
            let t = || Type::tile(F32, &[4, 8]);
            b.push(Op::Broadcast, &[x], &[Type::tile(F32, &[8, 8])]);
            b.push(Op::ExpandDims(3), &[x], &[t()]);
            b.push(Op::Reshape, &[x], &[Type::tile(F32, &[16])]);
            b.push(Op::Trans(smallvec![1, 1]), &[x], &[t()]);
            b.push(Op::Split, &[x], &[t(), t()]);
            b.push(Op::Dot(Precision::Ieee), &[x, x, x], &[t()]);
            b.push(Op::Gather(2), &[x, x], &[t()]);
            b.push(Op::Gather(0), &[x, x], &[t()]);
            b.push(Op::Constant(2), &[], &[Type::scalar(Bool)]);
            b.push(Op::ProgramId(3), &[], &[Type::scalar(I64)]);
        },
        expect![[r#"
            %2: 8x8xf32 = broadcast %1: operand 0 wants what stretches to 8x8xf32, got 4x8xf32
            %3: 4x8xf32 = expand_dims 3 %1: wants an axis below 3, got 3
            %4: 16xf32 = reshape %1: result 0 wants 32 elements of f32, got 16xf32
            %5: 4x8xf32 = trans [1, 1] %1: wants a permutation of 2 axes, got [1, 1]
            %6: 4x8xf32, %7: 4x8xf32 = split %1: operand 0 wants a last axis of extent 2, got 4x8xf32
            %8: 4x8xf32 = dot ieee %1, %1, %1: operand 1 wants 8x8xf32, got 4x8xf32
            %9: 4x8xf32 = gather 2 %1, %1: wants an axis below 2, got 2
            %10: 4x8xf32 = gather 0 %1, %1: operand 1 wants indices in i32 or i64 that differ from the source along the axis only, got 4x8xf32
            %11: bool = constant 0x2: wants the bits of a bool, got 0x2
            %12: i64 = program_id 3: wants an axis below 3, got 3
            %12: i64 = program_id 3: result 0 wants i32, got i64
        "#]],
    );
}

#[test]
fn the_place_is_part_of_the_message() {
    let mut b = Builder::new("9lives");
    b.push(Op::Arange, &[], &[Type::scalar(F32)]);
    let found: Vec<String> = verify(&b.finish()).iter().map(ToString::to_string).collect();
    let line = line!() - 2;
    assert_eq!(found[1], format!("`%0: f32 = arange`: result 0 wants one axis of i32, got f32 (tests.rs:{line})"));
    assert!(found[0].contains("got `9lives`"));
}
