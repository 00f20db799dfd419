//! Training with attention: spelled out in a narrow type as reverse mode records it, it becomes three kernels and a row
//! of sums, and gives what f32 gives.

use super::{Change, Sizes, operands, options, planned, planned_as};
use crate::DType;
use crate::graph::array::coordinates;
use crate::graph::{Array, Graph, Index, Node, Op, Reduction, Update, number, oracle};
use crate::op::Pointwise as P;
use crate::schedule::attention::widened::widened;
use crate::schedule::{Arg, BufferData, Grain, Options, Step, execute};
use crate::tile::arbitrary::{Case, Data};

/// An attention in rows of one type, its gradients as Burn's automatic differentiation records them behind it.
struct Recorded {
    g: Graph,
    dtype: DType,
}

impl Recorded {
    fn number(&mut self, x: f64, like: Node) -> Node {
        let dims = self.g.dims(like).clone();
        self.g.constant(self.dtype, number::from_f64(self.dtype, x), &dims)
    }

    fn turned(&mut self, x: Node) -> Node {
        self.g.permute(x, &[0, 1, 3, 2])
    }

    fn sum(&mut self, x: Node) -> Node {
        self.g.reduce(Reduction::Sum, x, &[3], self.dtype)
    }

    /// `max(x, least)`, and where it is `least`.
    fn at_least(&mut self, x: Node, least: f64) -> (Node, Node) {
        let least = self.number(least, x);
        let below = self.g.map(P::Lt, &[x, least]);
        (self.g.map(P::Select, &[below, least, x]), below)
    }

    /// 0 where the condition holds.
    fn except(&mut self, condition: Node, x: Node) -> Node {
        let zero = self.number(0.0, x);
        self.g.map(P::Select, &[condition, zero, x])
    }
}

