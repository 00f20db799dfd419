//! A segment: the graph being recorded, what it was recorded from, and which values came out.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use burn_backend::{DType as BurnDType, Shape};
use kiln_lowering::graph::{Graph, Node, Op};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::stream::Stream;
use super::value::Value;
use crate::run::{Ahead, Machine};
use crate::tensor::KilnTensor;

/// How many times as long a segment may become of which much is still wanted, on machines that wait for that: a training
/// step of a dozen layers has five thousand operations.
const PATIENCE: usize = 32;

/// Results that an inference may be in the middle of: a layer's, and what was projected for later steps.
const FEW: usize = 32;

/// Operations after which a device is told of what was recorded, and so on; less often in long segments, when it has
/// enough to do.
const STRIDE: usize = if cfg!(test) { 8 } else { 32 };
const LATER: usize = if cfg!(test) { 8 } else { 128 };
const EARLY: usize = 256;

/// Which node an operation's rows begin at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpMark {
    pub(crate) name: &'static str,
    pub(crate) first: u32,
}

/// A tensor that a segment reads.
pub(crate) struct Operand {
    pub(crate) value: Arc<Value>,
    /// Whether nobody else held it when the segment was closed.
    pub(crate) dead: bool,
}

/// A segment's first operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    pub(crate) hash: u64,
    /// How many nodes, operands and scalars there are.
    pub(crate) nodes: usize,
    pub(crate) operands: usize,
    pub(crate) scalars: usize,
}

/// A closed segment, ready to run.
pub(crate) struct Work {
    /// The stream it comes from.
    pub(crate) stream: u64,
    /// Its number.
    pub(crate) segment: u64,
    /// What it begins with, each some operations longer.
    pub(crate) beginnings: Vec<Beginning>,
    /// Hash of the graph with its outputs.
    pub(crate) hash: u64,
    pub(crate) graph: Graph,
    /// Bit patterns of the graph's slots.
    pub(crate) scalars: Vec<u64>,
    /// The graph's inputs.
    pub(crate) operands: Vec<Operand>,
    /// Values wanted, with the index of the graph's output.
    pub(crate) outputs: Vec<(usize, Arc<Value>)>,
    /// Values that are an operand unchanged, with its index.
    pub(crate) aliases: Vec<(usize, Arc<Value>)>,
    pub(crate) ops: Vec<OpMark>,
    pub(crate) fuse: bool,
    /// Whether products stay away from the library.
    pub(crate) strict: bool,
    /// Slots that hold the seed of random numbers, the next one their start, with how many elements are drawn.
    pub(crate) draws: Vec<(u32, u64)>,
}

/// The open segment of a stream.
pub(crate) struct Segment {
    pub(super) number: u64,
    machine: &'static Machine,
    pub(super) graph: Graph,
    pub(super) scalars: Vec<u64>,
    operands: Vec<KilnTensor>,
    /// Nodes of operands, by the address of their value.
    interned: FxHashMap<usize, Node>,
    results: Vec<Arc<Value>>,
    ops: Vec<OpMark>,
    hasher: FxHasher,
    /// Nodes that the hasher has seen.
    hashed: usize,
    /// Bytes of operands.
    bytes: u64,
    /// With how many bytes of operands to look next which of them nobody else holds.
    look_at: u64,
    /// Hash of the names of the last four operations.
    recent: u64,
    draws: Vec<(u32, u64)>,
    beginnings: Vec<Beginning>,
    /// How many operands and scalars the device's thread has been told of, if it was told to begin.
    told: Option<[usize; 2]>,
}

