//! Programs written by hand, compiled and run.

use std::sync::atomic::AtomicU32;

use smallvec::smallvec;

use super::{Compiler, Pool, load, spec};
use crate::DType;
use crate::op::Pointwise;
use crate::tile::{Builder, Program, Value};

/// Compiles, loads and runs a program.
fn run(program: &Program, grid: [u32; 3], params: &[u64]) -> u32 {
    let object = Compiler::new(&spec()).compile(program, &mut |_, _| {}).unwrap();
    let kernel = load(&object).unwrap();
    let status = AtomicU32::new(0);
    // SAFETY: each test passes slots for buffers that outlive the call.
    unsafe { kernel.launch(&Pool::with_threads(2), grid, params, &status) };
    status.into_inner()
}

fn asm(program: &Program) -> String {
    let mut text = String::new();
    let mut see = |stage, print: &dyn Fn() -> String| {
        if stage == "asm" {
            text = print();
        }
    };
    Compiler::new(&spec()).compile(program, &mut see).unwrap();
    text
}

fn slot<T>(xs: &[T]) -> u64 {
    xs.as_ptr() as u64
}

/// Offsets of this program's tile and whether they lie below `n`.
fn block(b: &mut Builder, n: Value, size: u32) -> (Value, Value) {
    let pid = b.program_id(0);
    let width = b.int(DType::I32, i64::from(size));
    let start = b.mul(pid, width);
    let lanes = b.arange(size);
    let offsets = b.add(start, lanes);
    let mask = b.lt(offsets, n);
    (offsets, mask)
}

#[test]
fn a_masked_map_writes_its_elements_and_no_others() {
    let mut b = Builder::new("axpy");
    let (x, y) = (b.buffer(DType::F32, false), b.buffer(DType::F32, true));
    let (n, a) = (b.scalar(DType::I32, 1), b.scalar(DType::F32, 1));
    let (offsets, mask) = block(&mut b, n, 64);
    let zero = b.constant(DType::F32, 0);
    let (xs, ys) = (b.load_masked(x, offsets, mask, zero), b.load_masked(y, offsets, mask, zero));
    let scaled = b.mul(a, xs);
    let sum = b.add(scaled, ys);
    b.store(y, offsets, sum, Some(mask));
    let program = b.finish();
    for n in [0usize, 1, 15, 16, 17, 64, 100, 1000] {
        let xs: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let mut ys = vec![1.0f32; n + 70];
        let params = [slot(&xs), ys.as_mut_ptr() as u64, n as u64, u64::from(2f32.to_bits())];
        run(&program, [n.div_ceil(64) as u32, 1, 1], &params);
        assert!((0..n).all(|i| ys[i] == 2.0 * i as f32 + 1.0), "{n}: {ys:?}");
        assert!(ys[n..].iter().all(|&y| y == 1.0), "{n}");
    }
    let text = asm(&program);
    assert!(!text.contains("call"), "{text}");
}

#[test]
fn a_loop_carries_tiles() {
    let mut b = Builder::new("powers");
    let y = b.buffer(DType::F64, true);
    let n = b.scalar(DType::I32, 1);
    let lanes = b.arange(8);
    let wide = b.cast(lanes, DType::F64);
    let (zero, one) = (b.int(DType::I32, 0), b.int(DType::I32, 1));
    let unit = b.constant(DType::F64, 1f64.to_bits());
    let unit = b.broadcast(unit, &[8]);
    let power = b.for_loop((zero, n, one), &[unit], |b, _, carried| smallvec![b.mul(carried[0], wide)]);
    b.store(y, lanes, power[0], None);
    let program = b.finish();
    for n in [0, 1, 5] {
        let mut ys = [0f64; 8];
        run(&program, [1, 1, 1], &[ys.as_mut_ptr() as u64, n]);
        assert_eq!(ys, std::array::from_fn(|i| (i as f64).powi(n as i32)));
    }
}

#[test]
fn booleans_are_bytes_in_memory() {
    let mut b = Builder::new("flags");
    let (x, y) = (b.buffer(DType::Bool, false), b.buffer(DType::Bool, true));
    let lanes = b.arange(32);
    let xs = b.load(x, lanes);
    let flipped = b.map(Pointwise::Not, &[xs]);
    b.store(y, lanes, flipped, None);
    let program = b.finish();
    let xs: Vec<u8> = (0..32).map(|i| u8::from(i % 3 == 0)).collect();
    let mut ys = [9u8; 32];
    run(&program, [1, 1, 1], &[slot(&xs), ys.as_mut_ptr() as u64]);
    assert!((0..32).all(|i| ys[i] == 1 - xs[i]));
}

#[test]
fn a_failed_check_is_reported() {
    let mut b = Builder::new("bounds");
    let n = b.scalar(DType::I32, 1);
    let lanes = b.arange(64);
    let inside = b.lt(lanes, n);
    b.check(inside, 7);
    let program = b.finish();
    assert_eq!(run(&program, [3, 1, 1], &[64]), 0);
    assert_eq!(run(&program, [3, 1, 1], &[63]), 7);
}
