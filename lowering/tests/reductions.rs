//! Reductions, planned and run on the interpreter: one tree, whatever the lanes of a tile follow.

use kiln_lowering::DType;
use kiln_lowering::graph::array::Array;
use kiln_lowering::graph::oracle;
use kiln_lowering::graph::{Graph, Index, Node, Reduction, Update};
use kiln_lowering::op::Pointwise;
use kiln_lowering::schedule::{Grain, InputData, Layout, Options, Step, execute, plan};

const OPTIONS: Options = Options::new(true, None, Grain::of_vectors(4));

/// Numbers of both signs with some that are equal; every seventh row or so of something special.
fn terms(dtype: DType, rows: u64, terms: u64, special: bool) -> Array {
    let values = (0..rows * terms).map(|i| {
        let (row, term) = (i / terms, i % terms);
        let hash = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let number = (hash % 1000) as f64 / 100.0 - 5.0;
        match (special, row % 7, term % 50) {
            (true, 1, 7 | 23) => f64::NAN,
            (true, 2, _) => f64::NEG_INFINITY,
            (true, 3, _) => f64::INFINITY,
            (true, 4, t) => {
                if t == 11 {
                    0.0
                } else {
                    -0.0
                }
            }
            (true, 5, 3) => -f64::NAN,
            (true, 6, t) => {
                if t % 2 == 0 {
                    3.0
                } else {
                    -3.0
                }
            }
            _ => number,
        }
    });
    Array::from_floats(dtype, &[rows, terms], &values.collect::<Vec<_>>())
}

fn transposed(x: &Array) -> Array {
    let (rows, columns) = (x.dims[0] as usize, x.dims[1] as usize);
    let bits = (0..rows * columns).map(|i| x.bits[i % rows * columns + i / rows]).collect();
    Array::new(x.dtype, &[x.dims[1], x.dims[0]], bits)
}

/// Equal bits; any NaN equals any other.
fn same(a: &Array, b: &Array) -> bool {
    let nan = |x: &Array, i: usize| x.dtype.is_float() && x.float(i).is_nan();
    (0..a.bits.len()).all(|i| a.bits[i] == b.bits[i] || nan(a, i) && nan(b, i)) && a.bits.len() == b.bits.len()
}

fn reduced(kind: Reduction, x: &Array, axis: usize, grain: Grain) -> (Array, Array) {
    let mut graph = Graph::new();
    let input = graph.input(x.dtype, &x.dims);
    let out = if kind.is_arg() { DType::I64 } else { x.dtype };
    let y = graph.reduce(kind, input, &[axis], out);
    graph.outputs.push(y);
    let options = Options { grain, ..OPTIONS };
    let got = execute::run(&graph, (std::slice::from_ref(x), &[]), &options, true).unwrap();
    let truth = oracle::run(&graph, std::slice::from_ref(x), &[]).unwrap();
    (got[0].clone(), truth[0].clone())
}

#[test]
fn rows_and_columns_are_reduced_by_one_tree() {
    let kinds = [Reduction::Sum, Reduction::Prod, Reduction::Max, Reduction::Min, Reduction::ArgMax, Reduction::ArgMin];
    for (rows, length) in
        [(40, 17), (3, 64), (33, 65), (130, 200), (7, 1024), (35, 1025), (7, 2111), (2, 66_000), (3, 9300)]
    {
        for kind in kinds {
            for special in [false, true] {
                let x = terms(DType::F32, rows, length, special && kind != Reduction::Prod);
                let (along, truth) = reduced(kind, &x, 1, OPTIONS.grain);
                for grain in [OPTIONS.grain, Grain::of_threads(100)] {
                    let (across, _) = reduced(kind, &transposed(&x), 0, grain);
                    assert!(same(&along, &across), "{kind:?} of {rows} rows of {length}");
                }
                // By several warps, where a row is long enough.
                let (shared, _) = reduced(kind, &x, 1, Grain::of_threads(8000));
                assert!(same(&along, &shared), "{kind:?} of {rows} rows of {length}, shared");
                let exact = !matches!(kind, Reduction::Sum | Reduction::Prod);
                assert!(!exact || same(&along, &truth), "{kind:?} of {rows} rows of {length}: {along:?} {truth:?}");
            }
        }
    }
}

