//! Lanes that are threads give what the interpreter gives: on random programs, bit for bit, NaNs alike.

use proptest::prelude::*;

mod finished;
mod products;

pub(crate) use products::{Lies, staged_product};

use super::driver::{compile, like, spec};
use crate::dtype::DType;
use crate::graph::Array;
use crate::op::Pointwise;
use crate::op::pointwise::Lower;
use crate::spec::Spec;
use crate::target::{amd, nvidia};
use crate::tile::arbitrary::{Case, Data, Features, program};
use crate::tile::{Builder, Precision, Value};

/// A piece of an aligned buffer.
#[derive(Clone)]
#[repr(align(64))]
struct Line([u8; 64]);

/// Lanes and warps of the machines.
const MACHINES: [(u32, u32); 3] = [(8, 1), (4, 2), (2, 4)];

fn run(case: &Case, machine: &Spec) -> Result<(Vec<Data>, u32), String> {
    let kernel = compile(&case.program, machine)?;
    let aligned = |d: &Data| match d {
        Data::Scalar(_) => Vec::new(),
        Data::Buffer(bytes) => {
            let mut lines = vec![Line([0xa5; 64]); bytes.len() / 64 + 2];
            bytes.iter().enumerate().for_each(|(i, &byte)| lines[i / 64].0[i % 64] = byte);
            lines
        }
    };
    let mut homes: Vec<Vec<Line>> = case.args.iter().map(aligned).collect();
    let slot = |(d, home): (&Data, &mut Vec<Line>)| match d {
        Data::Scalar(bits) => *bits,
        Data::Buffer(_) => home.as_mut_ptr() as u64,
    };
    let params: Vec<u64> = case.args.iter().zip(&mut homes).map(slot).collect();
    // SAFETY: every slot is a scalar or the address of a buffer in `homes`; the interpreter has run the same program on
    // buffers of these lengths and found no access outside.
    let code = unsafe { kernel.launch(case.grid, &params) };
    let mut data = case.args.clone();
    for (d, home) in data.iter_mut().zip(&homes) {
        let Data::Buffer(bytes) = d else { continue };
        let byte = |i: usize| home[i / 64].0[i % 64];
        (0..bytes.len()).for_each(|i| bytes[i] = byte(i));
        if let Some(i) = (bytes.len()..home.len() * 64).find(|&i| byte(i) != 0xa5) {
            return Err(format!("wrote behind a buffer of {} bytes, at {i}", bytes.len()));
        }
    }
    Ok((data, code))
}

fn agrees(case: &Case, (lanes, warps): (u32, u32)) -> Result<(), String> {
    agrees_on(case, &spec(lanes, warps))
}

fn agrees_on(case: &Case, machine: &Spec) -> Result<(), String> {
    let (want, report) = case.interpret(&case.program).map_err(|fault| format!("the interpreter: {fault}"))?;
    let (got, code) = run(case, machine)?;
    if let Some(difference) = case.difference(&want, &got) {
        return Err(format!("interpreter and threads differ: {difference}"));
    }
    let expected = report.checks.iter().any(|&c| c != 0);
    if expected != (code != 0) || code != 0 && !report.checks.contains(&code) {
        return Err(format!("checks {:?}, the threads report {code}", report.checks));
    }
    Ok(())
}

fn check(seed: u64, features: &Features) -> Result<(), TestCaseError> {
    let machine = MACHINES[(seed % 3) as usize];
    if agrees(&program(seed, features), machine).is_ok() {
        return Ok(());
    }
    for steps in 0..=features.steps {
        let case = program(seed, &Features { steps, ..features.clone() });
        if let Err(error) = agrees(&case, machine) {
            let text =
                format!("seed {seed}, {steps} steps, {machine:?}: {error}\ngrid {:?}\n{}", case.grid, case.program);
            return Err(TestCaseError::fail(text));
        }
    }
    Ok(())
}

fn simple_rows() -> Vec<Pointwise> {
    Pointwise::ALL.iter().copied().filter(|op| matches!(op.row().lower, Lower::Native)).collect()
}

/// The files that the interpreter's tests keep.
#[test]
fn files_give_the_same_here() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tile")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "tile") {
            let case = Case::read(&std::fs::read_to_string(&path).unwrap()).unwrap();
            for machine in MACHINES {
                agrees(&case, machine).unwrap_or_else(|e| panic!("{}, {machine:?}: {e}", path.display()));
            }
        }
    }
}

/// Offsets of a row-major matrix.
fn matrix(b: &mut Builder, rows: u32, columns: u32) -> Value {
    let offsets = b.arange(rows * columns);
    b.reshape(offsets, &[rows, columns])
}

