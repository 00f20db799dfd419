//! Products whose factors are copied ahead, products in blocks, and convolutions, which are products over windows.

use rustc_hash::FxHashSet;

use super::{agrees_on, compile, like, matrix, run, together};
use crate::dtype::DType;
use crate::graph::{Array, Graph, oracle};
use crate::llvm::tensor_map::{Stride, TensorMap};
use crate::op::Pointwise;
use crate::schedule::attention::tests::{operands, options, planned_with};
use crate::schedule::implicit::tests::{SQUARE, Sizes, convolution};
use crate::schedule::{Arg, Buf, Options, Plan, Step, execute};
use crate::spec::Spec;
use crate::target::{amd, nvidia};
use crate::tile::arbitrary::{Case, Data};
use crate::tile::{Builder, Precision, Value};

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
    for (extents, warps, stages) in [([64, 32, 64], 4, 2), ([128, 64, 64], 8, 3), ([128, 128, 64], 4, 3)] {
        use Lies::{Across, AlongTerms, Backwards};
        for lies in [[AlongTerms; 2], [Across, AlongTerms], [AlongTerms, Across], [Across; 2], [Backwards; 2]] {
            for terms in [0, 40, 64, 424] {
                let case = staged_product(extents, (warps, stages), lies, terms);
                for boxes in [false, true] {
                    let machine = Spec { boxes, ..like(&together(), warps) };
                    let what = || format!("{extents:?}, {warps} warps, {stages} stages, {lies:?}, {terms} terms");
                    agrees_on(&case, &machine).unwrap_or_else(|e| panic!("{}: {e}\n{}", what(), case.program));
                }
            }
        }
    }
}

/// An engine takes rows that are evenly apart in ascending order, whatever their distance, and nothing else.
#[test]
fn boxes_are_rows_that_are_evenly_apart() {
    use Lies::{Across, AlongTerms, Backwards};
    let machine = like(&together(), 4);
    for (lies, wanted) in [([AlongTerms; 2], 2), ([Across; 2], 2), ([AlongTerms, Backwards], 1), ([Backwards; 2], 0)] {
        let program = staged_product([128, 128, 64], (4, 3), lies, 64).program;
        let maps = |machine: &Spec| compile(&program, machine).unwrap().maps().to_vec();
        assert_eq!(maps(&machine).len(), wanted, "{lies:?}");
        assert_eq!(maps(&Spec { boxes: false, ..machine.clone() }), [], "{lies:?}");
        // Along the terms rows are as far apart as there are terms, across as there are rows or columns: a number.
        let is_number = |map: &TensorMap| matches!(map.stride, Stride::Constant(128));
        assert!(maps(&machine).iter().all(|map| is_number(map) == lies.contains(&Across)), "{lies:?}");
    }
}

/// A loop with stages inside of another, each with a product of its own: only the inner one's factors are copied ahead.
#[test]
fn loops_inside_of_loops_take_their_own_turns() {
    for (extents, warps, stages) in [([64, 64, 64], 4, 2), ([128, 64, 64], 8, 3)] {
        for terms in [64, 200] {
            let case = staged(extents, (warps, stages), [Lies::AlongTerms, Lies::Across], (terms, true));
            let machine = Spec { boxes: false, ..like(&together(), warps) };
            agrees_on(&case, &machine).unwrap_or_else(|e| panic!("{extents:?}, {terms} terms: {e}\n{}", case.program));
        }
    }
}

