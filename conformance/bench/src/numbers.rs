//! Inputs that are the same on every backend: numbers of a generator of our own, given to Burn as data.

use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};

/// Numbers that are drawn for one tensor, at most.  A prime: no two rows are equal.
const PERIOD: usize = 4_194_301;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub struct Numbers {
    state: u64,
}

impl Numbers {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform over `low..high`, from the upper 24 bits: every value is exact in f32 before it is scaled.
    fn float(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * ((self.next() >> 40) as f32 / (1u32 << 24) as f32)
    }

    /// A tensor, uniform over `low..high`.
    pub fn tensor<const D: usize>(&mut self, shape: [usize; D], low: f32, high: f32, device: &Device) -> Tensor<D> {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| self.float(low, high)).collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    /// The same in another type.  Beyond `PERIOD` the numbers come again, for the sake of the time that drawing takes.
    pub fn of<const D: usize>(
        &mut self,
        dtype: FloatDType,
        shape: [usize; D],
        low: f32,
        high: f32,
        device: &Device,
    ) -> Tensor<D> {
        let count: usize = shape.iter().product();
        let mut values: Vec<f32> = Vec::with_capacity(count);
        values.extend((0..count.min(PERIOD)).map(|_| self.float(low, high)));
        while values.len() < count {
            let more = (count - values.len()).min(PERIOD);
            values.extend_from_within(..more);
        }
        Tensor::<D>::from_data(TensorData::new(values, shape), device).cast(dtype)
    }

    /// Integers, uniform over `0..below`.
    pub fn integers<const D: usize>(&mut self, shape: [usize; D], below: u64, device: &Device) -> Tensor<D, Int> {
        let values: Vec<i32> = (0..shape.iter().product()).map(|_| (self.next() % below) as i32).collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_splitmix64() {
        // The first outputs for seed 1234567 in the reference implementation.
        let mut numbers = Numbers::new(1_234_567);
        assert_eq!(numbers.next(), 6_457_827_717_110_365_317);
        assert_eq!(numbers.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn long_tensors_repeat_themselves() {
        let long: Tensor<1> = Numbers::new(3).of(FloatDType::F32, [PERIOD + 2], 0.0, 1.0, &Device::default());
        let read = |x: Tensor<1>| x.into_data().iter::<f32>().collect::<Vec<_>>();
        assert_eq!(read(long.clone().narrow(0, PERIOD, 2)), read(long.narrow(0, 0, 2)));
    }

    #[test]
    fn floats_stay_in_their_range() {
        let mut numbers = Numbers::new(1);
        let drawn: Vec<f32> = (0..100_000).map(|_| numbers.float(-2.0, 3.0)).collect();
        assert!(drawn.iter().all(|value| (-2.0..3.0).contains(value)));
        let mean = drawn.iter().copied().map(f64::from).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.05, "{mean}");
    }
}
