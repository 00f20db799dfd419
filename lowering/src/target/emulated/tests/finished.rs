//! Products that are finished where they are summed up: a bias, an activation, a residual, each rounded as if it had been
//! stored.

use super::products::threads_run;
use super::together;
use crate::dtype::DType;
use crate::graph::{Array, Graph, Node, Op, PadDim, Reduction, WindowDim, oracle};
use crate::op::Pointwise as P;
use crate::schedule::attention::tests::{operands, options};
use crate::schedule::{Grain, InputData, Layout, Options, Plan, Step, plan};
use crate::spec::Spec;
use crate::target::{amd, nvidia};

/// What follows a product of so many rows and columns; gives the wanted values.
type Tail = fn(&mut Graph, Node, [u64; 2]) -> Vec<Node>;

fn machines() -> [(Spec, Grain); 3] {
    let nvidia = nvidia::spec("sm_80", 80).unwrap();
    let grain = options().grain;
    [(nvidia, grain), (together(), grain.together()), (amd::spec("gfx942").unwrap(), grain)]
}

/// The sum of a node and a new input of these extents.
fn plus(g: &mut Graph, x: Node, dims: &[u64]) -> Node {
    let y = g.input(g.dtype(x), dims);
    let y = g.expand(y, &g.dims(x).clone());
    g.map(P::Add, &[x, y])
}

/// `x · σ(1.702 x)`, as one spells a GELU.
fn bent(g: &mut Graph, x: Node) -> Node {
    let (dtype, dims) = (g.dtype(x), g.dims(x).clone());
    let factor = if dtype == DType::F32 { 1.702f32.to_bits().into() } else { 0x3fda };
    let factor = g.constant(dtype, factor, &dims);
    let inner = g.map(P::Mul, &[x, factor]);
    let inner = g.map(P::Sigmoid, &[inner]);
    g.map(P::Mul, &[x, inner])
}

fn planned(g: &Graph, options: &Options, donated: bool) -> Plan {
    let inputs = g.nodes.values().filter(|d| matches!(d.op, Op::Input(_)));
    let inputs =
        inputs.map(|data| InputData { layout: Layout::contiguous(&data.dims), buffer_len: data.len(), donated });
    plan(g, &inputs.collect::<Vec<_>>(), options)
}

fn kernels(plan: &Plan) -> usize {
    plan.steps.iter().filter(|step| !matches!(step, Step::Free(_))).count()
}

/// What products are finished with, and in how many kernels besides.
const TAILS: [(&str, usize, Tail); 10] = [
    ("bias and activation", 0, |g, y, [_, n]| {
        let y = plus(g, y, &[1, n]);
        vec![bent(g, y)]
    }),
    ("residual, from the left", 0, |g, y, [m, n]| {
        let x = g.input(g.dtype(y), &[m, n]);
        vec![g.map(P::Sub, &[x, y])]
    }),
    ("transposed residual and a scale of rows", 0, |g, y, [m, n]| {
        let y = plus(g, y, &[m, 1]);
        let x = g.input(DType::Bf16, &[n, m]);
        let x = g.permute(x, &[1, 0]);
        vec![g.map(P::Mul, &[y, x])]
    }),
    ("two results", 0, |g, y, [m, n]| {
        let y = plus(g, y, &[1, n]);
        let other = plus(g, y, &[m, n]);
        vec![y, bent(g, other)]
    }),
    ("the product, too", 0, |g, y, [_, n]| {
        let z = plus(g, y, &[1, n]);
        vec![y, z]
    }),
    ("widened and rounded again", 0, |g, y, [m, n]| {
        let y = g.cast(y, DType::F32);
        let y = plus(g, y, &[1, n]);
        let x = g.input(DType::Bf16, &[m, n]);
        let x = g.cast(x, DType::F32);
        let y = g.map(P::Add, &[x, y]);
        vec![g.cast(y, DType::Bf16)]
    }),
    ("in heads", 0, |g, y, [m, n]| {
        let y = plus(g, y, &[1, n]);
        let heads = g.reshape(y, &[2, m / 2, n / 8, 8]);
        let heads = g.permute(heads, &[0, 2, 1, 3]);
        let heads = plus(g, heads, &[2, n / 8, 1, 8]);
        vec![heads]
    }),
    ("a value that is no product's", 0, |g, y, [m, n]| {
        let x = g.input(DType::Bf16, &[m, n]);
        let other = plus(g, x, &[1, n]);
        vec![g.map(P::Max, &[y, other]), other]
    }),
    ("turned over", 1, |g, y, _| {
        let y = g.permute(y, &[1, 0]);
        let n = g.dims(y)[0];
        vec![plus(g, y, &[n, 1])]
    }),
    ("a norm of its rows", 1, |g, y, [m, n]| {
        let y = g.cast(y, DType::F32);
        let sum = g.reduce(Reduction::Sum, y, &[1], DType::F32);
        let sum = g.expand(sum, &[m, n]);
        let y = g.map(P::Sub, &[y, sum]);
        vec![g.cast(y, DType::Bf16)]
    }),
];

