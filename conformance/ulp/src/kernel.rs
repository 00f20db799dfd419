//! A row as a compiled kernel over a fixed number of elements. Knows nothing of what it should give.

use kiln_conformance::targets::{Argument, Machine};
use kiln_lowering::DType;
use kiln_lowering::graph::Graph;
use kiln_lowering::op::Pointwise;
use kiln_lowering::pipeline;
use kiln_lowering::schedule::{Arg, Grain, InputData, Layout, Options, Plan, Step};

/// What devices align buffers to.
const ALIGNMENT: usize = 64;

/// Bytes aligned as a device aligns them.
#[derive(Clone)]
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Buffer {
        let bytes = vec![0; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Buffer { bytes, start, len }
    }

    fn slice(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    fn slice_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// One row on one element type, planned for `len` elements.
pub struct Kernel {
    machine: &'static dyn Machine,
    dtype: DType,
    plan: Plan,
    buffers: Vec<Buffer>,
}

impl Kernel {
    /// Plans `op` on `len` elements of type `dtype`.
    pub fn of(op: Pointwise, dtype: DType, len: usize, machine: &'static dyn Machine) -> Result<Kernel, String> {
        let dims = [len as u64];
        let mut graph = Graph::new();
        let operands: Vec<_> = (0..op.row().arity).map(|_| graph.input(dtype, &dims)).collect();
        let result = graph.map(op, &operands);
        graph.outputs.push(result);
        let input = InputData { layout: Layout::contiguous(&dims), buffer_len: len as u64, donated: false };
        let options = Options::new(true, None, Grain::of_vectors(1));
        let plan = pipeline::plan(&graph, &vec![input; operands.len()], &options);
        if plan.steps.iter().filter(|step| matches!(step, Step::Launch { .. })).count() != 1 {
            return Err(format!("{}: wanted one launch, got {:?}", op.row().name, plan.steps));
        }
        let buffers = plan.buffers.values().map(|data| Buffer::new(data.len as usize * data.dtype.bytes())).collect();
        Ok(Kernel { machine, dtype, plan, buffers })
    }

    /// Runs on operands given as bit patterns, one slice of the planned length each, and gives the results' patterns.
    pub fn run(&mut self, operands: &[Vec<u64>], results: &mut Vec<u64>) -> Result<(), String> {
        let width = self.dtype.bytes();
        for (buffer, data) in self.buffers.iter_mut().zip(self.plan.buffers.values()) {
            if let Some(input) = data.input {
                encode(&operands[input as usize], width, buffer.slice_mut());
            }
        }
        for step in &self.plan.steps {
            let Step::Launch { program, grid, args, .. } = step else { continue };
            let mut buffers: Vec<Option<&mut Buffer>> = self.buffers.iter_mut().map(Some).collect();
            let arguments: Option<Vec<Argument<'_>>> = args
                .iter()
                .map(|arg| match arg {
                    Arg::Literal(bits) => Some(Argument::Scalar(*bits)),
                    Arg::Buffer(buffer) => {
                        Some(Argument::Buffer(buffers[buffer.as_u32() as usize].take()?.slice_mut()))
                    }
                    Arg::Slot(_) => None,
                })
                .collect();
            let mut arguments = arguments.ok_or("wanted an argument of its own for every buffer, and no scalars")?;
            self.machine.launch(&self.plan.programs[*program], *grid, &mut arguments)?;
        }
        let output = self.plan.outputs[0].buffer.as_u32() as usize;
        decode(self.buffers[output].slice(), width, results);
        Ok(())
    }
}

fn encode(patterns: &[u64], width: usize, bytes: &mut [u8]) {
    match width {
        2 => each(patterns, bytes, |x| (x as u16).to_le_bytes()),
        4 => each(patterns, bytes, |x| (x as u32).to_le_bytes()),
        _ => each(patterns, bytes, u64::to_le_bytes),
    }
}

fn each<const N: usize>(patterns: &[u64], bytes: &mut [u8], encode: impl Fn(u64) -> [u8; N]) {
    for (to, &pattern) in bytes.as_chunks_mut::<N>().0.iter_mut().zip(patterns) {
        *to = encode(pattern);
    }
}

fn decode(bytes: &[u8], width: usize, patterns: &mut Vec<u64>) {
    patterns.clear();
    match width {
        2 => patterns.extend(bytes.as_chunks().0.iter().map(|&b| u64::from(u16::from_le_bytes(b)))),
        4 => patterns.extend(bytes.as_chunks().0.iter().map(|&b| u64::from(u32::from_le_bytes(b)))),
        _ => patterns.extend(bytes.as_chunks().0.iter().map(|&b| u64::from_le_bytes(b))),
    }
}
