//! What PTX looks like.

use super::{Compiler, names, spec};
use crate::DType;
use crate::graph::{Graph, Reduction};
use crate::op::Pointwise;
use crate::tile::{Builder, Precision, Program, Value};

fn ptx(program: &Program, name: &str) -> String {
    let spec = spec(name, 86).unwrap();
    Compiler::new(&spec).compile(program, &mut |_, _| {}).unwrap().ptx
}

/// Offsets of this program's tile.
fn block(b: &mut Builder, size: u32) -> Value {
    let pid = b.program_id(0);
    let width = b.int(DType::I32, i64::from(size));
    let start = b.mul(pid, width);
    let lanes = b.arange(size);
    b.add(start, lanes)
}

/// Each program computes a row of its elements.
fn pointwise(dtype: DType, size: u32, row: impl Fn(&mut Builder, Value) -> Value) -> Program {
    let mut b = Builder::new("row");
    let (x, y) = (b.buffer(dtype, false), b.buffer(dtype, true));
    let offsets = block(&mut b, size);
    let xs = b.load(x, offsets);
    let ys = row(&mut b, xs);
    b.store(y, offsets, ys, None);
    b.finish()
}

/// What a pointwise row of several elements a thread becomes.
fn row(dtype: DType, size: u32, row: impl Fn(&mut Builder, Value) -> Value) -> String {
    ptx(&pointwise(dtype, size, row), "sm_90a")
}

/// Each program adds its elements up.
fn sum() -> Program {
    let mut b = Builder::new("sum");
    let (x, y) = (b.buffer(DType::F32, false), b.buffer(DType::F32, true));
    let offsets = block(&mut b, 64);
    let xs = b.load(x, offsets);
    let sum = b.reduce(&[xs], 0, |b, l, r| [b.map(Pointwise::Add, &[l[0], r[0]])].into_iter().collect());
    let pid = b.program_id(0);
    b.store(y, pid, sum[0], None);
    b.finish()
}

#[test]
fn contiguous_elements_move_sixteen_bytes_at_a_time() {
    for (dtype, size) in [(DType::F32, 128), (DType::Bf16, 256), (DType::U8, 512), (DType::F64, 64)] {
        let text = row(dtype, size, |_, x| x);
        let has = |what: &str| {
            text.lines().any(|l| {
                l.contains(what)
                    && (l.contains(".v4.b32")
                        || l.contains(".v2.b64")
                        || l.contains(".v4.b16")
                        || l.contains(".v4.f32"))
            })
        };
        assert!(has("ld.global") && has("st.global"), "{dtype}: {text}");
    }
}

/// A kernel that may begin while the one before it ends waits first of all, and reads nothing by the way that is only for
/// what nobody writes meanwhile.
#[test]
fn kernels_wait_for_what_they_read() {
    let program = pointwise(DType::F32, 128, |_, x| x);
    for name in names() {
        let object = Compiler::new(&spec(name, 86).unwrap()).compile(&program, &mut |_, _| {}).unwrap();
        let body = object.ptx.split_once("\n{").unwrap().1;
        let first = body.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('.'));
        let (waits, constant) = (first == Some("griddepcontrol.wait;"), body.contains("ld.global.nc"));
        assert_eq!((object.early, constant), (waits, !waits), "{name}: {body}");
        assert_eq!(waits, !name.starts_with("sm_8"), "{name}");
    }
}

/// Tiles that instructions multiply need the registers that there are; what waits for other lanes has others wait with it.
#[test]
fn programs_that_multiply_no_tiles_may_do_with_few_registers() {
    use crate::target::emulated::{Lies, staged_product};
    let product = staged_product([128, 64, 64], (8, 3), [Lies::AlongTerms, Lies::Across], 64).program;
    for (program, spill) in [(product, None), (pointwise(DType::F32, 128, |_, x| x), Some(8)), (sum(), Some(24))] {
        let object = Compiler::new(&spec("sm_90a", 86).unwrap()).compile(&program, &mut |_, _| {}).unwrap();
        assert_eq!(object.spill, spill, "{program}");
    }
}

