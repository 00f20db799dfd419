//! A call that cannot be done panics where it is made, in Burn's form, with what was wanted and what came.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn_backend::ops::{ActivationOps, ConvOptions, FloatTensorOps, IntTensorOps, ModuleOps, QTensorOps};
use burn_backend::{Distribution, FloatDType, IntDType, Shape, Slice, TensorData};
use burn_kiln::{Kiln, KilnTensor};

use crate::DEVICE;
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[
    test!(shapes_that_do_not_broadcast),
    test!(element_types_that_differ),
    test!(matrices_that_do_not_fit),
    test!(slices_and_axes_out_of_range),
    test!(nothing_has_no_greatest),
    test!(convolutions_that_do_not_fit),
    test!(indices_of_the_wrong_shape),
    test!(distributions_that_do_not_exist),
    test!(what_is_not_lowered_says_so),
    test!(a_failed_call_leaves_the_rest_working),
];

fn zeros(shape: &[usize]) -> KilnTensor {
    Kiln::float_zeros(Shape::from(shape.to_vec()), &DEVICE, FloatDType::F32)
}

fn whole_numbers(shape: &[usize]) -> KilnTensor {
    Kiln::int_zeros(Shape::from(shape.to_vec()), &DEVICE, IntDType::I32)
}

/// What the call panics with.
fn message(call: impl FnOnce() -> KilnTensor) -> String {
    let panic = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(tensor) => panic!("the call went through and gave {tensor:?}"),
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).expect("the panic has a message")
}

#[track_caller]
fn fails(call: impl FnOnce() -> KilnTensor, wanted: &[&str]) {
    let message = message(call);
    for part in wanted {
        assert!(message.contains(part), "{part:?} is not in:\n{message}");
    }
}

fn shapes_that_do_not_broadcast() {
    fails(
        || Kiln::float_add(zeros(&[2, 3]), zeros(&[2, 4])),
        &["=== Tensor Operation Error ===", "Operation: 'float_add'", "dimension '1' => '3 != 4'"],
    );
}

fn element_types_that_differ() {
    fails(
        || Kiln::float_mul(zeros(&[2]), Kiln::float_cast(zeros(&[2]), FloatDType::F16)),
        &["'float_mul'", "different data types", "f32", "f16"],
    );
}

fn matrices_that_do_not_fit() {
    fails(
        || Kiln::float_matmul(zeros(&[2, 3]), zeros(&[4, 5])),
        &["The inner dimension of matmul should be the same, but got 3 and 4."],
    );
    fails(|| Kiln::float_matmul(zeros(&[2, 2, 3]), zeros(&[3, 3, 5])), &["not broadcastable"]);
    fails(|| Kiln::float_matmul(zeros(&[3]), zeros(&[3])), &["at least 2 dimensions"]);
}

fn slices_and_axes_out_of_range() {
    let slice = [Slice::new(0, Some(7), 1)];
    fails(|| Kiln::float_slice(zeros(&[5]), &slice), &["slice end index 7 exceeds the size of the tensor (5)"]);
    fails(|| Kiln::float_sum_dim(zeros(&[5]), 1), &["'float_sum_dim'", "dimension 1"]);
    fails(|| Kiln::float_permute(zeros(&[2, 3]), &[0, 0]), &["must be unique"]);
    fails(|| Kiln::float_reshape(zeros(&[2, 3]), Shape::new([7])), &["same number of elements"]);
    fails(
        || Kiln::float_slice_assign(zeros(&[5]), &[Slice::new(0, Some(3), 1)], zeros(&[2])),
        &["must match the amount of elements selected"],
    );
}

fn nothing_has_no_greatest() {
    fails(|| Kiln::float_max(zeros(&[0])), &["'float_max'", "empty dimension"]);
    fails(|| Kiln::float_argmax(zeros(&[2, 0]), 1, IntDType::I32), &["empty dimension"]);
    assert_eq!(*Kiln::float_max_dim(zeros(&[0, 3]), 1).shape(), Shape::new([0, 1]));
}

fn convolutions_that_do_not_fit() {
    let options = || ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
    fails(
        || Kiln::conv2d(zeros(&[1, 3, 8, 8]), zeros(&[4, 2, 3, 3]), None, options()),
        &["'conv2d'", "got: 3, expected: 2"],
    );
    fails(
        || Kiln::conv2d(zeros(&[1, 2, 2, 2]), zeros(&[4, 2, 3, 3]), None, options()),
        &["kernel is larger than the padded input"],
    );
    fails(|| Kiln::conv2d(zeros(&[1, 2, 8, 8]), zeros(&[4, 2, 3, 3]), Some(zeros(&[3])), options()), &["bias", "[4]"]);
}

fn indices_of_the_wrong_shape() {
    fails(|| Kiln::float_gather(0, zeros(&[2, 3]), whole_numbers(&[2, 4])), &["'float_gather'", "index tensor shape"]);
    fails(|| Kiln::float_select(zeros(&[2, 3]), 0, whole_numbers(&[2, 2])), &["indices", "dimensions"]);
    fails(|| Kiln::float_topk(zeros(&[2, 3]), 1, 4), &["k=4", "out of range"]);
}

fn distributions_that_do_not_exist() {
    let shape = || Shape::new([2]);
    fails(|| Kiln::float_random(shape(), Distribution::Bernoulli(1.5), &DEVICE, FloatDType::F32), &["between 0 and 1"]);
    fails(|| Kiln::float_random(shape(), Distribution::Uniform(1.0, 0.0), &DEVICE, FloatDType::F32), &["in order"]);
}

fn what_is_not_lowered_says_so() {
    fails(|| Kiln::q_from_data(TensorData::from([1i8]), &DEVICE), &["Kiln has not lowered `q_from_data` yet"]);
}

fn a_failed_call_leaves_the_rest_working() {
    fails(|| Kiln::softmax(zeros(&[2]), 3), &["'softmax'"]);
    assert_eq!(*Kiln::softmax(zeros(&[2]), 0).shape(), Shape::new([2]));
}
