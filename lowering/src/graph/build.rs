//! Builds graphs: shapes and types are inferred here and nowhere else.  What breaks a rule panics; who records for a
//! user checks first and words the error.

use smallvec::{SmallVec, smallvec};

use super::ir::{
    Dims, Dist, Graph, Index, Movement, Node, NodeData, Op, PadDim, Reduction, SliceDim, Slot, Update, WindowDim,
};
use crate::dtype::DType;
use crate::op::Pointwise;

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Extents of a node.
    pub fn dims(&self, node: Node) -> &Dims {
        &self.nodes[node].dims
    }

    /// Element type of a node.
    pub fn dtype(&self, node: Node) -> DType {
        self.nodes[node].dtype
    }

    fn push(&mut self, op: Op, args: &[Node], dtype: DType, dims: Dims) -> Node {
        self.nodes.push(NodeData { op, args: SmallVec::from_slice(args), dtype, dims })
    }

    /// A tensor given from outside.
    pub fn input(&mut self, dtype: DType, dims: &[u64]) -> Node {
        let number = self.inputs;
        self.inputs += 1;
        self.push(Op::Input(number), &[], dtype, Dims::from_slice(dims))
    }

    /// A constant tensor, by bit pattern.
    pub fn constant(&mut self, dtype: DType, bits: u64, dims: &[u64]) -> Node {
        self.push(Op::Constant(bits), &[], dtype, Dims::from_slice(dims))
    }

    /// A scalar bound at each run, as a tensor.
    pub fn scalar(&mut self, dtype: DType, dims: &[u64]) -> (Node, Slot) {
        let slot = self.slots.push(dtype);
        (self.push(Op::Scalar(slot), &[], dtype, Dims::from_slice(dims)), slot)
    }

    /// The index along `axis`.
    pub fn iota(&mut self, dtype: DType, axis: usize, dims: &[u64]) -> Node {
        assert!(axis < dims.len(), "iota wants an axis below {}, got {axis}", dims.len());
        self.push(Op::Iota(axis as u8), &[], dtype, Dims::from_slice(dims))
    }

    /// A pointwise row.  Operands are broadcast to their common extents (missing leading axes count as 1).
    pub fn map(&mut self, op: Pointwise, args: &[Node]) -> Node {
        let row = op.row();
        assert_eq!(args.len(), row.arity, "`{}` takes {} operands, got {}", row.name, row.arity, args.len());
        let last = self.dtype(args[args.len() - 1]);
        assert!(row.accepts(last), "`{}` does not take {last}", row.name);
        let from = usize::from(op == Pointwise::Select);
        for &a in &args[from..] {
            assert_eq!(self.dtype(a), last, "operands of `{}` have different types", row.name);
        }
        let Some(dtype) = row.result(last) else { panic!("`{}` is built with `cast`", row.name) };
        let args = self.broadcast(args);
        let dims = self.dims(args[0]).clone();
        self.push(Op::Map(op), &args, dtype, dims)
    }

    /// A conversion of the numbers.
    pub fn cast(&mut self, x: Node, dtype: DType) -> Node {
        self.convert(Pointwise::Cast, x, dtype)
    }

    /// `Cast` or `Bitcast`.
    pub fn convert(&mut self, op: Pointwise, x: Node, dtype: DType) -> Node {
        if self.dtype(x) == dtype {
            return x;
        }
        let dims = self.dims(x).clone();
        self.push(Op::Map(op), &[x], dtype, dims)
    }

    /// Extents that all operands broadcast to, or the first axis (from the end) on which two disagree.
    pub fn common_dims<'a>(shapes: impl IntoIterator<Item = &'a [u64]>) -> Result<Dims, usize> {
        let mut out = Dims::new();
        for dims in shapes {
            while out.len() < dims.len() {
                out.insert(0, 1);
            }
            let skip = out.len() - dims.len();
            for (i, (o, &d)) in out[skip..].iter_mut().zip(dims).enumerate() {
                match (*o, d) {
                    (a, b) if a == b => {}
                    (1, b) => *o = b,
                    (_, 1) => {}
                    _ => return Err(dims.len() - 1 - i),
                }
            }
        }
        Ok(out)
    }

    fn broadcast(&mut self, args: &[Node]) -> SmallVec<[Node; 3]> {
        let dims = match Graph::common_dims(args.iter().map(|&a| self.nodes[a].dims.as_slice())) {
            Ok(dims) => dims,
            Err(axis) => panic!("operands do not broadcast at axis −{}", axis + 1),
        };
        args.iter().map(|&a| self.expand(a, &dims)).collect()
    }

    /// Repeats to `dims`; missing leading axes count as 1.
    pub fn expand(&mut self, x: Node, dims: &[u64]) -> Node {
        if self.dims(x).as_slice() == dims {
            return x;
        }
        let mut from = self.dims(x).clone();
        while from.len() < dims.len() {
            from.insert(0, 1);
        }
        assert!(from.len() == dims.len() && from.iter().zip(dims).all(|(&a, &b)| a == b || a == 1), "cannot expand");
        // A leaf is made anew rather than viewed.
        if let Op::Constant(_) | Op::Scalar(_) = self.nodes[x].op {
            let (op, dtype) = (self.nodes[x].op.clone(), self.dtype(x));
            return self.push(op, &[], dtype, Dims::from_slice(dims));
        }
        let x = self.reshape(x, &from);
        let dtype = self.dtype(x);
        self.push(Op::Move(Movement::Expand), &[x], dtype, Dims::from_slice(dims))
    }

    /// The same elements under other extents.
    pub fn reshape(&mut self, x: Node, dims: &[u64]) -> Node {
        if self.dims(x).as_slice() == dims {
            return x;
        }
        assert_eq!(self.nodes[x].len(), dims.iter().product::<u64>(), "reshape keeps the number of elements");
        let dtype = self.dtype(x);
        self.push(Op::Move(Movement::Reshape), &[x], dtype, Dims::from_slice(dims))
    }

    /// Axis `i` of the result is axis `perm[i]` of `x`.
    pub fn permute(&mut self, x: Node, perm: &[usize]) -> Node {
        assert_eq!(perm.len(), self.dims(x).len(), "permute names every axis once");
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return x;
        }
        let dims = perm.iter().map(|&p| self.dims(x)[p]).collect();
        let dtype = self.dtype(x);
        self.push(Op::Move(Movement::Permute(perm.iter().map(|&p| p as u8).collect())), &[x], dtype, dims)
    }

    /// A range per axis.
    pub fn slice(&mut self, x: Node, ranges: &[SliceDim]) -> Node {
        let from = self.dims(x).clone();
        assert_eq!(ranges.len(), from.len(), "slice names every axis");
        for (r, &n) in ranges.iter().zip(&from) {
            let last = r.start as i64 + r.step * (r.len.max(1) as i64 - 1);
            assert!(r.len == 0 || r.start < n && (0..n as i64).contains(&last), "slice leaves the axis");
        }
        if ranges.iter().zip(&from).all(|(r, &n)| r.start == 0 && r.step == 1 && r.len == n) {
            return x;
        }
        let dims = ranges.iter().map(|r| r.len).collect();
        let dtype = self.dtype(x);
        self.push(Op::Move(Movement::Slice(SmallVec::from_slice(ranges))), &[x], dtype, dims)
    }

    /// One range along one axis.
    pub fn narrow(&mut self, x: Node, axis: usize, start: u64, len: u64) -> Node {
        let ranges: SmallVec<[SliceDim; 6]> = self
            .dims(x)
            .iter()
            .enumerate()
            .map(
                |(i, &n)| {
                    if i == axis { SliceDim { start, len, step: 1 } } else { SliceDim { start: 0, len: n, step: 1 } }
                },
            )
            .collect();
        self.slice(x, &ranges)
    }

    /// Reverses axes.
    pub fn flip(&mut self, x: Node, axes: &[usize]) -> Node {
        let ranges: SmallVec<[SliceDim; 6]> = self
            .dims(x)
            .iter()
            .enumerate()
            .map(|(i, &n)| match axes.contains(&i) {
                true if n > 0 => SliceDim { start: n - 1, len: n, step: -1 },
                _ => SliceDim { start: 0, len: n, step: 1 },
            })
            .collect();
        self.slice(x, &ranges)
    }

    /// Adds elements of value `fill` (a bit pattern).
    pub fn pad(&mut self, x: Node, pads: &[PadDim], fill: u64) -> Node {
        let from = self.dims(x).clone();
        assert_eq!(pads.len(), from.len(), "pad names every axis");
        if pads.iter().zip(&from).all(|(p, &n)| p.low == 0 && p.high == 0 && (p.interior == 0 || n <= 1)) {
            return x;
        }
        let dims =
            pads.iter().zip(&from).map(|(p, &n)| p.low + n + p.interior * n.saturating_sub(1) + p.high).collect();
        let dtype = self.dtype(x);
        self.push(Op::Move(Movement::Pad { dims: SmallVec::from_slice(pads), fill }), &[x], dtype, dims)
    }

    /// Sliding windows.
    pub fn window(&mut self, x: Node, windows: &[WindowDim]) -> Node {
        let mut dims = self.dims(x).clone();
        for w in windows {
            let n = dims[w.axis as usize];
            let reach = (w.count.max(1) - 1) * w.step + (w.size.max(1) - 1) * w.dilation;
            assert!(w.count == 0 || w.size == 0 || reach < n, "windows leave the axis");
            dims[w.axis as usize] = w.count;
            dims.push(w.size);
        }
        let dtype = self.dtype(x);
        self.push(Op::Move(Movement::Window(SmallVec::from_slice(windows))), &[x], dtype, dims)
    }

    /// Combines along axes, whose extents become 1.  `dtype` is the result's type: that of `x` for values, an integer
    /// for indices.
    pub fn reduce(&mut self, kind: Reduction, x: Node, axes: &[usize], dtype: DType) -> Node {
        let mut dims = self.dims(x).clone();
        let mut sorted: SmallVec<[u8; 6]> = axes.iter().map(|&a| a as u8).collect();
        sorted.sort_unstable();
        sorted.dedup();
        for &a in &sorted {
            dims[a as usize] = 1;
        }
        assert!(kind.is_arg() && dtype.is_int() || dtype == self.dtype(x), "`{}` cannot give {dtype}", kind.name());
        self.push(Op::Reduce(kind, sorted), &[x], dtype, dims)
    }

    /// Inclusive prefix along an axis.
    pub fn scan(&mut self, kind: Reduction, x: Node, axis: usize) -> Node {
        let (dtype, dims) = (self.dtype(x), self.dims(x).clone());
        self.push(Op::Scan(kind, axis as u8), &[x], dtype, dims)
    }

    /// Batched matrix product; batch axes broadcast.
    pub fn contract(&mut self, a: Node, b: Node) -> Node {
        let (da, db) = (self.dims(a).clone(), self.dims(b).clone());
        let (ra, rb) = (da.len(), db.len());
        assert!(ra >= 2 && rb >= 2 && da[ra - 1] == db[rb - 2], "contract: {da:?} by {db:?}");
        let batch = match Graph::common_dims([&da[..ra - 2], &db[..rb - 2]]) {
            Ok(batch) => batch,
            Err(_) => panic!("contract: batch axes of {da:?} and {db:?} do not broadcast"),
        };
        let with = |tail: [u64; 2]| -> Dims { batch.iter().copied().chain(tail).collect() };
        let a = self.expand(a, &with([da[ra - 2], da[ra - 1]]));
        let b = self.expand(b, &with([db[rb - 2], db[rb - 1]]));
        let (dtype, dims) = (self.dtype(a), with([da[ra - 2], db[rb - 1]]));
        self.push(Op::Contract, &[a, b], dtype, dims)
    }

    /// Picks along an axis, see [`Index`].
    pub fn gather(&mut self, index: Index, x: Node, axis: usize, indices: Node) -> Node {
        let dims = match index {
            Index::Elements => self.dims(indices).clone(),
            Index::Positions => {
                let mut dims = self.dims(x).clone();
                dims[axis] = self.dims(indices)[0];
                dims
            }
        };
        let dtype = self.dtype(x);
        self.push(Op::Gather(index, axis as u8), &[x, indices], dtype, dims)
    }

    /// Puts `values` at indices along an axis of `x`.
    pub fn scatter(&mut self, index: Index, update: Update, x: Node, axis: usize, indices: Node, values: Node) -> Node {
        let (dtype, dims) = (self.dtype(x), self.dims(x).clone());
        self.push(Op::Scatter(index, axis as u8, update), &[x, indices, values], dtype, dims)
    }

    /// Random numbers; the slots take the seed and the number of the first element.
    pub fn random(&mut self, dist: Dist, dtype: DType, dims: &[u64]) -> (Node, Slot, Slot) {
        let key = self.slots.push(DType::U64);
        let counter = self.slots.push(DType::U64);
        (self.push(Op::Random(dist, key, counter), &[], dtype, Dims::from_slice(dims)), key, counter)
    }

    /// Sorts along an axis; the first `keep` elements are the result.
    pub fn sort(&mut self, x: Node, axis: usize, keep: u64, descending: bool) -> Node {
        let (dtype, mut dims) = (self.dtype(x), self.dims(x).clone());
        dims[axis] = keep;
        self.push(Op::Sort { axis: axis as u8, descending }, &[x], dtype, dims)
    }

    /// Indices that sort along an axis, the first `keep` of them.
    pub fn argsort(&mut self, x: Node, axis: usize, keep: u64, descending: bool, dtype: DType) -> Node {
        let mut dims = self.dims(x).clone();
        dims[axis] = keep;
        self.push(Op::ArgSort { axis: axis as u8, descending }, &[x], dtype, dims)
    }

    /// Joins along an axis: each part padded to the whole extent, and the parts selected by the index.
    pub fn concat(&mut self, parts: &[Node], axis: usize) -> Node {
        let total: u64 = parts.iter().map(|&p| self.dims(p)[axis]).sum();
        let rank = self.dims(parts[0]).len();
        let mut dims = self.dims(parts[0]).clone();
        dims[axis] = total;
        let mut start = 0;
        let mut joined: Option<Node> = None;
        for &part in parts {
            let n = self.dims(part)[axis];
            let mut pads: SmallVec<[PadDim; 6]> = smallvec![PadDim::default(); rank];
            pads[axis] = PadDim { low: start, high: total - start - n, interior: 0 };
            let padded = self.pad(part, &pads, 0);
            start += n;
            joined = Some(match joined {
                None => padded,
                Some(before) => {
                    let index = self.iota(DType::I64, axis, &dims);
                    let bound = self.constant(DType::I64, start - n, &dims);
                    let is_before = self.map(Pointwise::Lt, &[index, bound]);
                    self.map(Pointwise::Select, &[is_before, before, padded])
                }
            });
        }
        match joined {
            Some(node) => node,
            None => panic!("concat of nothing"),
        }
    }
}
