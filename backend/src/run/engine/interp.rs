//! The interpreter of tile programs, on this computer's memory.

use std::sync::Arc;

use kiln_lowering::graph::{Array, oracle};
use kiln_lowering::pipeline::See;
use kiln_lowering::schedule::{Arg, Gemm, Grain, Sort};
use kiln_lowering::spec::Spec;
use kiln_lowering::target::interp;
use kiln_lowering::tile::{ParamKind, Program};

use super::super::blas::{self, On};
use super::super::memory::Buffer;
use super::super::place::{Place, gather_bytes};
use super::{At, Checked, Engine, Kernel, Launch};

/// The interpreter.
pub(super) struct Interp;

struct Code(Program);

impl Kernel for Code {
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<Checked, String> {
        let Launch { args, params, .. } = *launch;
        let kinds: Vec<&ParamKind> = self.0.params.values().map(|p| &p.kind).collect();
        let read_only = |i: usize| !matches!(kinds[i], ParamKind::Buffer { written: true });
        let length = |buf| {
            let data = &launch.plan.buffers[buf];
            data.len as usize * data.dtype.bytes()
        };
        // What is only read may be read by others at the same time, under another name of this launch or as a tensor:
        // the interpreter gets a copy.
        let mut copies: Vec<Vec<u8>> = Vec::new();
        for (i, arg) in args.iter().enumerate() {
            copies.push(match arg {
                // SAFETY: the buffer holds that many bytes, and nobody writes it meanwhile.
                Arg::Buffer(buf) if read_only(i) => unsafe { bytes_of(params[i], length(*buf)) }.to_vec(),
                _ => Vec::new(),
            });
        }
        let mut bound: Vec<interp::Arg<'_>> = Vec::new();
        for (i, (arg, copy)) in args.iter().zip(&mut copies).enumerate() {
            bound.push(match arg {
                Arg::Buffer(_) if read_only(i) => interp::Arg::Buffer(copy),
                // SAFETY: as above; a written buffer is named once and belongs to this run.
                Arg::Buffer(buf) => interp::Arg::Buffer(unsafe { bytes_of(params[i], length(*buf)) }),
                _ => interp::Arg::Scalar(params[i]),
            });
        }
        let report = interp::launch(&self.0, launch.grid, &mut bound).map_err(|fault| fault.to_string())?;
        Ok(Checked::Now(report.checks.first().copied().unwrap_or(0)))
    }
}

impl Engine for Interp {
    fn interpret(&self, program: &Program) -> Option<Arc<dyn Kernel>> {
        Some(Arc::new(Code(program.clone())))
    }

    fn spec(&self) -> Option<&Spec> {
        None
    }

    fn compile(&self, program: &Program, _: See<'_>) -> Result<Vec<u8>, String> {
        Err(format!("{}: the interpreter has no machine code", program.name))
    }

    fn load(&self, _: &[u8]) -> Result<Arc<dyn Kernel>, String> {
        Err("machine code cannot be interpreted".into())
    }

    fn grain(&self) -> Grain {
        Grain::of_vectors(8)
    }

    fn gemm_from(&self) -> Option<u64> {
        Some(16 * 16 * 16)
    }

    unsafe fn product(&self, gemm: &Gemm, (addresses, _): At) -> Result<(), String> {
        let [a, b, c] = addresses.map(|a| a as *mut u8);
        // SAFETY: as the caller promises.
        unsafe { blas::run(On::Definition, gemm, a, b, c) };
        Ok(())
    }

    unsafe fn sort(&self, sort: &Sort, input: &Arc<Buffer>, output: &Arc<Buffer>) -> Result<(), String> {
        let (axis, mut dims) = (sort.axis as usize, sort.dims.clone());
        let keep = std::mem::replace(&mut dims[axis], sort.len);
        let (buffer, layout) = (Arc::clone(input), sort.layout.clone());
        let place = Place { len: input.len() as u64, buffer, layout, fate: None };
        let x = Array::from_bytes(sort.dtype, &dims, &gather_bytes(&place, sort.dtype.bytes(), &dims)?);
        let sorted = match sort.indices {
            None => oracle::order::sort(&x, axis, keep, sort.descending),
            Some(dtype) => oracle::order::argsort(&x, axis, keep, sort.descending, dtype),
        };
        output.fill_from(&sorted.to_bytes())
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
