//! What an operation writes on: the segment's graph, and scalars that are bound when it runs.

use std::ops::{Deref, DerefMut};

use burn_backend::Scalar;
use kiln_lowering::DType;
use kiln_lowering::graph::{Dist, Graph, Node};

use super::segment::Segment;
use crate::dtype::{float_bits, scalar_bits};

/// The open segment, as the function that records an operation sees it: a [`Graph`], whose rows it adds to.
pub struct Tape<'a> {
    pub(super) segment: &'a mut Segment,
}

impl Tape<'_> {
    /// A number bound at run time, as a tensor: another value is the same program.  Integers are converted exactly
    /// (they wrap), floats are rounded once.
    pub fn scalar(&mut self, dtype: DType, value: Scalar, dims: &[u64]) -> Node {
        let (node, slot) = self.segment.graph.scalar(dtype, dims);
        self.segment.scalars.resize(slot.as_u32() as usize, 0);
        self.segment.scalars.push(scalar_bits(dtype, value));
        node
    }

    /// A number in the program's text, as a tensor; rounded once.
    pub fn literal(&mut self, dtype: DType, value: f64, dims: &[u64]) -> Node {
        self.segment.graph.constant(dtype, float_bits(dtype, value), dims)
    }

    /// Random numbers, the next ones of the device.
    pub fn random(&mut self, dist: Dist, dtype: DType, dims: &[u64]) -> Node {
        let (node, key, _) = self.segment.graph.random(dist, dtype, dims);
        let (seed, start) = self.segment.draw(key.as_u32(), dims.iter().product());
        self.segment.scalars.resize(key.as_u32() as usize, 0);
        self.segment.scalars.extend([seed, start]);
        node
    }
}

impl Deref for Tape<'_> {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        &self.segment.graph
    }
}

impl DerefMut for Tape<'_> {
    fn deref_mut(&mut self) -> &mut Graph {
        &mut self.segment.graph
    }
}
