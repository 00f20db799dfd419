//! Programs written by hand, compiled and run.

use std::sync::atomic::AtomicU32;

use smallvec::smallvec;

use super::{Compiler, Error, Object, Pool, load, spec};
use crate::DType;
use crate::op::Pointwise;
use crate::spec::Spec;
use crate::tile::{Builder, Cache, Program, Value};

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

/// A streaming store goes past the caches where its place is aligned, and is any other store elsewhere.
#[test]
fn a_streaming_store_writes_the_same_elements() {
    let mut b = Builder::new("double");
    let (x, y) = (b.buffer(DType::F32, false), b.buffer(DType::F32, true));
    let shift = b.scalar(DType::I32, 1);
    let (offsets, _) = block(&mut b, shift, 64);
    let xs = b.load(x, offsets);
    let sum = b.add(xs, xs);
    let at = b.add(offsets, shift);
    b.store_cached(y, at, (sum, Cache::Stream), None);
    let program = b.finish();
    let xs: Vec<f32> = (0..256).map(|i| i as f32).collect();
    for shift in [0usize, 1, 3, 4, 8, 16] {
        let mut ys = vec![-1.0f32; 300];
        run(&program, [4, 1, 1], &[slot(&xs), ys.as_mut_ptr() as u64, shift as u64]);
        assert!((0..256).all(|i| ys[shift + i] == 2.0 * i as f32), "{shift}: {ys:?}");
        assert!(ys[..shift].iter().chain(&ys[shift + 256..]).all(|&y| y == -1.0), "{shift}");
    }
    let text = asm(&program);
    assert!(cfg!(not(target_arch = "x86_64")) || text.contains("movnt") && text.contains("sfence"), "{text}");
}

