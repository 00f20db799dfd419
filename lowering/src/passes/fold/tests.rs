//! Equations that hold, and those that look as if they did.

use expect_test::expect;

use super::PASS;
use crate::passes::tests::check;

/// Runs the pass on rows between a load and a store.
macro_rules! rows {
    ($text:literal, $want:expr) => {
        check(PASS, $text, $want)
    };
}

#[test]
fn constants_are_computed_in_their_type() {
    rows!(
        "%0: 4xf16 = constant 1
         %1: 4xf16 = constant 0.0004883
         %2: 4xf16 = add %0, %1
         %3: 4xi32 = cast %2
         %4: 2x2xi32 = reshape %3
         %5: i8 = constant -128
         %6: i8 = constant -1
         %7: i8 = div %5, %6",
        expect![[r#"
            %0: 4xf16 = constant 1.0
            %1: 4xf16 = constant 0.00048828125
            %2: 4xf16 = constant 1.0
            %3: 4xi32 = constant 1
            %4: 2x2xi32 = constant 1
            %5: i8 = constant -128
            %6: i8 = constant -1
            %7: i8 = constant -128
        "#]]
    );
}

#[test]
fn neutral_elements_of_floats_keep_the_sign_of_zero() {
    rows!(
        "%0: i32 = scalar p2
         %1: f32 = load p0 %0
         %2: f32 = constant 0
         %3: f32 = constant -0.0
         %4: f32 = constant 1
         %5: f32 = add %1, %2
         %6: f32 = add %3, %1
         %7: f32 = sub %6, %2
         %8: f32 = sub %7, %3
         %9: f32 = mul %4, %8
         %10: f32 = mul %9, %2
         %11: f32 = sub %9, %9
         store p1 %0, %5
         store p1 %0, %10
         store p1 %0, %11",
        expect![[r#"
            %0: i32 = scalar p2
            %1: f32 = load p0 %0
            %2: f32 = constant 0.0
            %3: f32 = constant -0.0
            %4: f32 = constant 1.0
            %5: f32 = add %1, %2
            %6: f32 = sub %1, %3
            %7: f32 = mul %6, %2
            %8: f32 = sub %6, %6
            store p1 %0, %5
            store p1 %0, %7
            store p1 %0, %8
        "#]]
    );
}

#[test]
fn conversions_that_lose_nothing_vanish() {
    rows!(
        "%0: i32 = scalar p2
         %1: bf16 = load p4 %0
         %2: f32 = cast %1
         %3: bf16 = cast %2
         store p5 %0, %3
         %4: i64 = cast %0
         %5: i32 = cast %4
         %6: i8 = cast %0
         %7: i32 = cast %6
         %8: u32 = bitcast %7
         %9: f32 = bitcast %8
         store p1 %5, %9",
        expect![[r#"
            %0: i32 = scalar p2
            %1: bf16 = load p4 %0
            %2: f32 = cast %1
            store p5 %0, %1
            %3: i64 = cast %0
            %4: i8 = cast %0
            %5: i32 = cast %4
            %6: u32 = bitcast %5
            %7: f32 = bitcast %5
            store p1 %0, %7
        "#]]
    );
}

#[test]
fn uniform_rows_are_computed_once_and_moves_meet() {
    rows!(
        "%0: i32 = scalar p2
         %1: 8xi32 = broadcast %0
         %2: 8xi32 = constant 4
         %3: 8xi32 = mul %1, %2
         %4: 8x1xi32 = expand_dims 1 %3
         %5: 8x4xi32 = broadcast %4
         %6: 8xi32 = arange
         %7: 1x8xi32 = expand_dims 0 %6
         %8: 2x4xi32 = reshape %7
         %9: 4x2xi32 = trans [1, 0] %8
         %10: 2x4xi32 = trans [1, 0] %9
         %11: 8xi32 = reshape %10
         %12: i32 = reduce 0 %6 (%13: i32, %14: i32) {
           %15: i32 = constant 0
           %16: i32 = add %13, %15
           yield %16
         }",
        expect![[r#"
            %0: i32 = scalar p2
            %1: 8xi32 = broadcast %0
            %2: 8xi32 = constant 4
            %3: i32 = constant 4
            %4: i32 = mul %0, %3
            %5: 8xi32 = broadcast %4
            %6: 8x1xi32 = broadcast %4
            %7: 8x4xi32 = broadcast %4
            %8: 8xi32 = arange
            %9: 1x8xi32 = expand_dims 0 %8
            %10: 2x4xi32 = reshape %8
            %11: 4x2xi32 = trans [1, 0] %10
            %12: i32 = reduce 0 %8 (%13: i32, %14: i32) {
              %15: i32 = constant 0
              yield %13
            }
        "#]]
    );
}

#[test]
fn known_masks_branches_and_loops_go() {
    rows!(
        "%0: i32 = scalar p2
         %1: bool = constant true
         %2: bool = constant false
         %3: f32 = constant 3
         %4: f32 = load p0 %0, %1, %3
         %5: f32 = load p0 %0, %2, %3
         store p1 %0, %4, %1
         store p1 %0, %5, %2
         check 1 %1
         %6: f32 = if %2 {
           yield %3
         } else {
           %7: f32 = neg %4
           yield %7
         }
         %8: i32 = constant 1
         %9: f32 = for %8, %8, %8, %6 (%10: i32, %11: f32) {
           %12: f32 = neg %11
           yield %12
         }
         store p1 %0, %9",
        expect![[r#"
            %0: i32 = scalar p2
            %1: bool = constant true
            %2: bool = constant false
            %3: f32 = constant 3.0
            %4: f32 = load p0 %0
            store p1 %0, %4
            %5: f32 = neg %4
            %6: i32 = constant 1
            store p1 %0, %5
        "#]]
    );
}

#[test]
fn comparisons_of_a_value_with_itself() {
    rows!(
        "%0: i32 = scalar p2
         %1: f32 = load p0 %0
         %2: bool = eq %1, %1
         %3: bool = le %0, %0
         %4: bool = and %2, %3
         %5: bool = not %4
         %6: bool = not %5
         %7: f32 = select %6, %1, %1
         store p1 %0, %7, %6",
        expect![[r#"
            %0: i32 = scalar p2
            %1: f32 = load p0 %0
            %2: bool = eq %1, %1
            %3: bool = constant true
            %4: bool = not %2
            store p1 %0, %1, %2
        "#]]
    );
}