/// Loads three tiles, multiplies and adds, stores the sums.
fn product([operand, sum]: [DType; 2], precision: Precision, [m, n, k]: [u32; 3]) -> Case {
    let mut b = Builder::new("product");
    let [x, y] = [0; 2].map(|_| b.buffer(operand, false));
    let acc = b.buffer(sum, true);
    let (at_x, at_y, at_acc) = (matrix(&mut b, m, k), matrix(&mut b, k, n), matrix(&mut b, m, n));
    let (xs, ys, sums) = (b.load(x, at_x), b.load(y, at_y), b.load(acc, at_acc));
    let sums = b.dot(xs, ys, sums, precision);
    b.store(acc, at_acc, sums, None);
    // No two rows or columns alike, sums that depend on their order, and in f16 and bf16 neither infinities nor NaN.
    let data = |dtype: DType, count: u32, seed: u32| {
        let number = |i: u32| (i + seed).wrapping_mul(0x9e37_79b9) >> 8;
        let bits = |i: u32| match dtype {
            DType::F16 => u64::from(number(i) & 0x83ff | 0x3800),
            DType::Bf16 => u64::from(number(i) & 0x80ff | 0x3f00),
            DType::F32 => u64::from((number(i) as f32 / 1e7).to_bits()),
            _ => u64::from(number(i)),
        };
        Data::Buffer((0..count).flat_map(|i| bits(i).to_le_bytes()[..dtype.bytes()].to_vec()).collect())
    };
    let args = vec![data(operand, m * k, 1), data(operand, k * n, 5000), data(sum, m * n, 9000)];
    Case { program: b.finish(), grid: [1; 3], args }
}

/// Matrix instructions, by their makers' formulas: what they are handed and hand back are the elements that the
/// layouts say, on one warp and several.
#[test]
fn matrix_instructions_give_the_sums_of_the_interpreter() {
    let amd = amd::names().map(|name| amd::spec(name).unwrap());
    for machine in amd.chain(nvidia::spec("sm_80", 80)) {
        let name = &machine.name;
        for matrix in machine.matrices {
            let k = matrix.extents[2];
            for (extents, warps) in [([16, 16, k], 1), ([32, 64, 2 * k], 1), ([64, 32, k], 2)] {
                let case = product([matrix.operand, matrix.sum], matrix.precision, extents);
                let emulated =
                    Spec { name: name.to_string(), matrices: machine.matrices, ..spec(machine.lanes, warps) };
                agrees_on(&case, &emulated)
                    .unwrap_or_else(|e| panic!("{name} {} {extents:?} {warps}: {e}", matrix.name));
            }
        }
    }
}

/// Where no instruction has it, `2^x` is a polynomial, as near as it is said to be.
#[test]
fn powers_of_two_are_near_enough() {
    let count = 1 << 12;
    let xs: Vec<f32> =
        (0..count).map(|i| i as f32 / 10.0 - 200.0).chain([f32::NEG_INFINITY, f32::NAN, 1e9, -1e30]).collect();
    let mut b = Builder::new("powers");
    let (from, to) = (b.buffer(DType::F32, false), b.buffer(DType::F32, true));
    let (pid, lanes) = (b.program_id(0), b.arange(4));
    let four = b.int(DType::I32, 4);
    let start = b.mul(pid, four);
    let at = b.add(start, lanes);
    let x = b.load(from, at);
    let power = b.exp2_approx(x);
    b.store(to, at, power, None);
    let bytes = |xs: &[f32]| Data::Buffer(xs.iter().flat_map(|x| x.to_le_bytes()).collect());
    let grid = [xs.len() as u32 / 4, 1, 1];
    let case = Case { program: b.finish(), grid, args: vec![bytes(&xs), bytes(&vec![0.0; xs.len()])] };
    let near = |case: &[Data], what: &str| {
        let Data::Buffer(bytes) = &case[1] else { panic!() };
        for (&x, got) in xs.iter().zip(bytes.chunks_exact(4)) {
            let (got, want) = (f32::from_le_bytes(got.try_into().unwrap()), x.exp2());
            let fits = match want {
                w if w.is_nan() => got.is_nan(),
                w if w < 2.0 * f32::MIN_POSITIVE => got < 4.0 * f32::MIN_POSITIVE,
                w if w.is_infinite() => got == w,
                w => (got - w).abs() <= 4e-6 * w,
            };
            assert!(fits, "{what}: 2^{x} is {want}, not {got}");
        }
    };
    near(&case.interpret(&case.program).unwrap().0, "interpreter");
    near(&run(&case, &spec(4, 1)).unwrap().0, "threads");
}

