//! The images: unpacked, split and put into batches. Knows tensors only where a batch is made.

use std::io::Read;

use burn::tensor::{Device, Int, Tensor, TensorData};
use flate2::read::GzDecoder;

/// Height and width of an image in pixels.
pub const SIDE: usize = 8;
/// Digits to tell apart.
pub const CLASSES: usize = 10;

const PIXELS: usize = SIDE * SIDE;
const INK: f32 = 16.0;
const SPLIT_SEED: u64 = 1998;
static FILE: &[u8] = include_bytes!("../data/digits.csv.gz");

/// An image, its pixels between 0 and 1, and the digit it shows.
#[derive(Debug, Clone)]
pub struct Digit {
    pixels: [f32; PIXELS],
    label: u8,
}

/// Images as the model takes them.
pub struct Batch {
    /// `[batch, 1, SIDE, SIDE]`, between 0 and 1.
    pub images: Tensor<4>,
    /// `[batch]`, each in `0..CLASSES`.
    pub labels: Tensor<1, Int>,
}

/// Unpacks all images, in the order of the file.
pub fn load() -> Result<Vec<Digit>, String> {
    let mut text = String::new();
    GzDecoder::new(FILE).read_to_string(&mut text).map_err(|error| format!("data/digits.csv.gz: {error}"))?;
    text.lines()
        .enumerate()
        .map(|(line, row)| parse_row(row).map_err(|error| format!("data/digits.csv.gz:{}: {error}", line + 1)))
        .collect()
}

fn parse_row(row: &str) -> Result<Digit, String> {
    let values: Vec<u8> = row
        .split(',')
        .map(|value| value.trim().parse().map_err(|_| format!("wanted a number, got `{value}`")))
        .collect::<Result<_, _>>()?;
    let [pixels @ .., label] = values.as_slice() else {
        return Err("the line is empty".into());
    };
    let pixels: &[u8; PIXELS] =
        pixels.try_into().map_err(|_| format!("wanted {PIXELS} pixels and a label, got {} values", values.len()))?;
    Ok(Digit { pixels: pixels.map(|value| f32::from(value) / INK), label: *label })
}

/// Holds back a fifth of the images: (for training, for the test). The same ones for every seed of a run, so that
/// accuracies can be compared.
pub fn split(mut digits: Vec<Digit>) -> (Vec<Digit>, Vec<Digit>) {
    shuffle(&mut digits, SPLIT_SEED);
    let held_out = digits.len() / 5;
    let train = digits.split_off(held_out);
    (train, digits)
}

/// Puts images into one batch on the device.
pub fn batch(digits: &[Digit], device: &Device) -> Batch {
    let pixels: Vec<f32> = digits.iter().flat_map(|digit| digit.pixels).collect();
    let labels: Vec<i32> = digits.iter().map(|digit| i32::from(digit.label)).collect();
    let count = digits.len();
    Batch {
        images: Tensor::from_data(TensorData::new(pixels, [count, 1, SIDE, SIDE]), device),
        labels: Tensor::from_data(TensorData::new(labels, [count]), device),
    }
}

/// Fisher–Yates over SplitMix64 (Steele, Lea, Flood, 2014): the same order on every machine and backend.
pub fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for last in (1..items.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let chosen = (u128::from(bits) * (last as u128 + 1)) >> 64;
        items.swap(last, chosen as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_is_there() {
        let digits = load().expect("the file in the package is whole");
        assert_eq!(digits.len(), 1797);
        assert!(digits.iter().all(|digit| usize::from(digit.label) < CLASSES));
        assert!(digits.iter().all(|digit| digit.pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel))));
    }

    #[test]
    fn split_loses_nothing_and_repeats() {
        let numbers = |digits: &[Digit]| digits.iter().map(|digit| digit.label).collect::<Vec<_>>();
        let all = load().expect("the file in the package is whole");
        let (train, test) = split(all.clone());
        assert_eq!((train.len(), test.len()), (1438, 359));
        let (again, _) = split(all.clone());
        assert_eq!(numbers(&train), numbers(&again));
        let mut whole = [numbers(&train), numbers(&test)].concat();
        let mut want = numbers(&all);
        whole.sort_unstable();
        want.sort_unstable();
        assert_eq!(whole, want);
    }

    #[test]
    fn broken_rows_are_named() {
        assert_eq!(parse_row("1,2,3").unwrap_err(), "wanted 64 pixels and a label, got 3 values");
        assert_eq!(parse_row("1,x").unwrap_err(), "wanted a number, got `x`");
    }
}