/// What is recorded, its results being the attention's and the gradients of `q`, `k` and `v`.
pub(crate) fn training(dtype: DType, sizes: Sizes, change: Change) -> Graph {
    let Sizes { batch, queries, keys, width, values } = sizes;
    let mut r = Recorded { g: Graph::new(), dtype };
    let factor = |r: &mut Recorded, rows: u64, width: u64| {
        let x = r.g.input(dtype, &[1, rows, batch, width]);
        r.g.permute(x, &[0, 2, 1, 3])
    };
    let (q, k, v) = (factor(&mut r, queries, width), factor(&mut r, keys, width), factor(&mut r, keys, values));
    let dims = [1, batch, queries, keys];
    let across = r.turned(k);
    let product = r.g.contract(q, across);
    let (scale, _) = r.g.scalar(dtype, &dims);
    let scaled = r.g.map(P::Mul, &[product, scale]);
    let nothing = r.number(f64::NEG_INFINITY, scaled);
    let hidden = match change {
        Change::Causal => {
            let [row, column] = [[queries, 1], [1, keys]].map(|to| {
                let index = r.g.iota(DType::I32, 0, &[to[0] * to[1]]);
                r.g.reshape(index, &to)
            });
            let offset = r.g.constant(DType::I32, keys.wrapping_sub(queries) & 0xffff_ffff, &[queries, 1]);
            let last = r.g.map(P::Add, &[row, offset]);
            let later = r.g.map(P::Lt, &[last, column]);
            Some(super::spread(&mut r.g, later, &dims))
        }
        Change::Masked => {
            let mask = r.g.input(DType::Bool, &[1, 1, queries, keys]);
            Some(r.g.expand(mask, &dims))
        }
        _ => None,
    };
    let scores = match (hidden, change) {
        (Some(hidden), _) => r.g.map(P::Select, &[hidden, nothing, scaled]),
        (None, Change::Biased) => {
            let bias = r.g.input(dtype, &[1, batch, queries, keys]);
            r.g.map(P::Add, &[scaled, bias])
        }
        (None, _) => scaled,
    };
    let most = r.g.reduce(Reduction::Max, scores, &[3], dtype);
    let place = r.g.reduce(Reduction::ArgMax, scores, &[3], DType::I32);
    // A softmax written by hand keeps nothing from 0, and takes the greatest score for a constant.
    let by_hand = change == Change::Nothing;
    let least = if dtype == DType::F16 { -65504.0 } else { -3.0e38 };
    let (shift, below) = if by_hand { (most, most) } else { r.at_least(most, least) };
    let less = r.g.map(P::Sub, &[scores, shift]);
    let weights = r.g.map(P::Exp, &[less]);
    let all = r.sum(weights);
    let least = if dtype == DType::F16 { 6.104e-5 } else { 1.1754943508222875e-38 };
    let (total, tiny) = if by_hand { (all, all) } else { r.at_least(all, least) };
    let p = r.g.map(P::Div, &[weights, total]);
    let result = r.g.contract(p, v);

    // Whatever is made of a result, its gradient comes after it.
    let given = r.g.input(dtype, &[1, batch, queries, values]);
    let given = r.g.map(P::Add, &[given, result]);
    let down = r.turned(v);
    let of_p = r.g.contract(given, down);
    let down = r.turned(p);
    let of_v = r.g.contract(down, given);
    let inverse = r.g.map(P::Recip, &[total]);
    let of_weights = r.g.map(P::Mul, &[of_p, inverse]);
    let less_than_nothing = r.g.map(P::Neg, &[weights]);
    let square = r.g.cast(total, DType::F32);
    let square = r.g.map(P::Mul, &[square, square]);
    let square = r.g.cast(square, dtype);
    let rate = r.g.map(P::Div, &[less_than_nothing, square]);
    let of_total = r.g.map(P::Mul, &[of_p, rate]);
    let of_total = r.sum(of_total);
    let of_all = if by_hand { of_total } else { r.except(tiny, of_total) };
    let of_all = r.sum(of_all);
    let ones = r.number(1.0, weights);
    let of_all = r.g.map(P::Mul, &[ones, of_all]);
    let of_weights = r.g.map(P::Add, &[of_all, of_weights]);
    let again = r.g.map(P::Exp, &[less]);
    let of_less = r.g.map(P::Mul, &[of_weights, again]);
    let mut of_scores = of_less;
    if !by_hand {
        let of_shift = r.g.map(P::Neg, &[of_less]);
        let of_shift = r.sum(of_shift);
        let of_most = r.except(below, of_shift);
        let zeros = r.number(0.0, scores);
        let of_most = r.g.scatter(Index::Elements, Update::Add, zeros, 3, place, of_most);
        of_scores = r.g.map(P::Add, &[of_most, of_less]);
    }
    let of_scaled = hidden.map_or(of_scores, |hidden| r.except(hidden, of_scores));
    let (scale, _) = r.g.scalar(dtype, &dims);
    let of_product = r.g.map(P::Mul, &[of_scaled, scale]);
    let down = r.turned(across);
    let of_q = r.g.contract(of_product, down);
    let down = r.turned(q);
    let of_k = r.g.contract(down, of_product);
    let of_k = r.turned(of_k);
    r.g.outputs = vec![result, of_q, of_k, of_v];
    r.g
}

/// Heads that no tile divides, more keys than queries and the other way round, and rows of two widths.
pub(crate) const TRAINED: [Sizes; 3] = [
    Sizes { batch: 2, queries: 37, keys: 53, width: 24, values: 24 },
    Sizes { batch: 1, queries: 150, keys: 140, width: 64, values: 64 },
    Sizes { batch: 1, queries: 80, keys: 90, width: 128, values: 32 },
];

/// A quarter for both scales.
pub(crate) fn slots(dtype: DType) -> [u64; 2] {
    [number::from_f64(dtype, 0.25); 2]
}

