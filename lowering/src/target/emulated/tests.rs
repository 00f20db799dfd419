//! Lanes that are threads give what the interpreter gives: on random programs, bit for bit, NaNs alike.

use proptest::prelude::*;

use super::driver::{compile, spec};
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

/// Attention on matrix instructions: what is loaded in runs, multiplied in fragments and reduced across lanes is what the
/// rows say.
#[test]
fn attention_gives_what_its_rows_say() {
    use crate::schedule::attention::tests::{CHANGES, SIZES, attention, compare, launch, operands, options};
    let nvidia = nvidia::spec("sm_80", 80).unwrap();
    // What warps multiply together is taken apart into the instructions of one.
    let together = Spec { group: nvidia::spec("sm_90a", 80).unwrap().group, ..nvidia.clone() };
    for machine in [nvidia, together, amd::spec("gfx942").unwrap(), amd::spec("gfx1100").unwrap()] {
        let (name, matrices, group) = (machine.name.clone(), machine.matrices, machine.group);
        for (sizes, change) in SIZES.into_iter().zip(CHANGES.into_iter().cycle().skip(1)) {
            let graph = attention(DType::Bf16, sizes, change);
            let inputs = operands(&graph);
            let grain = if group > 0 { options().grain.together() } else { options().grain };
            let case = launch(&graph, &inputs, grain);
            let emulated = Spec { name: name.clone(), matrices, group, ..spec(machine.lanes, case.program.warps) };
            let (data, _) = run(&case, &emulated).unwrap();
            let Some(Data::Buffer(bytes)) = data.iter().rfind(|d| matches!(d, Data::Buffer(_))) else { panic!() };
            let dims = graph.dims(graph.outputs[0]);
            let got = Array::from_bytes(DType::Bf16, dims, bytes);
            compare(&graph, &inputs, &got, &format!("{} {sizes:?} {change:?}", machine.name));
        }
    }
}

/// How a factor of a product lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lies {
    /// Its neighbours along the terms side by side.
    AlongTerms,
    /// Those along the other axis.
    Across,
    /// The same, the last term first.
    Backwards,
}

/// A product in a loop whose stages copy both factors ahead, factors that lie in all ways, terms that do not fill the last
/// block; few pieces a thread, and as many as are moved from where they were.
#[test]
fn factors_that_are_copied_ahead_are_those_of_the_iteration() {
    let nvidia = nvidia::spec("sm_90a", 80).unwrap();
    for (extents, warps, stages) in [([64, 32, 64], 4, 2), ([128, 64, 64], 8, 3), ([128, 128, 64], 4, 3)] {
        use Lies::{Across, AlongTerms, Backwards};
        for lies in [[AlongTerms; 2], [Across, AlongTerms], [AlongTerms, Across], [Across; 2], [Backwards; 2]] {
            for terms in [0, 40, 64, 424] {
                let case = staged_product(extents, (warps, stages), lies, terms);
                let matrices = nvidia.matrices;
                let machine = Spec { name: "sm_80".into(), matrices, group: nvidia.group, ..spec(32, warps) };
                let what = || format!("{extents:?}, {warps} warps, {stages} stages, {lies:?}, {terms} terms");
                agrees_on(&case, &machine).unwrap_or_else(|e| panic!("{}: {e}\n{}", what(), case.program));
            }
        }
    }
}

