//! The same calls on Kiln and on burn-ndarray, results compared.  Shapes are small and odd; every option appears.

// The reference is deprecated upstream, and still the one backend that fits into this binary.
#![allow(deprecated)]

pub mod convolution;
pub mod elementwise;
pub mod indexing;
pub mod norms;
pub mod pooling;
pub mod reductions;
pub mod resizing;
pub mod shapes;

use std::fmt::Debug;

use burn_backend::{Backend, BoolStore, DType, Shape, TensorData, read_sync};
use burn_kiln::KilnDevice;
use burn_ndarray::NdArrayDevice;

/// Numbers that repeat themselves only after 2³¹ − 1 draws (Park and Miller).
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(seed * 7919 + 12345)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0 * 48271 % 2_147_483_647;
        self.0 % bound
    }
}

/// Floats in [−2, 2], multiples of 1/64, as f32.
pub(crate) fn floats<B: Backend>(shape: &[usize], seed: u64, device: &B::Device) -> B::FloatTensorPrimitive {
    let mut draw = Draw::new(seed);
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| (draw.below(257) as f32 - 128.0) / 64.0).collect();
    B::float_from_data(TensorData::new(values, Shape::from(shape.to_vec())), device)
}

/// Integers in `low..high`, as i32.
pub(crate) fn ints<B: Backend>(
    shape: &[usize],
    low: i32,
    high: i32,
    seed: u64,
    device: &B::Device,
) -> B::IntTensorPrimitive {
    let mut draw = Draw::new(seed);
    let values: Vec<i32> = (0..shape.iter().product()).map(|_| low + draw.below((high - low) as u64) as i32).collect();
    B::int_from_data(TensorData::new(values, Shape::from(shape.to_vec())), device)
}

/// Truth values.
pub(crate) fn bools<B: Backend>(shape: &[usize], seed: u64, device: &B::Device) -> B::BoolTensorPrimitive {
    let mut draw = Draw::new(seed);
    let values: Vec<bool> = (0..shape.iter().product()).map(|_| draw.below(2) == 1).collect();
    B::bool_from_data(TensorData::new(values, Shape::from(shape.to_vec())), device)
}

pub(crate) fn read_float<B: Backend>(x: B::FloatTensorPrimitive) -> TensorData {
    read_sync(B::float_into_data(x)).expect("floats can be read")
}

pub(crate) fn read_int<B: Backend>(x: B::IntTensorPrimitive) -> TensorData {
    read_sync(B::int_into_data(x)).expect("integers can be read")
}

pub(crate) fn read_bool<B: Backend>(x: B::BoolTensorPrimitive) -> TensorData {
    read_sync(B::bool_into_data(x)).expect("truth values can be read")
}

/// How results may differ: relative to the greater of 1 and the magnitude.
pub(crate) fn compare(name: &str, kiln: &[TensorData], reference: &[TensorData], tolerance: f64) {
    assert_eq!(kiln.len(), reference.len(), "{name}: number of results");
    for (i, (a, b)) in kiln.iter().zip(reference).enumerate() {
        assert_eq!(a.shape(), b.shape(), "{name}: shape of result {i}");
        assert_eq!(class(a.dtype()), class(b.dtype()), "{name}: kind of result {i}");
        for (place, (x, y)) in a.iter::<f64>().zip(b.iter::<f64>()).enumerate() {
            let close = x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= tolerance * y.abs().max(1.0);
            assert!(close, "{name}: result {i}, element {place} of {:?}: {x} on Kiln, {y} expected", a.shape());
        }
    }
}

fn class(dtype: DType) -> impl Debug + PartialEq {
    match dtype {
        DType::Bool(_) => DType::Bool(BoolStore::Native),
        d if d.is_int() || d.is_uint() => DType::I64,
        other => other,
    }
}

pub(crate) fn kiln() -> KilnDevice {
    crate::DEVICE
}

pub(crate) fn ndarray() -> NdArrayDevice {
    NdArrayDevice::Cpu
}

/// Tests `name<B>(device) { results }` that run the body on both backends.
macro_rules! agree {
    ($($(#[$meta:meta])* fn $name:ident<$b:ident>($d:ident) within $tolerance:literal $body:block)+) => {
        pub const TESTS: &[$crate::test::Test] = &[$($crate::test::test!($name)),+];

        $(
            $(#[$meta])*
            fn $name() {
                use $crate::tests::reference::{compare, kiln, ndarray};
                fn run<$b: burn_backend::Backend>($d: &$b::Device) -> Vec<burn_backend::TensorData> $body
                let ours = run::<burn_kiln::Kiln>(&kiln());
                let theirs = run::<burn_ndarray::NdArray>(&ndarray());
                compare(stringify!($name), &ours, &theirs, $tolerance);
            }
        )+
    };
}
pub(crate) use agree;