#[test]
fn extremes_of_every_float_type_are_exact() {
    for dtype in [DType::F64, DType::F16, DType::Bf16] {
        for kind in [Reduction::Max, Reduction::Min, Reduction::ArgMax, Reduction::ArgMin] {
            let x = terms(dtype, 9, 77, true);
            for (x, axis) in [(x.clone(), 1), (transposed(&x), 0)] {
                let (got, truth) = reduced(kind, &x, axis, OPTIONS.grain);
                assert!(same(&got, &truth), "{kind:?} of {dtype}: {got:?} {truth:?}");
            }
        }
    }
}

fn softmax(graph: &mut Graph, x: Node, dtype: DType) -> Node {
    let max = graph.reduce(Reduction::Max, x, &[1], dtype);
    let shifted = graph.map(Pointwise::Sub, &[x, max]);
    let e = graph.map(Pointwise::Exp, &[shifted]);
    let sum = graph.reduce(Reduction::Sum, e, &[1], dtype);
    graph.map(Pointwise::Div, &[e, sum])
}

/// The exponentials of a softmax are computed once, for full tiles and for the last one: they wait in the result's
/// place. Where that is of another type they would lose bits there, and are computed again.
#[test]
fn what_two_passes_want_waits_in_the_place_of_the_result() {
    for (wide, written) in [(false, 2), (true, 4)] {
        let mut graph = Graph::new();
        let x = graph.input(DType::F16, &[5, 100]);
        let y = if wide {
            let x = graph.cast(x, DType::F32);
            let y = softmax(&mut graph, x, DType::F32);
            graph.cast(y, DType::F16)
        } else {
            softmax(&mut graph, x, DType::F16)
        };
        graph.outputs.push(y);
        let input = InputData { layout: Layout::contiguous(&[5, 100]), buffer_len: 500, donated: false };
        let plan = plan(&graph, &[input], &OPTIONS);
        let launches = plan.steps.iter().filter(|s| matches!(s, Step::Launch { .. })).count();
        assert_eq!(launches, 1);
        assert_eq!(plan.programs[0].to_string().matches("= exp_below ").count(), written, "{}", plan.programs[0]);

        let x = terms(DType::F16, 5, 100, false);
        let unfused = Options { fuse: false, ..OPTIONS };
        let [fused, unfused] =
            [OPTIONS, unfused].map(|o| execute::run(&graph, (std::slice::from_ref(&x), &[]), &o, true).unwrap());
        assert!(same(&fused[0], &unfused[0]));
    }
}

/// Rows that a program holds in registers give what rows give that are gone through again for each reduction, and their
/// kernels read each operand once.
#[test]
fn held_rows_have_the_same_tree() {
    let row = |dtype: DType, n: u64| {
        let mut g = Graph::new();
        let x = g.input(dtype, &[9, n]);
        let wide = |g: &mut Graph, y: Node| g.expand(y, &[9, n]);
        let most = g.reduce(Reduction::Max, x, &[1], dtype);
        let first = g.reduce(Reduction::ArgMax, x, &[1], DType::I32);
        let most = wide(&mut g, most);
        let shifted = g.map(Pointwise::Sub, &[x, most]);
        let e = g.map(Pointwise::Exp, &[shifted]);
        let sum = g.reduce(Reduction::Sum, e, &[1], dtype);
        let sum = wide(&mut g, sum);
        let y = g.map(Pointwise::Div, &[e, sum]);
        let square = g.map(Pointwise::Mul, &[y, y]);
        let spread = g.reduce(Reduction::Sum, square, &[1], dtype);
        g.outputs = vec![y, spread, first];
        g
    };
    for n in [2, 63, 64, 65, 320, 768, 1000, 1024, 1025, 2048, 3000, 3072, 4096, 4224, 5120, 6656, 8192, 12_288, 16_384]
    {
        for (dtype, special) in [(DType::F32, true), (DType::Bf16, false)] {
            let (graph, x) = (row(dtype, n), terms(dtype, 9, n, special));
            let run = |grain| {
                let options = Options { grain, ..OPTIONS };
                execute::run(&graph, (std::slice::from_ref(&x), &[]), &options, false).unwrap()
            };
            let (held, again) = (run(Grain::of_threads(100)), run(OPTIONS.grain));
            assert!(held.iter().zip(&again).all(|(a, b)| same(a, b)), "{n} terms of {dtype}");
        }
    }
    let graph = row(DType::F32, 1000);
    let input = InputData { layout: Layout::contiguous(&[9, 1000]), buffer_len: 9000, donated: false };
    let loads = |grain| {
        let plan = plan(&graph, std::slice::from_ref(&input), &Options { grain, ..OPTIONS });
        plan.programs.iter().map(|p| p.to_string().matches("= load").count()).collect::<Vec<_>>()
    };
    // Two groups of eight tiles.
    assert_eq!(loads(Grain::of_threads(100)), [2]);
}

