//! Long rows, summed in one pass and in two.

use super::super::execute;
use super::super::plan::{InputData, Layout, Options, Step};
use super::super::{Grain, plan};
use crate::DType;
use crate::graph::array::Array;
use crate::graph::{Graph, Node, Reduction, number};
use crate::op::Pointwise;

const OPTIONS: Options = Options::new(true, Some(u64::MAX), Grain::of_threads(8000));
const STRICT: Options = Options::new(true, None, Grain::of_threads(8000));

/// `softmax(x)` by its rows.
fn softmax(g: &mut Graph, x: Node) -> Node {
    let (dtype, axis) = (g.dtype(x), g.dims(x).len() - 1);
    let most = g.reduce(Reduction::Max, x, &[axis], dtype);
    let shifted = g.map(Pointwise::Sub, &[x, most]);
    let e = g.map(Pointwise::Exp, &[shifted]);
    let sum = g.reduce(Reduction::Sum, e, &[axis], dtype);
    g.map(Pointwise::Div, &[e, sum])
}

/// `(x − mean)/√variance`, and the variance.
fn norm(g: &mut Graph, x: Node) -> [Node; 2] {
    let (dtype, axis) = (g.dtype(x), g.dims(x).len() - 1);
    let n = g.dims(x)[axis];
    let mean = |g: &mut Graph, x: Node| {
        let sum = g.reduce(Reduction::Sum, x, &[axis], dtype);
        let dims = g.dims(sum).clone();
        let n = g.constant(dtype, number::from_f64(dtype, n as f64), &dims);
        g.map(Pointwise::Div, &[sum, n])
    };
    let middle = mean(g, x);
    let centred = g.map(Pointwise::Sub, &[x, middle]);
    let square = g.map(Pointwise::Mul, &[centred, centred]);
    let variance = mean(g, square);
    let deviation = g.map(Pointwise::Sqrt, &[variance]);
    [g.map(Pointwise::Div, &[centred, deviation]), variance]
}

fn noise(dtype: DType, dims: &[u64], (middle, spread): (f64, f64)) -> Array {
    let count: u64 = dims.iter().product();
    let values = (0..count).map(|i| {
        let hash = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        middle + spread * (hash as f64 / f64::from(1 << 23) - 1.0)
    });
    Array::from_floats(dtype, dims, &values.collect::<Vec<_>>())
}

fn built(dtype: DType, dims: &[u64], make: impl FnOnce(&mut Graph, Node) -> Vec<Node>) -> Graph {
    let mut g = Graph::new();
    let x = g.input(dtype, dims);
    g.outputs = make(&mut g, x);
    g
}

fn run(graph: &Graph, x: &Array, options: &Options) -> Vec<Array> {
    execute::run(graph, (std::slice::from_ref(x), &[]), options, false).unwrap()
}

/// How often a plan's kernels read their operands' elements or write an element, and how many kernels there are.
fn launches(graph: &Graph, options: &Options) -> usize {
    let dims = graph.dims(graph.nodes.keys().next().unwrap()).clone();
    let input = InputData { layout: Layout::contiguous(&dims), buffer_len: dims.iter().product(), donated: false };
    let plan = plan(graph, &[input], options);
    plan.steps.iter().filter(|s| matches!(s, Step::Launch { .. })).count()
}

fn floats(x: &Array) -> Vec<f64> {
    (0..x.bits.len()).map(|i| x.float(i)).collect()
}

/// Statistics of the chunks, those of the rows, and the result: three kernels, the first and the last of which go through
/// the row.
#[test]
fn a_long_row_is_read_once_for_its_statistics() {
    let dims = [300, 50_000];
    let soft = built(DType::Bf16, &dims, |g, x| {
        let x = g.cast(x, DType::F32);
        let y = softmax(g, x);
        vec![g.cast(y, DType::Bf16)]
    });
    let normal = built(DType::F32, &dims, |g, x| vec![norm(g, x)[0]]);
    assert_eq!([&soft, &normal].map(|g| launches(g, &OPTIONS)), [3, 3]);
    // Rows that a program holds have them from there, and strict numerics know one way.
    let short = built(DType::F32, &[300, 4096], |g, x| vec![softmax(g, x)]);
    assert_eq!(launches(&short, &OPTIONS), 1);
    assert_eq!([&soft, &normal].map(|g| launches(g, &STRICT)), [1, 1]);
}

#[test]
fn a_softmax_is_as_exact_as_in_two_passes() {
    for (rows, n) in [(2, 4097), (3, 5120), (1, 20_000)] {
        for dtype in [DType::F32, DType::F64] {
            let x = noise(dtype, &[rows, n], (3.0, 40.0));
            let graph = built(dtype, &[rows, n], |g, x| vec![softmax(g, x)]);
            let wanted: Vec<f64> = floats(&x)
                .chunks(n as usize)
                .flat_map(|row| {
                    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
                    row.iter().map(move |x| (x - most).exp() / sum).collect::<Vec<_>>()
                })
                .collect();
            let worst = |got: &Array| {
                let errors = floats(got).iter().zip(&wanted).map(|(y, w)| ((y - w) / w).abs()).collect::<Vec<_>>();
                errors.into_iter().fold(0.0, f64::max)
            };
            let [one, two] = [OPTIONS, STRICT].map(|options| worst(&run(&graph, &x, &options)[0]));
            let unit = if dtype == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
            assert!(one <= two.max(4.0 * unit) * 1.5, "{rows}×{n} {dtype}: {one:e}, in two passes {two:e}");
        }
    }
}

