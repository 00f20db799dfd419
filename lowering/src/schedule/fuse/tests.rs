//! Each reason has a graph that shows it: the boundaries of its plan are named here.

use crate::schedule::Grain;
use expect_test::{Expect, expect};
use rustc_hash::{FxHashMap, FxHashSet};

use super::rules::{Pair, judge};
use super::*;
use crate::DType;
use crate::graph::Op;
use crate::op::Pointwise;
use crate::schedule::plan::{InputData, Layout, Options};

const OPTIONS: Options = Options::new(true, Some(1), Grain::of_vectors(4));

fn grouped(graph: &Graph, options: &Options) -> Groups {
    let inputs = graph.nodes.values().filter(|data| matches!(data.op, Op::Input(_))).map(|data| InputData {
        layout: Layout::contiguous(&data.dims),
        buffer_len: data.len(),
        donated: false,
    });
    groups(graph.clone(), &inputs.collect::<Vec<_>>(), options)
}

/// The boundaries of a graph, a line each: from which kernel to which, the value, and the two reasons.
fn named(graph: &Graph, options: &Options) -> String {
    let groups = grouped(graph, options);
    let line = |b: Boundary| format!("{} -> {} {}: {}; {:?}\n", b.from, b.to, b.node, b.reason.name(), b.kept);
    boundaries(&groups, options).into_iter().map(line).collect()
}

fn check(text: &str, options: &Options, wanted: Expect) {
    let graph: Graph = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    wanted.assert_eq(&named(&graph, options));
}

