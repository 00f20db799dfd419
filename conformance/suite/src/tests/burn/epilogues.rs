//! Products and what follows them: the epilogue that a product takes along gives the bits of a kernel that runs after it,
//! whatever the sizes, the types and the views, and whoever else reads the product.  A bias that a library adds is rounded
//! with the product.

use burn_kiln::{KilnDevice, inspect};
use burn_tensor::{FloatDType, Tensor, TensorData, activation};

use super::kiln;
use crate::DEVICE;
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[
    test!(bias_and_activation).alone(),
    test!(a_residual_that_is_a_factor).alone(),
    test!(views_of_factors_and_of_the_rest).alone(),
    test!(reductions_of_rows).alone(),
    test!(several_results_and_several_readers).alone(),
    test!(an_index_out_of_range_in_an_epilogue).alone(),
    test!(biases_by_whoever_adds_them).alone(),
    test!(a_bias_in_the_middle_of_a_buffer).alone(),
    test!(products_that_come_again_with_other_biases),
    test!(an_activation_keeps_nan),
];

/// Numbers whose sums depend on their order.
fn uneven<const D: usize>(seed: u64, shape: [usize; D], dtype: FloatDType) -> Tensor<D> {
    let n: usize = shape.iter().product();
    let value = |i: u64| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / (1 << 23) as f32 - 0.7;
    let values: Vec<f32> = (0..n as u64).map(value).collect();
    Tensor::<D>::from_data(TensorData::new(values, shape), &kiln()).cast(dtype)
}

fn data<const D: usize>(x: Tensor<D>) -> TensorData {
    x.into_data()
}

/// A program gives the same bits fused and not, and fused it has this many products with an epilogue, and so many kernels
/// beside its products.
#[track_caller]
fn check(what: &str, (tails, kernels): (usize, usize), program: impl Fn() -> Vec<TensorData>) {
    let (fused, report) = inspect::record(&DEVICE, &program);
    let apart = inspect::with_fusing(false, &program);
    for (at, (x, y)) in fused.iter().zip(&apart).enumerate() {
        assert_eq!(x.shape(), y.shape(), "{what}");
        assert!(x.as_bytes() == y.as_bytes(), "{what}: result {at} differs");
    }
    assert_eq!((report.tails(), report.kernels()), (tails, kernels), "{what}: {report:#?}");
}

/// Few rows and many, wide and tall, even and odd, shared by threads and not.
const SIZES: &[(usize, usize, usize)] =
    &[(1, 300, 70), (7, 31, 40), (37, 1500, 64), (130, 515, 33), (201, 150, 70), (1100, 33, 65), (64, 64, 64)];

const TYPES: &[FloatDType] = &[FloatDType::F32, FloatDType::F16, FloatDType::BF16, FloatDType::F64];

fn bias_and_activation() {
    for &dtype in TYPES {
        for &(m, n, k) in SIZES {
            let [x, w] = [uneven(1, [m, k], dtype), uneven(2, [k, n], dtype)];
            let bias = uneven(3, [n], dtype).unsqueeze::<2>();
            // A row of 16-bit elements by a matrix is no work for the library.
            let is_library = m > 1 || dtype == FloatDType::F32 || dtype == FloatDType::F64;
            let counts = if is_library { (1, 0) } else { (0, 2) };
            check(&format!("{dtype:?} {m}×{n}×{k}"), counts, || {
                vec![data(activation::gelu(x.clone().matmul(w.clone()) + bias.clone()))]
            });
        }
    }
}

/// The residual is what the product reads, too, and nobody needs it any more: the sum must not take its place while the
/// product is still at it.
fn a_residual_that_is_a_factor() {
    for n in [40, 96, 250] {
        let dtype = FloatDType::F32;
        let [x, w] = [uneven(4, [n, n], dtype), uneven(5, [n, n], dtype)];
        for left in [false, true] {
            check(&format!("{n} {left}"), (1, 1), || {
                // Computed, so that its buffer is the program's own.
                let own = x.clone() * 2.0;
                let product = if left { own.clone().matmul(w.clone()) } else { w.clone().matmul(own.clone()) };
                vec![data(product + own)]
            });
        }
    }
}