/// Panics where results are further from those of the same rows in f32 than rounding explains.
pub(crate) fn close(sizes: Sizes, change: Change, inputs: &[Array], got: &[Array], what: &str) {
    let widened = |x: &Array| match x.dtype.is_float() {
        true => Array::from_floats(DType::F32, &x.dims, &x.floats()),
        false => x.clone(),
    };
    let wide: Vec<Array> = inputs.iter().map(widened).collect();
    let want = oracle::run(&training(DType::F32, sizes, change), &wide, &slots(DType::F32)).unwrap();
    for ((got, want), name) in got.iter().zip(&want).zip(["result", "of q", "of k", "of v"]) {
        let unit = if got.dtype == DType::F16 { 1.0 / 1024.0 } else { 1.0 / 128.0 };
        let most = want.floats().into_iter().fold(0.25, |most: f64, x| most.max(x.abs()));
        for (i, (got, want)) in got.floats().into_iter().zip(want.floats()).enumerate() {
            assert!((got - want).abs() <= most * unit, "{what}, {name} at {i}: {got}, wanted {want}");
        }
    }
}

/// The results of a plan's launches, each of which `run` makes of its operands' bytes.
pub(crate) fn launched(
    g: &Graph,
    (inputs, slots): (&[Array], &[u64]),
    grain: Grain,
    mut run: impl FnMut(&Case) -> Vec<Data>,
) -> Vec<Array> {
    let plan = planned_as(g, grain);
    let start = |data: &BufferData| match data.input {
        Some(number) => inputs[number as usize].to_bytes(),
        None => vec![0xa5; data.len as usize * data.dtype.bytes()],
    };
    let mut memory: Vec<Vec<u8>> = plan.buffers.values().map(start).collect();
    for step in &plan.steps {
        let Step::Launch { program, grid, args, .. } = step else { continue };
        let data = |arg: &Arg| match arg {
            Arg::Literal(bits) => Data::Scalar(*bits),
            Arg::Slot(slot) => Data::Scalar(slots[slot.as_u32() as usize]),
            Arg::Buffer(buf) => Data::Buffer(memory[buf.as_u32() as usize].clone()),
        };
        let program = plan.programs[*program].clone();
        let case = Case { program, grid: *grid, args: args.iter().map(data).collect() };
        for (arg, data) in args.iter().zip(run(&case)) {
            if let (Arg::Buffer(buf), Data::Buffer(bytes)) = (arg, data) {
                memory[buf.as_u32() as usize] = bytes;
            }
        }
    }
    let outputs = g.outputs.iter().zip(&plan.outputs).map(|(&node, output)| {
        assert_eq!(output.layout.offset, 0);
        let dims = g.dims(node);
        let whole = Array::from_bytes(g.dtype(node), dims, &memory[output.buffer.as_u32() as usize]);
        let places = coordinates(dims).map(|c| output.layout.strides.iter().zip(&c).map(|(&s, &i)| s * i as i64).sum());
        Array::new(whole.dtype, dims, places.map(|at: i64| whole.bits[at as usize]).collect())
    });
    outputs.collect()
}

fn rows(g: &Graph) -> Vec<Vec<&'static str>> {
    let rows = |step: &Step| match step {
        Step::Launch { rows, .. } => Some(rows.clone()),
        Step::Gemm(_) => Some(vec!["gemm"]),
        _ => None,
    };
    planned(g).steps.iter().filter_map(rows).collect()
}

#[test]
fn gradients_are_two_kernels_that_say_what_their_rows_say() {
    for (sizes, dtype) in TRAINED.into_iter().zip([DType::Bf16, DType::F16, DType::Bf16]) {
        for change in super::CHANGES {
            let g = training(dtype, sizes, change);
            let inputs = operands(&g);
            assert_eq!(rows(&g).len(), 4, "{sizes:?} {change:?}: {:?}", rows(&g));
            let got = execute::run(&g, (&inputs, &slots(dtype)), &options(), false).unwrap();
            close(sizes, change, &inputs, &got, &format!("{sizes:?} {change:?} {dtype}"));
        }
    }
}

