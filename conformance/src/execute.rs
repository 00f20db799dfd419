//! Runs plans on a machine, in the simplest way: buffers in host memory, one step after the other.

use cranelift_entity::SecondaryMap;
use kiln_lowering::DType;
use kiln_lowering::graph::{Array, Node, NodeData, Op, number, oracle};
use kiln_lowering::schedule::{Arg, Buf, Gemm, Layout, Matrix, Plan, Sort, Step};
use kiln_lowering::tile::ParamKind;

use crate::layouts::{Laid, read};
use crate::targets::{Argument, Machine};

/// What buffers hold before anything is stored: NaN for floats.
const POISON: u8 = 0xff;

/// Bytes kept after each buffer, which must stay as they are.
const GUARD: usize = 64;

/// Memory aligned as devices align it, with a guard behind it.
struct Memory {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

/// A copy lies elsewhere, so that its alignment is found anew.
impl Clone for Memory {
    fn clone(&self) -> Memory {
        Memory::of(self.slice(self.len))
    }
}

impl Memory {
    fn new(len: usize) -> Memory {
        let bytes = vec![POISON; len + 64 + GUARD];
        let start = bytes.as_ptr().align_offset(64);
        Memory { bytes, start, len }
    }

    fn of(data: &[u8]) -> Memory {
        let mut memory = Memory::new(data.len());
        memory.slice_mut(data.len()).copy_from_slice(data);
        memory
    }

    fn slice(&self, len: usize) -> &[u8] {
        &self.bytes[self.start..self.start + len]
    }

    fn slice_mut(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + len]
    }

    fn is_intact(&self) -> bool {
        let end = self.start + self.len;
        self.bytes[end..end + GUARD].iter().all(|&b| b == POISON)
    }
}

/// The state of a run.
struct Run<'p> {
    plan: &'p Plan,
    machine: &'p dyn Machine,
    memory: SecondaryMap<Buf, Option<Memory>>,
}

/// Runs a plan.  `outputs` says which types and extents come out.
pub fn execute(
    plan: &Plan,
    inputs: &[Laid],
    slots: &[u64],
    outputs: &[&NodeData],
    machine: &dyn Machine,
) -> Result<Vec<Array>, String> {
    let mut run = Run { plan, machine, memory: SecondaryMap::new() };
    for (buffer, data) in &plan.buffers {
        if let Some(input) = data.input {
            run.memory[buffer] = Some(Memory::of(&inputs[input as usize].bytes));
        }
    }
    for step in &plan.steps {
        run.step(step, slots)?;
    }
    for (buffer, data) in &plan.buffers {
        if let (Some(input), Some(memory)) = (data.input, &run.memory[buffer]) {
            let before = &inputs[input as usize];
            if !before.data.donated && memory.slice(before.bytes.len()) != before.bytes {
                return Err(format!("the plan overwrote input {input}, which was not donated"));
            }
        }
    }
    let wanted = plan.outputs.iter().zip(outputs);
    wanted
        .map(|(output, data)| {
            let shape = Array { dtype: data.dtype, dims: data.dims.clone(), bits: Vec::new() };
            // Nothing has to compute what has no elements.
            if run.bytes(output.buffer) == 0 {
                run.prepare(output.buffer)?;
            }
            let memory = run.memory[output.buffer].as_ref().ok_or("an output was freed or never computed")?;
            Ok(read(&shape, &output.layout, memory.slice(memory.len)))
        })
        .collect()
}