/// What an index leads to is read where there is a term, and nowhere else: the interpreter faults outside of a buffer.
#[test]
fn held_rows_read_by_indices_no_further_than_they_go() {
    for n in [4224, 5120] {
        let mut graph = Graph::new();
        let table = graph.input(DType::F32, &[1, n]);
        let index = graph.input(DType::I32, &[2, n]);
        let x = graph.gather(Index::Elements, table, 0, index);
        let y = softmax(&mut graph, x, DType::F32);
        graph.outputs.push(y);
        let inputs = [terms(DType::F32, 1, n, false), Array::new(DType::I32, &[2, n], vec![0; 2 * n as usize])];
        let run = |grain| execute::run(&graph, (&inputs, &[]), &Options { grain, ..OPTIONS }, false).unwrap();
        let (held, again) = (run(Grain::of_threads(100)), run(OPTIONS.grain));
        assert!(same(&held[0], &again[0]), "{n} terms");
    }
}

/// Extremes that several programs look for are the first of equals, or the first NaN, wherever they lie.
#[test]
fn shared_searches_find_the_first() {
    for (rows, n) in [(1, 70_000), (3, 40_000)] {
        for kind in [Reduction::ArgMax, Reduction::ArgMin] {
            let mut x = terms(DType::F32, rows, n, false);
            let far = if kind == Reduction::ArgMax { 9f32 } else { -9f32 };
            let places = [(0, [5_000, 33_333]), (1, [1_023, 1_024]), (2, [39_999, 39_999])];
            for (row, at) in places.into_iter().filter(|&(row, _)| row < rows) {
                let value = if row == 1 { f32::NAN } else { far };
                at.into_iter().for_each(|i| x.bits[(row * n + i) as usize] = value.to_bits().into());
            }
            for (x, axis) in [(x.clone(), 1), (transposed(&x), 0)] {
                let mut graph = Graph::new();
                let input = graph.input(DType::F32, &x.dims);
                let y = graph.reduce(kind, input, &[axis], DType::I32);
                graph.outputs.push(y);
                let options = Options { grain: Grain::of_threads(8000), ..OPTIONS };
                let got = execute::run(&graph, (&[x], &[]), &options, false).unwrap().swap_remove(0);
                let wanted: Vec<u64> = places.iter().filter(|p| p.0 < rows).map(|p| p.1[0]).collect();
                assert_eq!(got.bits, wanted, "{kind:?} of {rows} rows of {n}, axis {axis}");
            }
        }
    }
}

/// Programs that share out the places that indices lead to add there in the order of the indices.
#[test]
fn shared_scatters_keep_the_order() {
    let (rows, places, columns) = (700, 50, 70);
    for update in [Update::Add, Update::Assign] {
        let mut graph = Graph::new();
        let data = graph.input(DType::F32, &[places, columns]);
        let index = graph.input(DType::I32, &[rows]);
        let values = graph.input(DType::F32, &[rows, columns]);
        let y = graph.scatter(Index::Positions, update, data, 0, index, values);
        graph.outputs.push(y);
        let at: Vec<u64> = (0..rows).map(|i| i * i % 41).collect();
        let inputs = [
            terms(DType::F32, places, columns, false),
            Array::new(DType::I32, &[rows], at),
            terms(DType::F32, rows, columns, false),
        ];
        let run = |grain| execute::run(&graph, (&inputs, &[]), &Options { grain, ..OPTIONS }, false).unwrap();
        let (shared, alone) = (run(Grain::of_threads(8000)), run(OPTIONS.grain));
        assert!(same(&shared[0], &alone[0]), "{update:?}");
        let mut far = inputs.clone();
        far[1].bits[699] = places;
        let options = Options { grain: Grain::of_threads(8000), ..OPTIONS };
        assert!(execute::run(&graph, (&far, &[]), &options, false).is_err());
    }
}