/// The sigmoid of every bf16 number is the same where powers are polynomials.
#[test]
fn polynomials_do_not_show_in_a_sigmoid_of_bf16() {
    let mut b = Builder::new("sigmoid");
    let (from, to) = (b.buffer(DType::Bf16, false), b.buffer(DType::Bf16, true));
    let (pid, lanes) = (b.program_id(0), b.arange(64));
    let size = b.int(DType::I32, 64);
    let start = b.mul(pid, size);
    let at = b.add(start, lanes);
    let x = b.load(from, at);
    let y = b.map(Pointwise::Sigmoid, &[x]);
    b.store(to, at, y, None);
    let all = Data::Buffer((0..=0xffffu16).flat_map(u16::to_le_bytes).collect());
    let case = Case { program: b.finish(), grid: [1 << 10, 1, 1], args: vec![all.clone(), all] };
    agrees_on(&case, &spec(4, 1)).unwrap();
}

/// One whose warps multiply together and have an engine; what they would is taken apart into the instructions of one.
fn together() -> Spec {
    let Spec { group, boxes, .. } = nvidia::spec("sm_90a", 80).unwrap();
    Spec { group, boxes, ..nvidia::spec("sm_80", 80).unwrap() }
}

/// Attention on matrix instructions: what is loaded in runs, multiplied in fragments and reduced across lanes is what the
/// rows say.
#[test]
fn attention_gives_what_its_rows_say() {
    use crate::schedule::attention::tests::{CHANGES, SIZES, attention, compare, launch, operands, options};
    let nvidia = nvidia::spec("sm_80", 80).unwrap();
    for machine in [nvidia, together(), amd::spec("gfx942").unwrap(), amd::spec("gfx1100").unwrap()] {
        for (sizes, change) in SIZES.into_iter().zip(CHANGES.into_iter().cycle().skip(1)) {
            let graph = attention(DType::Bf16, sizes, change);
            let inputs = operands(&graph);
            let grain = if machine.group > 0 { options().grain.together() } else { options().grain };
            let case = launch(&graph, &inputs, grain);
            let emulated = like(&machine, case.program.warps);
            let (data, _) = run(&case, &emulated).unwrap();
            let Some(Data::Buffer(bytes)) = data.iter().rfind(|d| matches!(d, Data::Buffer(_))) else { panic!() };
            let dims = graph.dims(graph.outputs[0]);
            let got = Array::from_bytes(DType::Bf16, dims, bytes);
            compare(&graph, &inputs, &got, &format!("{} {sizes:?} {change:?}", machine.name));
        }
    }
}

/// Columns that several warps sum together, the last of them and the last rows being fewer than a tile has.
#[test]
fn warps_share_the_columns_of_a_sum() {
    use crate::graph::{Graph, Reduction};
    use crate::schedule::attention::tests::{launch, operands, options};
    for (kind, dtype) in [(Reduction::Sum, DType::Bf16), (Reduction::Max, DType::F32), (Reduction::ArgMin, DType::F32)]
    {
        let mut graph = Graph::new();
        let x = graph.input(dtype, &[150, 100]);
        let y = graph.reduce(kind, x, &[0], if kind.is_arg() { DType::I32 } else { dtype });
        graph.outputs.push(y);
        let case = launch(&graph, &operands(&graph), options().grain);
        assert_eq!(case.program.warps, 4);
        agrees_on(&case, &spec(32, 4)).unwrap_or_else(|e| panic!("{kind:?}: {e}"));
    }
}

/// Rows of several chunks, each of which a warp sums.
#[test]
fn warps_share_a_row() {
    use crate::graph::{Graph, Reduction};
    use crate::schedule::attention::tests::{launch, operands, options};
    for (terms, warps, absent, dtype) in [
        (2048, 2, 0, DType::F32),
        (4096, 4, 0, DType::Bf16),
        // Warps that have nothing are not there; the last one that is has a part of a chunk.
        (3072, 4, 1, DType::Bf16),
        (4096 + 384, 8, 3, DType::F16),
    ] {
        let mut g = Graph::new();
        let dims = [3, terms];
        let x = g.input(dtype, &dims);
        let wide = g.cast(x, DType::F32);
        let most = g.reduce(Reduction::Max, wide, &[1], DType::F32);
        let most = g.expand(most, &dims);
        let below = g.map(Pointwise::Sub, &[wide, most]);
        let sum = g.reduce(Reduction::Sum, below, &[1], DType::F32);
        let sum = g.expand(sum, &dims);
        let y = g.map(Pointwise::Div, &[below, sum]);
        let first = g.reduce(Reduction::ArgMax, wide, &[1], DType::I32);
        let first = g.cast(first, DType::F32);
        let first = g.expand(first, &dims);
        let y = g.map(Pointwise::Add, &[y, first]);
        let y = g.cast(y, dtype);
        g.outputs.push(y);
        let case = launch(&g, &operands(&g), options().grain);
        assert_eq!((case.program.warps, case.program.absent), (warps, absent), "{terms} terms");
        agrees_on(&case, &spec(32, warps)).unwrap_or_else(|e| panic!("{terms} terms: {e}"));
    }
}

