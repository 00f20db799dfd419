//! The example `gpt`, small: it learns the same on Kiln and on burn-ndarray, and the same bits whatever is fused; and
//! sequences of many lengths share their kernels.

use burn_kiln::inspect;
use burn_tensor::{Device, Int, Tensor, TensorData};
use gpt::{Alphabet, Gpt, Random, Run, Size, Style, Text, Training};

use crate::DEVICE;
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[
    test!(it_learns_the_same_as_on_another_backend),
    test!(it_learns_the_same_bits_fused_and_not),
    test!(a_layer_is_eight_products_and_no_kernel_beside_them).alone(),
    test!(sixty_sequence_lengths_compile_no_more_than_the_first_few).alone(),
    test!(it_writes_a_sample),
];

const STEPS: usize = 6;

/// The other backend.
#[expect(deprecated, reason = "a second backend, with another author, is what the comparison needs")]
fn reference() -> Device {
    Device::ndarray()
}

fn small() -> Run {
    Run { size: Size { context: 24, layers: 2, heads: 2, width: 32 }, steps: STEPS, batch_size: 5, ..Run::default() }
}

/// The losses of a few steps, and the one on held-out text after them.
pub fn losses(device: &Device) -> Vec<f32> {
    let text = Text::load().expect("the file in the package is whole");
    let mut training = Training::new(&small(), text, device).expect("the text is long enough");
    let mut losses: Vec<f32> = (0..STEPS).map(|_| training.step().into_scalar::<f32>()).collect();
    losses.push(training.held_out(2) as f32);
    losses
}

fn it_learns_the_same_as_on_another_backend() {
    let (kiln, other) = (losses(&Device::new(DEVICE)), losses(&reference()));
    assert!(kiln[STEPS] < kiln[0] - 0.05, "it learns nothing: {kiln:?}");
    for (at, (x, y)) in kiln.iter().zip(&other).enumerate() {
        // The first loss differs by rounding alone; what rounding does to Adam's first steps shows in the others.
        let tolerance = if at == 0 { 1e-5 } else { 1e-3 };
        assert!((x - y).abs() < tolerance * y, "loss {at}: {kiln:?} and {other:?}");
    }
}

fn it_learns_the_same_bits_fused_and_not() {
    let device = Device::new(DEVICE);
    let bits = |losses: Vec<f32>| losses.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    let fused = bits(losses(&device));
    assert_eq!(fused, bits(inspect::with_fusing(false, || losses(&device))));
}

/// Whoever writes a layer's forward pass by hand calls a library for six products with weights and two of attention, and
/// has kernels for two norms and a softmax: eleven.  Here each of the three is the epilogue of a product, with the biases,
/// the activation and the residuals.
fn a_layer_is_eight_products_and_no_kernel_beside_them() {
    let device = Device::new(DEVICE);
    let forward = |layers: usize| {
        let size = Size { context: 24, layers, heads: 2, width: 32 };
        let model = Gpt::new(&size, 40, 1, &device);
        let ids = TensorData::new((0..48).map(|at| at * 7 % 40).collect::<Vec<i32>>(), [2, 24]);
        let input: Tensor<2, Int> = Tensor::from_data(ids, &device);
        // The first run makes the weights.
        model.forward(input.clone()).into_data();
        let (_, report) = inspect::record(&DEVICE, || model.forward(input).into_data());
        // A library that adds a bias itself leaves no kernel to finish that product.
        [report.gemms(), report.tails() + report.epilogues(), report.kernels()]
    };
    let (one, three) = (forward(1), forward(3));
    let a_layer: Vec<usize> = one.iter().zip(three).map(|(one, three)| (three - one) / 2).collect();
    assert_eq!(a_layer, [8, 7, 0], "{one:?} {three:?}");
    // The embedding and the first norm before, the product with the vocabulary after.
    assert_eq!(one, [9, 8, 1]);
}

/// A sequence one symbol longer is no new class, but for the shortest, whose extents are a window's, the first multiples
/// of 8 and 16, and where a sequence becomes long enough for another number of programs or for the BLAS.
fn sixty_sequence_lengths_compile_no_more_than_the_first_few() {
    let device = Device::new(DEVICE);
    let size = Size { context: 64, layers: 1, heads: 2, width: 32 };
    let model = Gpt::new(&size, 40, 1, &device);
    let forward = |length: usize| {
        let ids: Vec<i32> = (0..length).map(|at| (at * 7 % 40) as i32).collect();
        let input: Tensor<2, Int> = Tensor::from_data(TensorData::new(ids, [1, length]), &device);
        model.forward(input).into_data()
    };
    let needed = |length| {
        let (_, report) = inspect::record(&DEVICE, || forward(length));
        report.compiled() + report.cache_hits()
    };
    let compiling: Vec<usize> = (1..=60).filter(|&length| needed(length) > 0).collect();
    assert!(compiling.len() <= 16, "lengths that compile: {compiling:?}");
}

fn it_writes_a_sample() {
    let device = Device::new(DEVICE);
    let alphabet = Alphabet::of("abc").expect("few characters");
    let model = Gpt::new(&Size { context: 8, layers: 1, heads: 2, width: 16 }, alphabet.len(), 1, &device);
    let style = Style { length: 12, temperature: 1.0 };
    let write = |device: &Device, model: &Gpt| gpt::write(model, &[0], &style, &mut Random::new(3), device);
    let other = Gpt::new(&Size { context: 8, layers: 1, heads: 2, width: 16 }, 3, 1, &reference());
    assert_eq!(write(&device, &model), write(&reference(), &other));
}