#[test]
fn bf16_is_rounded_two_at_a_time() {
    let text = row(DType::Bf16, 256, |b, x| b.mul(x, x));
    assert_eq!(text.matches("cvt.rn.bf16x2.f32").count(), 8 / 2, "{text}");
    // A result that is used again is rounded and widened by one instruction.
    let text = row(DType::Bf16, 256, |b, x| {
        let square = b.mul(x, x);
        b.mul(square, x)
    });
    assert_eq!(text.matches("cvt.rn.bf16x2.f32").count(), 8 + 8 / 2, "{text}");
    assert!(!text.contains("cvt.u32.u16"), "{text}");
}

#[test]
fn divisions_and_roots_of_several_elements_share_a_branch() {
    let text = row(DType::F32, 128, |b, x| b.map(Pointwise::Sigmoid, &[x]));
    assert_eq!(text.matches("rcp.approx.ftz.f32").count(), 4, "{text}");
    let text = row(DType::F32, 128, |b, x| {
        let square = b.mul(x, x);
        b.map(Pointwise::Sqrt, &[square])
    });
    assert_eq!(text.matches("rsqrt.approx.ftz.f32").count(), 4, "{text}");
}

/// What the program of a graph with one kernel becomes.
fn kernel(graph: &Graph) -> (u32, String) {
    use crate::schedule::attention::tests::planned;
    let plan = planned(graph);
    assert_eq!(plan.programs.len(), 1);
    (plan.programs[0].warps, ptx(&plan.programs[0], "sm_90a"))
}

/// A lane asks for both operands before it computes with the first; the sigmoid of bf16 is a power and a reciprocal.
#[test]
fn operands_are_asked_for_before_anything_is_computed() {
    let mut g = Graph::new();
    let [a, b] = [0; 2].map(|_| g.input(DType::Bf16, &[64, 4096]));
    let gate = g.map(Pointwise::Sigmoid, &[a]);
    let gated = g.map(Pointwise::Mul, &[a, gate]);
    let y = g.map(Pointwise::Mul, &[gated, b]);
    g.outputs.push(y);
    let (_, text) = kernel(&g);
    let first = text.find("ex2.approx.ftz.f32").unwrap();
    assert_eq!(text[..first].matches("ld.global.v4.b32").count(), 2, "{text}");
    assert_eq!(text.matches("rcp.approx.ftz.f32").count(), text.matches("ex2.approx.ftz.f32").count(), "{text}");
}

/// Nor does it wait with asking until a branch for rare operands has been passed.
#[test]
fn operands_are_asked_for_before_the_first_branch() {
    let mut g = Graph::new();
    let [a, b] = [0; 2].map(|_| g.input(DType::F32, &[64, 4096]));
    let root = g.map(Pointwise::Sqrt, &[a]);
    let y = g.map(Pointwise::Add, &[root, b]);
    g.outputs.push(y);
    let (_, text) = kernel(&g);
    let blocks: Vec<usize> = text.split("$L__BB").map(|block| block.matches("ld.global.v4.b32").count()).collect();
    let most = blocks.iter().max().unwrap();
    assert!(*most >= 2 && blocks.iter().all(|n| [0, *most].contains(n)), "{blocks:?}: {text}");
}

/// Each of four warps holds a chunk of a norm's row, and the weights are asked for in groups.
#[test]
fn warps_share_the_row_of_a_norm() {
    let mut g = Graph::new();
    let x = g.input(DType::Bf16, &[64, 4096]);
    let x = g.cast(x, DType::F32);
    let square = g.map(Pointwise::Mul, &[x, x]);
    let sum = g.reduce(Reduction::Sum, square, &[1], DType::F32);
    let root = g.map(Pointwise::Sqrt, &[sum]);
    let root = g.expand(root, &[64, 4096]);
    let y = g.map(Pointwise::Div, &[x, root]);
    let y = g.cast(y, DType::Bf16);
    g.outputs.push(y);
    let (warps, text) = kernel(&g);
    assert_eq!((warps, text.contains(".local")), (4, false));
    // A lane has 32 terms, two of them side by side.
    assert_eq!(text.matches("ld.global.b32").count(), 32 / 2, "{text}");
}