/// Long rows that are only reduced, a chunk a warp, the last of them not being there as a whole.
#[test]
fn warps_share_a_row_that_is_reduced() {
    use crate::graph::{Graph, Reduction};
    use crate::schedule::attention::tests::{launch, operands, options};
    for (kind, dtype) in [(Reduction::Sum, DType::Bf16), (Reduction::Max, DType::F32), (Reduction::ArgMax, DType::F16)]
    {
        let mut g = Graph::new();
        let x = g.input(dtype, &[2, 9 * 1024 + 70]);
        let y = g.reduce(kind, x, &[1], if kind.is_arg() { DType::I32 } else { dtype });
        g.outputs.push(y);
        let case = launch(&g, &operands(&g), options().grain);
        assert_eq!(case.program.warps, 4);
        agrees_on(&case, &spec(32, 4)).unwrap_or_else(|e| panic!("{kind:?}: {e}"));
    }
}

/// Tiles of many points that several warps share, and those that are turned on the way.
#[test]
fn warps_share_points() {
    use crate::graph::Graph;
    use crate::schedule::attention::tests::{launch, operands, options};
    for (dtype, [rows, columns], turned, warps) in [
        (DType::F32, [70, 1000], &[false, false][..], 4),
        (DType::Bf16, [300, 130], &[false, true], 4),
        (DType::Bf16, [300, 130], &[true], 8),
        (DType::F32, [58, 40], &[true], 4),
        (DType::F16, [300, 9], &[true], 1),
    ] {
        let mut g = Graph::new();
        let operands_of = turned.iter().map(|&turned| {
            let x = g.input(dtype, &if turned { [columns, rows] } else { [rows, columns] });
            if turned { g.permute(x, &[1, 0]) } else { x }
        });
        let of: Vec<_> = operands_of.collect();
        let sum = g.map(Pointwise::Add, &[of[0], of[of.len() - 1]]);
        g.outputs.push(sum);
        let case = launch(&g, &operands(&g), options().grain.with_long_lines(1));
        assert_eq!(case.program.warps, warps, "{rows}x{columns} {turned:?}");
        agrees_on(&case, &spec(32, warps)).unwrap_or_else(|e| panic!("{rows}x{columns} {dtype}: {e}"));
    }
}

/// Prefixes of rows whose terms are turned in pieces, of the last rows and terms too.
#[test]
fn turned_prefixes_are_those_of_the_rows() {
    use crate::graph::{Graph, Reduction};
    use crate::schedule::attention::tests::{launch, operands, options};
    for (dtype, rows, terms) in [(DType::Bf16, 40, 200), (DType::F32, 33, 1100), (DType::F16, 32, 64)] {
        let mut g = Graph::new();
        let x = g.input(dtype, &[rows, terms]);
        let y = g.scan(Reduction::Sum, x, 1);
        g.outputs.push(y);
        let case = launch(&g, &operands(&g), options().grain);
        agrees_on(&case, &spec(32, 1)).unwrap_or_else(|e| panic!("{rows} rows of {terms} {dtype}: {e}"));
    }
}

/// Tiles of rows that are there as a whole, and of some that are not.
#[test]
fn rows_that_are_filled_up_are_summed_with_and_without_checks() {
    use crate::graph::{Graph, PadDim, Reduction};
    use crate::schedule::attention::tests::{launch, operands, options};
    // Chunks of the tree are a class of their own, without a loop around them.
    for (terms, loops) in [(40, true), (1024, false)] {
        let mut g = Graph::new();
        let x = g.input(DType::F32, &[3 * terms - 10, 70]);
        let fill = PadDim { high: 10, ..PadDim::default() };
        let x = g.pad(x, &[fill, PadDim::default()], 0);
        let x = g.reshape(x, &[3, terms, 70]);
        let y = g.reduce(Reduction::Sum, x, &[1], DType::F32);
        g.outputs.push(y);
        let case = launch(&g, &operands(&g), options().grain);
        let text = case.program.to_string();
        let loads = || text.lines().filter(|line| line.contains("= load"));
        assert!(loads().any(|line| line.contains(", ")) && loads().any(|line| !line.contains(", ")), "{text}");
        assert_eq!(text.matches("for ").count() > 20, loops, "{text}");
        agrees_on(&case, &spec(32, 4)).unwrap_or_else(|e| panic!("{terms} terms: {e}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn few_types(seed: u64) {
        let dtypes = vec![DType::F32, DType::I32, DType::Bool, DType::F16];
        check(seed, &Features { dtypes, rows: simple_rows(), elements: 128, ..Features::default() })?;
    }

    #[test]
    fn all_types(seed: u64) {
        check(seed, &Features { rows: simple_rows(), elements: 64, ..Features::default() })?;
    }
}
