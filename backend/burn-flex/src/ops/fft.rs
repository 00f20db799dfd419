//! Fourier transforms, which Kiln does not have yet: each function says so.

use burn_kiln::KilnTensor;

macro_rules! transforms {
    ($($forward:ident $inverse:ident;)+) => {$(
        /// The spectrum of a real signal along an axis, as real and imaginary parts.
        ///
        /// # Panics
        ///
        /// Always: Kiln has no Fourier transform yet.
        pub fn $forward(signal: KilnTensor, dim: usize, n: Option<usize>) -> (KilnTensor, KilnTensor) {
            absent(stringify!($forward), &signal, dim, n)
        }

        /// The real signal of a spectrum along an axis.
        ///
        /// # Panics
        ///
        /// Always: Kiln has no Fourier transform yet.
        pub fn $inverse(re: KilnTensor, _im: KilnTensor, dim: usize, n: Option<usize>) -> KilnTensor {
            absent(stringify!($inverse), &re, dim, n)
        }
    )+};
}

transforms! {
    rfft_f32 irfft_f32;
    rfft_f64 irfft_f64;
    rfft_f16 irfft_f16;
    rfft_bf16 irfft_bf16;
}

fn absent(name: &str, tensor: &KilnTensor, dim: usize, n: Option<usize>) -> ! {
    let shape = tensor.shape().as_slice();
    panic!("Kiln has no Fourier transform yet: `{name}` of {shape:?} along axis {dim}, length {n:?}")
}