fn views_of_factors_and_of_the_rest() {
    for &(m, n, k) in SIZES {
        let dtype = FloatDType::F32;
        let (x, w) = (uneven(6, [k, m + 2], dtype), uneven(7, [n, k], dtype));
        let rest = uneven(8, [m, n + 3], dtype);
        check(&format!("{m}×{n}×{k}"), (1, 0), || {
            let x = x.clone().transpose().slice([1..m + 1, 0..k]);
            let rest = rest.clone().slice([0..m, 2..n + 2]).flip([0]);
            vec![data((x.matmul(w.clone().transpose()) - 0.5) * rest)]
        });
    }
}

/// A softmax of each row of each member, and a norm: reductions along rows follow the product as well.
fn reductions_of_rows() {
    for (batch, m, n, k) in [(1, 150, 90, 80), (6, 127, 127, 32), (40, 9, 33, 40), (3, 20, 700, 50)] {
        let dtype = FloatDType::F32;
        let (x, y) = (uneven(9, [batch, m, k], dtype), uneven(10, [batch, k, n], dtype));
        check(&format!("softmax {batch}×{m}×{n}×{k}"), (1, 0), || {
            vec![data(activation::softmax(x.clone().matmul(y.clone()) / 4.0, 2))]
        });
        check(&format!("norm {batch}×{m}×{n}×{k}"), (1, 0), || {
            let z = x.clone().matmul(y.clone()) + 1.0;
            let centred = z.clone() - z.mean_dim(2);
            vec![data(centred.clone() / (centred.square().mean_dim(2) + 1e-5).sqrt())]
        });
    }
}

/// Several results, the product itself among them, and other readers: of its columns, and transposed.
fn several_results_and_several_readers() {
    for &(m, n, k) in SIZES {
        let dtype = FloatDType::F32;
        let [x, w, bias] = [uneven(11, [m, k], dtype), uneven(12, [k, n], dtype), uneven(13, [1, n], dtype)];
        check(&format!("results {m}×{n}×{k}"), (1, 0), || {
            let product = x.clone().matmul(w.clone());
            let sum = product.clone() + bias.clone();
            let active = activation::relu(sum.clone());
            vec![data(product), data(sum), data(active)]
        });
    }
    let [x, w] = [uneven(14, [150, 80], FloatDType::F32), uneven(15, [80, 150], FloatDType::F32)];
    // One kernel sums the columns and goes over all points besides: by columns.
    check("columns", (0, 1), || {
        let product = x.clone().matmul(w.clone());
        let (columns, rows) = (product.clone().sum_dim(0), product.exp());
        vec![data(columns), data(rows)]
    });
    // Each point needs the one beyond the diagonal.
    check("both ways", (0, 1), || {
        let product = x.clone().matmul(w.clone());
        vec![data(product.clone() + product.transpose())]
    });
    // So does one that reads something else transposed: it goes over tiles of both.
    let turned = uneven(19, [150, 150], FloatDType::F32);
    check("turned", (0, 1), || vec![data(x.clone().matmul(w.clone()) - turned.clone().transpose())]);
    // Of two products that are added, the later one has the sum for its epilogue.
    check("two products", (1, 0), || {
        let both = [&x, &w.clone().transpose()].map(|x| x.clone().matmul(w.clone()));
        let [one, two] = both;
        vec![data(one.tanh() + two)]
    });
}

