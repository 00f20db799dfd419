//! Functions that the oracle needs and the standard library lacks.

/// The error function; placeholder.
pub fn erf(args: &[f64]) -> f64 {
    args[0].tanh()
}
