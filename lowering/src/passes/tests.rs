//! What the tests of passes share, and the pipeline as a whole.

use expect_test::Expect;

use super::{Pass, run};
use crate::tile::{Program, parse, verify};

/// A valid program with a buffer of each kind that tests use.
pub(super) fn program(body: &str) -> Program {
    let params =
        "p0: f32 buffer, p1: f32 buffer out, p2: i32 scalar, p3: bool scalar, p4: bf16 buffer, p5: bf16 buffer out";
    let text = format!("program t({params}) {{\n{body}\n}}");
    let program = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let found: Vec<String> = verify(&program).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{found:?}");
    program
}

/// The instructions of a program.
pub(super) fn body(program: &Program) -> String {
    let text = program.to_string();
    let lines: Vec<&str> = text.lines().collect();
    lines[1..lines.len() - 1].iter().map(|line| format!("{}\n", &line[2..])).collect()
}

/// Runs one pass on the text of a body.
#[track_caller]
pub(super) fn check(pass: Pass, text: &str, want: Expect) {
    let mut program = program(text);
    (pass.run)(&mut program);
    assert_eq!(verify(&program), [], "{program}");
    want.assert_eq(&body(&program));
}

#[test]
fn the_pipeline_shows_every_pass() {
    let mut seen = Vec::new();
    run(&mut program(""), &mut |name, _| seen.push(name));
    assert_eq!(seen.len(), super::PASSES.len());
}
