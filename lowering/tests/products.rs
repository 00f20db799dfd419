//! Products as tile programs: whatever the tile, one fused multiply-add per term in ascending order.

use kiln_lowering::DType;
use kiln_lowering::graph::{Array, Graph};
use kiln_lowering::op::Pointwise;
use kiln_lowering::schedule::{Grain, InputData, Layout, Options, Step, execute, plan};

fn run(graph: &Graph, inputs: &[Array], rewrite: bool) -> Array {
    let options = Options::new(true, None, Grain::of_vectors(3));
    execute::run(graph, (inputs, &[]), &options, rewrite).unwrap().remove(0)
}

/// Values whose sums depend on their order.
fn uneven(dims: &[u64], seed: u64) -> Array {
    let value = |i: usize| (i as u64 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    Array::from_fn(DType::F32, dims, |i| (value(i) as f32 / (1 << 24) as f32 - 0.3).to_bits().into())
}

fn floats(x: &Array) -> Vec<f32> {
    x.bits.iter().map(|&b| f32::from_bits(b as u32)).collect()
}

const SIZES: [(u64, u64, u64, u64); 9] = [
    (1, 1, 1, 1),
    (2, 5, 7, 3),
    (1, 33, 17, 9),
    (3, 1, 70, 40),
    (1, 70, 1, 40),
    (1, 40, 16, 33),
    (2, 35, 5, 16),
    (1, 17, 33, 32),
    (1, 3, 40, 0),
];

#[test]
fn sums_are_in_ascending_order_in_every_tile() {
    for (batch, m, n, k) in SIZES {
        for turned in [false, true] {
            let mut g = Graph::new();
            let x = g.input(DType::F32, &[batch, m, k]);
            let lies = if turned { [n, k] } else { [k, n] };
            let y = g.input(DType::F32, &lies);
            let factor = if turned { g.permute(y, &[1, 0]) } else { y };
            let factor = g.reshape(factor, &[1, k, n]);
            let factor = g.expand(factor, &[batch, k, n]);
            let product = g.contract(x, factor);
            g.outputs.push(product);
            let inputs = [uneven(&[batch, m, k], 1), uneven(&lies, 77)];
            let (a, b) = (floats(&inputs[0]), floats(&inputs[1]));
            let at = |l: u64, j: u64| b[(if turned { j * k + l } else { l * n + j }) as usize];
            for rewrite in [false, true] {
                let got = floats(&run(&g, &inputs, rewrite));
                for (i, got) in (0..).zip(&got) {
                    let (row, j) = (i / n, i % n);
                    let want = (0..k).fold(0f32, |sum, l| a[(row * k + l) as usize].mul_add(at(l, j), sum));
                    assert_eq!(got.to_bits(), want.to_bits(), "{batch} x {m} x {n} x {k} {turned} at {i}");
                }
            }
        }
    }
}

/// What is computed on the way in is 0 beyond the last term, although e⁰ is not.
#[test]
fn tails_of_computed_factors_add_nothing() {
    for (_, m, n, k) in SIZES {
        let mut g = Graph::new();
        let x = g.input(DType::F32, &[m, k]);
        let y = g.input(DType::F32, &[k, n]);
        let (ex, ey) = (g.map(Pointwise::Exp, &[x]), g.map(Pointwise::Cos, &[y]));
        let product = g.contract(ex, ey);
        g.outputs = vec![product];
        let inputs = [uneven(&[m, k], 5), uneven(&[k, n], 6)];
        let mut apart = Graph::new();
        let (a, b) = (apart.input(DType::F32, &[m, k]), apart.input(DType::F32, &[k, n]));
        let product = apart.contract(a, b);
        apart.outputs = vec![product];
        let computed = [(&inputs[0], Pointwise::Exp), (&inputs[1], Pointwise::Cos)].map(|(x, op)| {
            let mut g = Graph::new();
            let node = g.input(DType::F32, &x.dims);
            let y = g.map(op, &[node]);
            g.outputs = vec![y];
            run(&g, std::slice::from_ref(x), false)
        });
        assert_eq!(run(&g, &inputs, true).bits, run(&apart, &computed, true).bits, "{m} x {n} x {k}");
    }
}

/// Integers wrap, and the sizes are arguments: another batch is the same program.
#[test]
fn another_number_of_rows_is_the_same_program() {
    let program = |m: u64, k: u64| {
        let mut g = Graph::new();
        let (a, b) = (g.input(DType::I32, &[m, k]), g.input(DType::I32, &[k, 40]));
        let product = g.contract(a, b);
        g.outputs.push(product);
        let data = |dims: [u64; 2]| kiln_lowering::schedule::InputData {
            layout: kiln_lowering::schedule::Layout::contiguous(&dims),
            buffer_len: dims[0] * dims[1],
            donated: false,
        };
        let options = Options::new(true, None, Grain::of_vectors(3));
        let plan = kiln_lowering::schedule::plan(&g, &[data([m, k]), data([k, 40])], &options);
        assert_eq!(plan.programs.len(), 1);
        plan.programs[0].to_string()
    };
    assert_eq!(program(33, 20), program(500, 77));
    assert_eq!(program(2, 3), program(16, 16));
}

/// An f32 factor beside one that was widened from bf16 is taken apart without error: three products by the library, whose
/// sum is as near to the true one as that of the whole.
#[test]
fn wide_factors_are_multiplied_by_parts() {
    let mut graph = Graph::new();
    let (a, b) = (graph.input(DType::F32, &[2, 64, 80]), graph.input(DType::Bf16, &[2, 80, 64]));
    let wide = graph.cast(b, DType::F32);
    let y = graph.contract(a, wide);
    graph.outputs.push(y);
    let hash = |i: u64| (i + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34;
    let number = |i: u64| (hash(i) as f32 / 1e8 - 5.0).to_bits();
    let x = Array::from_fn(DType::F32, &[2, 64, 80], |i| u64::from(number(i as u64)));
    let w = Array::from_fn(DType::Bf16, &[2, 80, 64], |i| u64::from(number(i as u64 + 99_999) >> 16));
    let options = Options::new(true, Some(1), Grain::of_threads(100));
    let inputs = [&x, &w].map(|x| InputData {
        layout: Layout::contiguous(&x.dims),
        buffer_len: x.bits.len() as u64,
        donated: false,
    });
    let steps = plan(&graph, &inputs, &options).steps;
    let products = steps.iter().filter_map(|s| if let Step::Gemm(gemm) = s { Some(gemm.from) } else { None });
    assert_eq!(products.collect::<Vec<_>>(), [DType::Bf16; 3]);
    let got = execute::run(&graph, (&[x.clone(), w.clone()], &[]), &options, false).unwrap().swap_remove(0);
    for (i, j, batch) in [(0, 0, 0), (63, 5, 1), (17, 63, 1)] {
        let terms = (0..80).map(|k| x.float((batch * 64 + i) * 80 + k) * w.float((batch * 80 + k) * 64 + j));
        let (want, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
        let error = (got.float((batch * 64 + i) * 64 + j) - want).abs();
        assert!(error <= size * 80.0 * f64::from(f32::EPSILON) / 2.0, "{i}, {j}: off by {error}");
    }
}
