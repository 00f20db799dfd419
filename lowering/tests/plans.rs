//! Random graphs, planned and run on the interpreter: fused, unfused and rewritten programs give the same bits, and
//! integers are what the oracle says.

use kiln_lowering::DType;
use kiln_lowering::graph::arbitrary::{Case, Draws, Fill, Wishes, case, fill};
use kiln_lowering::graph::array::Array;
use kiln_lowering::graph::oracle;
use kiln_lowering::graph::{Graph, Node, Op, Reduction, number};
use kiln_lowering::op::Pointwise;
use kiln_lowering::schedule::{self, Grain, InputData, Layout, Options, Step, execute};

fn run(case: &Case, fuse: bool, rewrite: bool, grain: Grain) -> Result<Vec<Array>, String> {
    let options = Options::new(fuse, None, grain);
    execute::run(&case.graph, (&case.inputs, &case.slots), &options, rewrite).map_err(|e| e.to_string())
}

/// Equal bits; any NaN equals any other.
fn same(a: &Array, b: &Array) -> bool {
    let nan = |x: &Array, i: usize| x.dtype.is_float() && x.float(i).is_nan();
    let pairs = a.bits.iter().zip(&b.bits).enumerate();
    a.dims == b.dims && pairs.into_iter().all(|(i, (x, y))| x == y || nan(a, i) && nan(b, i))
}

fn check(seed: u64) {
    let case = case(seed, &Wishes { nodes: 10, elements: 600, ..Wishes::default() });
    let (vectors, threads) = (Grain::of_vectors(3), Grain::of_threads(50));
    let runs = [
        ("fused", true, false, vectors),
        ("unfused", false, false, vectors),
        ("rewritten", true, true, vectors),
        ("cut for threads", true, false, threads),
    ];
    let Ok(_) = oracle::evaluate(&case.graph, &case.inputs, &case.slots) else {
        for (name, fuse, rewrite, grain) in runs {
            let got = run(&case, fuse, rewrite, grain);
            assert!(got.is_err(), "{name}: an index is out of range and nobody says so\nseed {seed}\n{case}");
        }
        return;
    };
    let results = runs.map(|(name, fuse, rewrite, grain)| match run(&case, fuse, rewrite, grain) {
        Ok(arrays) => arrays,
        Err(error) => panic!("{name}: {error}\nseed {seed}\n{case}"),
    });
    let truth = oracle::run(&case.graph, &case.inputs, &case.slots).unwrap();
    for (i, want) in truth.iter().enumerate() {
        for (got, (name, ..)) in results.iter().zip(runs) {
            assert!(same(&results[0][i], &got[i]), "output {i}: {name} differs\nseed {seed}\n{case}");
        }
        let exact = !case.graph.nodes.values().any(|d| d.dtype.is_float());
        assert!(!exact || same(want, &results[0][i]), "output {i}: not the oracle's\nseed {seed}\n{case}");
    }
}

#[test]
fn fused_and_unfused_plans_give_the_same_bits() {
    (0..100).for_each(check);
}

/// A result that does not depend on the operand whose place it takes is written after the operand is read.
#[test]
fn results_take_an_operands_place_only_once_it_is_read() {
    let text = "graph 2 inputs {
  n0: f32[70] = input 0
  n1: f32[70] = input 1
  n2: f32[70] = scan sum 0 n0
  n3: f32[70] = exp n1
  n4: f32[70] = mul n2, n3
  outputs n3, n4
}";
    let graph: Graph = text.parse().unwrap();
    let inputs = [2, 3].map(|k| Array::from_fn(DType::F32, &[70], |i| (0.1 * (i * k % 7) as f32).to_bits().into()));
    let run = |fuse| {
        let options = Options::new(fuse, None, Grain::of_vectors(3));
        execute::run(&graph, (&inputs, &[]), &options, false).unwrap()
    };
    assert_eq!(run(true), run(false));
}

