//! A graph's identity: a hash of what it computes, not of how its nodes are numbered.
//!
//! A node is hashed by its operation, type, extents and the hashes of its operands; a graph by its outputs.  Numbers of
//! inputs and slots are part of it, since who runs the graph binds by them; dead and doubled nodes are not.

use std::hash::{Hash, Hasher};

use super::ir::Graph;

/// The identity of a graph.  Stable within one build, not across versions of the crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Canonical(pub u128);

/// Feeds what derives `Hash` to BLAKE3.
struct Blake(blake3::Hasher);

impl Hasher for Blake {
    fn finish(&self) -> u64 {
        self.wide() as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

impl Blake {
    fn new() -> Blake {
        Blake(blake3::Hasher::new())
    }

    fn wide(&self) -> u128 {
        let mut half = [0; 16];
        half.copy_from_slice(&self.0.finalize().as_bytes()[..16]);
        u128::from_le_bytes(half)
    }
}

impl Graph {
    /// The graph's identity.
    pub fn canonical(&self) -> Canonical {
        let mut hashes: Vec<u128> = Vec::with_capacity(self.nodes.len());
        for data in self.nodes.values() {
            let mut h = Blake::new();
            (&data.op, data.dtype, &data.dims, data.args.len()).hash(&mut h);
            for arg in &data.args {
                hashes.get(arg.as_u32() as usize).hash(&mut h);
            }
            hashes.push(h.wide());
        }
        let mut h = Blake::new();
        (self.inputs, self.slots.values().as_slice(), self.outputs.len()).hash(&mut h);
        for output in &self.outputs {
            hashes.get(output.as_u32() as usize).hash(&mut h);
        }
        Canonical(h.wide())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::{Node, Reduction};
    use crate::op::Pointwise;

    fn inputs(g: &mut Graph) -> [Node; 2] {
        [g.input(DType::F32, &[4]), g.input(DType::F32, &[4])]
    }

    #[test]
    fn numbering_and_dead_nodes_do_not_matter() {
        let mut a = Graph::new();
        let [x, y] = inputs(&mut a);
        let (sum, product) = (a.map(Pointwise::Add, &[x, y]), a.map(Pointwise::Mul, &[x, y]));
        a.outputs = vec![sum, product];

        let mut b = Graph::new();
        let [x, y] = inputs(&mut b);
        let product = b.map(Pointwise::Mul, &[x, y]);
        b.map(Pointwise::Sub, &[x, product]);
        let sum = b.map(Pointwise::Add, &[x, y]);
        b.outputs = vec![sum, product];

        assert_eq!(a.canonical(), b.canonical());
        b.outputs.reverse();
        assert_ne!(a.canonical(), b.canonical());
    }

    #[test]
    fn what_changes_the_result_changes_the_identity() {
        let build = |dims: &[u64], kind, axes: &[usize], swap: bool| {
            let mut g = Graph::new();
            let (x, y) = (g.input(DType::F32, dims), g.input(DType::F32, dims));
            let difference = g.map(Pointwise::Sub, &if swap { [y, x] } else { [x, y] });
            let out = g.reduce(kind, difference, axes, DType::F32);
            g.outputs = vec![out];
            g.canonical()
        };
        let all = [
            build(&[4, 4], Reduction::Sum, &[0], false),
            build(&[4, 4], Reduction::Sum, &[0], true),
            build(&[4, 4], Reduction::Sum, &[1], false),
            build(&[4, 4], Reduction::Max, &[0], false),
            build(&[4, 5], Reduction::Sum, &[0], false),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }
}
