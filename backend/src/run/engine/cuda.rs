//! An NVIDIA GPU.  Sorts go through the host, products to cuBLASLt, everything else is kernels.

mod replay;

use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use kiln_lowering::llvm::tensor_map::{Stride, TensorMap};
use kiln_lowering::pipeline::See;
use kiln_lowering::schedule::{Gemm, Grain, Sort};
use kiln_lowering::spec::Spec;
use kiln_lowering::target::nvidia::driver::{self, Device, Shape};
use kiln_lowering::target::{host, nvidia};
use kiln_lowering::tile::{Param, Program};

use super::super::gather::{Asked, Submitted, ask_each};
use super::super::heap::{Heap, HostHeap};
use super::super::memory::{Buffer, Pool, Size};
use super::super::{sort, warn};
use super::{At, Checked, Engine, Kernel, Launch, Mark, Memory, Stamp, Start, Ticket};
use crate::knobs::{self, Numerics};

/// Products of at least this many multiplications go to the library: below it a launch costs more than the product, and
/// a kernel may do its neighbours' work too.
const GEMM_FROM: u64 = 16 * 16 * 16;

/// Programs per multiprocessor that keep it busy: a program is a warp, and 64 warps fit.
const WARPS: u32 = 64;

/// Warps that a program may have.
const HELD_WARPS: u32 = 32;

/// The GPU.
struct Cuda {
    device: Arc<Device>,
    spec: Spec,
    /// Threads for what the host does.
    pool: OnceLock<host::Pool>,
    has_library: bool,
}

/// Its memory.
struct DeviceHeap(Arc<Device>);

fn text(error: driver::Error) -> String {
    error.to_string()
}

/// Opens a GPU.
pub(super) fn open(number: usize) -> Result<(Arc<dyn Heap>, Start), String> {
    let fast = knobs::get().numerics == Numerics::Fast;
    let device = Arc::new(Device::open(number).map_err(text)?.with_tf32(fast));
    let facts = device.facts();
    let (major, minor) = facts.capability;
    let unknown = || format!("{} has compute capability {major}.{minor}, Kiln wants 8.0 or later", facts.name);
    let spec = facts.spec().ok_or_else(unknown)?;
    let heap = Arc::new(DeviceHeap(Arc::clone(&device)));
    let start = move || -> Box<dyn Engine> {
        let has_library = driver::has_products();
        if !has_library {
            warn(
                "cuBLASLt (libcublasLt.so.13 or .12) is not on the loader's path: kernels of Kiln's own multiply matrices",
            );
        }
        Box::new(Cuda { device, spec, pool: OnceLock::new(), has_library })
    };
    Ok((heap, Box::new(start)))
}

