//! One broken graph per rule, written as text.

use expect_test::{Expect, expect};

use super::*;

fn check(lines: &str, want: Expect) {
    let text =
        format!("graph 2 inputs {{\ns0: u64\nn0: f32[2, 3] = input 0\nn1: i64[2] = input 1\n{lines}\noutputs n2}}");
    let graph: Graph = text.parse().unwrap();
    let found: Vec<String> = verify(&graph).iter().map(ToString::to_string).collect();
    want.assert_eq(&(found.join("\n") + "\n"));
}

#[test]
fn structure() {
    check(
        "",
        expect![[r#"
        `outputs`: output 0 is n2, which does not exist
    "#]],
    );
    check(
        "n2: f32[2, 3] = add n0, n2",
        expect![[r#"
        `n2: f32[2, 3] = add n0, n2`: operand 1 is n2, which is not defined above
    "#]],
    );
    check(
        "n2: f32[2, 3] = add n0",
        expect![[r#"
        `n2: f32[2, 3] = add n0`: takes 2 operands, got 1
    "#]],
    );
    check(
        "n2: f32[2, 3] = input 0\nn3: f32[] = input 7",
        expect![[r#"
        `n2: f32[2, 3] = input 0`: input 0 is given twice
        `n3: f32[] = input 7`: there are 2 inputs, got number 7
    "#]],
    );
    check(
        "n2: u64[] = scalar s3\nn3: f32[] = scalar s0",
        expect![[r#"
        `n2: u64[] = scalar s3`: s3 does not exist
        `n3: f32[] = scalar s0`: s0 should be f32, got u64
    "#]],
    );
    check(
        "n2: i8[72057594037927937, 2] = constant 0\nn3: i8[] = constant 0x100",
        expect![[r#"
        `n2: i8[72057594037927937, 2] = constant 0`: the result may have no more than 2^56 elements, got [72057594037927937, 2]
        `n3: i8[] = constant 0x100`: the constant 0x100 does not fit i8
    "#]],
    );
}

#[test]
fn types() {
    check(
        "n2: f32[2, 3] = not n0",
        expect![[r#"
        `n2: f32[2, 3] = not n0`: operand 0 should be an integer or bool, got f32
    "#]],
    );
    check(
        "n2: f32[2, 3] = lt n0, n0\nn3: f32[2, 3] = select n0, n0, n0",
        expect![[r#"
        `n2: f32[2, 3] = lt n0, n0`: the result should be bool, got f32
        `n3: f32[2, 3] = select n0, n0, n0`: operand 0 should be bool, got f32
    "#]],
    );
    check(
        "n2: i64[2] = add n0, n1",
        expect![[r#"
        `n2: i64[2] = add n0, n1`: operand 0 should be i64 like the others, got f32
        `n2: i64[2] = add n0, n1`: operand 0 should have the extents [2], got [2, 3]
    "#]],
    );
    check(
        "n2: f64[2, 3] = bitcast n0",
        expect![[r#"
        `n2: f64[2, 3] = bitcast n0`: the result should be of the operand's width, got f64
    "#]],
    );
    check(
        "n2: f32[1, 3] = reduce any [0] n0\nn3: i32[2] = random uniform s0 s0",
        expect![[r#"
        `n2: f32[1, 3] = reduce any [0] n0`: operand 0 should be bool, got f32
        `n3: i32[2] = random uniform s0 s0`: the result should be a float, got i32
    "#]],
    );
}

#[test]
fn views() {
    check(
        "n2: f32[2, 3] = permute [1, 1] n0",
        expect![[r#"
        `n2: f32[2, 3] = permute [1, 1] n0`: should name each of 2 axes once, got [1, 1]
    "#]],
    );
    check(
        "n2: f32[4, 3] = expand n0\nn3: f32[7] = reshape n0",
        expect![[r#"
        `n2: f32[4, 3] = expand n0`: cannot repeat [2, 3] to [4, 3]
        `n3: f32[7] = reshape n0`: keeps the number of elements, got [2, 3] as [7]
    "#]],
    );
    check(
        "n2: f32[2, 2] = slice [0:2:1, 1:2:-2] n0\nn3: f32[2, 0] = slice [0:2:1, 9:0:1] n0",
        expect![[r#"
        `n2: f32[2, 2] = slice [0:2:1, 1:2:-2] n0`: the slice 1:2:-2 leaves axis 1 of extent 3
    "#]],
    );
    check(
        "n2: f32[3, 3] = pad 0.0 [1:0:0] n0",
        expect![[r#"
        `n2: f32[3, 3] = pad 0.0 [1:0:0] n0`: should have an entry for each of 2 axes, got 1
    "#]],
    );
    check(
        "n2: f32[2, 2, 3] = window [1:2:3:1:1] n0",
        expect![[r#"
        `n2: f32[2, 2, 3] = window [1:2:3:1:1] n0`: the windows leave axis 1 of extent 3
    "#]],
    );
}

#[test]
fn the_rest() {
    check(
        "n2: f32[1, 3] = reduce sum [0, 2] n0\nn3: f32[1, 1] = reduce sum [1, 0] n0",
        expect![[r#"
        `n2: f32[1, 3] = reduce sum [0, 2] n0`: the axis should be below 2, got 2
        `n3: f32[1, 1] = reduce sum [1, 0] n0`: names an axis twice or out of order: [1, 0]
    "#]],
    );
    check(
        "n2: f32[0, 3] = slice [0:0:1, 0:3:1] n0\nn3: f32[1, 3] = reduce max [0] n2",
        expect![[r#"
        `n3: f32[1, 3] = reduce max [0] n2`: `max` over no elements has no value
    "#]],
    );
    check(
        "n2: f32[2, 3] = contract n0, n0",
        expect![[r#"
        `n2: f32[2, 3] = contract n0, n0`: the inner extents should agree, got 3 and 2
    "#]],
    );
    check(
        "n2: f32[5, 3] = gather positions 0 n0, n1\nn3: f32[2, 3] = gather elements 0 n0, n1",
        expect![[r#"
        `n2: f32[5, 3] = gather positions 0 n0, n1`: the result should have the extents [2, 3], got [5, 3]
        `n3: f32[2, 3] = gather elements 0 n0, n1`: operand 1 should have the extents [2, 3], got [2]
    "#]],
    );
    check(
        "n2: f32[2, 3] = scatter or positions 0 n0, n1, n0",
        expect![[r#"
        `n2: f32[2, 3] = scatter or positions 0 n0, n1, n0`: operand 0 should be bool, got f32
    "#]],
    );
    check(
        "n2: f32[2, 3] = scan argmax 0 n0\nn3: f32[2, 3] = argsort ascending 2 n0",
        expect![[r#"
        `n2: f32[2, 3] = scan argmax 0 n0`: `argmax` has no prefixes
        `n3: f32[2, 3] = argsort ascending 2 n0`: the axis should be below 2, got 2
        `n3: f32[2, 3] = argsort ascending 2 n0`: the result should be an integer, got f32
    "#]],
    );
}

#[test]
fn what_the_builder_makes_is_valid() {
    let mut g = Graph::new();
    let (x, y) = (g.input(DType::F32, &[2, 3]), g.input(DType::F32, &[4, 3, 5]));
    let product = g.contract(x, y);
    let joined = g.concat(&[product, product], 1);
    let windows = g.window(joined, &[crate::graph::WindowDim { axis: 1, count: 2, size: 3, step: 1, dilation: 1 }]);
    let sum = g.reduce(Reduction::Sum, windows, &[1, 3], DType::F32);
    g.outputs = vec![sum];
    assert_eq!(verify(&g), []);
}