/// A row that is summed is asked for ahead of the loop, in its stages; what lies apart is not.
#[test]
fn rows_are_asked_for_ahead() {
    use crate::graph::{Graph, Reduction};
    use crate::schedule::{Grain, InputData, Layout, Options, plan};
    let summed = |axis: usize| {
        let mut graph = Graph::new();
        let x = graph.input(DType::F32, &[3000, 3000]);
        let y = graph.reduce(Reduction::Sum, x, &[axis], DType::F32);
        graph.outputs.push(y);
        let input = InputData { layout: Layout::contiguous(&[3000, 3000]), buffer_len: 9_000_000, donated: false };
        let options = Options::new(true, None, Grain::of_vectors(4));
        let program = plan(&graph, &[input], &options).programs.swap_remove(0);
        assert_eq!(program.to_string().parse::<Program>().unwrap().to_string(), program.to_string());
        let asm = asm(&program);
        (program.to_string().contains(" stages "), ["prefetch", "prfm"].iter().any(|name| asm.contains(name)))
    };
    assert_eq!((summed(1), summed(0)), ((true, true), (false, false)));
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

/// Every pair of interesting numbers, as vectors by vectors, vectors by scalars and scalars by scalars.
#[test]
fn integer_division_never_traps_and_is_exact() {
    for dtype in [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64] {
        let mut b = Builder::new("divide");
        let (x, y, z) = (b.buffer(dtype, false), b.scalar(dtype, 1), b.buffer(dtype, true));
        let lanes = b.arange(32);
        let by_scalar = b.load(x, lanes);
        let by_scalar = b.map(Pointwise::Div, &[by_scalar, y]);
        b.store(z, lanes, by_scalar, None);
        let divisors = b.broadcast(y, &[32]);
        let odd = b.load(x, lanes);
        let zero = b.constant(dtype, 0);
        let odd = b.map(Pointwise::Mul, &[odd, zero]);
        let divisors = b.map(Pointwise::Or, &[divisors, odd]);
        let by_vector = b.load(x, lanes);
        let by_vector = b.map(Pointwise::Div, &[by_vector, divisors]);
        let next = b.int(DType::I32, 32);
        let next = b.add(lanes, next);
        b.store(z, next, by_vector, None);
        let program = b.finish();
        let object = Compiler::new(&spec()).compile(&program, &mut |_, _| {}).unwrap();
        let kernel = load(&object).unwrap();
        let shift = 64 - dtype.bits();
        let least = if dtype.is_signed() { i128::from(i64::MIN >> shift) } else { 0 };
        let most = if dtype.is_signed() { i128::from(i64::MAX >> shift) } else { i128::from(u64::MAX >> shift) };
        let near = [0, 1, 2, 3, 5, 7, 10, 100, 127];
        let numbers: Vec<i128> =
            near.iter().flat_map(|&n| [n, -n, least + n, most - n]).filter(|n| (least..=most).contains(n)).collect();
        for xs in numbers.chunks(32) {
            let mut bytes: Vec<u8> = xs.iter().flat_map(|x| x.to_le_bytes()[..dtype.bytes()].to_vec()).collect();
            bytes.resize(32 * dtype.bytes(), 1);
            for &y in &numbers {
                let mut out = vec![0u8; 64 * dtype.bytes()];
                let params = [slot(&bytes), y as u64, out.as_mut_ptr() as u64];
                // SAFETY: the buffers hold 32 and 64 elements and outlive the call.
                unsafe { kernel.launch(&Pool::with_threads(1), [1, 1, 1], &params, &AtomicU32::new(0)) };
                for (i, &x) in xs.iter().enumerate() {
                    let want = if y == 0 { 0 } else { x / y };
                    for at in [i, 32 + i] {
                        let got = &out[at * dtype.bytes()..][..dtype.bytes()];
                        assert_eq!(got, &want.to_le_bytes()[..dtype.bytes()], "{dtype}: {x} / {y} at {at}");
                    }
                }
            }
        }
    }
}

/// A chain of rows is straight vector code: wide loads, no calls, no division of index arithmetic.
#[test]
fn code_is_what_it_should_be() {
    let mut b = Builder::new("rows");
    let (x, y) = (b.buffer(DType::F32, false), b.buffer(DType::F32, true));
    let (n, columns) = (b.scalar(DType::I32, 1), b.scalar(DType::I32, 16));
    let (offsets, mask) = block(&mut b, n, 64);
    let row = b.map(Pointwise::Div, &[offsets, columns]);
    let start = b.mul(row, columns);
    let column = b.map(Pointwise::Sub, &[offsets, start]);
    let zero = b.constant(DType::F32, 0);
    let xs = b.load_masked(x, offsets, mask, zero);
    let bias = b.load_masked(x, column, mask, zero);
    let sum = b.add(xs, bias);
    let sum = b.map(Pointwise::Max, &[sum, zero]);
    b.store(y, offsets, sum, Some(mask));
    let text = asm(&b.finish());
    let has = |name: &str| text.lines().any(|line| line.trim_start().starts_with(name));
    assert!(!has("call"), "{text}");
    if cfg!(target_arch = "x86_64") {
        assert!(!has("vgather") && !has("vdivpd"), "{text}");
        assert_eq!(text.matches("idivl").count(), 64 / spec().lanes as usize, "{text}");
        assert!(has("vmovups") || has("vmaskmovps"), "{text}");
    }
}

fn doubling(name: &str) -> Program {
    let mut b = Builder::new(name);
    let x = b.buffer(DType::F32, true);
    let lanes = b.arange(64);
    let xs = b.load(x, lanes);
    let twice = b.add(xs, xs);
    b.store(x, lanes, twice, None);
    b.finish()
}

#[test]
fn threads_compile_load_run_and_drop_kernels_at_once() {
    let pool = Pool::with_threads(2);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..4 {
                    // Kernels of one name live side by side.
                    let name = if round % 2 == 0 { "same".into() } else { format!("own{thread}") };
                    let object = Compiler::new(&spec()).compile(&doubling(&name), &mut |_, _| {}).unwrap();
                    let kernels = [load(&object).unwrap(), load(&object).unwrap()];
                    for kernel in &kernels {
                        let mut xs = [1.5f32; 64];
                        let slots = [xs.as_mut_ptr() as u64];
                        // SAFETY: the buffer holds the 64 elements that the program touches.
                        unsafe { kernel.launch(pool, [1, 1, 1], &slots, &AtomicU32::new(0)) };
                        assert_eq!(xs, [3.0; 64]);
                    }
                }
            });
        }
    });
}