/// Heads are merged again before they meet the projections' weights: gradients are written so, and nobody copies them.
#[test]
fn gradients_lie_as_their_readers_want_them() {
    let Sizes { batch, width, .. } = TRAINED[0];
    let mut g = training(DType::Bf16, TRAINED[0], Change::Causal);
    let weights = g.input(DType::Bf16, &[batch * width, 8]);
    let merged = |g: &mut Graph, x: Node| {
        let rows = g.dims(x)[2];
        let heads = g.permute(x, &[0, 2, 1, 3]);
        let merged = g.reshape(heads, &[rows, batch * width]);
        g.contract(merged, weights)
    };
    g.outputs = g.outputs.clone().into_iter().map(|x| merged(&mut g, x)).collect();
    let rows = rows(&g);
    assert_eq!(rows.len(), 4 + 4, "{rows:?}");
    assert!(rows.iter().all(|rows| !rows.contains(&"copy")), "{rows:?}");
}

/// What a step of training recorded through Burn, `attention` being called and the sum of the squares differentiated.
#[test]
fn what_burn_records_is_known() {
    let g: Graph = include_str!("recorded.graph").parse().unwrap();
    let plan = planned(&g);
    let mut names: Vec<&str> = plan.programs.iter().map(|p| p.name.as_str()).collect();
    names.retain(|name| ["attention", "slopes"].contains(name));
    assert_eq!(names, ["attention", "slopes", "slopes"], "{plan}");
    assert!(plan.buffers.values().all(|b| b.len < 2 * 24 * 24), "{plan}");
}

/// Nothing as large as the scores is written.
#[test]
fn no_scores_are_written() {
    let sizes = Sizes { batch: 3, queries: 1000, keys: 1000, width: 64, values: 64 };
    let plan = planned(&training(DType::Bf16, sizes, Change::Causal));
    assert!(plan.buffers.values().all(|b| b.len <= 3 * 1000 * 64), "{plan}");
}

/// In f32 inside, the rows mean what they meant.
#[test]
fn what_is_widened_means_the_same() {
    for change in super::CHANGES {
        let g = training(DType::Bf16, TRAINED[0], change);
        let inputs = operands(&g);
        let (wide, origins) = widened(&g, &options()).unwrap();
        assert_eq!(origins.len(), wide.nodes.len());
        let got = oracle::run(&wide, &inputs, &slots(DType::Bf16)).unwrap();
        close(TRAINED[0], change, &inputs, &got, &format!("{change:?}"));
    }
}

/// What somebody else wants must be written, other rows are no gradients, and strict numerics leave all as they are.
#[test]
fn other_gradients_are_left_alone() {
    let plain = training(DType::Bf16, TRAINED[1], Change::Causal);
    assert!(widened(&plain, &options()).is_some());
    let node = |wanted: &dyn Fn(&Op) -> bool| plain.nodes.iter().rfind(|(_, d)| wanted(&d.op)).unwrap().0;
    for inner in
        [node(&|op| *op == Op::Map(P::Div)), node(&|op| *op == Op::Map(P::Mul)), node(&|op| *op == Op::Map(P::Exp))]
    {
        let mut wanted = plain.clone();
        wanted.outputs.push(inner);
        assert!(widened(&wanted, &options()).is_none(), "{inner}");
    }
    let mut other = plain.clone();
    let sign = node(&|op| *op == Op::Map(P::Neg));
    other.nodes[sign].op = Op::Map(P::Abs);
    assert!(widened(&other, &options()).is_none());
    assert!(widened(&plain, &Options { gemm_from: None, ..options() }).is_none());
    assert!(widened(&training(DType::F32, TRAINED[1], Change::Causal), &options()).is_none());
}
