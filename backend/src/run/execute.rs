//! Runs a plan's steps.  Knows buffers and kernels, not what was recorded: failures name the step, and the runner says
//! which operation that was.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use kiln_lowering::graph::{Array, oracle};
use kiln_lowering::schedule::{Arg, Buf, Gemm, Plan, Sort, Step};
use kiln_lowering::target::interp;
use kiln_lowering::tile::ParamKind;

use super::blas;
use super::explain;
use super::kernels::{Engine, Kernel};
use super::machine::Machine;
use super::memory::Buffer;
use super::place::{Place, gather_bytes};
use super::runner::message_of;
use super::sort;

/// A step that failed, and what it says.
pub(super) struct Broken {
    pub(super) step: usize,
    pub(super) message: String,
}

/// What came of a plan: a place per output, or the number of the failure it depends on.
pub(super) struct Outcome {
    pub(super) outputs: Vec<Result<Place, usize>>,
    pub(super) failures: Vec<Broken>,
    /// Steps that computed something and the nanoseconds each took, where explanations are wanted.
    pub(super) nanos: Vec<(usize, u64)>,
}

/// A buffer during a run.
#[derive(Clone, Default)]
struct Slot {
    memory: Option<Arc<Buffer>>,
    /// The failure that spoilt it.
    failed: Option<usize>,
}

struct Run<'a> {
    machine: &'static Machine,
    engine: &'a Engine,
    plan: &'a Plan,
    kernels: &'a [Result<Kernel, String>],
    scalars: &'a [u64],
    slots: Vec<Slot>,
    failures: Vec<Broken>,
    params: Vec<u64>,
}

/// Runs a plan; `operands` are the graph's inputs, `scalars` its slots.
pub(super) fn run(
    machine: &'static Machine,
    engine: &Engine,
    (plan, kernels): (&Plan, &[Result<Kernel, String>]),
    operands: &[Option<Place>],
    scalars: &[u64],
) -> Outcome {
    let slots = plan
        .buffers
        .values()
        .map(|data| Slot {
            memory: data.input.and_then(|number| operands[number as usize].as_ref()).map(|p| Arc::clone(&p.buffer)),
            failed: None,
        })
        .collect();
    let mut run = Run { machine, engine, plan, kernels, scalars, slots, failures: Vec::new(), params: Vec::new() };
    let (timed, mut nanos) = (explain::wanted(), Vec::new());
    for (number, step) in plan.steps.iter().enumerate() {
        let started = (timed && !matches!(step, Step::Free(_))).then(Instant::now);
        run.step(number, step);
        nanos.extend(started.map(|started| (number, started.elapsed().as_nanos() as u64)));
    }
    run.finish(nanos)
}

