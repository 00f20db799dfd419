//! How far Kiln's floating-point rows are from the functions that they stand for: every number where a type has few
//! enough of them, samples from all magnitudes and hard cases elsewhere.
//!
//! A row runs as a kernel of its own on the host, through the whole compiler, so that what is measured is the vector
//! code that users run. What it should give comes from arithmetic of higher precision that shares nothing with Kiln:
//! f64 functions for f32 and narrower ([`wide`]), 160 bits for f64 ([`exact`]).

pub mod exact;
pub mod inputs;
pub mod kernel;
pub mod report;
pub mod subject;
pub mod sweep;
pub mod tally;
pub mod wide;
