//! One test per part of the language's meaning that is not a pointwise row.

use expect_test::{Expect, expect};

use super::{Arg, Options, Report, launch, launch_with};
use crate::tile::{Program, parse};

fn program(text: &str) -> Program {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Runs a program of one buffer of i32 and gives what the buffer holds then.
fn on_ints(params: &str, body: &str, grid: u32, ints: &[i32]) -> Vec<i32> {
    let mut bytes: Vec<u8> = ints.iter().flat_map(|x| x.to_le_bytes()).collect();
    let program = program(&format!("program t(p0: i32 buffer out{params}) {{\n{body}\n}}"));
    launch(&program, [grid, 1, 1], &mut [Arg::Buffer(&mut bytes)]).unwrap_or_else(|e| panic!("{e}"));
    bytes.chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect()
}

fn fault(body: &str, grid: u32, want: Expect) {
    let mut bytes = [0; 16];
    let program = program(&format!("program t(p0: i32 buffer out) {{\n{body}\n}}"));
    let options = Options { races: true, steps: Some(1000) };
    let fault = launch_with(&program, [grid, 1, 1], &mut [Arg::Buffer(&mut bytes)], options).expect_err("a fault");
    want.assert_eq(&fault.to_string());
}

#[test]
fn reductions_halve_and_scans_double() {
    // a ∘ b = 2a + b tells orders apart.
    let combine = "(%a: i32, %b: i32) {\n%c: i32 = add %a, %a\n%d: i32 = add %c, %b\nyield %d\n}\n";
    let load = "%0: 4xi32 = arange\n%x: 4xi32 = load p0 %0\n";
    let all = "%s: i32 = reduce 0 %x ";
    let store = "%1: i32 = constant 0\nstore p0 %1, %s";
    // (1 ∘ 3) ∘ (2 ∘ 4) = 2·5 + 8
    assert_eq!(on_ints("", &[load, all, combine, store].concat(), 1, &[1, 2, 3, 4])[0], 18);
    let scan = "%s: 4xi32 = scan 0 %x ";
    // 1, 1∘2, (2∘3 with 1 in front), …: distance 1 gives 1 4 7 10, distance 2 gives 1 4 9 18.
    assert_eq!(on_ints("", &[load, scan, combine, "store p0 %0, %s"].concat(), 1, &[1, 2, 3, 4]), [1, 4, 9, 18]);
    let scan = "%s: 4xi32 = scan 0 reverse %x ";
    assert_eq!(on_ints("", &[load, scan, combine, "store p0 %0, %s"].concat(), 1, &[4, 3, 2, 1]), [18, 9, 4, 1]);
}

#[test]
fn reductions_take_any_axis_and_several_tiles() {
    let text = "%0: 8xi32 = arange\n%i: 2x4xi32 = reshape %0\n%x: 2x4xi32 = load p0 %i
        %m: 4xi32, %k: 4xi32 = reduce 0 %x, %i (%a: i32, %p: i32, %b: i32, %q: i32) {
          %c: bool = ge %a, %b
          %v: i32 = select %c, %a, %b
          %w: i32 = select %c, %p, %q
          yield %v, %w
        }
        %j: 2x4xi32 = reshape %0
        %b: 4x2xi32 = join %m, %k
        %t: 2x4xi32 = trans [1, 0] %b
        store p0 %j, %t";
    let text = text.replace("%b: 4x2xi32 = join", "%y: 4x2xi32 = join").replace("[1, 0] %b", "[1, 0] %y");
    assert_eq!(on_ints("", &text, 1, &[9, 1, 5, 7, 2, 8, 5, 9]), [9, 8, 5, 9, 0, 5, 2, 7]);
}

#[test]
fn loops_branches_and_program_ids() {
    let text = "%p: i32 = program_id 0\n%n: i32 = num_programs 0\n%z: i32 = constant 0\n%s: i32 = constant 2
        %t: i32 = for %z, %p, %s, %n (%i: i32, %c: i32) {
          %d: i32 = add %c, %i
          yield %d
        }
        %one: i32 = constant 1
        %q: bool = gt %p, %one
        %r: i32 = if %q {
          yield %t
        } else {
          %u: i32 = neg %t
          yield %u
        }
        store p0 %p, %r";
    assert_eq!(on_ints("", text, 4, &[0; 4]), [-4, -4, 4, 6]);
}

#[test]
fn gather_and_atomics_take_turns() {
    let text = "%0: 4xi32 = arange\n%x: 4xi32 = load p0 %0\n%g: 4xi32 = gather 0 %0, %x\nstore p0 %0, %g
        %z: 4xi32 = constant 0\n%old: 4xi32 = atomic add p0 %z, %0\n%three: 4xi32 = constant 3
        %m: 4xbool = lt %0, %three\nstore p0 %0, %old, %m";
    assert_eq!(on_ints("", text, 1, &[3, 2, 1, 0]), [3, 3, 4, 0]);
}

#[test]
fn masked_lanes_touch_nothing_and_checks_are_reported() {
    let text = "program t(p0: i32 buffer out, p1: i64 scalar /4) {
        %0: 8xi32 = arange\n%1: 8xi64 = cast %0\n%n: i64 = scalar p1\n%b: 8xi64 = broadcast %n\n%m: 8xbool = lt %1, %b
        %z: 8xi32 = constant 7\n%x: 8xi32 = load p0 %1, %m, %z\nstore p0 %1, %x, %m\ncheck 5 %m\ncheck 9 %m\ncheck 1 %q
        }";
    let text = text.replace("check 5", "%q: bool = eq %n, %n\ncheck 5");
    let mut bytes = [1; 16];
    let report = launch(&program(&text), [1; 3], &mut [Arg::Buffer(&mut bytes), Arg::Scalar(4)]);
    assert_eq!(report, Ok(Report { checks: vec![5, 9], loaded: 16, stored: 16 }));
}