/// The chunks' means are rounded; what that moves is made up for, also where the mean is far from 0.
#[test]
fn a_variance_is_as_exact_as_in_two_passes() {
    for (rows, n) in [(2, 4097), (2, 5120), (1, 20_001)] {
        for (middle, spread) in [(0.0, 1.0), (1000.0, 1.0), (-3e5, 0.5), (7.0, 1e-6)] {
            let x = noise(DType::F32, &[rows, n], (middle, spread));
            let graph = built(DType::F32, &[rows, n], |g, x| norm(g, x).to_vec());
            let wanted: Vec<f64> = floats(&x)
                .chunks(n as usize)
                .map(|row| {
                    let mean = row.iter().sum::<f64>() / n as f64;
                    row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64
                })
                .collect();
            let worst = |got: &Array| {
                let errors = floats(got).iter().zip(&wanted).map(|(y, w)| ((y - w) / w).abs()).collect::<Vec<_>>();
                errors.into_iter().fold(0.0, f64::max)
            };
            let [one, two] = [OPTIONS, STRICT].map(|options| worst(&run(&graph, &x, &options)[1]));
            assert!(one <= two.max(1e-6), "{rows}×{n} about {middle}: {one:e}, in two passes {two:e}");
        }
    }
    // All equal: nothing below 0, whatever the mean is rounded to.
    let x = Array::from_floats(DType::F32, &[1, 5000], &[1.1e6; 5000]);
    let graph = built(DType::F32, &[1, 5000], |g, x| norm(g, x).to_vec());
    let variance = run(&graph, &x, &OPTIONS)[1].float(0);
    assert!((0.0..1.0).contains(&variance), "{variance}");
}

/// Chunks that hold nothing but −∞, and rows that hold NaN or ∞.
#[test]
fn special_values_give_what_two_passes_give() {
    let n = 5000;
    let mut rows = vec![floats(&noise(DType::F32, &[n], (0.0, 3.0))); 6];
    rows[0][..2500].fill(f64::NEG_INFINITY);
    rows[1].fill(f64::NEG_INFINITY);
    rows[2][4999] = f64::INFINITY;
    rows[3][1024] = f64::NAN;
    rows[4].fill(f64::from(f32::MIN));
    rows[5][4096..].fill(f64::NEG_INFINITY);
    let x = Array::from_floats(DType::F32, &[6, n], &rows.concat());
    let graph = built(DType::F32, &[6, n], |g, x| vec![softmax(g, x), norm(g, x)[0]]);
    let [one, two] = [OPTIONS, STRICT].map(|options| run(&graph, &x, &options));
    for (got, wanted) in one.iter().zip(&two) {
        for (i, (y, w)) in floats(got).iter().zip(floats(wanted)).enumerate() {
            let near = (y - w).abs() <= 1e-5 * w.abs() || y.is_nan() && w.is_nan();
            assert!(near, "row {} at {}: {y}, in two passes {w}", i as u64 / n, i as u64 % n);
        }
    }
}

#[test]
fn bits_depend_on_neither_fusion_nor_the_number_of_rows() {
    let (rows, n) = (4, 9_999);
    for dtype in [DType::F32, DType::F16] {
        let x = noise(dtype, &[rows, n], (0.0, 9.0));
        let graph = |rows| {
            built(dtype, &[rows, n], |g, x| {
                let wide = g.cast(x, DType::F32);
                vec![softmax(g, x), norm(g, wide)[0]]
            })
        };
        let whole = run(&graph(rows), &x, &OPTIONS);
        let apart = run(&graph(rows), &x, &Options { fuse: false, ..OPTIONS });
        assert!(whole.iter().zip(&apart).all(|(a, b)| a.bits == b.bits), "{dtype}: unfused");
        let last = Array::new(dtype, &[1, n], x.bits[3 * n as usize..].to_vec());
        let alone = run(&graph(1), &last, &OPTIONS);
        assert!(whole.iter().zip(&alone).all(|(a, b)| a.bits.ends_with(&b.bits)), "{dtype}: one row");
    }
}

/// What is looked at between the two reductions is there.
#[test]
fn a_guarded_maximum_and_its_own_readers_are_served() {
    let dims = [3, 6000];
    let mut x = noise(DType::F32, &dims, (0.0, 2.0));
    x.bits[6000..12_000].fill(f32::NEG_INFINITY.to_bits().into());
    let graph = built(DType::F32, &dims, |g, x| {
        let most = g.reduce(Reduction::Max, x, &[1], DType::F32);
        let lowest = g.constant(DType::F32, f32::MIN.to_bits().into(), &[3, 1]);
        let guarded = g.map(Pointwise::Max, &[most, lowest]);
        let shifted = g.map(Pointwise::Sub, &[x, guarded]);
        let e = g.map(Pointwise::Exp, &[shifted]);
        let sum = g.reduce(Reduction::Sum, e, &[1], DType::F32);
        vec![most, sum]
    });
    let [one, two] = [OPTIONS, STRICT].map(|options| run(&graph, &x, &options));
    assert_eq!(one[0].bits, two[0].bits);
    for (y, w) in floats(&one[1]).iter().zip(floats(&two[1])) {
        assert!((y - w).abs() <= 1e-5 * w.abs(), "{y}, in two passes {w}");
    }
}