/// What is known of every GPU, for people; or why there is none.
pub(super) fn about() -> Vec<(String, Vec<(&'static str, String)>)> {
    if driver::count() == 0 {
        let why = driver::facts(0).err().map_or_else(String::new, text);
        return vec![("cuda".into(), vec![("unavailable", why)])];
    }
    let one = |number| match Device::open(number) {
        Err(error) => vec![("unavailable", text(error))],
        Ok(device) => {
            let facts = device.facts();
            let (major, minor) = facts.capability;
            let code =
                facts.spec().map_or_else(|| "none that it runs".into(), |s| format!("{} {}", s.name, s.features));
            vec![
                ("name", facts.name.clone()),
                ("compute capability", format!("{major}.{minor}")),
                ("driver", format!("CUDA {}.{}", facts.driver / 1000, facts.driver % 1000 / 10)),
                ("code", code),
                ("multiprocessors", facts.multiprocessors.to_string()),
                ("cache", Size(facts.cache.into()).to_string()),
                ("memory", Size(facts.memory).to_string()),
                ("shared memory of a block", Size(facts.shared.into()).to_string()),
                ("products", device.product_library().unwrap_or_else(|| "no cuBLASLt on the loader's path".into())),
            ]
        }
    };
    (0..driver::count()).map(|number| (format!("cuda:{number}"), one(number))).collect()
}

/// A device's memory starts nowhere in the processor's: its addresses are only numbers here.
fn pointer(address: u64) -> Option<NonNull<u8>> {
    NonNull::new(std::ptr::without_provenance_mut(address as usize))
}

fn address(start: NonNull<u8>) -> u64 {
    start.as_ptr().addr() as u64
}

impl Heap for DeviceHeap {
    fn is_host(&self) -> bool {
        false
    }

    fn allocate(&self, size: usize) -> Result<Option<NonNull<u8>>, String> {
        Ok(self.0.allocate(size).map_err(text)?.and_then(pointer))
    }

    unsafe fn free(&self, start: NonNull<u8>, _: usize) {
        // SAFETY: as the caller promises.
        unsafe { self.0.free(address(start)) };
    }

    unsafe fn write(&self, start: NonNull<u8>, bytes: &[u8]) -> Result<(), String> {
        // SAFETY: as the caller promises.
        unsafe { self.0.upload(address(start), bytes) }.map_err(text)
    }

    unsafe fn read(&self, start: NonNull<u8>, bytes: &mut [u8]) -> Result<(), String> {
        // SAFETY: as the caller promises.
        unsafe { self.0.download(address(start), bytes) }.map_err(text)
    }

    unsafe fn copy(
        &self,
        start: NonNull<u8>,
        other: &dyn Heap,
        from: NonNull<u8>,
        bytes: usize,
    ) -> Result<bool, String> {
        let Some(DeviceHeap(source)) = (other as &dyn Any).downcast_ref() else { return Ok(false) };
        // SAFETY: as the caller promises.
        unsafe { self.0.copy(address(start), source, address(from), bytes) }.map_err(text)?;
        Ok(true)
    }

    unsafe fn duplicate(&self, start: NonNull<u8>, from: NonNull<u8>, bytes: usize) -> Result<(), String> {
        // SAFETY: as the caller promises.
        unsafe { self.0.duplicate(address(start), address(from), bytes) }.map_err(text)
    }

    unsafe fn fill(&self, start: NonNull<u8>, byte: u8, bytes: usize) -> Result<(), String> {
        self.0.enter().map_err(text)?;
        // SAFETY: as the caller promises.
        unsafe { self.0.fill(address(start), byte, bytes) }.map_err(text)
    }

    fn size(&self) -> Option<u64> {
        Some(self.0.facts().memory)
    }
}

struct Loaded {
    kernel: driver::Kernel,
    device: Arc<Device>,
    /// The word for the codes of kernels that check nothing.
    unused: u64,
}

impl Kernel for Loaded {
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<Checked, String> {
        let (ticket, status) = match launch.checks {
            true => self.device.ticket().map(|(ticket, status)| (Some(ticket), status)),
            false => Ok((None, self.unused)),
        }
        .map_err(text)?;
        // SAFETY: as the caller promises; work is asked for by the device's thread, which has entered the device.
        unsafe { self.device.launch(&self.kernel, launch.grid, launch.params, status) }.map_err(text)?;
        Ok(ticket.map_or(Checked::Now(0), |driver::Ticket(number)| Checked::Later(Ticket(number))))
    }
}

impl Stamp for driver::Stamp {
    fn since(&self, earlier: &dyn Stamp) -> Result<Duration, String> {
        let earlier: &dyn Any = earlier;
        self.since(earlier.downcast_ref().ok_or("another machine's time")?).map_err(text)
    }
}

impl Engine for Cuda {
    fn spec(&self) -> Option<&Spec> {
        Some(&self.spec)
    }

    fn version(&self) -> String {
        let (major, minor) = self.device.facts().capability;
        format!("driver {} on {major}.{minor}", self.device.facts().driver)
    }

    fn identity(&self) -> String {
        let facts = self.device.facts();
        let library = if self.has_library { driver::library_version() } else { 0 };
        format!("{}, {} multiprocessors, cuBLASLt {library}", facts.name, facts.multiprocessors)
    }

    fn compile(&self, program: &Program, see: See<'_>) -> Result<Vec<u8>, String> {
        let object = nvidia::Compiler::new(&self.spec).compile(program, see).map_err(|e| e.to_string())?;
        let shape = Shape::of(&object);
        let image = match self.device.link(&object, &self.spec.cpu) {
            Ok(code) => code,
            Err(stopped @ driver::Error::Stopped { .. }) => return Err(text(stopped)),
            Err(other) => {
                // The driver may still take the text itself; if not, it says why.
                static ONCE: Once = Once::new();
                ONCE.call_once(|| warn(&format!("kernels are compiled anew at each start: {other}")));
                [object.ptx.as_bytes(), &[0]].concat()
            }
        };
        Ok(pack(&shape, &image))
    }

    fn load(&self, code: &[u8]) -> Result<Arc<dyn Kernel>, String> {
        let (shape, image) = unpack(code).ok_or("not packed machine code")?;
        let kernel = self.device.load(image, shape).map_err(text)?;
        let unused = self.device.unused_word().map_err(text)?;
        Ok(Arc::new(Loaded { kernel, device: Arc::clone(&self.device), unused }))
    }

    fn grain(&self) -> Grain {
        let facts = self.device.facts();
        let grain =
            Grain::of_threads(facts.multiprocessors * WARPS).with_held_warps(HELD_WARPS).with_cache(facts.cache.into());
        if self.spec.group > 0 { grain.together() } else { grain }
    }

    fn gemm_from(&self) -> Option<u64> {
        Some(if self.has_library && knobs::get().blas { GEMM_FROM } else { u64::MAX })
    }

    fn takes(&self, gemm: &Gemm) -> bool {
        driver::takes(gemm)
    }

    fn absorbs(&self, gemm: &Gemm) -> bool {
        // Its max(x, 0) makes 0 of NaN, which nobody would find again
        // (<https://forums.developer.nvidia.com/t/329783>).
        let keeps_nan = gemm.epilogue.is_none_or(|epilogue| !epilogue.relu);
        (keeps_nan || knobs::get().numerics == Numerics::Fast) && self.device.absorbs(gemm)
    }

    fn begin(&self) -> Result<(), String> {
        self.device.enter().map_err(text)
    }

    unsafe fn product(&self, gemm: &Gemm, at: At) -> Result<(), String> {
        // SAFETY: as the caller promises.
        unsafe { self.device.product(gemm, at) }.map_err(text)
    }

    unsafe fn sort(&self, sort: &Sort, input: &Arc<Buffer>, output: &Arc<Buffer>) -> Result<(), String> {
        let pool = self.pool.get_or_init(|| host::Pool::with_threads(knobs::get().threads));
        let memory = Pool::of(Arc::new(HostHeap), None);
        let from = input.fetch::<u64>(0, input.len() / 8)?;
        let bytes = sort.dims.iter().product::<u64>() as usize * sort.indices.unwrap_or(sort.dtype).bytes();
        let to = memory.allocate(bytes)?;
        // SAFETY: the result has a buffer of its own, as long as the plan's.
        unsafe { sort::run(pool, sort, (from.as_ptr().cast(), from.len() * 8), to.address())? };
        output.fill_from(&to.elements::<u8>()[..bytes])
    }

    fn gathers(&self) -> bool {
        true
    }

    fn expect(&self) -> Memory {
        replay::expect()
    }

    unsafe fn submit(&self, asked: &[Asked<'_>], words: &[u64], memory: Option<&mut Memory>) -> Submitted {
        // SAFETY: as the caller promises.
        let whole = memory.and_then(|memory| unsafe { replay::submit(&self.device, asked, words, memory) });
        // SAFETY: as above.
        whole.unwrap_or_else(|| unsafe { ask_each(self, asked, words) })
    }

    fn stamp(&self) -> Result<Option<Box<dyn Stamp>>, String> {
        Ok(Some(Box::new(driver::Stamp::new(&self.device).map_err(text)?)))
    }

    fn mark(&self) -> Result<Option<Mark>, String> {
        self.device.mark().map(|driver::Mark(number)| Some(Mark(number))).map_err(text)
    }

    fn reach(&self, mark: Mark, wait: bool) -> Result<bool, String> {
        self.device.reach(driver::Mark(mark.0), wait).map_err(text)
    }

    fn verdict(&self, ticket: Ticket) -> u32 {
        self.device.verdict(driver::Ticket(ticket.0))
    }

    fn synchronise(&self) -> Result<(), String> {
        self.device.synchronise().map_err(text)
    }
}

/// Machine code as bytes: length of the kernel's name, how it is launched, its tensor maps, the name, the code.
fn pack(shape: &Shape, image: &[u8]) -> Vec<u8> {
    let Shape { symbol, programs, threads, shared, maps, room, early } = shape;
    let numbers = [symbol.len() as u32, *programs, *threads, *shared, *room, (*early).into(), maps.len() as u32];
    let maps = maps.iter().flat_map(|map| {
        // 0 stands for no parameter.
        let (param, least) = match map.stride {
            Stride::Constant(stride) => (0, stride),
            Stride::AtLeast(param, least) => (param.as_u32() + 1, least),
        };
        [map.buffer.as_u32(), map.bytes, param, least, map.rows, map.width]
    });
    let mut bytes: Vec<u8> = numbers.into_iter().chain(maps).flat_map(u32::to_le_bytes).collect();
    bytes.extend_from_slice(symbol.as_bytes());
    bytes.extend_from_slice(image);
    bytes
}

/// The first so many numbers of packed code, and what comes behind them.
fn numbers<const N: usize>(bytes: &[u8]) -> Option<([u32; N], &[u8])> {
    let (own, rest) = bytes.split_at_checked(4 * N)?;
    let (own, _) = own.as_chunks::<4>();
    Some((std::array::from_fn(|i| u32::from_le_bytes(own[i])), rest))
}

fn unpack(bytes: &[u8]) -> Option<(Shape, &[u8])> {
    let ([len, programs, threads, shared, room, early, count], mut rest) = numbers::<7>(bytes)?;
    let mut maps = Vec::new();
    for _ in 0..count {
        let ([buffer, bytes, param, least, rows, width], behind) = numbers::<6>(rest)?;
        let stride = match param.checked_sub(1) {
            None => Stride::Constant(least),
            Some(param) => Stride::AtLeast(Param::from_u32(param), least),
        };
        maps.push(TensorMap { buffer: Param::from_u32(buffer), bytes, stride, rows, width });
        rest = behind;
    }
    let (symbol, image) = rest.split_at_checked(len as usize)?;
    let symbol = String::from_utf8(symbol.to_vec()).ok()?;
    let launches = programs > 0 && threads > 0;
    let early = early != 0;
    launches.then_some((Shape { symbol, programs, threads, shared, maps, room, early }, image))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_survives_packing() {
        let map = |stride| TensorMap { buffer: Param::from_u32(1), bytes: 2, stride, rows: 64, width: 64 };
        let maps = vec![map(Stride::Constant(4096)), map(Stride::AtLeast(Param::from_u32(0), 16))];
        let (symbol, early) = ("kiln_add".into(), true);
        let shape = Shape { symbol, programs: 4, threads: 128, shared: 70_000, maps, room: 3, early };
        let packed = pack(&shape, &[1, 2, 3]);
        assert_eq!(unpack(&packed), Some((shape, &[1, 2, 3][..])));
        assert_eq!(unpack(&packed[..20]), None);
        assert_eq!(unpack(&[]), None);
        assert_eq!(unpack(&[0; 28]), None);
    }
}