/// An index outside of a scatter is reported, and nothing is written for it: the interpreter checks every access.
#[test]
fn scatters_outside_are_reported_and_write_nothing() {
    for update in ["assign", "add"] {
        let text = format!(
            "graph 3 inputs {{
  n0: f32[4] = input 0
  n1: i64[3] = input 1
  n2: f32[3] = input 2
  n3: f32[4] = scatter {update} elements 0 n0, n1, n2
  outputs n3
}}"
        );
        let graph: Graph = text.parse().unwrap();
        for wrong in [4, -1, 1 << 40] {
            let index = Array::from_ints(DType::I64, &[3], &[1, wrong, 2]);
            let floats = |n: u64| Array::from_fn(DType::F32, &[n], |i| (i as f32).to_bits().into());
            let options = Options::new(true, None, Grain::of_vectors(3));
            let got = execute::run(&graph, (&[floats(4), index, floats(3)], &[]), &options, false);
            assert!(matches!(got, Err(execute::Error::Check(_))), "{update} at {wrong}: {got:?}");
        }
    }
}

fn planned(graph: &Graph, inputs: &[Array], grain: Grain) -> (String, Array) {
    let options = Options::new(true, None, grain);
    let data = inputs.iter().map(|x| InputData {
        layout: Layout::contiguous(&x.dims),
        buffer_len: x.bits.len() as u64,
        donated: false,
    });
    let plan = kiln_lowering::schedule::plan(graph, &data.collect::<Vec<_>>(), &options);
    let text: String = plan.programs.iter().map(ToString::to_string).collect();
    (text, execute::run(graph, (inputs, &[]), &options, true).unwrap().swap_remove(0))
}

/// Operands that lie along another axis than the result are read along their own, next to others that do not.
#[test]
fn transposed_operands_are_read_in_tiles_of_two_axes() {
    let cases: [(&[u64], &[usize]); 5] = [
        (&[33, 70], &[1, 0]),
        (&[3, 17, 40], &[0, 2, 1]),
        (&[20, 2, 9], &[2, 1, 0]),
        (&[2, 3, 18, 21], &[0, 3, 1, 2]),
        (&[64, 64], &[1, 0]),
    ];
    for dtype in [DType::F32, DType::F16, DType::I8, DType::I64] {
        for (dims, perm) in cases {
            let mut graph = Graph::new();
            let x = graph.input(dtype, dims);
            let turned = graph.permute(x, perm);
            let to = graph.dims(turned).clone();
            let y = graph.input(dtype, &to);
            let bias = graph.input(dtype, &to[to.len() - 1..]);
            let bias = graph.expand(bias, &to);
            let sum = graph.map(Pointwise::Add, &[turned, y]);
            let sum = graph.map(Pointwise::Sub, &[sum, bias]);
            graph.outputs = vec![sum];
            let small =
                |dims: &[u64], k: usize| Array::from_fn(dtype, dims, |i| number::from_f64(dtype, (i * k % 11) as f64));
            let inputs = [small(dims, 3), small(&to, 5), small(&to[to.len() - 1..], 7)];
            let (text, got) = planned(&graph, &inputs, Grain::of_vectors(3));
            assert!(text.contains("16x16"), "{dims:?} {perm:?}\n{text}");
            assert_eq!(got, oracle::run(&graph, &inputs, &[]).unwrap()[0], "{dtype} {dims:?} {perm:?}");
        }
    }
}