impl Segment {
    pub(super) fn new(number: u64, machine: &'static Machine) -> Segment {
        Segment {
            number,
            machine,
            graph: Graph::new(),
            scalars: Vec::new(),
            operands: Vec::new(),
            interned: FxHashMap::default(),
            results: Vec::new(),
            ops: Vec::new(),
            hasher: FxHasher::default(),
            hashed: 0,
            bytes: 0,
            look_at: machine.segment_bytes,
            recent: 0,
            draws: Vec::new(),
            beginnings: Vec::new(),
            told: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Starts an operation.
    pub(super) fn begin(&mut self, op: &'static str) {
        self.repair();
        self.ops.push(OpMark { name: op, first: self.graph.nodes.len() as u32 });
    }

    /// An operation that panicked may have left slots without values; nothing uses them.
    fn repair(&mut self) {
        self.scalars.resize(self.graph.slots.len(), 0);
    }

    /// The node of an operand.
    pub(super) fn operand(&mut self, stream: &Arc<Stream>, t: &KilnTensor) -> Node {
        if t.value.segment == self.number && Arc::ptr_eq(&t.value.stream, stream) {
            return t.value.node;
        }
        let key = Arc::as_ptr(&t.value) as usize;
        if let Some(&node) = self.interned.get(&key) {
            return node;
        }
        let node = self.graph.input(t.kiln_dtype(), &t.dims());
        self.interned.insert(key, node);
        self.bytes += self.graph.nodes[node].len() * self.graph.dtype(node).bytes() as u64;
        self.operands.push(t.clone());
        if stream.is_capturing() {
            t.value.line.get_or_init(|| Some(Arc::default()));
        }
        node
    }

    /// The tensor of a result.
    pub(super) fn result(&mut self, stream: &Arc<Stream>, node: Node, dtype: BurnDType) -> KilnTensor {
        let data = &self.graph.nodes[node];
        debug_assert_eq!(data.dtype, crate::dtype::to_kiln(dtype), "the recorded node has another type");
        let dims: SmallVec<[usize; 6]> = data.dims.iter().map(|&n| n as usize).collect();
        let shape = Shape::from(dims.as_slice());
        let value = Arc::new(Value::new(Arc::clone(stream), self.number, node, (shape, dtype)));
        self.results.push(Arc::clone(&value));
        KilnTensor::first(value)
    }

    /// Ends an operation: hashes what it added.
    pub(super) fn end(&mut self) {
        let nodes = self.graph.nodes.as_values_slice();
        for node in &nodes[self.hashed..] {
            node.hash(&mut self.hasher);
        }
        self.hashed = nodes.len();
        if let Some(mark) = self.ops.last() {
            let mut hasher = FxHasher::default();
            mark.name.hash(&mut hasher);
            if let Some(last) = nodes.last() {
                // Not the extents: a batch of another size is cut at the same places.
                last.dims.len().hash(&mut hasher);
            }
            self.recent = (self.recent << 16) ^ (hasher.finish() >> 48);
        }
        self.machine.counters.ops.fetch_add(1, Relaxed);
    }

    /// Whether the segment should be handed over.  A loop that reads nothing must be cut somewhere, and always at the
    /// same place of its body, or each segment would be a program of its own: so past the wanted length the cut is
    /// chosen by the operations around it, one place in 64.
    ///
    /// What is still wanted there has to be written.  A training step's forward pass leaves what its backward pass reads:
    /// where the machine is patient, both are one segment, and little of that is written.
    pub(super) fn is_full(&mut self) -> bool {
        let (length, wanted) = (self.ops.len(), crate::knobs::get().segment_ops);
        if self.bytes > self.look_at && self.holds_much() {
            return true;
        }
        let most = wanted.saturating_mul(4);
        let is_place = self.recent.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58 == 0;
        if length < wanted || !is_place && !length.is_multiple_of(most) {
            return false;
        }
        let limit = if is_place { wanted } else { most }.saturating_mul(PATIENCE);
        !(self.machine.is_patient && length < limit && self.leaves_much())
    }

    /// What the device can begin with, if a segment that it knows begins like this one and is no part of a graph: asked after
    /// each operation, now and then there is an answer.
    pub(super) fn ahead(&mut self, stream: &Stream) -> Option<Ahead> {
        let stride = if self.ops.len() <= EARLY { STRIDE } else { LATER };
        if !self.ops.len().is_multiple_of(stride) || !self.machine.is_patient || stream.is_capturing() {
            return None;
        }
        let hash = self.hasher.clone().finish();
        let (nodes, operands, scalars) = (self.graph.nodes.len(), self.operands.len(), self.scalars.len());
        self.beginnings.push(Beginning { hash, nodes, operands, scalars });
        if !self.machine.knows_beginning(hash) {
            return None;
        }
        let told = self.told.replace([operands, scalars]).unwrap_or_default();
        let operands = self.operands[told[0]..].iter().map(|t| Arc::clone(&t.value)).collect();
        let scalars = self.scalars[told[1]..].to_vec();
        Some(Ahead { stream: stream.number, segment: self.number, hash, nodes, told, operands, scalars })
    }

    /// Whether the device's thread was told to begin.
    pub(super) fn is_begun(&self) -> bool {
        self.told.is_some()
    }

    /// Whether many results are still wanted.
    fn leaves_much(&self) -> bool {
        self.results.iter().filter(|value| !value.is_dead()).nth(FEW).is_some()
    }

    /// Whether operands that only this segment keeps alive take much memory.
    fn holds_much(&mut self) -> bool {
        let limit = self.machine.segment_bytes;
        self.look_at = self.bytes + limit / 4;
        let own = self.operands.iter().filter(|t| t.value.holders.load(Acquire) == 1);
        let held: u64 =
            own.map(|t| t.value.shape.iter().product::<usize>() as u64 * t.kiln_dtype().bytes() as u64).sum();
        held > limit
    }

    /// The seed and the number of the first of `count` random elements, for the slot `key` and the next one.
    pub(super) fn draw(&mut self, key: u32, count: u64) -> (u64, u64) {
        self.draws.push((key, count));
        self.machine.random.lock().unwrap_or_else(PoisonError::into_inner).draw(count)
    }

    /// The segment as work, unless nobody wants anything of it; and its holds on its operands, to be let go once the
    /// work is in the queue: from then on others may take an operand's memory.
    pub(super) fn close(mut self, stream: u64, fuse: bool, strict: bool) -> Option<(Box<Work>, Vec<KilnTensor>)> {
        self.repair();
        let mut index_of: FxHashMap<Node, usize> = FxHashMap::default();
        let (mut outputs, mut aliases) = (Vec::new(), Vec::new());
        for value in std::mem::take(&mut self.results) {
            if value.is_dead() {
                continue;
            }
            match self.graph.nodes[value.node].op {
                Op::Input(number) => aliases.push((number as usize, value)),
                _ => {
                    let graph = &mut self.graph;
                    let index = *index_of.entry(value.node).or_insert_with(|| {
                        graph.outputs.push(value.node);
                        graph.outputs.len() - 1
                    });
                    outputs.push((index, value));
                }
            }
        }
        if outputs.is_empty() && aliases.is_empty() {
            return None;
        }
        let operands = self
            .operands
            .iter()
            .enumerate()
            .map(|(number, t)| {
                // The last holder is this segment itself.
                let dead = t.value.holders.load(Acquire) == 1 && aliases.iter().all(|(i, _)| *i != number);
                Operand { value: Arc::clone(&t.value), dead }
            })
            .collect();
        for &node in &self.graph.outputs {
            node.hash(&mut self.hasher);
        }
        let work = Box::new(Work {
            stream,
            segment: self.number,
            beginnings: self.beginnings,
            hash: self.hasher.finish(),
            graph: self.graph,
            scalars: self.scalars,
            operands,
            outputs,
            aliases,
            ops: self.ops,
            fuse,
            strict,
            draws: self.draws,
        });
        Some((work, self.operands))
    }
}