/// Products in blocks, as where there is no library: both factors lying both ways, batches, edges that fill no block.
#[test]
fn products_in_blocks_are_those_of_the_rows() {
    use crate::graph::oracle;
    use crate::schedule::attention::tests::{launch_of, operands, options, planned_with};
    let nvidia = nvidia::spec("sm_80", 80).unwrap();
    let together = Spec { group: nvidia::spec("sm_90a", 80).unwrap().group, ..nvidia.clone() };
    for machine in [nvidia, together, amd::spec("gfx942").unwrap()] {
        let threads = options().grain;
        let grain = if machine.group > 0 { threads.together() } else { threads };
        for ([batch, m, n, k], turned) in [
            ([1, 200, 144, 112], [false, false]),
            ([2, 64, 272, 64], [true, false]),
            ([1, 136, 96, 200], [false, true]),
            ([3, 72, 40, 33], [true, true]),
        ] {
            let mut g = crate::graph::Graph::new();
            let mut factor = |dims: [u64; 3], turned: bool| {
                let [batch, rows, columns] = dims;
                let lies = if turned { [batch, columns, rows] } else { dims };
                let x = g.input(DType::Bf16, &lies);
                if turned { g.permute(x, &[0, 2, 1]) } else { x }
            };
            let (a, b) = (factor([batch, m, k], turned[0]), factor([batch, k, n], turned[1]));
            let y = g.contract(a, b);
            g.outputs.push(y);
            let inputs = operands(&g);
            let plan = planned_with(&g, &crate::schedule::Options { grain, gemm_from: Some(u64::MAX), ..options() });
            let case = launch_of(&g, &inputs, plan);
            assert!(case.program.warps >= 4, "{}", case.program);
            let warps = case.program.warps;
            let emulated = Spec {
                name: machine.name.clone(),
                matrices: machine.matrices,
                group: machine.group,
                ..spec(machine.lanes, warps)
            };
            let (data, _) = run(&case, &emulated).unwrap();
            let Some(Data::Buffer(bytes)) = data.iter().rfind(|d| matches!(d, Data::Buffer(_))) else { panic!() };
            let got = Array::from_bytes(DType::Bf16, g.dims(y), bytes);
            let want = oracle::run(&g, &inputs, &[]).unwrap().remove(0);
            for (i, (got, want)) in got.floats().into_iter().zip(want.floats()).enumerate() {
                assert!(
                    (got - want).abs() <= 0.01 * want.abs() + 1e-3,
                    "{} {batch}x{m}x{n}x{k} {turned:?} at {i}: {got}, wanted {want}",
                    machine.name
                );
            }
        }
    }
}

/// Convolutions read their windows from the tensor with its channels last, and nobody copies them; steps, gaps and padding.
#[test]
fn convolutions_are_products_over_windows_that_are_not_copied() {
    use crate::graph::{Graph, PadDim, WindowDim, oracle};
    use crate::schedule::attention::tests::{operands, options, planned_with};
    use crate::schedule::{Options, Step, execute};
    let together = Spec { group: nvidia::spec("sm_90a", 80).unwrap().group, ..nvidia::spec("sm_80", 80).unwrap() };
    for (channels, step, dilation, bias) in [(16, 1, 1, false), (32, 2, 1, true), (16, 1, 2, false)] {
        let mut g = Graph::new();
        let [batch, side, rows, size] = [3, 9, 40, 3];
        let x = g.input(DType::Bf16, &[batch, channels, side, side]);
        let w = g.input(DType::Bf16, &[rows, channels, size, size]);
        let wide = if bias { DType::F32 } else { DType::Bf16 };
        let (x, w) = (g.cast(x, wide), g.cast(w, wide));
        let pad = PadDim { low: 1, high: 1, interior: 0 };
        let padded = g.pad(x, &[PadDim::default(), PadDim::default(), pad, pad], 0);
        let count = (side + 2 - (size - 1) * dilation - 1) / step + 1;
        let over = |axis| WindowDim { axis, count, size, step, dilation };
        let windows = g.window(padded, &[over(2), over(3)]);
        let split = g.reshape(windows, &[batch, 1, channels, count, count, size, size]);
        let turned = g.permute(split, &[1, 2, 5, 6, 0, 3, 4]);
        let columns = g.reshape(turned, &[channels * size * size, batch * count * count]);
        let weights = g.reshape(w, &[rows, channels * size * size]);
        let y = g.contract(weights, columns);
        let y = g.cast(y, DType::Bf16);
        g.outputs.push(y);
        let inputs = operands(&g);
        let want = oracle::run(&g, &inputs, &[]).unwrap().remove(0);
        let near = |got: &Array, what: &str| {
            for (i, (got, want)) in got.floats().into_iter().zip(want.floats()).enumerate() {
                assert!(
                    (got - want).abs() <= 0.02 * want.abs() + 0.02,
                    "{what}, {channels} channels at {i}: {got}, {want}"
                );
            }
        };
        for machine in [&together, &amd::spec("gfx942").unwrap()] {
            let threads = options().grain;
            let grain = if machine.group > 0 { threads.together() } else { threads };
            let options = Options { grain, ..options() };
            let plan = planned_with(&g, &options);
            let launched = |step: &Step| match step {
                Step::Launch { program, .. } => Some(plan.programs[*program].name.clone()),
                Step::Gemm(_) => Some("gemm".into()),
                _ => None,
            };
            let names: Vec<String> = plan.steps.iter().filter_map(launched).collect();
            assert!(names.contains(&"product".into()) && !names.contains(&"gemm".into()), "{plan}");
            let largest = plan.buffers.values().map(|b| b.len).max().unwrap();
            assert!(largest < g.nodes[columns].len(), "{plan}");
            near(&execute::run(&g, (&inputs, &[]), &options, true).unwrap()[0], "interpreter");
            let got = threads_run(&plan, &inputs, machine);
            near(&Array::from_bytes(DType::Bf16, g.dims(y), &got), &machine.name);
        }
    }
}

