//! What is printed is read back, and what is wrong is located.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::parse;

fn round_trips(body: &str) {
    let text = format!("program t(p0: f32 buffer out, p1: i64 scalar /16, p2: bool scalar) {{\n{body}}}\n");
    match parse(&text) {
        Ok(program) => assert_eq!(program.to_string(), text),
        Err(error) => panic!("{error}\n{text}"),
    }
}

fn fails(text: &str, want: Expect) {
    want.assert_eq(&parse(text).expect_err("this text is wrong").to_string());
}

#[test]
fn constants_of_every_type() {
    round_trips(
        "  %0: bool = constant true
  %1: i8 = constant -128
  %2: u64 = constant 18446744073709551615
  %3: f16 = constant -0.0
  %4: f16 = constant 0.099975586
  %5: bf16 = constant 9.1835e-41
  %6: f32 = constant 3.4028235e38
  %7: f32 = constant -inf
  %8: f64 = constant 5e-324
  %9: f64 = constant 0x7ff8000000000001
  %10: 4x4xi32 = constant 7
",
    );
}

#[test]
fn operations_with_attributes_and_blocks() {
    round_trips(
        "  %0: i64 = scalar p1
  %1: bool = scalar p2
  %2: i32 = program_id 2
  %3: 8xi32 = arange
  %4: 8x1xi32 = expand_dims 1 %3
  %5: 1x8xi32 = trans [1, 0] %4
  %6: 8xi32, %7: 8xi32 = scan 0 reverse %3, %3 (%8: i32, %9: i32, %10: i32, %11: i32) {
    yield %8, %11
  }
  %12: 8xf32 = cast %6
  %13: 8xf32 = atomic exchange p0 %3, %12
  check 7 %1
  for stages 3 %2, %2, %2 (%14: i32) {
    store p0 %3, %12
  }
  if %1 {
  } else {
    if %1 {
      store p0 %3, %12
    } else {
    }
  }
",
    );
}

#[test]
fn names_and_spaces_are_free_and_comments_are_skipped() {
    let program = parse("program t ( ) { // nothing\n %x : f32=constant 1\n%y:f32 = add %x,\n%x }").unwrap();
    expect![[r#"
        program t() {
          %0: f32 = constant 1.0
          %1: f32 = add %0, %0
        }
    "#]]
    .assert_eq(&program.to_string());
}

#[test]
fn errors_say_where_what_was_wanted_and_what_was_found() {
    fails("", expect!["line 2, column 1: wanted `program`, got the end"]);
    fails("program t(p1: f32 buffer) {}", expect!["line 1, column 11: wanted `p0`, got `p1`"]);
    fails("program t() {\n  %0: f31 = arange\n}", expect!["line 2, column 7: wanted a type, got `f31`"]);
    fails(
        "program t() {\n  %0: f32 = neg %0\n}",
        expect!["line 2, column 17: wanted a value that is defined above, got `%0`"],
    );
    fails(
        "program t() {\n  %0: i8 = constant 128\n}",
        expect!["line 2, column 21: wanted a number of type i8, got `128`"],
    );
    fails(
        "program t() {\n  %0: i8 = konstant 1\n}",
        expect!["line 2, column 12: wanted an instruction, got `konstant`"],
    );
    fails("program t() {\n  constant 1\n}", expect!["line 2, column 3: wanted a result before `=`, got `constant`"]);
    fails("program t() {", expect!["line 2, column 1: wanted an instruction, got the end"]);
    fails("program t() {} {", expect!["line 1, column 16: wanted the end, got `{`"]);
    let one = "%0: f32 = constant 1";
    fails(
        &format!("program t() {{\n{one}\n{one}\n}}"),
        expect!["line 3, column 1: wanted a name that is not taken, got `%0`"],
    );
    fails(
        &format!("program t(p0: bool scalar) {{ %0: bool = scalar p0\n{}", "if %0 {".repeat(100)),
        expect!["line 2, column 449: wanted at most 64 nested blocks, got `if`"],
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        _ = parse(&text);
    }

    #[test]
    fn no_sequence_of_tokens_panics(words in prop::collection::vec(prop::sample::select(vec![
        "program", "t", "(", ")", "{", "}", "%0", "%1", ":", "=", ",", "f32", "64xi32", "4294967295x0xf32", "add", "reduce",
        "0", "for", "if", "else", "yield", "constant", "-1", "-", "1e-", "0x", "p0", "p4294967295", "buffer", "\n", "//",
        "trans", "[", "]", "scan", "load", "store", "é", "%",
    ]), 0..60)) {
        if let Ok(program) = parse(&words.join(" ")) {
            _ = crate::tile::verify(&program);
        }
        let in_body = format!("program t(p0: f32 buffer) {{ %0: f32 = constant 1\n{}", words.join(" "));
        if let Ok(program) = parse(&in_body) {
            _ = crate::tile::verify(&program);
            let text = program.to_string();
            prop_assert_eq!(parse(&text).unwrap().to_string(), text);
        }
    }
}

#[test]
fn warps_that_are_not_there() {
    let text = "program t() warps 8 less 3 {\n}\n";
    assert_eq!(parse(text).unwrap().to_string(), text);
    fails(
        "program t() warps 8 less 4 {\n}\n",
        expect!["line 1, column 26: wanted a number below half of the warps, got `4`"],
    );
}
