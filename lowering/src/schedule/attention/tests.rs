//! Attentions are one kernel each, and say what their rows say.

pub(crate) mod slopes;

use super::super::{Arg, Grain, InputData, Layout, Options, Plan, Step, execute, plan};
use crate::DType;
use crate::graph::{Array, Graph, Node, Reduction, oracle};
use crate::op::Pointwise as P;
use crate::tile::arbitrary::{Case, Data};

/// An attention to test with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub batch: u64,
    pub queries: u64,
    pub keys: u64,
    pub width: u64,
    pub values: u64,
}

/// What is done to the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    Causal,
    Masked,
    Biased,
}

/// Heads that no tile divides, and one that all do.
pub(crate) const SIZES: [Sizes; 3] = [
    Sizes { batch: 2, queries: 37, keys: 53, width: 24, values: 24 },
    Sizes { batch: 1, queries: 32, keys: 128, width: 64, values: 64 },
    Sizes { batch: 1, queries: 20, keys: 80, width: 128, values: 32 },
];

pub(crate) const CHANGES: [Change; 4] = [Change::Nothing, Change::Causal, Change::Masked, Change::Biased];

/// `softmax(f(q·kᵀ/4))·v` as the backend records it: heads lie between queries, as projections leave them.
pub(crate) fn attention(dtype: DType, sizes: Sizes, change: Change) -> Graph {
    let Sizes { batch, queries, keys, width, values } = sizes;
    let mut g = Graph::new();
    let factor = |g: &mut Graph, rows: u64, width: u64| {
        let x = g.input(dtype, &[1, rows, batch, width]);
        let x = g.permute(x, &[0, 2, 1, 3]);
        g.cast(x, DType::F32)
    };
    let q = factor(&mut g, queries, width);
    let k = factor(&mut g, keys, width);
    let v = factor(&mut g, keys, values);
    let k = g.permute(k, &[0, 1, 3, 2]);
    let dims = [1, batch, queries, keys];
    let product = g.contract(q, k);
    let number = |g: &mut Graph, x: f32, dims: &[u64]| g.constant(DType::F32, x.to_bits().into(), dims);
    let quarter = number(&mut g, 0.25, &dims);
    let scores = g.map(P::Mul, &[product, quarter]);
    let nothing = number(&mut g, f32::NEG_INFINITY, &dims);
    let scores = match change {
        Change::Nothing => scores,
        Change::Causal => {
            let [row, column] = [0, 1].map(|axis| g.iota(DType::I32, axis, &dims[2..]));
            let offset = g.constant(DType::I32, keys.wrapping_sub(queries) & 0xffff_ffff, &dims[2..]);
            let last = g.map(P::Add, &[row, offset]);
            let later = g.map(P::Gt, &[column, last]);
            let later = spread(&mut g, later, &dims);
            g.map(P::Select, &[later, nothing, scores])
        }
        Change::Masked => {
            let mask = g.input(DType::Bool, &[1, 1, queries, keys]);
            let mask = g.expand(mask, &dims);
            g.map(P::Select, &[mask, nothing, scores])
        }
        Change::Biased => {
            let bias = g.input(dtype, &[1, batch, queries, keys]);
            let bias = g.cast(bias, DType::F32);
            g.map(P::Add, &[scores, bias])
        }
    };
    let most = g.reduce(Reduction::Max, scores, &[3], DType::F32);
    let least = number(&mut g, f32::MIN, &[1, batch, queries, 1]);
    let most = g.map(P::Max, &[most, least]);
    let most = g.expand(most, &dims);
    let shifted = g.map(P::Sub, &[scores, most]);
    let weights = g.map(P::Exp, &[shifted]);
    let sum = g.reduce(Reduction::Sum, weights, &[3], DType::F32);
    let least = number(&mut g, f32::MIN_POSITIVE, &[1, batch, queries, 1]);
    let sum = g.map(P::Max, &[sum, least]);
    let sum = g.expand(sum, &dims);
    let weights = g.map(P::Div, &[weights, sum]);
    let result = g.contract(weights, v);
    let result = g.cast(result, dtype);
    g.outputs.push(result);
    g
}

fn spread(g: &mut Graph, x: Node, dims: &[u64]) -> Node {
    let x = g.reshape(x, &[1, 1, dims[2], dims[3]]);
    g.expand(x, dims)
}

