//! Facts about small programs.

use proptest::prelude::*;

use super::*;
use crate::target::interp::{self, Arg};
use crate::tile::Builder;

fn axis(program: &Program, value: Value) -> Axis {
    analyse(program)[value].axes[0]
}

#[test]
fn block_offsets_are_contiguous_and_aligned() {
    let mut b = Builder::new("t");
    let pid = b.program_id(0);
    let size = b.int(DType::I32, 64);
    let start = b.mul(pid, size);
    let lanes = b.arange(64);
    let offsets = b.add(start, lanes);
    let wide = b.cast(offsets, DType::I64);
    let p = b.finish();
    assert_eq!(axis(&p, offsets), Axis { contiguity: 64, divisibility: 64, constancy: 1 });
    assert_eq!(axis(&p, wide), Axis { contiguity: 64, divisibility: 64, constancy: 1 });
}

#[test]
fn rows_and_columns_of_a_flat_index() {
    let mut b = Builder::new("t");
    let pid = b.program_id(0);
    let size = b.int(DType::I32, 64);
    let start = b.mul(pid, size);
    let lanes = b.arange(64);
    let offsets = b.add(start, lanes);
    let n = b.scalar(DType::I32, 16);
    let row = b.map(Pointwise::Div, &[offsets, n]);
    let back = b.mul(row, n);
    let column = b.map(Pointwise::Sub, &[offsets, back]);
    let inside = b.lt(offsets, n);
    let p = b.finish();
    assert_eq!(axis(&p, row).constancy, 16);
    assert_eq!(axis(&p, column), Axis { contiguity: 16, divisibility: 16, constancy: 1 });
    assert_eq!(axis(&p, inside).constancy, 16);
}

#[test]
fn loop_indices_keep_what_start_and_step_share() {
    let mut b = Builder::new("t");
    let zero = b.int(DType::I32, 0);
    let n = b.scalar(DType::I32, 1);
    let step = b.int(DType::I32, 32);
    let lanes = b.arange(32);
    let mut seen = None;
    b.for_loop((zero, n, step), &[lanes], |b, i, carried| {
        seen = Some(b.add(i, lanes));
        smallvec![b.add(carried[0], i)]
    });
    let p = b.finish();
    assert_eq!(axis(&p, seen.unwrap()), Axis { contiguity: 32, divisibility: 32, constancy: 1 });
}

#[test]
fn quotients_of_possibly_negative_numbers_are_not_taken_to_be_constant() {
    let mut b = Builder::new("t");
    let start = b.scalar(DType::I32, 64);
    let lanes = b.arange(64);
    let offsets = b.add(start, lanes);
    let n = b.int(DType::I32, 16);
    let row = b.map(Pointwise::Div, &[offsets, n]);
    let p = b.finish();
    assert_eq!(axis(&p, row).constancy, 1);
}

/// Index arithmetic of the kind that programs do: what the stack of values becomes, step by step.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push(u32),
    Constant(Pointwise, i64),
    Scalar(Pointwise),
    Pair(Pointwise),
    Less,
    Choose,
    There,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Pointwise::{Add, And, Div, Max, Min, Mul, Rem, Shl, Shr, Sub, Xor};
    let small = prop::sample::select(vec![Add, Sub, Mul, Div, Rem, And, Min, Max, Xor]);
    let shift = prop::sample::select(vec![Shl, Shr]);
    let step = prop_oneof![
        (0u32..3).prop_map(Step::Push),
        (small, prop::sample::select(vec![0i64, 1, 2, 3, 4, 8, 12, 15, 16, -16]))
            .prop_map(|(op, c)| Step::Constant(op, c)),
        (shift, 0i64..4).prop_map(|(op, c)| Step::Constant(op, c)),
        prop::sample::select(vec![Add, Sub, Div, Rem]).prop_map(Step::Scalar),
        prop::sample::select(vec![Add, Sub, Min, Max]).prop_map(Step::Pair),
        Just(Step::Less),
        Just(Step::Choose),
        Just(Step::There),
    ];
    prop::collection::vec(step, 1..9)
}

/// A program that stores what the steps make, and the value it stores.
fn arithmetic(steps: &[Step], divisor: u32) -> (Program, Value) {
    const N: u32 = 32;
    let mut b = Builder::new("t");
    let out = b.buffer(DType::I32, true);
    let (pid, n) = (b.program_id(0), b.scalar(DType::I32, divisor));
    let size = b.int(DType::I32, N.into());
    let start = b.mul(pid, size);
    let lanes = b.arange(N);
    let offsets = b.add(start, lanes);
    let (wide_pid, wide_n) = (b.broadcast(pid, &[N]), b.broadcast(n, &[N]));
    let mut stack = vec![offsets];
    for &step in steps {
        let top = stack[stack.len() - 1];
        let below = stack[stack.len().saturating_sub(2)];
        let next = match step {
            Step::Push(which) => {
                stack.push([lanes, wide_pid, wide_n][which as usize]);
                continue;
            }
            Step::Constant(op, c) => {
                let c = b.int(DType::I32, c);
                b.map(op, &[top, c])
            }
            Step::Scalar(op) => b.map(op, &[top, n]),
            Step::Pair(op) => b.map(op, &[below, top]),
            Step::Less => {
                let less = b.lt(top, n);
                b.cast(less, DType::I32)
            }
            Step::Choose => {
                let c = b.lt(below, n);
                b.map(Pointwise::Select, &[c, top, below])
            }
            Step::There => {
                let wide = b.cast(top, DType::I64);
                b.cast(wide, DType::I32)
            }
        };
        if let Some(last) = stack.last_mut() {
            *last = next;
        }
    }
    let value = stack[stack.len() - 1];
    b.store(out, offsets, value, None);
    (b.finish(), value)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn facts_hold(steps in steps(), divisor in prop::sample::select(vec![1u32, 2, 16, 32]), factor in -2i64..4) {
        let (program, value) = arithmetic(&steps, divisor);
        let info = analyse(&program)[value].clone();
        let mut bytes = vec![0u8; 3 * 32 * 4];
        let n = (factor * i64::from(divisor)) as u64;
        interp::launch(&program, [3, 1, 1], &mut [Arg::Buffer(&mut bytes), Arg::Scalar(n)]).unwrap();
        let elements: Vec<i64> = bytes.chunks(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]).into()).collect();
        let axis = info.axes[0];
        for tile in elements.chunks(32) {
            for run in tile.chunks(axis.contiguity as usize) {
                prop_assert!(run.windows(2).all(|w| w[0] + 1 == w[1]), "{axis:?} {tile:?}\n{program}");
                prop_assert!(run[0] % axis.divisibility as i64 == 0, "{axis:?} {tile:?}\n{program}");
            }
            for run in tile.chunks(axis.constancy as usize) {
                prop_assert!(run.iter().all(|&x| x == run[0]), "{axis:?} {tile:?}\n{program}");
            }
            prop_assert!(!info.nonnegative || tile.iter().all(|&x| x >= 0), "not negative: {tile:?}\n{program}");
            prop_assert!(info.constant.is_none_or(|c| tile.iter().all(|&x| x == c)), "{info:?} {tile:?}\n{program}");
        }
    }
}
