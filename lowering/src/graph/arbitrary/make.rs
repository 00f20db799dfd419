//! Adds random nodes to a graph, one function per kind.

use smallvec::SmallVec;

use super::data::{Fill, fill};
use super::draws::Draws;
use super::{Case, Wishes};
use crate::dtype::{Class, DType};
use crate::graph::array::Array;
use crate::graph::ir::{Dims, Dist, Graph, Index, Node, Op, PadDim, Reduction, SliceDim, Update, WindowDim};
use crate::graph::number;
use crate::op::Pointwise;
use crate::op::pointwise::Takes;

/// Adds a node; nothing where what it would start from does not suit.
type Make = fn(&mut Maker, Node) -> Option<Node>;

/// Everything that can be added, with how often it should be.
pub const MAKERS: &[(&str, u64, Make)] = &[
    ("pointwise", 12, Maker::pointwise),
    ("cast", 2, Maker::cast),
    ("permute", 2, Maker::permute),
    ("slice", 2, Maker::slice),
    ("expand", 2, Maker::expand),
    ("reshape", 2, Maker::reshape),
    ("pad", 2, Maker::pad),
    ("window", 1, Maker::window),
    ("concat", 1, Maker::concat),
    ("reduce", 5, Maker::reduce),
    ("scan", 1, Maker::scan),
    ("contract", 2, Maker::contract),
    ("gather", 2, Maker::gather),
    ("scatter", 2, Maker::scatter),
    ("random", 1, Maker::random),
    ("sort", 1, Maker::sort),
];

const EXTENTS: &[u64] = &[1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 129, 257, 1030];

/// A graph in the making.
pub struct Maker {
    draws: Draws,
    wishes: Wishes,
    graph: Graph,
    inputs: Vec<Array>,
    slots: Vec<u64>,
    special: bool,
}

impl Maker {
    pub fn new(mut draws: Draws, wishes: &Wishes) -> Maker {
        let wishes = wishes.clone();
        let special = draws.one_in(4);
        Maker { draws, wishes, graph: Graph::new(), inputs: Vec::new(), slots: Vec::new(), special }
    }

    /// Makes what was wished for.
    pub fn graph(&mut self) {
        let (dtype, dims) = (self.dtype(), self.dims());
        self.input(dtype, &dims, self.fill());
        let makers: Vec<_> = MAKERS.iter().filter(|(name, ..)| !self.wishes.without.contains(name)).collect();
        let total = makers.iter().map(|(_, often, _)| often).sum();
        let mut made = 0;
        // Some attempts come to nothing; their number is bounded so that narrow wishes end too.
        for _ in 0..self.wishes.nodes * 20 {
            if made == self.wishes.nodes {
                break;
            }
            let mut at = self.draws.below(total);
            let chosen = makers.iter().find(|(_, often, _)| {
                let here = at < *often;
                at = at.saturating_sub(*often);
                here
            });
            let start = self.start();
            if let Some((_, _, make)) = chosen {
                made += usize::from(make(self, start).is_some());
            }
        }
    }

    /// What nobody uses is wanted, and now and then something else too.
    pub fn finish(mut self) -> Case {
        let used: Vec<Node> = self.graph.nodes.values().flat_map(|data| data.args.iter().copied()).collect();
        let nodes: Vec<Node> = self.graph.nodes.keys().collect();
        for node in nodes {
            if !used.contains(&node) || self.draws.one_in(8) {
                self.graph.outputs.push(node);
            }
        }
        Case { graph: self.graph, inputs: self.inputs, slots: self.slots }
    }

    /// A node to go on from, a late one rather than an early one.
    fn start(&mut self) -> Node {
        let n = self.graph.nodes.len() as u64;
        let i = self.draws.below(n).max(self.draws.below(n));
        Node::from_u32(i as u32)
    }

    fn dtype(&mut self) -> DType {
        match self.draws.one_in(2) {
            true => DType::F32,
            false => *self.draws.pick(DType::ALL),
        }
    }

    fn int(&mut self) -> DType {
        *self.draws.pick(&[DType::I64, DType::I32, DType::I64, DType::U32])
    }

    fn fill(&self) -> Fill {
        if self.special { Fill::Special } else { Fill::Ordinary }
    }

    fn extent(&mut self) -> u64 {
        if self.draws.one_in(40) { 0 } else { *self.draws.pick(EXTENTS) }
    }

