//! This computer's processor.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use kiln_lowering::pipeline::{self, See};
use kiln_lowering::schedule::{Gemm, Grain, Sort, Tail};
use kiln_lowering::spec::Spec;
use kiln_lowering::target::host;
use kiln_lowering::tile::Program;

use super::super::blas::{self, On};
use super::super::memory::Buffer;
use super::super::{sort, tail};
use super::{At, Checked, Engine, Kernel, Launch};
use crate::knobs;

/// Products of at least this many multiplications go to the BLAS.  Measured on an AVX-512 machine, alone: 8×8×8 takes
/// 2.3 µs there against 3.4 µs as a kernel, 16×16×16 2.2 against 4.8, 32×32×32 2.7 against 24.  Below the threshold a
/// product may share a kernel with its neighbours, which saves more than that.
const GEMM_FROM: u64 = 16 * 16 * 16;

/// A result that takes one part in so many of the last cache, or less, is read again from there: its reader's other
/// operands and what else the computer does pass through it as well.
const STAYS: u64 = 8;

/// The processor, with a pool of threads.
pub(super) struct Host {
    spec: Spec,
    pool: Arc<host::Pool>,
    threads: u32,
    /// Bytes of a result from which on it is written past the caches.
    streams: u64,
}

impl Host {
    /// With as many threads as are wanted.
    pub(super) fn new() -> Host {
        let threads = knobs::get().threads;
        Host {
            spec: host::spec(),
            pool: Arc::new(host::Pool::with_threads(threads)),
            threads: threads as u32,
            streams: last_cache().map_or(u64::MAX, |bytes| bytes / STAYS),
        }
    }
}

/// Bytes of the last cache before memory, where the system says it.
fn last_cache() -> Option<u64> {
    let size = |level: u32| {
        let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size")).ok()?;
        let kibibytes: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
        Some(kibibytes << 10)
    };
    (2..=4).filter_map(size).max()
}

/// What is known of the processor, for people.
pub(super) fn about() -> Vec<(&'static str, String)> {
    let spec = host::spec();
    vec![
        ("name", spec.cpu.clone()),
        ("code", spec.triple.clone()),
        ("vector", format!("{} f32", spec.lanes)),
        ("threads", knobs::get().threads.to_string()),
    ]
}

struct Loaded {
    kernel: host::Kernel,
    pool: Arc<host::Pool>,
}

impl Kernel for Loaded {
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<Checked, String> {
        let status = AtomicU32::new(0);
        // SAFETY: as the caller promises.
        unsafe { self.kernel.launch(&self.pool, launch.grid, launch.params, &status) };
        Ok(Checked::Now(status.into_inner()))
    }
}

impl Engine for Host {
    fn spec(&self) -> Option<&Spec> {
        Some(&self.spec)
    }

    fn compile(&self, program: &Program, see: See<'_>) -> Result<Vec<u8>, String> {
        let object = pipeline::compile(program, &host::Compiler::new(&self.spec), see).map_err(|e| e.to_string())?;
        Ok(pack(&object))
    }

    fn load(&self, code: &[u8]) -> Result<Arc<dyn Kernel>, String> {
        let object = unpack(code).ok_or("not a packed object")?;
        let kernel = host::load(&object).map_err(|e| e.to_string())?;
        Ok(Arc::new(Loaded { kernel, pool: Arc::clone(&self.pool) }))
    }

    fn grain(&self) -> Grain {
        Grain::of_vectors(self.threads * 8).with_streams(self.streams)
    }

    fn gemm_from(&self) -> Option<u64> {
        Some(if knobs::get().blas { GEMM_FROM } else { u64::MAX })
    }

    unsafe fn product(&self, gemm: &Gemm, (addresses, _): At) -> Result<(), String> {
        let [a, b, c] = addresses.map(|a| a as *mut u8);
        // SAFETY: as the caller promises.
        unsafe { blas::run(On::Pool(&self.pool, None), gemm, a, b, c) };
        Ok(())
    }

    fn finishes(&self) -> bool {
        true
    }

    unsafe fn finish(
        &self,
        (gemm, cut, (addresses, _)): (&Gemm, Tail, At),
        kernel: &dyn Kernel,
        launch: &Launch<'_>,
    ) -> Result<Checked, String> {
        let kernel: &dyn Any = kernel;
        let Some(Loaded { kernel, .. }) = kernel.downcast_ref() else { return Err("another machine's kernel".into()) };
        let [a, b, c] = addresses.map(|a| a as *mut u8);
        // SAFETY: as the caller promises; the plan says which part of the product each program reads.
        let status = unsafe {
            let tail = tail::Tail::new(gemm, cut, (kernel, launch.grid, launch.params));
            blas::run(On::Pool(&self.pool, Some(&tail)), gemm, a, b, c);
            tail.status()
        };
        Ok(Checked::Now(status))
    }

    unsafe fn sort(&self, sort: &Sort, input: &Arc<Buffer>, output: &Arc<Buffer>) -> Result<(), String> {
        // SAFETY: as the caller promises; a buffer's length is what may be read of it.
        unsafe { sort::run(&self.pool, sort, (input.address(), input.len()), output.address()) }
    }
}

/// An object as bytes: length of its name, name, code.
fn pack(object: &host::Object) -> Vec<u8> {
    let mut bytes = (object.symbol.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(object.symbol.as_bytes());
    bytes.extend_from_slice(&object.bytes);
    bytes
}

fn unpack(bytes: &[u8]) -> Option<host::Object> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (symbol, code) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some(host::Object { symbol: String::from_utf8(symbol.to_vec()).ok()?, bytes: code.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_survive_packing() {
        let object = host::Object { symbol: "kiln_add".into(), bytes: vec![1, 2, 3] };
        assert_eq!(unpack(&pack(&object)), Some(object));
        assert_eq!(unpack(&[9, 0, 0, 0, 1]), None);
        assert_eq!(unpack(&[]), None);
    }
}