/// Prefixes depend on the length of the row alone: not on how many programs share it, nor on where its terms lie.
#[test]
fn prefixes_are_the_same_in_any_number_of_programs() {
    for (kind, dtype) in [
        (Reduction::Sum, DType::F32),
        (Reduction::Sum, DType::Bf16),
        (Reduction::Sum, DType::I8),
        (Reduction::Prod, DType::F32),
        (Reduction::Max, DType::F32),
        (Reduction::Min, DType::I64),
    ] {
        // The interpreter takes its time: long rows for two kinds only.
        let long: &[u64] = if kind == Reduction::Sum && dtype.is_float() { &[3_000, 16_384, 17_000] } else { &[] };
        for &n in [1u64, 7, 16, 1023, 1060].iter().chain(long) {
            let mut draws = Draws::new(n);
            let row = fill(&mut draws, dtype, &[n], if n < 1000 { Fill::Special } else { Fill::Ordinary });
            let mut results: Vec<Vec<u64>> = Vec::new();
            for (dims, axis) in [([1, n], 1), ([3, n], 1), ([n, 3], 0)] {
                let mut graph = Graph::new();
                let x = graph.input(dtype, &dims);
                let scanned = graph.scan(kind, x, axis);
                graph.outputs = vec![scanned];
                let along = axis == 1;
                let term = |i: usize| if along { i % n as usize } else { i / 3 };
                let place = |i: usize| if along { i } else { i * 3 };
                let x = Array::from_fn(dtype, &dims, |i| row.bits[term(i)]);
                for grain in [Grain::of_vectors(3), Grain::of_vectors(16), Grain::of_threads(16)] {
                    let (_, got) = planned(&graph, std::slice::from_ref(&x), grain);
                    results.push((0..n as usize).map(|i| got.bits[place(i)]).collect());
                }
                if !dtype.is_float() {
                    let want = oracle::run(&graph, std::slice::from_ref(&x), &[]).unwrap().swap_remove(0);
                    assert_eq!(
                        planned(&graph, std::slice::from_ref(&x), Grain::of_vectors(16)).1,
                        want,
                        "{kind:?} {dtype} {n}"
                    );
                }
            }
            let nan = |bits: u64| dtype.is_float() && number::to_f64(dtype, bits).is_nan();
            for other in &results[1..] {
                let same = other.iter().zip(&results[0]).all(|(&a, &b)| a == b || nan(a) && nan(b));
                assert!(same, "{kind:?} {dtype} {n}");
            }
        }
    }
}

/// What is small beside the sum so far counts all the same, in every chunk.
#[test]
fn ones_after_a_great_number_count() {
    let n = 20_000;
    let mut graph = Graph::new();
    let x = graph.input(DType::F32, &[n]);
    let scanned = graph.scan(Reduction::Sum, x, 0);
    graph.outputs = vec![scanned];
    let x = Array::from_fn(DType::F32, &[n], |i| if i == 0 { 1e8f32 } else { 1.0 }.to_bits().into());
    let (_, got) = planned(&graph, &[x], Grain::of_vectors(16));
    for i in 0..n as usize {
        assert_eq!(got.float(i), f64::from((100_000_000 + i) as f32), "{i}");
    }
}

/// Heads merged behind a product, whose result is written in the order in which it is read; and two reductions over
/// the same windows.
#[test]
fn products_in_their_readers_order_and_windows_in_one_kernel_change_no_bit() {
    let texts = [
        "graph 3 inputs {
  n0: f32[2, 4, 7, 7] = input 0
  n1: f32[2, 4, 7, 3] = input 1
  n2: f32[12, 5] = input 2
  n3: f32[2, 4, 7, 3] = contract n0, n1
  n4: f32[2, 7, 4, 3] = permute [0, 2, 1, 3] n3
  n5: f32[14, 12] = reshape n4
  n6: f32[14, 5] = contract n5, n2
  n7: f32[2, 4, 7, 1] = reduce sum [3] n3
  outputs n3, n4, n6, n7
}",
        "graph 1 inputs {
  n0: f32[2, 3, 9, 11] = input 0
  n1: f32[2, 3, 4, 5, 2, 3] = window [2:4:2:2:1, 3:5:3:2:1] n0
  n2: f32[2, 3, 4, 5, 1, 1] = reduce max [4, 5] n1
  n3: i64[2, 3, 4, 5, 1, 1] = reduce argmax [4, 5] n1
  outputs n2, n3
}",
    ];
    for text in texts {
        let graph: Graph = text.parse().expect("it can be parsed");
        let inputs = graph.nodes.values().filter(|d| matches!(d.op, kiln_lowering::graph::Op::Input(_)));
        let mut draws = Draws::new(5);
        let inputs: Vec<Array> = inputs.map(|d| fill(&mut draws, d.dtype, &d.dims, Fill::Ordinary)).collect();
        let run = |fuse| {
            let options = Options::new(fuse, Some(1), Grain::of_vectors(3));
            execute::run(&graph, (&inputs, &[]), &options, true).expect("nothing can fail")
        };
        for (fused, apart) in run(true).iter().zip(&run(false)) {
            assert!(same(fused, apart), "{text}");
        }
    }
}