/// A lane has all of its terms of a chunk under way before it adds up.
#[test]
fn the_terms_of_a_chunk_are_asked_for_together() {
    let mut g = Graph::new();
    let x = g.input(DType::Bf16, &[16, 50_304]);
    let y = g.reduce(Reduction::Sum, x, &[1], DType::Bf16);
    g.outputs.push(y);
    let (warps, text) = kernel(&g);
    assert_eq!(warps, 4);
    // Each warp has a chunk: in full steps, and in what is left.
    let loads = text.split("$L__BB").map(|block| block.matches("ld.global.b32").count());
    assert_eq!(loads.filter(|&n| n > 0).collect::<Vec<_>>(), [1024 / 32 / 2; 2], "{text}");
}

/// Columns are compared as they are: one instruction for each element.
#[test]
fn extremes_of_columns_are_compared_as_floats() {
    let mut g = Graph::new();
    let x = g.input(DType::Bf16, &[640, 4096]);
    let y = g.reduce(Reduction::Max, x, &[0], DType::Bf16);
    g.outputs.push(y);
    let (_, text) = kernel(&g);
    let count = |what: &str| text.matches(what).count();
    // Tiles of 64×64 elements on 128 threads.
    assert!(count("max.NaN.f32") >= 32 && count("xor.b32") < 16, "{text}");
}

/// Of a row of five chunks, five warps are started; eight, where elements do not lie so that each warp has a chunk by itself.
#[test]
fn warps_without_a_chunk_are_not_started() {
    use crate::schedule::{Grain, InputData, Layout, Options, plan};
    let mut g = Graph::new();
    let dims = [16, 5120];
    let x = g.input(DType::Bf16, &dims);
    let most = g.reduce(Reduction::Max, x, &[1], DType::Bf16);
    let most = g.expand(most, &dims);
    let below = g.map(Pointwise::Sub, &[x, most]);
    let y = g.reduce(Reduction::Sum, below, &[1], DType::Bf16);
    g.outputs.push(y);
    let grain = Grain::of_threads(132 * 64).together();
    for (strides, buffer_len, threads) in [([5120, 1], 16 * 5120, 5 * 32), ([5121, 1], 16 * 5121, 8 * 32)] {
        let layout = Layout { offset: 0, strides: strides.into_iter().collect() };
        let input = InputData { layout, buffer_len, donated: false };
        let plan = plan(&g, &[input], &Options::new(true, Some(4096), grain));
        let [program] = &plan.programs[..] else { panic!("{plan}") };
        assert_eq!((program.warps, program.absent), (8, 3), "{program}");
        let spec = spec("sm_90a", 86).unwrap();
        let object = Compiler::new(&spec).compile(program, &mut |_, _| {}).unwrap();
        assert_eq!(object.threads, threads, "{}", object.ptx);
    }
}

/// What is read of a row of a prefix sum fills a line, and is turned and turned back sixteen bytes at a time.
#[test]
fn prefixes_are_turned_in_pieces() {
    let mut g = Graph::new();
    let x = g.input(DType::Bf16, &[256, 1024]);
    let y = g.scan(Reduction::Sum, x, 1);
    g.outputs.push(y);
    let (_, text) = kernel(&g);
    let whole = &text[..text.rfind("st.shared").unwrap()];
    let count = |what: &str| whole.matches(what).count();
    assert_eq!(["ld.shared.b16", "st.shared.b16", ".local"].map(count), [0; 3], "{text}");
    assert!(count("ld.global.v4.b32") >= 8 && count("st.shared.v4.b32") >= 15, "{text}");
}

#[test]
fn sums_are_shuffled() {
    let text = ptx(&sum(), "sm_90a");
    assert!(text.contains("shfl.sync"), "{text}");
}

