//! Products and what follows them: the epilogue that a product takes along gives the bits of a kernel that runs after it,
//! whatever the sizes, the types and the views, and whoever else reads the product.

use burn_kiln::inspect;
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