impl Run<'_> {
    fn bytes(&self, buffer: Buf) -> usize {
        let data = &self.plan.buffers[buffer];
        data.len as usize * data.dtype.bytes()
    }

    /// Makes sure that a buffer has memory.
    fn prepare(&mut self, buffer: Buf) -> Result<(), String> {
        if self.memory[buffer].is_some() {
            return Ok(());
        }
        let len = self.bytes(buffer);
        let memory = match self.plan.buffers[buffer].takes {
            Some(old) => {
                let memory =
                    self.memory[old].take().ok_or_else(|| format!("{buffer} takes {old}, which has no memory"))?;
                if memory.len < len {
                    return Err(format!("{buffer} takes {old}, which is too small"));
                }
                memory
            }
            None => Memory::new(len),
        };
        self.memory[buffer] = Some(memory);
        Ok(())
    }

    fn read(&mut self, buffer: Buf, dtype: DType, dims: &[u64], layout: &Layout) -> Result<Array, String> {
        self.prepare(buffer)?;
        let len = self.bytes(buffer);
        let memory = self.memory[buffer].as_ref().ok_or("no memory")?;
        let shape = Array { dtype, dims: dims.iter().copied().collect(), bits: Vec::new() };
        Ok(read(&shape, layout, memory.slice(len)))
    }

    fn step(&mut self, step: &Step, slots: &[u64]) -> Result<(), String> {
        match step {
            Step::Launch { program, grid, args, checks, .. } => {
                let code = self.launch(*program, *grid, args, slots)?;
                match code {
                    0 => Ok(()),
                    code => {
                        Err(checks.get(code as usize - 1).cloned().unwrap_or_else(|| format!("unknown check {code}")))
                    }
                }
            }
            Step::Gemm(gemm) => self.gemm(gemm),
            Step::Sort(sort) => self.sort(sort),
            Step::Free(buffer) => {
                self.memory[*buffer] = None;
                Ok(())
            }
        }
    }

    fn launch(&mut self, program: usize, grid: [u32; 3], args: &[Arg], slots: &[u64]) -> Result<u32, String> {
        let program = &self.plan.programs[program];
        if program.params.len() != args.len() {
            return Err(format!("{}: {} arguments for {} parameters", program.name, args.len(), program.params.len()));
        }
        // Each parameter works on a copy, since one buffer may be read through several; what was stored is put back.
        let mut copies = Vec::new();
        for (arg, data) in args.iter().zip(program.params.values()) {
            if let Arg::Buffer(buffer) = arg {
                self.prepare(*buffer)?;
                let memory = self.memory[*buffer].as_ref().ok_or("no memory")?;
                let own = Memory::of(memory.slice(self.bytes(*buffer)));
                copies.push((*buffer, data.kind == ParamKind::Buffer { written: true }, own));
            }
        }
        let mut buffers = copies.iter_mut();
        let mut arguments: Vec<Argument<'_>> = Vec::new();
        for arg in args {
            arguments.push(match arg {
                Arg::Literal(bits) => Argument::Scalar(*bits),
                Arg::Slot(slot) => Argument::Scalar(slots[slot.as_u32() as usize]),
                Arg::Buffer(_) => match buffers.next() {
                    Some((_, _, memory)) => {
                        let len = memory.len;
                        Argument::Buffer(memory.slice_mut(len))
                    }
                    None => return Err("a buffer without memory".into()),
                },
            });
        }
        let code = self.machine.launch(program, grid, &mut arguments)?;
        drop(arguments);
        for (buffer, written, copy) in copies {
            if !copy.is_intact() {
                return Err(format!("{} stored behind the end of {buffer}", program.name));
            }
            if let (true, Some(memory)) = (written, &mut self.memory[buffer]) {
                memory.slice_mut(copy.len).copy_from_slice(copy.slice(copy.len));
            }
        }
        Ok(code)
    }

    /// The library's product: one fused multiply-add per term in f32 (f64), rounded at the end.
    fn gemm(&mut self, gemm: &Gemm) -> Result<(), String> {
        let layout = |matrix: &Matrix| Layout {
            offset: matrix.offset,
            strides: matrix.batch_strides.iter().copied().chain([matrix.row_stride, matrix.col_stride]).collect(),
        };
        let dims = |rows, columns| -> Vec<u64> { gemm.batch.iter().copied().chain([rows, columns]).collect() };
        let a = self.read(gemm.a.buffer, gemm.from, &dims(gemm.m, gemm.k), &layout(&gemm.a))?;
        let b = self.read(gemm.b.buffer, gemm.from, &dims(gemm.k, gemm.n), &layout(&gemm.b))?;
        let to = dims(gemm.m, gemm.n);
        let (m, n, k) = (gemm.m as usize, gemm.n as usize, gemm.k as usize);
        let (fa, fb) = (a.floats(), b.floats());
        let product = Array::from_fn(gemm.dtype, &to, |at| {
            let (batch, row, column) = (at / (m * n), at / n % m, at % n);
            let terms = (0..k).map(|i| (fa[(batch * m + row) * k + i], fb[(batch * k + i) * n + column]));
            let sum = match gemm.dtype {
                DType::F64 => terms.fold(0.0, |sum, (x, y)| x.mul_add(y, sum)),
                _ => f64::from(terms.fold(0f32, |sum, (x, y)| (x as f32).mul_add(y as f32, sum))),
            };
            number::from_f64(gemm.dtype, sum)
        });
        self.write(gemm.c.buffer, &product, &layout(&gemm.c))
    }

    fn sort(&mut self, sort: &Sort) -> Result<(), String> {
        let mut from = sort.dims.clone();
        from[sort.axis as usize] = sort.len;
        let input = self.read(sort.input, sort.dtype, &from, &sort.layout)?;
        let Sort { axis, descending, .. } = *sort;
        let op = if sort.indices.is_some() { Op::ArgSort { axis, descending } } else { Op::Sort { axis, descending } };
        let dtype = sort.indices.unwrap_or(sort.dtype);
        let data = NodeData { op, args: Default::default(), dtype, dims: sort.dims.clone() };
        let sorted = oracle::step(Node::from_u32(0), &data, &[&input], &[], &[]).map_err(|e| e.to_string())?;
        self.write(sort.output, &sorted, &Layout::contiguous(&sort.dims))
    }

    fn write(&mut self, buffer: Buf, array: &Array, layout: &Layout) -> Result<(), String> {
        self.prepare(buffer)?;
        let (len, width) = (self.bytes(buffer), array.dtype.bytes());
        let memory = self.memory[buffer].as_mut().ok_or("no memory")?;
        let bytes = memory.slice_mut(len);
        for (c, bits) in kiln_lowering::graph::array::coordinates(&array.dims).zip(&array.bits) {
            let at = crate::layouts::offset(layout, &c) * width;
            bytes[at..at + width].copy_from_slice(&bits.to_le_bytes()[..width]);
        }
        Ok(())
    }
}