#[test]
fn products_of_small_types_are_matrix_instructions() {
    let types = [
        (DType::F16, DType::F32, Precision::Ieee, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16),
        (DType::Bf16, DType::F32, Precision::Ieee, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16),
        (DType::F32, DType::F32, Precision::Tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8),
        (DType::F32, DType::F32, Precision::Ieee, "fma.rn.f32", 0),
        (DType::I8, DType::I32, Precision::Ieee, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 32),
    ];
    for (operand, sum, precision, instruction, terms) in types {
        let mut b = Builder::new("product");
        let [x, y] = [0; 2].map(|_| b.buffer(operand, false));
        let result = b.buffer(sum, true);
        let matrix = |b: &mut Builder, rows: u32, columns: u32| {
            let offsets = b.arange(rows * columns);
            b.reshape(offsets, &[rows, columns])
        };
        let (at_x, at_y, at) = (matrix(&mut b, 32, 32), matrix(&mut b, 32, 16), matrix(&mut b, 32, 16));
        let (xs, ys) = (b.load(x, at_x), b.load(y, at_y));
        let zero = b.constant(sum, 0);
        let zero = b.broadcast(zero, &[32, 16]);
        let sums = b.dot(xs, ys, zero, precision);
        b.store(result, at, sums, None);
        let program = b.finish();
        for name in names() {
            let text = ptx(&program, name);
            let count = text.matches(instruction).count();
            let wanted = 32usize.checked_div(terms).map_or(count.max(1), |times| 2 * 2 * times);
            assert_eq!(count, wanted, "{name} {operand}: {text}");
            assert!(!text.contains(".local"), "{name} {operand}: {text}");
        }
    }
}