/// Runs a plan's launches on emulated threads; gives the bytes of its output.
fn threads_run(plan: &crate::schedule::Plan, inputs: &[Array], machine: &Spec) -> Vec<u8> {
    use crate::schedule::{Arg, Step};
    let mut buffers: Vec<Vec<u8>> = plan
        .buffers
        .values()
        .map(|b| match b.input {
            Some(number) => inputs[number as usize].to_bytes(),
            None => vec![0xa5; b.len as usize * b.dtype.bytes()],
        })
        .collect();
    for step in &plan.steps {
        let Step::Launch { program, grid, args, .. } = step else { continue };
        let program = plan.programs[*program].clone();
        let data = |arg: &Arg| match arg {
            Arg::Literal(bits) => Data::Scalar(*bits),
            Arg::Slot(_) => panic!("no scalars are bound"),
            Arg::Buffer(buf) => Data::Buffer(buffers[buf.as_u32() as usize].clone()),
        };
        let case = Case { grid: *grid, args: args.iter().map(data).collect(), program };
        let warps = case.program.warps;
        let emulated = Spec {
            name: machine.name.clone(),
            matrices: machine.matrices,
            group: machine.group,
            ..spec(machine.lanes, warps)
        };
        let (after, _) = run(&case, &emulated).unwrap();
        for (arg, data) in args.iter().zip(after) {
            if let (Arg::Buffer(buf), Data::Buffer(bytes)) = (arg, data) {
                buffers[buf.as_u32() as usize] = bytes;
            }
        }
    }
    buffers.swap_remove(plan.outputs[0].buffer.as_u32() as usize)
}