#[test]
fn products_stand_between() {
    let text = "graph 2 inputs {
  n0: f32[9, 33] = input 0
  n1: f32[33, 20] = input 1
  n2: f32[9, 33] = exp n0
  n3: f32[9, 20] = contract n2, n1
  n4: f32[9, 20] = exp n3
  outputs n4
}";
    check(
        text,
        &OPTIONS,
        expect![[r#"
            0 -> 1 n2: operand of BLAS; Viewed
        "#]],
    );
    let text = &text.replace("outputs n4", "outputs n2, n4");
    check(
        text,
        &Options { gemm_from: None, ..OPTIONS },
        expect![[r#"
            0 -> 1 n2: own loop after; Wanted
            1 -> 2 n3: own loop before; Made
        "#]],
    );
}

/// A product's epilogue is no boundary; each other kernel that reads the product says why it is not that.
#[test]
fn a_product_has_one_tail() {
    // The kernel that reduces rows follows it; those that sum columns, or turn it, do not.
    check(
        "graph 2 inputs {
  n0: f32[9, 33] = input 0
  n1: f32[33, 20] = input 1
  n2: f32[9, 20] = contract n0, n1
  n3: f32[1, 20] = reduce sum [0] n2
  n4: f32[9, 1] = reduce max [1] n2
  n5: f32[20, 9] = permute [1, 0] n2
  n6: f32[20, 9] = exp n5
  outputs n3, n4, n6
}",
        &OPTIONS,
        expect![[r#"
            0 -> 2 n2: other order; Made
            0 -> 3 n2: other order; Made
        "#]],
    );
    // The sum of two products is the tail of the later one, and the program may hold the product itself.
    check(
        "graph 4 inputs {
  n0: f32[9, 33] = input 0
  n1: f32[33, 20] = input 1
  n2: f32[9, 21] = input 2
  n3: f32[21, 20] = input 3
  n4: f32[9, 20] = contract n0, n1
  n5: f32[9, 20] = contract n2, n3
  n6: f32[9, 20] = add n4, n5
  outputs n5, n6
}",
        &OPTIONS,
        expect![[r#"
            0 -> 2 n4: other's epilogue; Made
        "#]],
    );
    // What also waits for a sort of the product cannot follow it, and of two kernels that could, the first does.
    check(
        "graph 2 inputs {
  n0: f32[9, 33] = input 0
  n1: f32[33, 20] = input 1
  n2: f32[9, 20] = contract n0, n1
  n3: f32[9, 20] = sort ascending 1 n2
  n4: f32[9, 20] = sub n2, n3
  n5: f32[180] = reshape n2
  n6: f32[180] = exp n5
  n7: f32[90, 2] = reshape n2
  n8: f32[90, 1] = reduce sum [1] n7
  outputs n4, n6, n8
}",
        &OPTIONS,
        expect![[r#"
            0 -> 2 n2: product by BLAS; Made
            0 -> 3 n2: waits for more; Made
            2 -> 3 n3: sort; Made
            0 -> 4 n2: has its epilogue; Made
        "#]],
    );
}

#[test]
fn a_sort_stands_alone() {
    check(
        "graph 1 inputs {
  n0: f32[9, 33] = input 0
  n1: f32[9, 33] = exp n0
  n2: f32[9, 33] = sort ascending 1 n1
  n3: f32[9, 33] = exp n2
  outputs n3
}",
        &OPTIONS,
        expect![[r#"
            0 -> 1 n1: sort; Viewed
            1 -> 2 n2: sort; Made
        "#]],
    );
}

#[test]
fn domains_differ() {
    // The sum over rows is used by a tensor of other extents, and by a reduction along the other axis.
    check(
        "graph 2 inputs {
  n0: f32[9, 33] = input 0
  n1: f32[9, 20] = input 1
  n2: f32[9, 1] = reduce sum [1] n0
  n3: f32[9, 20] = expand n2
  n4: f32[9, 20] = add n1, n3
  n5: f32[9, 33] = expand n2
  n6: f32[9, 33] = mul n0, n5
  n7: f32[1, 33] = reduce sum [0] n6
  outputs n4, n7
}",
        &OPTIONS,
        expect![[r#"
            0 -> 1 n2: other extents; Reduced
            0 -> 2 n2: other axes; Reduced
        "#]],
    );
}

#[test]
fn a_result_is_needed_at_other_points() {
    check(
        "graph 1 inputs {
  n0: f32[9, 33] = input 0
  n1: f32[9, 33] = exp n0
  n2: f32[9, 33] = slice [0:9:1, 32:33:-1] n1
  n3: f32[9, 33] = sub n0, n2
  outputs n1, n3
}",
        &OPTIONS,
        expect![[r#"
            0 -> 1 n1: other points; Wanted
        "#]],
    );
}

#[test]
fn a_view_is_no_index_arithmetic() {
    // Rows of 6 seen as rows of 8 and cut to 6: no sum of multiples takes (i, j) to (8i + j)/6.
    check(
        "graph 1 inputs {
  n0: f32[4, 6] = input 0
  n1: f32[4, 6] = exp n0
  n2: f32[3, 8] = reshape n1
  n3: f32[4, 8] = pad 0.0 [0:1:0, 0:0:0] n2
  n4: f32[4, 6] = slice [0:4:1, 0:6:1] n3
  n5: f32[4, 6] = sub n0, n4
  outputs n1, n5
}",
        &OPTIONS,
        expect![[r#"
            0 -> 1 n1: view; Wanted
        "#]],
    );
}

#[test]
fn a_kernel_has_so_many_operands() {
    let mut graph = Graph::new();
    let x = graph.input(DType::F32, &[8, 5]);
    let mut sums = vec![x];
    for half in 0..2 {
        for _ in 0..16 {
            let other = graph.input(DType::F32, &[8, 5]);
            sums.push(graph.map(Pointwise::Add, &[sums[sums.len() - 1], other]));
        }
        graph.outputs.push(sums[16 * (half + 1)]);
    }
    expect![[r#"
        0 -> 1 n32: too many operands; Wanted
    "#]]
    .assert_eq(&named(&graph, &OPTIONS));
}

#[test]
fn groups_stay_free_of_circles() {
    check(
        "graph 2 inputs {
  n0: f32[9, 9] = input 0
  n1: f32[9, 9] = input 1
  n2: f32[9, 9] = exp n0
  n3: f32[9, 9] = contract n2, n1
  n4: f32[9, 9] = add n2, n3
  outputs n4
}",
        &OPTIONS,
        expect![[r#"
            0 -> 1 n2: operand of BLAS; Shared
            0 -> 2 n2: waits between; Shared
        "#]],
    );
}

#[test]
fn a_group_does_not_wait_for_a_later_buffer() {
    // −n0 lies in registers of the first kernel until the sort wants it in memory; the first kernel would then have to
    // read it from there for the last one to join.
    check(
        "graph 2 inputs {
  n0: f32[24] = input 0
  n1: f32[4, 6] = input 1
  n2: f32[24] = neg n0
  n3: f32[4, 6] = reshape n2
  n4: f32[4, 6] = mul n3, n1
  n5: f32[4, 1] = reduce sum [1] n4
  n6: f32[24] = sort ascending 0 n2
  n7: f32[4, 6] = expand n5
  n8: f32[4, 6] = sub n1, n7
  n9: f32[4, 1] = reduce max [1] n8
  outputs n5, n6, n9
}",
        &OPTIONS,
        expect![[r#"
            1 -> 2 n2: sort; Viewed
            0 -> 3 n5: late buffer; Reduced
        "#]],
    );
}

#[test]
fn far_groups_are_not_looked_at() {
    let mut graph = Graph::new();
    let x = graph.input(DType::F32, &[8, 5]);
    let first = graph.map(Pointwise::Exp, &[x]);
    graph.outputs.push(first);
    for n in 0..rules::REACH as u64 {
        let other = graph.input(DType::F32, &[8, 6 + n]);
        let apart = graph.map(Pointwise::Exp, &[other]);
        graph.outputs.push(apart);
    }
    let last = graph.map(Pointwise::Sqrt, &[first]);
    graph.outputs.push(last);
    expect![[r#"
        0 -> 257 n1: far apart; Wanted
    "#]]
    .assert_eq(&named(&graph, &OPTIONS));
}

#[test]
fn the_best_company_is_chosen() {
    // Two sums and their product: it fits beside either, but not all three in one.
    let mut graph = Graph::new();
    let mut sum = |terms: usize| {
        let inputs: Vec<Node> = (0..terms).map(|_| graph.input(DType::F32, &[8, 5])).collect();
        let sum = inputs[1..].iter().fold(inputs[0], |sum, &x| graph.map(Pointwise::Add, &[sum, x]));
        graph.outputs.push(sum);
        sum
    };
    let (first, second) = (sum(13), sum(11));
    let product = graph.map(Pointwise::Mul, &[first, second]);
    graph.outputs.push(product);
    expect![[r#"
        0 -> 1 n24: better company; Wanted
    "#]]
    .assert_eq(&named(&graph, &OPTIONS));
}

#[test]
fn groups_that_a_row_brings_together_become_one() {
    let text = "graph 2 inputs {
  n0: f32[9, 33] = input 0
  n1: f32[9, 33] = input 1
  n2: f32[9, 33] = exp n0
  n3: f32[9, 33] = exp n1
  n4: f32[9, 33] = mul n2, n3
  outputs n2, n3, n4
}";
    let graph: Graph = text.parse().expect("it can be parsed");
    assert_eq!(grouped(&graph, &OPTIONS).list.len(), 1);
    // Not where something must run between the two.
    let text = text.replace("exp n1", "contract n1, n2").replace("33", "9");
    let graph: Graph = text.parse().expect("it can be parsed");
    assert_eq!(grouped(&graph, &OPTIONS).list.len(), 3);
}

#[test]
fn windows_over_one_operand_are_company() {
    let text = "graph 1 inputs {
  n0: f32[2, 3, 9, 11] = input 0
  n1: f32[2, 3, 4, 5, 2, 3] = window [2:4:2:2:1, 3:5:3:2:1] n0
  n2: f32[2, 3, 4, 5, 1, 1] = reduce max [4, 5] n1
  n3: i64[2, 3, 4, 5, 1, 1] = reduce argmax [4, 5] n1
  outputs n2, n3
}";
    let graph: Graph = text.parse().expect("it can be parsed");
    assert_eq!(grouped(&graph, &OPTIONS).list.len(), 1);
}

#[test]
fn fusing_can_be_off() {
    check(
        "graph 1 inputs {
  n0: f32[9, 33] = input 0
  n1: f32[9, 33] = exp n0
  n2: f32[9, 33] = sqrt n1
  outputs n2
}",
        &Options { fuse: false, ..OPTIONS },
        expect![[r#"
            0 -> 1 n1: fusing is off; Unfused
        "#]],
    );
}

#[test]
fn a_scale_in_common_is_no_company() {
    let text = "graph 3 inputs {
  n0: f32[9, 33] = input 0
  n1: f32[9, 33] = input 1
  n2: f32[33] = input 2
  n3: f32[1, 33] = reshape n2
  n4: f32[9, 33] = expand n3
  n5: f32[9, 33] = mul n0, n4
  n6: f32[9, 33] = mul n1, n4
  outputs n5, n6
}";
    let graph: Graph = text.parse().expect("it can be parsed");
    let Groups { graph, list, places, .. } = grouped(&graph, &OPTIONS);
    assert_eq!(list.len(), 2);
    let Work::Fused { roots, body } = &list[0].work else { panic!("a pointwise row is fused") };
    let node = list[1].roots()[0];
    let reads = reads_of(&graph, &places, node);
    let group_of = roots.iter().map(|&n| (n, 0)).collect::<FxHashMap<_, _>>();
    let pair = Pair {
        graph: &graph,
        places: &places,
        groups: &list,
        group_of: &group_of,
        at: 0,
        roots,
        body,
        node,
        reads: &reads,
    };
    assert_eq!(judge(&pair), Verdict::Refuse(Reason::NothingShared));
}

#[test]
fn every_rule_and_reason_has_words_of_its_own() {
    let names: FxHashSet<&str> = Reason::ALL.iter().map(|r| r.name()).collect();
    let words: FxHashSet<&str> = Reason::ALL.iter().map(|r| r.says()).collect();
    assert_eq!((names.len(), words.len()), (Reason::ALL.len(), Reason::ALL.len()));
    let rules: FxHashSet<&str> = RULES.iter().map(|r| r.name).collect();
    assert!(rules.len() == RULES.len() && RULES.iter().all(|r| !r.says.is_empty()));
    // The numbers that sentences name are those that rules use.
    assert!(Reason::ManyOperands.says().contains(&rules::MOST_OPERANDS.to_string()));
    assert!(Reason::Far.says().contains(&rules::REACH.to_string()));
}

/// Sums of neighbours of sums of neighbours: each level reads the one below at two points.
#[test]
fn views_of_sums_of_views_are_not_written_out() {
    let size = |depth: u64| {
        let mut graph = Graph::new();
        let mut x = graph.input(DType::F32, &[100]);
        for level in 0..depth {
            let rest = 99 - level;
            let both = [graph.narrow(x, 0, 0, rest), graph.narrow(x, 0, 1, rest)];
            x = graph.map(Pointwise::Add, &both);
        }
        graph.outputs.push(x);
        let bodies = grouped(&graph, &OPTIONS).list.into_iter().map(|group| match group.work {
            Work::Fused { body, .. } => body.exprs.list.len(),
            other => panic!("{other:?}"),
        });
        bodies.sum::<usize>()
    };
    let (shallow, deep) = (size(6), size(18));
    assert!(deep < 5 * shallow, "{shallow} expressions, three times as deep {deep}");
}

/// Heads of an attention are merged by a transposition and a reshape; the product of weights and values is written in
/// that order, so that the next product reads it where it is.
#[test]
fn a_product_is_written_as_its_reader_wants_it() {
    let text = "graph 3 inputs {
  n0: f32[2, 4, 7, 7] = input 0
  n1: f32[2, 4, 7, 3] = input 1
  n2: f32[12, 5] = input 2
  n3: f32[2, 4, 7, 3] = contract n0, n1
  n4: f32[2, 7, 4, 3] = permute [0, 2, 1, 3] n3
  n5: f32[14, 12] = reshape n4
  n6: f32[14, 5] = contract n5, n2
  outputs n6
}";
    let graph: Graph = text.parse().expect("it can be parsed");
    let groups = grouped(&graph, &OPTIONS);
    assert_eq!(groups.list.len(), 2, "there is a copy");
    let heads = groups.list[0].roots()[0];
    assert_eq!(groups.places[&heads].strides.as_slice(), [84, 3, 12, 1]);
    // A reader that takes any index decides nothing.
    let plain: Graph = text.replace("contract n5, n2", "exp n5").replace("[14, 5]", "[14, 12]").parse().expect("too");
    let groups = grouped(&plain, &OPTIONS);
    let heads = groups.list[0].roots()[0];
    assert_eq!((groups.list.len(), groups.places[&heads].strides.as_slice()), (2, &[84, 21, 3, 1][..]));
}
