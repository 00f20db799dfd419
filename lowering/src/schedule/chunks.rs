//! The terms of long reductions in chunks, each of which is summed by itself before their sums are: the tree of
//! [`simplify`](super::simplify), written out.

use smallvec::{SmallVec, smallvec};

use super::simplify::{CHUNK, identity, reduction};
use crate::dtype::DType;
use crate::graph::{Dims, Graph, Node, PadDim, Reduction};
use crate::op::Pointwise;

/// Terms in chunks: `[…, terms]` as `[…, chunks, CHUNK]`.  Of columns, the terms come first: `[chunks, CHUNK, …]`.
pub(super) struct Chunks {
    /// The terms; what fills the last chunk changes nothing.
    pub(super) x: Node,
    /// The axis of the chunks; that of their terms follows.
    pub(super) axis: usize,
    terms: u64,
    count: u64,
    /// Extents before and after those two.
    around: [Dims; 2],
}

impl Chunks {
    /// The terms of `x` along some axes, all others being extents of `kept`, to be reduced by `kind`.
    pub(super) fn of(
        graph: &mut Graph,
        kind: Reduction,
        x: Node,
        (axes, columns): (&[usize], bool),
        kept: &Dims,
    ) -> Chunks {
        let rank = kept.len();
        let others = || (0..rank).filter(|i| !axes.contains(i));
        let perm: Vec<usize> = match columns {
            true => axes.iter().copied().chain(others()).collect(),
            false => others().chain(axes.iter().copied()).collect(),
        };
        let terms: u64 = axes.iter().map(|&a| graph.dims(x)[a]).product();
        let rows: Dims = others().map(|i| kept[i]).collect();
        let around = if columns { [Dims::new(), rows] } else { [rows, Dims::new()] };
        let mut chunks = Chunks { x, axis: around[0].len(), terms, count: terms.div_ceil(CHUNK), around };
        let turned = graph.permute(x, &perm);
        let flat = graph.reshape(turned, &chunks.with(&[terms]));
        chunks.x = chunks.filled(graph, flat, identity(kind, graph.dtype(x)));
        chunks
    }

    /// Terms that lie one after the other, the last chunk filled up.
    fn filled(&self, graph: &mut Graph, flat: Node, fill: u64) -> Node {
        let mut pads: SmallVec<[PadDim; 6]> = smallvec![PadDim::default(); graph.dims(flat).len()];
        pads[self.axis].high = self.count * CHUNK - self.terms;
        let padded = graph.pad(flat, &pads, fill);
        graph.reshape(padded, &self.with(&[self.count, CHUNK]))
    }

    /// Extents with `own` in the place of chunks and terms.
    pub(super) fn with(&self, own: &[u64]) -> Dims {
        self.around[0].iter().chain(own).chain(&self.around[1]).copied().collect()
    }

    /// `x`, which has the extents of the terms, reduced inside each chunk.
    pub(super) fn reduce(&self, graph: &mut Graph, kind: Reduction, x: Node) -> Node {
        let partial = graph.reduce(kind, x, &[self.axis + 1], graph.dtype(x));
        graph.reshape(partial, &self.with(&[self.count]))
    }

    /// The chunks' results `each`, reduced to those of the rows, of extents `kept`.
    pub(super) fn join(&self, graph: &mut Graph, kind: Reduction, each: Node, kept: &Dims, programs: u32) -> Node {
        let dtype = graph.dtype(each);
        let whole = reduction(graph, kind, each, &[self.axis as u8], dtype, programs);
        graph.reshape(whole, kept)
    }

    /// The terms less what `each` is of their chunk.
    pub(super) fn less(&self, graph: &mut Graph, each: Node) -> Node {
        let each = graph.reshape(each, &self.with(&[self.count, 1]));
        graph.map(Pointwise::Sub, &[self.x, each])
    }

    /// One element a row, laid so that it meets each chunk's.
    pub(super) fn of_rows(&self, graph: &mut Graph, x: Node) -> Node {
        graph.reshape(x, &self.with(&[1]))
    }

    /// One for each term and zero for what fills the last chunk, if anything does.
    pub(super) fn ones(&self, graph: &mut Graph, dtype: DType) -> Option<Node> {
        if self.terms.is_multiple_of(CHUNK) {
            return None;
        }
        let flat = graph.constant(dtype, identity(Reduction::Prod, dtype), &self.with(&[self.terms]));
        Some(self.filled(graph, flat, 0))
    }
}