#[test]
fn dots_are_fused_and_ascend() {
    let run = |precision: &str| {
        let text = format!(
            "program t(p0: f32 buffer out) {{\n%a: 1x2xf32 = constant 1.0001\n%b: 2x1xf32 = constant 3.0003
            %c: 1x1xf32 = constant 0.5\n%d: 1x1xf32 = dot {precision} %a, %b, %c\n%z: 1x1xi32 = constant 0
            store p0 %z, %d\n}}"
        );
        let mut bytes = [0; 4];
        launch(&program(&text), [1; 3], &mut [Arg::Buffer(&mut bytes)]).unwrap();
        f32::from_le_bytes(bytes)
    };
    let exact = 2.0 * 1.0001f64 * 3.0003 + 0.5;
    assert_eq!(run("ieee"), 1.0001f32.mul_add(3.0003, 1.0001f32.mul_add(3.0003, 0.5)));
    assert_eq!(run("tf32"), 2.0 * 3.0 + 0.5);
    assert!((f64::from(run("tf32x3")) - exact).abs() < 1e-5);
}

#[test]
fn faults_name_the_instruction_the_program_and_what_is_wrong() {
    fault(
        "%0: 8xi32 = arange\n%1: 8xi32 = load p0 %0",
        1,
        expect!["`%1: 8xi32 = load p0 %0` in program [0, 0, 0]: element 4 of p0, which has 4"],
    );
    fault(
        "%0: i32 = program_id 0\n%1: i32 = constant 3\n%2: bool = lt %0, %1\nif %2 {\n} else {\n%3: i32 = neg %0\nstore p0 %3, %0\n}",
        5,
        expect!["`store p0 %3, %0` in program [3, 0, 0]: element -3 of p0, which has 4"],
    );
    fault(
        "%0: i32 = program_id 0\n%1: i32 = constant 0\nstore p0 %1, %0",
        2,
        expect![
            "`store p0 %1, %0` in program [1, 0, 0]: element 0 of p0 is also touched by program 0, counted along the grid"
        ],
    );
    fault(
        "%0: i32 = program_id 0\n%1: i32 = constant 0\n%2: i32 = load p0 %1\nstore p0 %0, %2",
        3,
        expect![
            "`%2: i32 = load p0 %1` in program [1, 0, 0]: element 0 of p0 is also touched by program 0, counted along the grid"
        ],
    );
    fault(
        "%0: 4xi32 = arange\n%1: 4xi32 = constant 0\nstore p0 %1, %0",
        1,
        expect!["`store p0 %1, %0` in program [0, 0, 0]: two lanes store different values to element 0 of p0"],
    );
    fault(
        "%0: 4xi32 = arange\n%1: 4xi32 = neg %0\n%2: 4xi32 = gather 0 %0, %1",
        1,
        expect!["`%2: 4xi32 = gather 0 %0, %1` in program [0, 0, 0]: index -1 along an axis of extent 4"],
    );
    fault(
        "%0: i32 = constant 0\nfor %0, %0, %0 (%1: i32) {\n}",
        1,
        expect!["`for %0, %0, %0` in program [0, 0, 0]: a loop wants a step above 0, got 0"],
    );
    fault(
        "%0: i32 = constant 0\n%1: i32 = constant 2147483647\n%2: i32 = constant 1\nfor %0, %1, %2 (%3: i32) {\n%4: i32 = neg %3\n}",
        1,
        expect!["`%4: i32 = neg %3` in program [0, 0, 0]: more than 1000 instructions"],
    );
    fault(
        "%0: 4xi32 = arange\nstore p0 %0, %0, %0",
        1,
        expect![
            "`program t` in program [0, 0, 0]: invalid program: `store p0 %0, %0, %0`: operand 2 wants 4xbool, got 4xi32"
        ],
    );
}

#[test]
fn arguments_are_compared_with_the_parameters() {
    let p = program("program t(p0: i32 buffer, p1: i64 scalar /16) {\n}");
    let mut bytes = [0; 6];
    let text = |r: Result<Report, super::Fault>| r.unwrap_err().to_string();
    let got = text(launch(&p, [1; 3], &mut [Arg::Scalar(0)]));
    expect!["`program t` in program [0, 0, 0]: wants 2 arguments, got 1"].assert_eq(&got);
    let got = text(launch(&p, [1; 3], &mut [Arg::Buffer(&mut bytes), Arg::Scalar(0)]));
    expect!["`program t` in program [0, 0, 0]: p0 wants a buffer of whole i32 elements"].assert_eq(&got);
    let got = text(launch(&p, [1; 3], &mut [Arg::Buffer(&mut []), Arg::Scalar(8)]));
    expect!["`program t` in program [0, 0, 0]: p1 wants a scalar that 16 divides"].assert_eq(&got);
    assert_eq!(launch(&p, [0, 1, 1], &mut [Arg::Buffer(&mut []), Arg::Scalar(32)]), Ok(Report::default()));
}
