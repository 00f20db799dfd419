//! Burn's operation traits for [`Kiln`](crate::Kiln).  Each method checks its operands, infers the result and records
//! rows; a file per trait lists the methods, a file per topic says what they are made of.  Knows no kernels, no buffers
//! and no machines.

mod activation;
mod attention;
mod avg_pool;
mod boolean;
mod checks;
mod collective;
mod contraction;
mod conv;
mod create;
mod deform;
mod dims;
mod elementwise;
mod float;
mod fold;
mod index;
mod int;
mod interpolate;
mod join;
mod mask;
mod matmul;
mod max_pool;
mod module;
mod norm;
mod order;
mod power;
mod quantized;
mod random;
mod reduce;
mod scalars;
mod scan;
mod softmax;
mod tables;
mod views;
mod windows;

pub use checks::NOT_LOWERED;
use kiln_lowering::graph::Node;
use smallvec::{SmallVec, smallvec};

use crate::record::{Tape, record_many};
use crate::{KilnDevice, KilnTensor};

/// Records an operation over a list of tensors, with one result.
fn record_list(
    op: &'static str,
    device: &KilnDevice,
    inputs: &[&KilnTensor],
    out: burn_backend::DType,
    body: impl FnOnce(&mut Tape<'_>, &[Node]) -> Node,
) -> KilnTensor {
    let results = record_many(op, device, inputs, |t, nodes| smallvec![(body(t, nodes), out)]);
    match results.into_iter().next() {
        Some(tensor) => tensor,
        None => unreachable!("one result was recorded"),
    }
}

/// The two results of an operation that has two.
fn two(results: SmallVec<[KilnTensor; 2]>) -> (KilnTensor, KilnTensor) {
    match results.into_inner() {
        Ok([first, second]) => (first, second),
        Err(other) => unreachable!("two results were recorded, got {}", other.len()),
    }
}