/// What fails in an epilogue is the epilogue's failure, and what does not depend on it is computed.
fn an_index_out_of_range_in_an_epilogue() {
    use burn_tensor::Int;
    let dtype = FloatDType::F32;
    let (x, w, table) = (uneven(16, [200, 64], dtype), uneven(17, [64, 150], dtype), uneven(18, [10, 150], dtype));
    for wrong in [false, true] {
        let rows: Vec<i32> = (0..200).map(|i| if wrong && i == 133 { 10 } else { i % 10 }).collect();
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [200]), &kiln());
        let run = || (x.clone().matmul(w.clone()) + table.clone().select(0, rows.clone())).try_into_data();
        let got = run();
        assert_eq!(got.is_err(), wrong, "{got:?}");
        if let Err(error) = got {
            assert!(format!("{error:?}").contains("select"), "{error:?}");
        }
    }
    assert!(x.matmul(w).try_into_data().is_ok());
}

/// Types with half the distance from 1 to the next number, and that of the type in which sums are formed.
const ROUNDING: &[(FloatDType, f64, f64)] = &[
    (FloatDType::F32, 1.0 / (1u64 << 24) as f64, 1.0 / (1u64 << 24) as f64),
    (FloatDType::F16, 1.0 / 2048.0, 1.0 / (1u64 << 24) as f64),
    (FloatDType::BF16, 1.0 / 256.0, 1.0 / (1u64 << 24) as f64),
    (FloatDType::F64, 1.0 / (1u64 << 53) as f64, 1.0 / (1u64 << 53) as f64),
];

fn on_a_gpu() -> bool {
    matches!(KilnDevice::default(), KilnDevice::Cuda(_) | KilnDevice::Hip(_))
}

/// What the elements are, in f64.
fn exact<const D: usize>(x: &Tensor<D>) -> Vec<f64> {
    x.clone().into_data().iter::<f64>().collect()
}

/// A batch of products with a bias for all rows: the value, and what it may be off by if product and sum are rounded.
/// The bound of the product's sum is that of `kiln_conformance::tolerance`.
fn defined(
    [x, w, bias]: [&[f64]; 3],
    [batch, m, n, k]: [usize; 4],
    relu: bool,
    (unit, wide): (f64, f64),
) -> Vec<(f64, f64)> {
    let one = |at: usize| {
        let (member, row, col) = (at / (m * n), at / n % m, at % n);
        let terms = (0..k).map(|i| x[(member * m + row) * k + i] * w[(member * k + i) * n + col]);
        let (product, size) = terms.fold((0.0, 0.0), |(sum, size), t: f64| (sum + t, size + t.abs()));
        let sum = product + bias[col];
        let off = (k as f64 + 2.0) * wide * (size + bias[col].abs()) + 1.01 * unit * (product.abs() + sum.abs());
        (if relu { sum.max(0.0) } else { sum }, off + 1e-6 * unit)
    };
    (0..batch * m * n).map(one).collect()
}

#[track_caller]
fn near(what: &str, got: &[f64], wanted: &[(f64, f64)]) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    for (at, (x, (y, off))) in got.iter().zip(wanted).enumerate() {
        assert!((x - y).abs() <= *off, "{what}, element {at}: {x}, wanted {y} ± {off}");
    }
}

/// One product and nothing beside it, in every type, of even sizes and odd ones, alone and in batches.  A GPU's library
/// adds the bias of 16-bit floats itself; what is negative a kernel makes 0, as the library would do that to NaN, too.
fn biases_by_whoever_adds_them() {
    let sizes = [[1, 128, 256, 64], [1, 37, 151, 61], [1, 65, 64, 33], [5, 64, 96, 32], [3, 33, 17, 45]];
    for &(dtype, unit, wide) in ROUNDING {
        for size in sizes {
            let [batch, m, n, k] = size;
            let (x, w) = (uneven(20, [batch, m, k], dtype), uneven(21, [batch, k, n], dtype));
            let bias = uneven(22, [n], dtype);
            let operands = [exact(&x), exact(&w), exact(&bias)];
            for relu in [false, true] {
                let what = format!("{dtype:?} {batch}×{m}×{n}×{k}, relu {relu}");
                let layer = || {
                    let sum = x.clone().matmul(w.clone()) + bias.clone().reshape([1, 1, n]);
                    if relu { activation::relu(sum) } else { sum }.into_data()
                };
                let (got, report) = inspect::record(&DEVICE, layer);
                let by_library = report.epilogues();
                let counts = [report.gemms(), report.tails() + by_library, report.kernels()];
                assert_eq!(counts, [1, 1, 0], "{what}: {report:#?}");
                if !on_a_gpu() || relu {
                    assert_eq!(by_library, 0, "{what}");
                } else if unit > 1e-6 && n % 8 == 0 {
                    assert_eq!(by_library, 1, "{what}");
                }
                let wanted = defined(operands.each_ref().map(Vec::as_slice), size, relu, (unit, wide));
                near(&what, &got.iter::<f64>().collect::<Vec<_>>(), &wanted);
                // Wide sums have the plain product's order.
                if unit < 1e-6 {
                    assert!(got.as_bytes() == inspect::with_fusing(false, layer).as_bytes(), "{what}");
                }
                let (_, strict) = inspect::record(&DEVICE, || inspect::with_strict(layer));
                assert_eq!((strict.gemms(), strict.epilogues()), (0, 0), "{what}");
            }
        }
    }
}