/// One kernel, which gives the bits of one kernel a row; sizes that fill no block, and results that take an operand's place.
#[test]
fn finished_products_are_those_of_the_rows() {
    let sizes = [[72, 136, 40], [136, 72, 24], [72, 40, 33]];
    for (case, (what, others, tail)) in TAILS.into_iter().enumerate() {
        for (number, (machine, grain)) in machines().into_iter().enumerate() {
            let [m, n, k] = sizes[(case + number) % sizes.len()];
            let mut g = Graph::new();
            let (a, b) = (g.input(DType::Bf16, &[m, k]), g.input(DType::Bf16, &[k, n]));
            let y = g.contract(a, b);
            g.outputs = tail(&mut g, y, [m, n]);
            let inputs = operands(&g);
            let options = Options { grain, gemm_from: Some(u64::MAX), ..options() };
            let rows = planned(&g, &Options { fuse: false, ..options.clone() }, false);
            let plan = planned(&g, &options, (case + number) % 2 == 0);
            assert_eq!(kernels(&plan), 1 + others, "{what}\n{plan}");
            let [one, apart] = [&plan, &rows].map(|plan| threads_run(plan, &inputs, &machine));
            assert!(one == apart, "{what} {m}x{n}x{k} on {}\n{plan}\n{rows}", machine.name);
            for (bytes, want) in one.iter().zip(oracle::run(&g, &inputs, &[]).unwrap()) {
                near(bytes, &want, &format!("{what} {m}x{n}x{k} on {}", machine.name));
            }
        }
    }
}

fn near(bytes: &[u8], want: &Array, what: &str) {
    let got = Array::from_bytes(want.dtype, &want.dims, bytes);
    for (i, (got, want)) in got.floats().into_iter().zip(want.floats()).enumerate() {
        assert!((got - want).abs() <= 0.02 * want.abs() + 0.02, "{what} at {i}: {got}, wanted {want}");
    }
}

/// A convolution's bias and activation, behind what turns its rows into channels: nobody writes the product as it is.
#[test]
fn convolutions_are_finished_in_the_order_of_their_results() {
    let (_, grain) = machines()[1].clone();
    let [batch, channels, side, rows] = [3, 16, 9, 40];
    let mut g = Graph::new();
    let x = g.input(DType::Bf16, &[batch, channels, side, side]);
    let w = g.input(DType::Bf16, &[rows, channels, 3, 3]);
    let pad = PadDim { low: 1, high: 1, interior: 0 };
    let padded = g.pad(x, &[PadDim::default(), PadDim::default(), pad, pad], 0);
    let over = |axis| WindowDim { axis, count: side, size: 3, step: 1, dilation: 1 };
    let windows = g.window(padded, &[over(2), over(3)]);
    let split = g.reshape(windows, &[batch, 1, channels, side, side, 3, 3]);
    let turned = g.permute(split, &[1, 2, 5, 6, 0, 3, 4]);
    let columns = g.reshape(turned, &[channels * 9, batch * side * side]);
    let weights = g.reshape(w, &[rows, channels * 9]);
    let y = g.contract(weights, columns);
    let y = g.reshape(y, &[rows, batch, side, side]);
    let y = g.permute(y, &[1, 0, 2, 3]);
    let y = plus(&mut g, y, &[1, rows, 1, 1]);
    let zero = g.constant(DType::Bf16, 0, &g.dims(y).clone());
    let y = g.map(P::Max, &[y, zero]);
    g.outputs.push(y);
    let inputs = operands(&g);
    let plan = planned(&g, &Options { grain, ..options() }, false);
    let rows_of = |step: &Step| match step {
        Step::Launch { rows, .. } => Some(rows.join(" ")),
        Step::Free(_) => None,
        other => panic!("{other:?}"),
    };
    let steps: Vec<String> = plan.steps.iter().filter_map(rows_of).collect();
    assert_eq!(steps.last().map(String::as_str), Some("contract add max"), "{plan}");
    let want = oracle::run(&g, &inputs, &[]).unwrap().remove(0);
    near(&threads_run(&plan, &inputs, &machines()[1].0).remove(0), &want, "a convolution");
}

/// Where warps multiply together, a residual is loaded in whole pieces, and handed to the threads that have the sums in
/// pieces of eight bytes; of a bias each thread has its columns, and nobody writes them out for all rows.
#[test]
fn residuals_are_loaded_in_whole_pieces() {
    let mut g = Graph::new();
    let (a, b) = (g.input(DType::Bf16, &[8192, 768]), g.input(DType::Bf16, &[768, 768]));
    let y = g.contract(a, b);
    let y = plus(&mut g, y, &[1, 768]);
    let y = plus(&mut g, y, &[8192, 768]);
    g.outputs.push(y);
    let grain = Grain::of_threads(132 * 64).together();
    let plan = planned(&g, &Options { grain, gemm_from: Some(u64::MAX), ..options() }, false);
    let [program] = &plan.programs[..] else { panic!("{plan}") };
    let spec = nvidia::spec("sm_90a", 86).unwrap();
    let object = nvidia::Compiler::new(&spec).compile(program, &mut |_, _| {}).unwrap();
    let count = |what: &str| object.ptx.matches(what).count();
    // A thread has 128 of the 128 × 256 elements.
    assert_eq!(["ld.global.v4.b32", "st.shared.v2.b32", "ld.shared.v4.b16"].map(count), [128 / 8, 128 / 4, 128 / 4]);
    // Pairs of results, from where the sums are.
    assert_eq!(["st.global.b32", "st.global", ".local"].map(count), [128 / 2, 128 / 2, 0]);
    assert!(object.shared <= spec.shared_bytes);
}
