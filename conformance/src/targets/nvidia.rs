//! The first NVIDIA GPU of this computer, if there is one.  Kernels are kept by the text of their program; each launch
//! works on copies of its buffers in the device's memory, with poison behind them that has to stay.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use kiln_lowering::target::nvidia::Compiler;
use kiln_lowering::target::nvidia::driver::{self, Device, Kernel, Shape};
use kiln_lowering::tile::{ParamKind, Program};

use super::{Argument, Machine};

/// What lies behind each buffer, and how much of it.
const POISON: u8 = 0xff;
const GUARD: usize = 64;

/// The GPU.
pub fn machine() -> Option<&'static dyn Machine> {
    static GPU: LazyLock<Option<Gpu>> = LazyLock::new(Gpu::open);
    GPU.as_ref().map(|gpu| gpu as &dyn Machine)
}

struct Gpu {
    device: Device,
    compiler: Compiler,
    kernels: Mutex<HashMap<String, Kernel>>,
}

/// Memory of the device, for as long as a launch.
struct Memory<'d> {
    device: &'d Device,
    address: u64,
}

impl Memory<'_> {
    /// A copy of some bytes, with poison behind them.
    fn of<'d>(device: &'d Device, bytes: &[u8]) -> Result<Memory<'d>, String> {
        let whole = [bytes, &[POISON; GUARD]].concat();
        let address = device.allocate(whole.len()).map_err(text)?.ok_or("the device has no memory left")?;
        let memory = Memory { device, address };
        // SAFETY: the memory was just allocated, as long as what is copied, and is this launch's own.
        unsafe { device.upload(address, &whole) }.map_err(text)?;
        Ok(memory)
    }

    /// Copies the bytes back, and sees whether the poison is whole.
    fn read(&self, bytes: &mut [u8]) -> Result<(), String> {
        let mut whole = vec![0; bytes.len() + GUARD];
        // SAFETY: the memory is as long as this.
        unsafe { self.device.download(self.address, &mut whole) }.map_err(text)?;
        let (own, guard) = whole.split_at(bytes.len());
        bytes.copy_from_slice(own);
        if guard.iter().all(|&byte| byte == POISON) { Ok(()) } else { Err("stored behind the end of a buffer".into()) }
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: the address was allocated once, and what uses it was asked for before.
        unsafe { self.device.free(self.address) };
    }
}

fn text(error: driver::Error) -> String {
    error.to_string()
}

impl Gpu {
    fn open() -> Option<Gpu> {
        let device = (driver::count() > 0).then(|| Device::open(0).ok())??;
        let compiler = Compiler::new(&device.facts().spec()?);
        Some(Gpu { device, compiler, kernels: Mutex::default() })
    }

    fn kernel(&self, program: &Program) -> Result<Kernel, String> {
        let name = program.to_string();
        let known = |kernels: &HashMap<String, Kernel>| kernels.get(&name).cloned();
        if let Some(kernel) = known(&self.kernels.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(kernel);
        }
        let object = self.compiler.compile(program, &mut |_, _| {}).map_err(|e| format!("{e}\n{program}"))?;
        let image = self.device.link(&object, &self.compiler.spec().cpu).map_err(text)?;
        let kernel = self.device.load(&image, Shape::of(&object)).map_err(text)?;
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner).insert(name, kernel.clone());
        Ok(kernel)
    }
}

impl Machine for Gpu {
    fn launch(&self, program: &Program, grid: [u32; 3], args: &mut [Argument<'_>]) -> Result<u32, String> {
        let kernel = self.kernel(program)?;
        let mut memories: Vec<Option<Memory<'_>>> = Vec::with_capacity(args.len());
        for arg in args.iter() {
            memories.push(match arg {
                Argument::Buffer(bytes) => Some(Memory::of(&self.device, bytes)?),
                Argument::Scalar(_) => None,
            });
        }
        let params: Vec<u64> = args
            .iter()
            .zip(&memories)
            .map(|(arg, memory)| match (arg, memory) {
                (Argument::Scalar(bits), _) => *bits,
                (Argument::Buffer(_), memory) => memory.as_ref().map_or(0, |memory| memory.address),
            })
            .collect();
        let status = Memory::of(&self.device, &[0; 8])?;
        // Nothing to do is no launch.
        if !grid.contains(&0) {
            self.device.enter().map_err(text)?;
            // SAFETY: the thread has entered; one word per parameter, each buffer's memory this launch's own, and that
            // its length suffices the interpreter checked on the same program and arguments.
            unsafe { self.device.launch(&kernel, grid, &params, status.address) }.map_err(text)?;
        }
        let mut code = [0; 8];
        status.read(&mut code).map_err(|e| format!("{}: {e}", program.name))?;
        let written = program.params.values().map(|data| data.kind == ParamKind::Buffer { written: true });
        for ((arg, memory), written) in args.iter_mut().zip(&memories).zip(written) {
            if let (Argument::Buffer(bytes), Some(memory), true) = (arg, memory, written) {
                memory.read(bytes).map_err(|e| format!("{}: {e}", program.name))?;
            }
        }
        Ok(u32::from_le_bytes([code[0], code[1], code[2], code[3]]))
    }
}