/// A result that is too large to be read again from a cache is written past it, unless its place lies there: an operand's,
/// or one where a pass leaves what the next one reads.
#[test]
fn large_results_are_written_past_the_caches() {
    let streams = |dims: [u64; 2], donated: bool, build: fn(&mut Graph, Node) -> Node| {
        let mut graph = Graph::new();
        let x = graph.input(DType::F32, &dims);
        let y = build(&mut graph, x);
        graph.outputs.push(y);
        let input = InputData { layout: Layout::contiguous(&dims), buffer_len: dims.iter().product(), donated };
        let options = Options::new(true, None, Grain::of_vectors(4).with_streams(64 << 10));
        let plan = schedule::plan(&graph, &[input], &options);
        let (all, streaming) = (" store ", " store streaming ");
        let text = plan.programs.iter().map(|p| p.to_string()).collect::<String>();
        (text.matches(all).count(), text.matches(streaming).count())
    };
    let double: fn(&mut Graph, Node) -> Node = |g, x| g.map(Pointwise::Add, &[x, x]);
    let centred: fn(&mut Graph, Node) -> Node = |g, x| {
        let exp = g.map(Pointwise::Exp, &[x]);
        let sum = g.reduce(Reduction::Sum, exp, &[1], DType::F32);
        g.map(Pointwise::Div, &[exp, sum])
    };
    let all_or_none = |(all, streaming): (usize, usize)| match streaming {
        0 => false,
        _ => {
            assert_eq!(all, streaming);
            true
        }
    };
    assert!(all_or_none(streams([128, 128], false, double)));
    assert!(!all_or_none(streams([128, 127], false, double)));
    assert!(!all_or_none(streams([128, 128], true, double)));
    assert!(!all_or_none(streams([128, 128], false, centred)));
}

/// The grid and the warps of the one kernel that a graph becomes.
fn kernel_of(graph: &Graph, grain: Grain) -> ([u32; 3], u32) {
    let inputs = graph.nodes.values().filter(|data| matches!(data.op, Op::Input(_)));
    let inputs: Vec<InputData> = inputs
        .map(|data| InputData { layout: Layout::contiguous(&data.dims), buffer_len: data.len(), donated: false })
        .collect();
    let plan = schedule::plan(graph, &inputs, &Options::new(true, None, grain));
    let launches = plan.steps.iter().filter_map(|step| match step {
        Step::Launch { program, grid, .. } => Some((*grid, plan.programs[*program].warps)),
        _ => None,
    });
    let launches: Vec<_> = launches.collect();
    assert_eq!(launches.len(), 1, "{plan}");
    launches[0]
}

/// Few rows of many elements are divided along the grid's y, which has 65,535 places on a GPU.
#[test]
fn grids_stay_within_what_machines_have() {
    let mut g = Graph::new();
    let dims = [4, 16 << 10, 16 << 10];
    let (x, scale) = (g.input(DType::F32, &dims), g.input(DType::F32, &[4, 1, 1]));
    let scale = g.expand(scale, &dims);
    let y = g.map(Pointwise::Mul, &[x, scale]);
    g.outputs.push(y);
    let ([x, y, z], _) = kernel_of(&g, Grain::of_threads(132 * 64));
    assert!(y <= 65_535 && z == 1 && u64::from(x) * u64::from(y) > 132 * 64, "{x} {y} {z}");
}

/// A tile goes through shared memory as what was computed, which may be wider than what was loaded: 64 × 64 × 8 bytes are
/// there on every GPU, 128 × 128 × 8 are not.
#[test]
fn turned_tiles_of_wide_values_are_smaller() {
    for (wide, warps) in [(DType::F32, 8), (DType::F64, 4)] {
        let mut g = Graph::new();
        let x = g.input(DType::Bf16, &[512, 512]);
        let x = g.permute(x, &[1, 0]);
        let x = g.cast(x, wide);
        let y = g.map(Pointwise::Exp, &[x]);
        g.outputs.push(y);
        assert_eq!(kernel_of(&g, Grain::of_threads(132 * 64)).1, warps, "{wide}");
    }
}