impl Run<'_> {
    fn step(&mut self, number: usize, step: &Step) {
        if let Step::Free(buf) = step {
            self.slot(*buf).memory = None;
            return;
        }
        // Without failures nobody need look what a step touches.
        if !self.failures.is_empty()
            && let Some(cause) = touched(step).iter().find_map(|&b| self.slots[b.as_u32() as usize].failed)
        {
            return self.spoil(step, cause);
        }
        let done = catch_unwind(AssertUnwindSafe(|| match step {
            Step::Launch { program, grid, args, checks, .. } => self.launch(*program, *grid, args, checks),
            Step::Gemm(gemm) => self.gemm(gemm),
            Step::Sort(sort) => self.sort(sort),
            Step::Free(_) => Ok(()),
        }));
        if let Err(message) = done.unwrap_or_else(|panic| Err(message_of(&*panic))) {
            self.failures.push(Broken { step: number, message });
            self.spoil(step, self.failures.len() - 1);
        }
    }

    /// Marks what a step writes.
    fn spoil(&mut self, step: &Step, cause: usize) {
        for buf in self.written(step) {
            self.slot(buf).failed.get_or_insert(cause);
        }
    }

    fn slot(&mut self, buf: Buf) -> &mut Slot {
        &mut self.slots[buf.as_u32() as usize]
    }

    /// The memory of a buffer, which is found at its first use.
    fn memory(&mut self, buf: Buf) -> Result<Arc<Buffer>, String> {
        if let Some(memory) = &self.slot(buf).memory {
            return Ok(Arc::clone(memory));
        }
        let data = &self.plan.buffers[buf];
        let bytes =
            usize::try_from(data.len).ok().and_then(|n| n.checked_mul(data.dtype.bytes())).unwrap_or(usize::MAX);
        let inherited = data.takes.and_then(|old| self.slot(old).memory.take()).filter(|m| m.len() >= bytes);
        let memory = match inherited {
            Some(memory) => memory,
            None => self.machine.pool.allocate(bytes)?,
        };
        self.slot(buf).memory = Some(Arc::clone(&memory));
        Ok(memory)
    }

    fn launch(&mut self, program: usize, grid: [u32; 3], args: &[Arg], checks: &[String]) -> Result<(), String> {
        let kernel = self.kernels[program].as_ref().map_err(String::clone)?;
        let mut params = std::mem::take(&mut self.params);
        params.clear();
        for arg in args {
            params.push(match arg {
                Arg::Buffer(buf) => self.memory(*buf)?.address() as u64,
                Arg::Slot(slot) => self.scalars[slot.as_u32() as usize],
                Arg::Literal(bits) => *bits,
            });
        }
        self.machine.counters.launches.fetch_add(1, Relaxed);
        let failed = if grid.contains(&0) { 0 } else { self.start(kernel, program, grid, args, &params)? };
        self.params = params;
        match failed {
            0 => Ok(()),
            code => Err(checks.get(code as usize - 1).cloned().unwrap_or_else(|| format!("check {code} failed"))),
        }
    }

    /// Runs a kernel; gives the code of a failed check, or 0.
    fn start(
        &self,
        kernel: &Kernel,
        program: usize,
        grid: [u32; 3],
        args: &[Arg],
        params: &[u64],
    ) -> Result<u32, String> {
        match (kernel, self.engine) {
            (Kernel::Host(kernel), Engine::Host { pool, .. }) => {
                let status = AtomicU32::new(0);
                // SAFETY: the plan passes a slot per parameter; its buffers hold all elements that the program
                // accesses, are aligned to 64 bytes, and belong to this run alone where they are written.
                unsafe { kernel.launch(pool, grid, params, &status) };
                Ok(status.into_inner())
            }
            (Kernel::Interp(code), _) => {
                let kinds: Vec<&ParamKind> = self.plan.programs[program].params.values().map(|p| &p.kind).collect();
                let read_only = |i: usize| !matches!(kinds[i], ParamKind::Buffer { written: true });
                // What is only read may be read by others at the same time, under another name of this launch or as a
                // tensor: the interpreter gets a copy.
                let mut copies: Vec<Vec<u8>> = Vec::new();
                for (i, arg) in args.iter().enumerate() {
                    copies.push(match arg {
                        // SAFETY: the buffer holds that many bytes, and nobody writes it meanwhile.
                        Arg::Buffer(buf) if read_only(i) => unsafe { bytes_of(params[i], self.length(*buf)) }.to_vec(),
                        _ => Vec::new(),
                    });
                }
                let mut bound: Vec<interp::Arg<'_>> = Vec::new();
                for (i, (arg, copy)) in args.iter().zip(&mut copies).enumerate() {
                    bound.push(match arg {
                        Arg::Buffer(_) if read_only(i) => interp::Arg::Buffer(copy),
                        // SAFETY: as above; a written buffer is named once and belongs to this run.
                        Arg::Buffer(buf) => interp::Arg::Buffer(unsafe { bytes_of(params[i], self.length(*buf)) }),
                        _ => interp::Arg::Scalar(params[i]),
                    });
                }
                let report = interp::launch(code, grid, &mut bound).map_err(|fault| fault.to_string())?;
                Ok(report.checks.first().copied().unwrap_or(0))
            }
            (Kernel::Host(_), Engine::Interp) => Err("machine code cannot be interpreted".into()),
        }
    }

    /// Bytes of a buffer's elements.
    fn length(&self, buf: Buf) -> usize {
        let data = &self.plan.buffers[buf];
        data.len as usize * data.dtype.bytes()
    }

    fn gemm(&mut self, gemm: &Gemm) -> Result<(), String> {
        let (a, b, c) = (self.memory(gemm.a.buffer)?, self.memory(gemm.b.buffer)?, self.memory(gemm.c.buffer)?);
        let pool = match self.engine {
            Engine::Host { pool, .. } => Some(pool),
            Engine::Interp => None,
        };
        self.machine.counters.gemms.fetch_add(1, Relaxed);
        // SAFETY: the plan's places lie inside its buffers, and the result has a buffer of its own.
        unsafe { blas::run(pool, gemm, a.address(), b.address(), c.address()) };
        Ok(())
    }

    fn sort(&mut self, sort: &Sort) -> Result<(), String> {
        let (input, output) = (self.memory(sort.input)?, self.memory(sort.output)?);
        if let Engine::Host { pool, .. } = self.engine {
            // SAFETY: the plan's places lie inside its buffers, and the result has a buffer of its own.
            return unsafe { sort::run(pool, sort, (input.address(), input.len()), output.address()) };
        }
        let (axis, mut dims) = (sort.axis as usize, sort.dims.clone());
        let keep = std::mem::replace(&mut dims[axis], sort.len);
        let place = Place { len: input.len() as u64, buffer: input, layout: sort.layout.clone() };
        let x = Array::from_bytes(sort.dtype, &dims, &gather_bytes(&place, sort.dtype.bytes(), &dims)?);
        let sorted = match sort.indices {
            None => oracle::order::sort(&x, axis, keep, sort.descending),
            Some(dtype) => oracle::order::argsort(&x, axis, keep, sort.descending, dtype),
        };
        output.fill_from(&sorted.to_bytes());
        Ok(())
    }

    fn written(&self, step: &Step) -> Vec<Buf> {
        match step {
            Step::Launch { program, args, .. } => {
                let params = self.plan.programs[*program].params.values();
                let pairs = args.iter().zip(params);
                pairs
                    .filter_map(|(arg, param)| match (arg, &param.kind) {
                        (Arg::Buffer(buf), ParamKind::Buffer { written: true }) => Some(*buf),
                        _ => None,
                    })
                    .collect()
            }
            Step::Gemm(gemm) => vec![gemm.c.buffer],
            Step::Sort(sort) => vec![sort.output],
            Step::Free(_) => Vec::new(),
        }
    }

    fn finish(mut self, nanos: Vec<(usize, u64)>) -> Outcome {
        let plan = self.plan;
        let mut outputs = Vec::with_capacity(plan.outputs.len());
        for output in &plan.outputs {
            let place = match self.slot(output.buffer).failed {
                Some(cause) => Err(cause),
                // An output without elements may have no step that writes it.
                None => self
                    .memory(output.buffer)
                    .map(|buffer| Place {
                        buffer,
                        layout: output.layout.clone(),
                        len: self.length(output.buffer) as u64,
                    })
                    .map_err(|m| {
                        self.failures.push(Broken { step: plan.steps.len(), message: m });
                        self.failures.len() - 1
                    }),
            };
            outputs.push(place);
        }
        Outcome { outputs, failures: self.failures, nanos }
    }
}

/// # Safety
///
/// The address is that of `len` bytes which nobody else accesses for as long as the slice is used, or which nobody
/// writes.
unsafe fn bytes_of<'a>(address: u64, len: usize) -> &'a mut [u8] {
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts_mut(address as *mut u8, len) }
}

/// Every buffer that a step names.
fn touched(step: &Step) -> Vec<Buf> {
    match step {
        Step::Launch { args, .. } => {
            args.iter().filter_map(|a| if let Arg::Buffer(buf) = a { Some(*buf) } else { None }).collect()
        }
        Step::Gemm(gemm) => vec![gemm.a.buffer, gemm.b.buffer, gemm.c.buffer],
        Step::Sort(sort) => vec![sort.input, sort.output],
        Step::Free(_) => Vec::new(),
    }
}