/// Operands with large and small scores; some queries of a mask see nothing at all.
pub(crate) fn operands(g: &Graph) -> Vec<Array> {
    let inputs = g.nodes.values().filter(|d| matches!(d.op, crate::graph::Op::Input(_)));
    let array = |(number, data): (usize, &crate::graph::NodeData)| {
        let hash = |i: usize| ((i + 1000 * number) as u64 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let columns = *data.dims.last().unwrap() as usize;
        match data.dtype {
            DType::Bool => Array::from_fn(DType::Bool, &data.dims, |i| u64::from(i / columns == 3 || hash(i) % 3 == 0)),
            dtype => {
                let values: Vec<f64> =
                    (0..data.len() as usize).map(|i| hash(i) as f64 / f64::from(1 << 23) - 1.0).collect();
                Array::from_floats(dtype, &data.dims, &values)
            }
        }
    };
    inputs.enumerate().map(array).collect()
}

pub(crate) fn options() -> Options {
    Options::new(true, Some(1), Grain::of_threads(100))
}

pub(crate) fn planned(g: &Graph) -> Plan {
    planned_as(g, options().grain)
}

/// Its plan on a machine that wants its work cut up like this.
pub(crate) fn planned_as(g: &Graph, grain: Grain) -> Plan {
    planned_with(g, &Options { grain, ..options() })
}

/// Its plan with other options, all inputs being contiguous and nobody's else.
pub(crate) fn planned_with(g: &Graph, options: &Options) -> Plan {
    let input = |data: &crate::graph::NodeData| InputData {
        layout: Layout::contiguous(&data.dims),
        buffer_len: data.len(),
        donated: false,
    };
    let inputs = g.nodes.values().filter(|d| matches!(d.op, crate::graph::Op::Input(_)));
    plan(g, &inputs.map(input).collect::<Vec<_>>(), options)
}

fn launches(g: &Graph) -> usize {
    planned(g).steps.iter().filter(|s| !matches!(s, Step::Free(_))).count()
}

/// The one launch of an attention on its operands, the result being the last buffer.
pub(crate) fn launch(g: &Graph, inputs: &[Array], grain: Grain) -> Case {
    launch_of(g, inputs, planned_as(g, grain))
}

/// The one launch of a plan on a graph's inputs.
pub(crate) fn launch_of(g: &Graph, inputs: &[Array], plan: Plan) -> Case {
    let computing: Vec<&Step> = plan.steps.iter().filter(|s| !matches!(s, Step::Free(_))).collect();
    let [Step::Launch { program, grid, args, .. }] = computing[..] else { panic!("{g}\n{plan}") };
    let data = |arg: &Arg| match arg {
        Arg::Literal(bits) => Data::Scalar(*bits),
        Arg::Slot(_) => panic!("no scalars are bound"),
        Arg::Buffer(buf) => match plan.buffers[*buf].input {
            Some(number) => Data::Buffer(inputs[number as usize].to_bytes()),
            None => Data::Buffer(vec![0xa5; plan.buffers[*buf].len as usize * plan.buffers[*buf].dtype.bytes()]),
        },
    };
    Case { program: plan.programs[*program].clone(), grid: *grid, args: args.iter().map(data).collect() }
}

/// Panics where a result is further from the oracle's than rounding weights and results explains.
pub(crate) fn compare(g: &Graph, inputs: &[Array], got: &Array, what: &str) {
    let want = oracle::run(g, inputs, &[]).unwrap().remove(0);
    let unit = if got.dtype == DType::F16 { 1.0 / 2048.0 } else { 1.0 / 256.0 };
    for (i, (got, want)) in got.floats().into_iter().zip(want.floats()).enumerate() {
        assert!((got - want).abs() <= 2.0 * unit, "{what} at {i}: {got}, wanted {want}");
    }
}

#[test]
fn an_attention_is_one_kernel_that_says_what_its_rows_say() {
    for sizes in SIZES {
        for change in CHANGES {
            for dtype in [DType::Bf16, DType::F16] {
                let g = attention(dtype, sizes, change);
                let inputs = operands(&g);
                assert_eq!(launches(&g), 1, "{}", planned(&g));
                let got = execute::run(&g, (&inputs, &[]), &options(), false).unwrap().remove(0);
                compare(&g, &inputs, &got, &format!("{sizes:?} {change:?} {dtype}"));
            }
        }
    }
}

/// What somebody else wants must be written, and what is no softmax is none.
#[test]
fn other_graphs_are_left_alone() {
    let plain = attention(DType::Bf16, SIZES[1], Change::Nothing);
    let weights = plain.nodes.iter().find(|(_, d)| d.op == crate::graph::Op::Map(P::Div)).unwrap().0;
    let mut wanted = plain.clone();
    wanted.outputs.push(weights);
    assert!(launches(&wanted) > 1);
    let mut other = plain.clone();
    other.nodes[weights].op = crate::graph::Op::Map(P::Sub);
    assert!(launches(&other) > 1);
    let strict = Options { gemm_from: None, ..options() };
    assert!(super::find(&plain, &strict).is_empty());
    assert_eq!(super::find(&plain, &options()).len(), 1);
    let wide = attention(DType::F32, SIZES[1], Change::Nothing);
    assert!(super::find(&wide, &options()).is_empty());
}

/// Another length is the same kernel.
#[test]
fn lengths_are_arguments() {
    let program = |queries: u64, keys: u64| {
        let g = attention(DType::Bf16, Sizes { queries, keys, ..SIZES[1] }, Change::Causal);
        planned(&g).programs[0].to_string()
    };
    assert!(program(100, 130) == program(517, 547));
}

/// However many members of the batch start side by side, each tile of each is computed once.
#[test]
fn the_order_in_which_programs_start_changes_no_bit() {
    let sizes = Sizes { batch: 4, queries: 300, keys: 300, ..SIZES[1] };
    let g = attention(DType::Bf16, sizes, Change::Causal);
    let inputs = operands(&g);
    // Keys and values of a member, of 64 elements a row each.
    let member = 300 * 2 * 64 * 2;
    let run = |members: u64| {
        let options = Options { grain: options().grain.with_cache(2 * members * member), ..options() };
        let plan = planned_with(&g, &options);
        let [grid] = plan
            .steps
            .iter()
            .filter_map(|s| if let Step::Launch { grid, .. } = s { Some(*grid) } else { None })
            .collect::<Vec<_>>()[..]
        else {
            panic!("{plan}")
        };
        (grid, execute::run(&g, (&inputs, &[]), &options, false).unwrap().remove(0).to_bytes())
    };
    let (alone, want) = run(0);
    let heads = alone[2];
    for (members, beside) in [(2, 2), (3, 2), (1 << 20, heads)] {
        let (grid, got) = run(members);
        assert_eq!(grid, [beside, alone[1], heads / beside]);
        assert!(got == want, "{members} side by side");
    }
}

/// What asks for warps and for powers of two is printed and read again.
#[test]
fn its_text_is_the_program() {
    let g = attention(DType::Bf16, SIZES[2], Change::Biased);
    let text = planned(&g).programs[0].to_string();
    assert!(text.contains(") warps 4 {") && text.contains("exp2_approx"), "{text}");
    let again: crate::tile::Program = text.parse().unwrap();
    assert_eq!(crate::tile::verify(&again), vec![]);
    assert_eq!(again.to_string(), text);
}

/// A product reads the heads of a result merged again: they are written so, and nobody copies them.
#[test]
fn results_lie_as_their_reader_wants_them() {
    let mut g = attention(DType::Bf16, SIZES[0], Change::Causal);
    let result = g.outputs[0];
    let Sizes { batch, queries, values, .. } = SIZES[0];
    let heads = g.permute(result, &[0, 2, 1, 3]);
    let merged = g.reshape(heads, &[queries, batch * values]);
    let weights = g.input(DType::Bf16, &[batch * values, 8]);
    let y = g.contract(merged, weights);
    g.outputs = vec![y];
    let inputs = operands(&g);
    let kinds = |step: &Step| match step {
        Step::Launch { .. } => Some("launch"),
        Step::Gemm(_) => Some("gemm"),
        _ => None,
    };
    assert_eq!(planned(&g).steps.iter().filter_map(kinds).collect::<Vec<_>>(), ["launch", "gemm"], "{}", planned(&g));
    let got = execute::run(&g, (&inputs, &[]), &options(), false).unwrap().remove(0);
    let want = oracle::run(&g, &inputs, &[]).unwrap().remove(0);
    for (i, (got, want)) in got.floats().into_iter().zip(want.floats()).enumerate() {
        assert!((got - want).abs() <= 0.06, "at {i}: {got}, wanted {want}");
    }
}
