//! The text form: round trips, errors with their places, and texts that are none.

use expect_test::expect;

use super::*;

const ALL: &str = "\
graph 3 inputs {
  s0: u64
  s1: u64
  s2: f32
  n0: f32[2, 3] = input 0
  n1: i64[2, 3] = input 1
  n2: f32[3, 2] = input 2
  n3: f32[2, 3] = constant -0.5
  n4: f32[2, 3] = constant 0x7fc00000
  n5: f16[] = constant 65504.0
  n6: bool[2, 3] = constant true
  n7: i64[2, 3] = constant -9223372036854775808
  n8: f32[2, 3] = scalar s2
  n9: i32[2, 3] = iota 1
  n10: f32[2, 3] = add n0, n8
  n11: f32[2, 3] = select n6, n0, n3
  n12: f64[2, 3] = cast n0
  n13: f32[3, 2] = permute [1, 0] n0
  n14: f32[2, 2] = slice [0:2:1, 2:2:-2] n0
  n15: f32[4, 6] = pad 1e-10 [1:1:0, 0:1:1] n0
  n16: f32[2, 2, 2] = window [1:2:2:1:1] n0
  n17: f32[6] = reshape n0
  n18: f32[1, 6] = reshape n17
  n19: f32[5, 6] = expand n18
  n20: f32[1, 3] = reduce sum [0] n0
  n21: i64[1, 1] = reduce argmax [0, 1] n0
  n22: f32[2, 3] = scan prod 1 n0
  n23: f32[2, 2] = contract n0, n2
  n24: f32[2, 3] = gather elements 0 n0, n1
  n25: f32[2, 3] = scatter add elements 0 n0, n1, n3
  n26: f32[8] = random uniform s0 s1
  n27: f32[2, 3] = sort ascending 1 n0
  n28: i64[2, 3] = argsort descending 1 n0
  outputs n28, n3
}
";

#[test]
fn every_operation_round_trips() {
    let graph: Graph = ALL.parse().unwrap();
    assert_eq!(graph.to_string(), ALL);
    let empty = Graph::new();
    assert_eq!(empty.to_string().parse(), Ok(empty));
}

#[test]
fn comments_and_blanks_do_not_matter() {
    let text = "graph 1 inputs{n0:f32[ ]=input 0# the only one\noutputs n0}";
    assert_eq!(text.parse::<Graph>().unwrap().outputs.len(), 1);
}

#[test]
fn every_constant_round_trips() {
    for &dtype in DType::ALL {
        for bits in [0, 1, 0x7f, 0x80, 0xff, 0x3c01, 0x7c00, 0x7fff, 0x8000, 0xffff, 0x7f80_0001, u64::MAX] {
            let mut graph = Graph::new();
            graph.constant(dtype, bits, &[]);
            assert_eq!(graph.to_string().parse(), Ok(graph), "{dtype} {bits:#x}");
        }
    }
}

#[test]
fn errors_say_where_what_was_wanted_and_what_is_there() {
    let wrong = |from: &str, to: &str| match ALL.replacen(from, to, 1).parse::<Graph>() {
        Ok(_) => "accepted".to_string(),
        Err(error) => error.to_string(),
    };
    let all = [
        wrong("graph", "grph"),
        wrong("n1: i64", "n5: i64"),
        wrong("f32[3, 2] = input", "f33[3, 2] = input"),
        wrong("add n0", "addd n0"),
        wrong("reduce sum", "reduce total"),
        wrong("constant true", "constant 1"),
        wrong("outputs", "output"),
        wrong("n3\n}", "n3,\n}"),
        wrong("n3\n}", "n3\n"),
        wrong("n3\n}", "n3\n} é"),
        wrong("[0:2:1", "[0:2"),
    ];
    expect![[r#"
        1:1: wanted `graph`, got `grph`
        6:3: wanted `n1` or `outputs`, got `n5`
        7:7: wanted an element type, got `f33`
        15:20: wanted an operation, got `addd`
        25:27: wanted a reduction (sum, prod, max, min, argmax, argmin, any, all), got `total`
        11:29: wanted a constant of type bool, got `1`
        34:3: wanted `n29` or `outputs`, got `output`
        35:1: wanted a node, got `}`
        36:1: wanted `}`, got the end of the text
        35:3: wanted the end of the text, got `é`
        19:30: wanted `:`, got `,`
    "#]]
    .assert_eq(&(all.join("\n") + "\n"));
}

/// Cuts, doublings and swaps of a valid text: each is a graph or an error, and what is a graph round-trips.
#[test]
fn no_text_makes_it_panic() {
    let places: Vec<usize> = ALL.char_indices().map(|(i, _)| i).collect();
    for &i in &places {
        let (a, b) = ALL.split_at(i);
        for junk in ["", "n4294967295", "é", "\0", "[", ":", "0x", "-", "99999999999999999999", "#"] {
            let text = format!("{a}{junk}{}", b.get(1..).unwrap_or_default());
            if let Ok(graph) = text.parse::<Graph>() {
                assert_eq!(graph.to_string().parse(), Ok(graph));
            }
        }
        let _ = a.parse::<Graph>();
    }
}