/// A library that reads several elements of a bias at once can't read those that begin between.
fn a_bias_in_the_middle_of_a_buffer() {
    for &(dtype, unit, wide) in ROUNDING {
        let size @ [_, m, n, k] = [1, 64, 64, 64];
        let (x, w, all) = (uneven(23, [m, k], dtype), uneven(24, [k, n], dtype), uneven(25, [2 * n], dtype));
        for first in [0, 1, 3, 8, 64] {
            let what = format!("{dtype:?} from {first}");
            let bias = || all.clone().slice(first..first + n);
            let (got, report) =
                inspect::record(&DEVICE, || (x.clone().matmul(w.clone()) + bias().unsqueeze::<2>()).into_data());
            assert_eq!((report.gemms(), report.tails() + report.epilogues(), report.kernels()), (1, 1, 0), "{what}");
            if !first.is_multiple_of(8) && unit > 1e-6 {
                assert_eq!(report.epilogues(), 0, "{what}");
            }
            let operands = [exact(&x), exact(&w), exact(&bias())];
            let wanted = defined(operands.each_ref().map(Vec::as_slice), size, false, (unit, wide));
            near(&what, &got.iter::<f64>().collect::<Vec<_>>(), &wanted);
        }
    }
}

/// Six products in a row, often enough that a machine which records what comes again does so, with biases that lie here
/// and there.
fn products_that_come_again_with_other_biases() {
    let dtype = FloatDType::BF16;
    let (x, w) = (uneven(26, [64, 64], dtype), uneven(27, [64, 64], dtype) / 8.0);
    let run = |bias: &Tensor<2>| (0..6).fold(x.clone(), |x, _| x.matmul(w.clone()) + bias.clone()).into_data();
    let biases: Vec<Tensor<2>> = (0..3).map(|seed| uneven(28 + seed, [1, 64], dtype)).collect();
    let first: Vec<TensorData> = biases.iter().map(run).collect();
    assert!(first[0].as_bytes() != first[1].as_bytes() && first[1].as_bytes() != first[2].as_bytes());
    for round in 0..12 {
        // A copy lies elsewhere.
        let bias = biases[round % 3].clone() + 0.0;
        assert!(run(&bias).as_bytes() == first[round % 3].as_bytes(), "round {round}");
    }
}

fn an_activation_keeps_nan() {
    for &dtype in TYPES {
        for bias in [false, true] {
            let x = uneven(31, [64, 64], dtype).slice_fill([3..4, 5..6], f64::NAN);
            let product = x.matmul(uneven(32, [64, 64], dtype));
            let sum = if bias { product + uneven(33, [1, 64], dtype) } else { product };
            let got: Vec<f64> = activation::relu(sum).into_data().iter::<f64>().collect();
            let is_wrong = |at: &usize| got[*at].is_nan() != (at / 64 == 3);
            assert_eq!((0..64 * 64).find(is_wrong), None, "{dtype:?}, bias {bias}");
        }
    }
}