/// Keys and values are loaded once for four warps, sixteen bytes at a time, and reach the matrix instructions through
/// pieces of scratch memory; scores never leave registers.
#[test]
fn attention_multiplies_what_it_loaded_in_runs() {
    use crate::schedule::attention::tests::{Change, SIZES, attention, planned};
    let graph = attention(DType::Bf16, SIZES[1], Change::Causal);
    let program = &planned(&graph).programs[0];
    assert_eq!(program.warps, 4);
    let text = ptx(program, "sm_80");
    // Twice: blocks that all queries see, and those at the edge.  128×64 scores of 64 terms, and 128×64 sums of 64.
    let products = 2 * (128 / 16 / 4) * (64 / 8) * (64 / 16);
    let count = |what: &str| text.matches(what).count();
    assert_eq!(count("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), 2 * products, "{text}");
    let pieces = |rows: usize| rows * 64 * 2 / 16 / 32;
    assert_eq!(count("ld.shared.v4.b32"), 2 * 2 * pieces(64) + pieces(128 / 4), "{text}");
    assert_eq!((count("ld.global.nc.v4.b32") > 8, count("ex2.approx.ftz.f32") > 64), (true, true), "{text}");
    assert_eq!((count(".local"), count("ld.shared.b16")), (0, 0), "{text}");
}

/// Where four warps multiply together, they read keys and values from shared memory themselves.
#[test]
fn attention_multiplies_what_lies_in_shared_memory() {
    use crate::schedule::attention::tests::{Change, SIZES, attention, options, planned_as};
    let halves = attention(DType::F16, SIZES[1], Change::Causal);
    let text = ptx(&planned_as(&halves, options().grain.together()).programs[0], "sm_90a");
    assert!(text.contains("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"), "{text}");
    let graph = attention(DType::Bf16, SIZES[1], Change::Causal);
    let text = ptx(&planned_as(&graph, options().grain.together()).programs[0], "sm_90a");
    let count = |what: &str| text.matches(what).count();
    // Twice two products of 64 queries and 64 terms.
    assert_eq!(count("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"), 2 * 2 * (64 / 16), "{text}");
    // Twice two tiles, copied for the next block ahead of the loop and inside: a box each, by one thread.
    assert_eq!(count("cp.async.bulk.tensor.3d"), 2 * 2 * 2, "{text}");
    assert_eq!(["mbarrier.arrive.expect_tx", "cp.async.cg.shared.global"].map(count), [2 * 2, 0], "{text}");
    // Queries are written there once.
    assert_eq!(count("st.shared"), 64 * 64 * 2 / 16 / 128, "{text}");
    assert_eq!([".local", "ld.shared", "mma.sync"].map(count), [0; 3], "{text}");
    // What would call a function has products wait for each other.
    assert_eq!(["div.rn", "rcp.rn", "sqrt.rn", "call"].map(count), [0; 4], "{text}");
}

/// What an attention copies ahead leaves room for what else it keeps in shared memory: a mask that is turned there.
#[test]
fn attention_fits_the_shared_memory() {
    use crate::schedule::attention::tests::{CHANGES, Sizes, attention, options, planned_as};
    for (change, dtype) in CHANGES.into_iter().flat_map(|change| [(change, DType::F16), (change, DType::Bf16)]) {
        for (keys, width) in [(70, 128), (300, 128), (70, 64), (70, 256)] {
            let sizes = Sizes { batch: 2, queries: 70, keys, width, values: width };
            let graph = attention(dtype, sizes, change);
            let text = ptx(&planned_as(&graph, options().grain.together()).programs[0], "sm_90a");
            assert!(text.contains("wgmma") && !text.contains(".local"), "{sizes:?} {change:?}: {text}");
        }
    }
}

/// Two groups of warps take turns, unless all threads have to meet while it is one's turn: for keys whose rows are filled
/// up, so that every thread writes a part of them.
#[test]
fn groups_take_turns_where_nobody_waits_for_both() {
    use crate::schedule::attention::tests::{Change, Sizes, attention, options, planned_as};
    for (width, wanted) in [(128, true), (96, false)] {
        let sizes = Sizes { batch: 2, queries: 256, keys: 512, width, values: 128 };
        let graph = attention(DType::Bf16, sizes, Change::Nothing);
        let text = ptx(&planned_as(&graph, options().grain.together()).programs[0], "sm_90a");
        assert!(text.contains("wgmma"), "{text}");
        assert_eq!(["bar.arrive", "bar.sync %r"].map(|what| text.contains(what)), [wanted; 2], "{width}: {text}");
    }
}

/// Both factors of a product in a loop with stages are copied ahead, and read where they lie.
#[test]
fn products_in_stages_copy_both_factors_ahead() {
    use crate::target::emulated::{Lies, staged_product};
    let staged = |lies| ptx(&staged_product([128, 64, 64], (8, 3), lies, 64).program, "sm_90a");
    // The engine takes rows that are evenly apart in ascending order; others come piece by piece.
    let boxed = staged([Lies::AlongTerms, Lies::Across]);
    assert_eq!(["cp.async.bulk.tensor.3d", "cp.async.cg.shared.global"].map(|x| boxed.matches(x).count()), [4, 0]);
    let mixed = staged([Lies::AlongTerms, Lies::Backwards]);
    let pieces = 2 * 64 * 64 * 2 / 16 / 256;
    assert_eq!(["cp.async.bulk.tensor.3d", "cp.async.cg.shared.global"].map(|x| mixed.matches(x).count()), [2, pieces]);
    let text = staged([Lies::Backwards; 2]);
    let count = |what: &str| text.matches(what).count();
    // Of three slots one is being multiplied and one may still be: the third is filled, first ahead of the loop.
    assert_eq!(count("cp.async.cg.shared.global"), 2 * (128 + 64) * 64 * 2 / 16 / 256, "{text}");
    assert_eq!(["wgmma.wait_group.sync.aligned 1", "wgmma.wait_group.sync.aligned 0"].map(count), [1, 1], "{text}");
    // Two groups of warps wait at gates: for what is filled, and before each filling for what is free.
    assert_eq!(["mbarrier.init", "mbarrier.try_wait.parity", "bar"].map(|x| count(x) > 0), [true; 3], "{text}");
    assert_eq!(["mbarrier.try_wait.parity", "cp.async.mbarrier.arrive"].map(count), [1 + 2, 2], "{text}");
    assert_eq!(count("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"), 64 / 16, "{text}");
    assert_eq!([".local", "ld.shared", "st.shared", "mma.sync"].map(count), [0; 4], "{text}");
}

/// So are all factors of its gradients that are not kept in registers; the tiles of scores never leave those.
#[test]
fn gradients_of_attention_multiply_what_lies_in_shared_memory() {
    use crate::schedule::attention::tests::slopes::{TRAINED, training};
    use crate::schedule::attention::tests::{Change, options, planned_as};
    let graph = training(DType::Bf16, TRAINED[1], Change::Causal);
    let plan = planned_as(&graph, options().grain.together());
    let products = |program: &Program| {
        let text = ptx(program, "sm_90a");
        let count = |what: &str| text.matches(what).count();
        assert_eq!([".local", "ld.shared.b16", "mma.sync", "div.rn"].map(count), [0; 4], "{text}");
        count("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16")
    };
    let mut counts: Vec<usize> = plan.programs.iter().map(products).collect();
    counts.sort_unstable();
    // Twice, each of 64 terms: none in the row of sums, the attention's own two products, three, and four.
    assert_eq!(counts, [0, 2 * 2 * 4, 2 * 3 * 4, 2 * 4 * 4]);
}