    fn fits(&self, dims: &[u64]) -> bool {
        dims.len() <= 6
            && dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d.max(1))).is_some_and(|n| n <= self.wishes.elements)
    }

    fn dims(&mut self) -> Dims {
        let rank = self.draws.below(6) as usize;
        let mut dims: Dims = (0..rank).map(|_| self.extent()).collect();
        while !self.fits(&dims) {
            let axis = self.draws.below(rank as u64) as usize;
            dims[axis] = (dims[axis] / 2).max(1);
        }
        dims
    }

    fn dims_of(&self, x: Node) -> Dims {
        self.graph.dims(x).clone()
    }

    fn axis(&mut self, x: Node) -> Option<usize> {
        let rank = self.graph.dims(x).len() as u64;
        (rank > 0).then(|| self.draws.below(rank) as usize)
    }

    fn input(&mut self, dtype: DType, dims: &[u64], with: Fill) -> Node {
        let data = fill(&mut self.draws, dtype, dims, with);
        self.inputs.push(data);
        self.graph.input(dtype, dims)
    }

    /// An operand of this type and of extents that broadcast with `dims`: a leaf, or a node that happens to suit.
    fn partner(&mut self, dtype: DType, dims: &[u64]) -> Node {
        let suits = |&n: &Node| self.graph.dtype(n) == dtype && self.graph.dims(n).as_slice() == dims;
        let suiting: Vec<Node> = self.graph.nodes.keys().filter(suits).collect();
        if !suiting.is_empty() && !self.draws.one_in(3) {
            return *self.draws.pick(&suiting);
        }
        let with = self.fill();
        let bits = fill(&mut self.draws, dtype, &[1], with).bits[0];
        match self.draws.below(6) {
            0 => self.graph.constant(dtype, bits, dims),
            1 => {
                self.slots.push(bits);
                self.graph.scalar(dtype, dims).0
            }
            2 if !dims.is_empty() && dtype != DType::Bool => {
                let axis = self.draws.below(dims.len() as u64) as usize;
                self.graph.iota(dtype, axis, dims)
            }
            3 => {
                let narrow: Dims = dims.iter().map(|&n| if self.draws.one_in(2) { 1 } else { n }).collect();
                self.input(dtype, &narrow, self.fill())
            }
            _ => self.input(dtype, dims, self.fill()),
        }
    }

    fn pointwise(&mut self, x: Node) -> Option<Node> {
        let (dtype, dims) = (self.graph.dtype(x), self.dims_of(x));
        let op = *self.draws.pick(Pointwise::ALL);
        let row = op.row();
        if !row.accepts(dtype) || row.result(dtype).is_none() {
            return None;
        }
        // What takes few types comes by rarely enough; comparisons and selections would crowd out the rest.
        if row.takes == Takes::All && self.draws.one_in(2) {
            return None;
        }
        let place = self.draws.below(row.arity as u64) as usize;
        let args: Vec<Node> = (0..row.arity)
            .map(|i| match op {
                Pointwise::Select if i == 0 => self.partner(DType::Bool, &dims),
                Pointwise::Select if i == place.max(1) => x,
                _ if i == place => x,
                _ => self.partner(dtype, &dims),
            })
            .collect();
        Some(self.graph.map(op, &args))
    }

    fn cast(&mut self, x: Node) -> Option<Node> {
        let from = self.graph.dtype(x);
        let to = self.dtype();
        // Which NaN a row computes is nobody's promise, so the bits of computed floats are not looked at.
        let is_data = !from.is_float() || matches!(self.graph.nodes[x].op, Op::Input(_));
        let same_width = from.bits() == to.bits() && from != DType::Bool && to != DType::Bool;
        let is_bitcast = is_data && same_width && self.draws.one_in(2);
        Some(self.graph.convert(if is_bitcast { Pointwise::Bitcast } else { Pointwise::Cast }, x, to))
    }

    fn permute(&mut self, x: Node) -> Option<Node> {
        let order = self.draws.order(self.graph.dims(x).len());
        Some(self.graph.permute(x, &order))
    }

    fn slice(&mut self, x: Node) -> Option<Node> {
        let dims = self.dims_of(x);
        let ranges: Vec<SliceDim> = dims.iter().map(|&n| self.range(n)).collect();
        Some(self.graph.slice(x, &ranges))
    }

    fn range(&mut self, n: u64) -> SliceDim {
        if n == 0 || self.draws.one_in(3) {
            return SliceDim { start: 0, len: n, step: 1 };
        }
        let step = *self.draws.pick(&[1i64, 1, 2, 3, -1, -1, -2]);
        let start = self.draws.below(n);
        let room = if step > 0 { n - 1 - start } else { start };
        let most = room / step.unsigned_abs() + 1;
        SliceDim { start, len: self.draws.below(most + 1).max(u64::from(!self.draws.one_in(20))), step }
    }

    fn expand(&mut self, x: Node) -> Option<Node> {
        let mut dims = self.dims_of(x);
        for n in dims.iter_mut().filter(|n| **n == 1) {
            *n = self.extent();
        }
        if self.draws.one_in(2) {
            dims.insert(0, self.extent());
        }
        self.fits(&dims).then(|| self.graph.expand(x, &dims))
    }

    fn reshape(&mut self, x: Node) -> Option<Node> {
        let dims = self.dims_of(x);
        let len: u64 = dims.iter().product();
        let to: Dims = match self.draws.below(4) {
            0 => SmallVec::from_slice(&[len]),
            // Two neighbours into one.
            1 if dims.len() >= 2 => {
                let mut to = dims.clone();
                let at = self.draws.below(dims.len() as u64 - 1) as usize;
                to[at] *= to.remove(at + 1);
                to
            }
            // One axis into two.
            2 if !dims.is_empty() => {
                let mut to = dims.clone();
                let at = self.draws.below(dims.len() as u64) as usize;
                let divisors: Vec<u64> = (1..=to[at].min(64)).filter(|d| to[at].is_multiple_of(*d)).collect();
                let d = *self.draws.pick(if divisors.is_empty() { &[1] } else { &divisors });
                to[at] /= d;
                to.insert(at + 1, d);
                to
            }
            _ => {
                let mut to = dims.clone();
                let at = self.draws.below(to.len() as u64 + 1) as usize;
                to.insert(at, 1);
                to
            }
        };
        self.fits(&to).then(|| self.graph.reshape(x, &to))
    }

    fn pad(&mut self, x: Node) -> Option<Node> {
        let dims = self.dims_of(x);
        let pads: Vec<PadDim> = dims
            .iter()
            .map(|_| match self.draws.one_in(2) {
                true => PadDim::default(),
                false => PadDim {
                    low: self.draws.below(4),
                    high: self.draws.below(4),
                    interior: if self.draws.one_in(3) { self.draws.below(3) } else { 0 },
                },
            })
            .collect();
        let grown: Dims = dims.iter().zip(&pads).map(|(n, p)| n + p.low + p.high + p.interior * n).collect();
        let bits = fill(&mut self.draws, self.graph.dtype(x), &[1], Fill::Special).bits[0];
        self.fits(&grown).then(|| self.graph.pad(x, &pads, bits))
    }

    fn window(&mut self, x: Node) -> Option<Node> {
        let mut dims = self.dims_of(x);
        let mut windows: SmallVec<[WindowDim; 3]> = SmallVec::new();
        let count = (1 + self.draws.below(2) as usize).min(dims.len());
        let first = self.draws.below((dims.len() - count) as u64 + 1) as usize;
        for axis in first..first + count {
            let n = dims[axis];
            let (size, dilation, step) = (1 + self.draws.below(4), 1 + self.draws.below(2), 1 + self.draws.below(3));
            let reach = (size - 1) * dilation;
            let most = n.checked_sub(reach + 1)? / step + 1;
            let w = WindowDim { axis: axis as u8, count: most, size, step, dilation };
            dims[axis] = w.count;
            dims.push(w.size);
            windows.push(w);
        }
        (!windows.is_empty() && self.fits(&dims)).then(|| self.graph.window(x, &windows))
    }

    fn concat(&mut self, x: Node) -> Option<Node> {
        let axis = self.axis(x)?;
        let (dtype, mut dims) = (self.graph.dtype(x), self.dims_of(x));
        let before = dims[axis];
        dims[axis] = self.extent();
        let mut whole = dims.clone();
        whole[axis] += before;
        if !self.fits(&whole) {
            return None;
        }
        let other = self.partner(dtype, &dims);
        let other = self.graph.expand(other, &dims);
        let parts = if self.draws.one_in(2) { [x, other] } else { [other, x] };
        Some(self.graph.concat(&parts, axis))
    }

    fn kind(&mut self, dtype: DType) -> Reduction {
        match dtype.class() {
            Class::Bool => *self.draws.pick(&[Reduction::Any, Reduction::All]),
            _ => *self.draws.pick(&Reduction::ALL[..6]),
        }
    }

    fn reduce(&mut self, x: Node) -> Option<Node> {
        let (dtype, dims) = (self.graph.dtype(x), self.dims_of(x));
        let kind = self.kind(dtype);
        let axes: Vec<usize> = match self.draws.below(4) {
            0 => (0..dims.len()).collect(),
            1 => dims.len().checked_sub(1).into_iter().collect(),
            _ => (0..dims.len()).filter(|_| self.draws.one_in(2)).collect(),
        };
        let has_identity = matches!(kind, Reduction::Sum | Reduction::Prod | Reduction::Any | Reduction::All);
        if !has_identity && dims.contains(&0) {
            return None;
        }
        let to = if kind.is_arg() { self.int() } else { dtype };
        Some(self.graph.reduce(kind, x, &axes, to))
    }

    fn scan(&mut self, x: Node) -> Option<Node> {
        let axis = self.axis(x)?;
        let kind = self.kind(self.graph.dtype(x));
        (!kind.is_arg()).then(|| self.graph.scan(kind, x, axis))
    }

    fn contract(&mut self, x: Node) -> Option<Node> {
        let (dtype, dims) = (self.graph.dtype(x), self.dims_of(x));
        if dims.len() < 2 || dtype == DType::Bool {
            return None;
        }
        let mut other = dims.clone();
        let rank = dims.len();
        other[rank - 2] = dims[rank - 1];
        other[rank - 1] = self.extent();
        for n in &mut other[..rank - 2] {
            *n = if self.draws.one_in(2) { 1 } else { *n };
        }
        let mut product = dims.clone();
        product[rank - 1] = other[rank - 1];
        let mut whole = other.clone();
        whole[..rank - 2].copy_from_slice(&dims[..rank - 2]);
        if !self.fits(&whole) || !self.fits(&product) {
            return None;
        }
        let y = self.partner(dtype, &other);
        let y = self.graph.expand(y, &other);
        Some(self.graph.contract(x, y))
    }

    /// Indices below `extent`: data, or a remainder of something computed.
    fn indices(&mut self, dims: &[u64], extent: u64) -> Option<Node> {
        if extent == 0 && dims.iter().product::<u64>() > 0 {
            return None;
        }
        let dtype = self.int();
        if self.draws.one_in(2) || extent == 0 {
            return Some(self.input(dtype, dims, Fill::Below(extent)));
        }
        let x = self.partner(dtype, dims);
        let bound = self.graph.constant(dtype, number::from_int(dtype, i128::from(extent)), &[]);
        let index = self.graph.map(Pointwise::Rem, &[x, bound]);
        Some(self.graph.expand(index, dims))
    }

    /// An axis, how it is addressed, indices, and the extents of what they pick.
    fn addressed(&mut self, x: Node) -> Option<(usize, Index, Node, Dims)> {
        let axis = self.axis(x)?;
        let mut dims = self.dims_of(x);
        let extent = dims[axis];
        let index = *self.draws.pick(Index::ALL);
        dims[axis] = self.extent();
        if index == Index::Elements {
            for (i, n) in dims.iter_mut().enumerate().filter(|(_, n)| **n > 1) {
                if i != axis && self.draws.one_in(3) {
                    *n = 1 + self.draws.below(*n);
                }
            }
        }
        if !self.fits(&dims) {
            return None;
        }
        let shape = match index {
            Index::Elements => dims.clone(),
            Index::Positions => SmallVec::from_slice(&[dims[axis]]),
        };
        Some((axis, index, self.indices(&shape, extent)?, dims))
    }

    fn gather(&mut self, x: Node) -> Option<Node> {
        let (axis, index, indices, _) = self.addressed(x)?;
        Some(self.graph.gather(index, x, axis, indices))
    }

    fn scatter(&mut self, x: Node) -> Option<Node> {
        let (axis, index, indices, dims) = self.addressed(x)?;
        let dtype = self.graph.dtype(x);
        let update = match dtype {
            DType::Bool => *self.draws.pick(&[Update::Assign, Update::Or]),
            _ => *self.draws.pick(&Update::ALL[..5]),
        };
        let values = self.partner(dtype, &dims);
        let values = self.graph.expand(values, &dims);
        Some(self.graph.scatter(index, update, x, axis, indices, values))
    }

    fn random(&mut self, _: Node) -> Option<Node> {
        let dist = *self.draws.pick(Dist::ALL);
        let dtype = match dist {
            Dist::Bits => *self.draws.pick(&[DType::U32, DType::U64]),
            _ => *self.draws.pick(&[DType::F32, DType::F16, DType::Bf16, DType::F64]),
        };
        let dims = self.dims();
        let start = self.draws.below(1 << 34);
        let seed = self.draws.bits();
        self.slots.extend([seed, start]);
        Some(self.graph.random(dist, dtype, &dims).0)
    }

    fn sort(&mut self, x: Node) -> Option<Node> {
        let axis = self.axis(x)?;
        let descending = self.draws.one_in(2);
        let n = self.graph.dims(x)[axis];
        let keep = if self.draws.one_in(3) { self.draws.below(n + 1) } else { n };
        Some(match self.draws.one_in(2) {
            true => self.graph.sort(x, axis, keep, descending),
            false => {
                let dtype = self.int();
                self.graph.argsort(x, axis, keep, descending, dtype)
            }
        })
    }
}