/// Products in blocks, as where there is no library: both factors lying both ways, batches, edges that fill no block.
#[test]
fn products_in_blocks_are_those_of_the_rows() {
    for machine in [nvidia::spec("sm_80", 80).unwrap(), together(), amd::spec("gfx942").unwrap()] {
        let threads = options().grain;
        let grain = if machine.group > 0 { threads.together() } else { threads };
        for ([batch, m, n, k], turned) in [
            ([1, 200, 144, 112], [false, false]),
            ([2, 64, 272, 64], [true, false]),
            ([1, 136, 96, 200], [false, true]),
            ([3, 72, 40, 33], [true, true]),
            ([1, 128, 72, 1], [false, false]),
        ] {
            let mut g = Graph::new();
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
            let plan = planned_with(&g, &Options { grain, gemm_from: Some(u64::MAX), ..options() });
            assert!(plan.programs[0].warps >= 4, "{plan}");
            let bytes = threads_run(&plan, &inputs, &machine).remove(0);
            let got = Array::from_bytes(DType::Bf16, g.dims(y), &bytes);
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
    for (channels, step, dilation, bias) in [(16, 1, 1, false), (32, 2, 1, true), (16, 1, 2, false)] {
        let sizes = Sizes {
            batch: 3,
            channels,
            rows: 40,
            extents: [9; 2],
            steps: [step; 2],
            dilations: [dilation; 2],
            ..SQUARE
        };
        let g = convolution(&sizes, if bias { DType::F32 } else { DType::Bf16 });
        let columns = channels * 9 * g.nodes[g.outputs[0]].len() / 40;
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
        for machine in [&together(), &amd::spec("gfx942").unwrap()] {
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
            assert!(largest < columns, "{plan}");
            near(&execute::run(&g, (&inputs, &[]), &options, true).unwrap()[0], "interpreter");
            let got = threads_run(&plan, &inputs, machine).remove(0);
            near(&Array::from_bytes(DType::Bf16, &want.dims, &got), &machine.name);
        }
    }
}

/// Windows of unlike steps, gaps and paddings over channels that have whole blocks, one and several, and over such that do
/// not: sums of whole numbers, which every order of the terms gives.
#[test]
fn convolutions_read_all_of_their_windows_and_nothing_else() {
    let odd = Sizes { batch: 2, rows: 40, extents: [7, 9], pads: [(2, 0), (1, 3)], ..SQUARE };
    for sizes in [
        Sizes { channels: 128, kernel: [3, 2], steps: [1, 2], dilations: [2, 1], ..odd },
        Sizes { channels: 64, kernel: [1, 4], dilations: [1, 2], ..odd },
        Sizes { channels: 96, kernel: [2, 3], steps: [2, 1], ..odd },
        Sizes { channels: 48, kernel: [3, 1], extents: [8, 6], ..odd },
    ] {
        let g = convolution(&sizes, DType::Bf16);
        let inputs = operands(&g).into_iter().map(|x| {
            let whole: Vec<f64> = x.floats().into_iter().map(|x| (x * 2.0).round()).collect();
            Array::from_floats(x.dtype, &x.dims, &whole)
        });
        let inputs: Vec<Array> = inputs.collect();
        let want = oracle::run(&g, &inputs, &[]).unwrap().remove(0);
        for machine in [&together(), &amd::spec("gfx942").unwrap()] {
            let threads = options().grain;
            let grain = if machine.group > 0 { threads.together() } else { threads };
            let options = Options { grain, ..options() };
            let plan = planned_with(&g, &options);
            assert!(plan.programs.iter().any(|program| program.name == "product" && program.warps >= 4), "{plan}");
            let interpreted = execute::run(&g, (&inputs, &[]), &options, true).unwrap().remove(0);
            assert_eq!(interpreted.bits, want.bits, "{sizes:?}");
            let got = Array::from_bytes(DType::Bf16, &want.dims, &threads_run(&plan, &inputs, machine)[0]);
            assert_eq!(got.bits, want.bits, "{} {sizes:?}", machine.name);
        }
    }
}

/// Runs a plan's launches on emulated threads; gives the bytes of its outputs' buffers.
pub(super) fn threads_run(plan: &Plan, inputs: &[Array], machine: &Spec) -> Vec<Vec<u8>> {
    let mut buffers: Vec<Vec<u8>> = plan
        .buffers
        .values()
        .map(|b| match b.input {
            Some(number) => inputs[number as usize].to_bytes(),
            None => vec![0xa5; b.len as usize * b.dtype.bytes()],
        })
        .collect();
    let mut taken: FxHashSet<Buf> = FxHashSet::default();
    for step in &plan.steps {
        let Step::Launch { program, grid, args, .. } = step else { continue };
        let program = plan.programs[*program].clone();
        for arg in args {
            let Arg::Buffer(buf) = arg else { continue };
            if let Some(from) = plan.buffers[*buf].takes.filter(|_| taken.insert(*buf)) {
                buffers[buf.as_u32() as usize] = buffers[from.as_u32() as usize].clone();
            }
        }
        let data = |arg: &Arg| match arg {
            Arg::Literal(bits) => Data::Scalar(*bits),
            Arg::Slot(_) => panic!("no scalars are bound"),
            Arg::Buffer(buf) => Data::Buffer(buffers[buf.as_u32() as usize].clone()),
        };
        let case = Case { grid: *grid, args: args.iter().map(data).collect(), program };
        let warps = case.program.warps;
        let emulated = like(machine, warps);
        let (after, _) = run(&case, &emulated).unwrap();
        for (arg, data) in args.iter().zip(after) {
            if let (Arg::Buffer(buf), Data::Buffer(bytes)) = (arg, data) {
                buffers[buf.as_u32() as usize] = bytes;
            }
        }
    }
    plan.outputs.iter().map(|output| buffers[output.buffer.as_u32() as usize].clone()).collect()
}

/// Sums of whole numbers that every order of the terms gives: `c = a·b`.
pub(crate) fn staged_product(extents: [u32; 3], cut: (u32, u8), lies: [Lies; 2], terms: u32) -> Case {
    staged(extents, cut, lies, (terms, false))
}

/// The same; if `nested`, each block of terms has the whole product in a loop of its own before it.
fn staged([m, n, k]: [u32; 3], (warps, stages): (u32, u8), lies: [Lies; 2], (terms, nested): (u32, bool)) -> Case {
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
    let factor = |b: &mut Builder, start: Value, side: usize| {
        let (rows, pitch) = ([m, n][side], pitches[side]);
        // Loaded with the contiguous axis last, and turned to where the product has its terms.
        let last = if turned[side] { 0 } else { 1 };
        let along = axis(b, start, k, last as u8 ^ 1);
        let across = axis(b, zero, rows, last as u8);
        let at = match turned[side] {
            true => {
                let one = b.int(DType::I32, 1);
                let last = b.map(Pointwise::Sub, &[length, one]);
                let row = if lies[side] == Lies::Backwards { b.map(Pointwise::Sub, &[last, along]) } else { along };
                let start = b.mul(row, pitch);
                b.add(start, across)
            }
            false => {
                let least = b.int(DType::I32, 8);
                let pitch = b.map(Pointwise::Max, &[length, least]);
                let start = b.mul(across, pitch);
                b.add(start, along)
            }
        };
        let inside = b.lt(along, length);
        let none = b.constant(DType::F16, 0);
        let tile = b.load_masked([x, y][side], at, inside, none);
        let terms_last = last == 1;
        if terms_last == (side == 0) { tile } else { b.trans(tile, &[1, 0]) }
    };
    let ty = b.ty(sums).clone();
    let types = [b.ty(zero).clone(), ty.clone()];
    let walk = |b: &mut Builder, sums: Value, inside: &dyn Fn(&mut Builder, Value) -> Value| {
        let (open, params) = b.open(&types);
        let [x, y] = [0, 1].map(|side| factor(b, params[0], side));
        let carried = inside(b, params[1]);
        let next = b.dot(x, y, carried, Precision::Ieee);
        let body = b.close(open, &[next]);
        b.push(crate::tile::Op::For { body, stages }, &[zero, length, step, sums], std::slice::from_ref(&ty))[0]
    };
    let inner = |b: &mut Builder, sums: Value| if nested { walk(b, sums, &|_, sums| sums) } else { sums };
    let sums = walk(&mut b, sums, &inner);
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
    let [ragged, square, wide] = TRAINED;
    let cases = [
        (nvidia::spec("sm_80", 80).unwrap(), square, Change::Masked),
        (together(), square, Change::Causal),
        (together(), wide, Change::Causal),
        (amd::spec("gfx942").unwrap(), ragged, Change::Causal),
        (amd::spec("gfx1100").unwrap(), ragged, Change::Biased),
    ];
    for (machine, sizes, change) in cases {
        let grain = if machine.group > 0 { options().grain.together() } else { options().grain };
        let graph = training(DType::Bf16, sizes, change);
        let inputs = operands(&graph);
        let got = launched(&graph, (&inputs, &slots(DType::Bf16)), grain, |case| {
            run(case, &like(&machine, case.program.warps)).unwrap().0
        });
        close(sizes, change, &inputs, &got, &format!("{} {sizes:?} {change:?}", machine.name));
    }
}