#[test]
fn what_is_not_an_object_of_this_machine_is_refused() {
    let object = Compiler::new(&spec()).compile(&doubling("whole"), &mut |_, _| {}).unwrap();
    for bytes in [Vec::new(), b"not an object".to_vec(), object.bytes[..40].to_vec()] {
        let damaged = Object { bytes, ..object.clone() };
        assert!(matches!(load(&damaged), Err(Error::Foreign(_))));
    }
    let stranger = Object { symbol: "kiln_stranger".into(), ..object };
    assert!(matches!(load(&stranger), Err(Error::Load { .. })));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn code_that_needs_a_library_is_refused_by_name() {
    let mut b = Builder::new("fused");
    let x = b.buffer(DType::F32, true);
    let lanes = b.arange(4);
    let xs = b.load(x, lanes);
    let xs = b.map(Pointwise::Fma, &[xs, xs, xs]);
    b.store(x, lanes, xs, None);
    // Without an instruction for it, a fused multiply-add is a function of the C library.
    let old = Spec::host("x86_64-unknown-linux-gnu", "x86-64", "");
    match Compiler::new(&old).compile(&b.finish(), &mut |_, _| {}) {
        Err(Error::Undefined { symbols, .. }) => assert_eq!(symbols, ["fmaf"]),
        other => panic!("{other:?}"),
    }
}

/// One address, one answer to the mask, and another value that differs from lane to lane.
#[test]
fn a_load_that_is_masked_off_gives_the_other_value_in_every_lane() {
    let mut b = Builder::new("other");
    let (x, y) = (b.buffer(DType::I32, false), b.buffer(DType::I32, true));
    let n = b.scalar(DType::I32, 1);
    let lanes = b.arange(64);
    let zero = b.int(DType::I32, 0);
    let some = b.lt(zero, n);
    let zeros = b.broadcast(zero, &[64]);
    let xs = b.load_masked(x, zeros, some, lanes);
    b.store(y, lanes, xs, None);
    let program = b.finish();
    for (n, want) in [(1u64, [7; 64]), (0, std::array::from_fn(|i| i as i32))] {
        let mut ys = [-1i32; 64];
        run(&program, [1, 1, 1], &[slot(&[7i32]), ys.as_mut_ptr() as u64, n]);
        assert_eq!(ys, want);
    }
}

/// A tile divided by one number: bits of every quotient, where reciprocals serve and where they do not.
#[test]
fn a_tile_is_divided_by_a_number_to_the_last_bit() {
    let mut b = Builder::new("divide");
    let (x, y) = (b.buffer(DType::F32, false), b.buffer(DType::F32, true));
    let (n, by) = (b.scalar(DType::I32, 1), b.scalar(DType::F32, 1));
    let (offsets, mask) = block(&mut b, n, 64);
    let zero = b.constant(DType::F32, 0);
    let xs = b.load_masked(x, offsets, mask, zero);
    let quotient = b.map(Pointwise::Div, &[xs, by]);
    b.store(y, offsets, quotient, Some(mask));
    let object = Compiler::new(&spec()).compile(&b.finish(), &mut |_, _| {}).unwrap();
    let kernel = load(&object).unwrap();

    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    // Mantissas, and exponents around 0, at the limits of what reciprocals serve, and beyond.
    let mut number = |low: u32, high: u32| {
        let mantissa = match random() % 4 {
            0 => random() % 4,
            1 => 0x7f_ffff - random() % 4,
            _ => random() & 0x7f_ffff,
        };
        f32::from_bits((low + random() % (high - low + 1)) << 23 | mantissa)
    };
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1e-42, -1e-40, f32::MIN_POSITIVE];
    let pool = Pool::with_threads(1);
    for round in 0..2000 {
        let divisor = match round % 20 {
            0 => special[round / 20 % special.len()],
            1 => -number(120, 135),
            2 => number(1, 254),
            _ => number(127 - 41, 127 + 41),
        };
        let xs: Vec<f32> = (0..256)
            .map(|i| match (i / 64, i % 16) {
                (0, _) => number(127, 127),
                // Next to products, whose quotients lie next to the middle between two numbers or are exact.
                (1, k) => f32::from_bits((number(127, 127) * divisor).to_bits().wrapping_add(k as u32 % 3)),
                (2, k) if k == round % 16 => special[round % special.len()],
                (2, _) => number(62, 193),
                (_, k) if k % 2 == 0 => 0.0,
                _ => -number(63, 192),
            })
            .collect();
        let mut ys = vec![0f32; 256];
        let (params, status) =
            ([slot(&xs), ys.as_mut_ptr() as u64, 256, u64::from(divisor.to_bits())], AtomicU32::new(0));
        // SAFETY: the slots are for buffers that outlive the call.
        unsafe { kernel.launch(&pool, [4, 1, 1], &params, &status) };
        for (x, y) in xs.iter().zip(&ys) {
            let want = x / divisor;
            assert!(y.to_bits() == want.to_bits() || y.is_nan() && want.is_nan(), "{x:e} / {divisor:e}: {y:e}");
        }
    }
}