/// Sums of whole numbers that every order of the terms gives: `c = a·b`.
pub(crate) fn staged_product([m, n, k]: [u32; 3], (warps, stages): (u32, u8), lies: [Lies; 2], terms: u32) -> Case {
    let turned = lies.map(|lies| lies != Lies::AlongTerms);
    let mut b = Builder::new("staged");
    b.warps(warps);
    let [x, y] = [0; 2].map(|_| b.buffer(DType::F16, false));
    let result = b.buffer(DType::F32, true);
    let length = b.scalar(DType::I32, 8);
    let pitches = [m, n].map(|n| b.int(DType::I32, n.into()));
    let axis = |b: &mut Builder, start: Value, n: u32, beside: u8| {
        let lanes = b.arange(n);
        let at = b.add(start, lanes);
        b.expand_dims(at, beside)
    };
    let zero = b.int(DType::I32, 0);
    let step = b.int(DType::I32, k.into());
    let sum = b.constant(DType::F32, 0);
    let sums = b.broadcast(sum, &[m, n]);
    let (open, params) = b.open(&[b.ty(zero).clone(), b.ty(sums).clone()]);
    let factors = [0, 1].map(|side| {
        let (rows, pitch) = ([m, n][side], pitches[side]);
        // Loaded with the contiguous axis last, and turned to where the product has its terms.
        let last = if turned[side] { 0 } else { 1 };
        let along = axis(&mut b, params[0], k, last as u8 ^ 1);
        let across = axis(&mut b, zero, rows, last as u8);
        let at = match turned[side] {
            true => {
                let one = b.int(DType::I32, 1);
                let last = b.map(Pointwise::Sub, &[length, one]);
                let row = if lies[side] == Lies::Backwards { b.map(Pointwise::Sub, &[last, along]) } else { along };
                let start = b.mul(row, pitch);
                b.add(start, across)
            }
            false => {
                let start = b.mul(across, length);
                b.add(start, along)
            }
        };
        let inside = b.lt(along, length);
        let none = b.constant(DType::F16, 0);
        let tile = b.load_masked([x, y][side], at, inside, none);
        let terms_last = last == 1;
        if terms_last == (side == 0) { tile } else { b.trans(tile, &[1, 0]) }
    });
    let next = b.dot(factors[0], factors[1], params[1], Precision::Ieee);
    let body = b.close(open, &[next]);
    let ty = b.ty(sums).clone();
    let sums = b.push(crate::tile::Op::For { body, stages }, &[zero, length, step, sums], &[ty])[0];
    let at = matrix(&mut b, m, n);
    b.store(result, at, sums, None);
    let halves = |count: u32, seed: u32| {
        let number = |i: u32| ((i + seed).wrapping_mul(0x9e37_79b9) >> 28) as f32 - 8.0;
        let bytes = (0..count).flat_map(|i| half::f16::from_f32(number(i)).to_le_bytes());
        Data::Buffer(bytes.collect())
    };
    let args = vec![
        halves(m * terms, 1),
        halves(n * terms, 77),
        Data::Buffer(vec![0; (m * n * 4) as usize]),
        Data::Scalar(terms.into()),
    ];
    Case { program: b.finish(), grid: [1; 3], args }
}

/// Its gradients likewise, with the row of sums between.
#[test]
fn gradients_of_attention_give_what_their_rows_say() {
    use crate::schedule::attention::tests::slopes::{TRAINED, close, launched, slots, training};
    use crate::schedule::attention::tests::{Change, operands, options};
    let nvidia = nvidia::spec("sm_80", 80).unwrap();
    let together = Spec { group: nvidia::spec("sm_90a", 80).unwrap().group, ..nvidia.clone() };
    let [ragged, square, wide] = TRAINED;
    let cases = [
        (nvidia, square, Change::Masked),
        (together.clone(), square, Change::Causal),
        (together, wide, Change::Causal),
        (amd::spec("gfx942").unwrap(), ragged, Change::Causal),
        (amd::spec("gfx1100").unwrap(), ragged, Change::Biased),
    ];
    for (machine, sizes, change) in cases {
        let grain = if machine.group > 0 { options().grain.together() } else { options().grain };
        let graph = training(DType::Bf16, sizes, change);
        let inputs = operands(&graph);
        let got = launched(&graph, (&inputs, &slots(DType::Bf16)), grain, |case| {
            let lanes = spec(machine.lanes, case.program.warps);
            let own = Spec { name: machine.name.clone(), matrices: machine.matrices, group: machine.group, ..lanes };
            run(case, &own).unwrap().0
        });
        close(sizes, change, &inputs, &got, &format!("{} {sizes:?} {change:?}", machine.name));
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
    for (chunks, dtype) in [(2, DType::F32), (4, DType::Bf16)] {
        let mut g = Graph::new();
        let dims = [3, u64::from(chunks) * 1024];
        let x = g.input(dtype, &dims);
        let wide = g.cast(x, DType::F32);
        let most = g.reduce(Reduction::Max, wide, &[1], DType::F32);
        let most = g.expand(most, &dims);
        let below = g.map(Pointwise::Sub, &[wide, most]);
        let sum = g.reduce(Reduction::Sum, below, &[1], DType::F32);
        let sum = g.expand(sum, &dims);
        let y = g.map(Pointwise::Div, &[below, sum]);
        let y = g.cast(y, dtype);
        g.outputs.push(y);
        let case = launch(&g, &operands(&g), options().grain);
        assert_eq!(case.program.warps, chunks);
        agrees_on(&case, &spec(32, chunks)).unwrap_or_else(|e| panic!("{chunks} chunks: {e}"));
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
