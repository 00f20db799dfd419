//! This computer's processor, through LLVM.  Kernels are kept by the text of their program.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use kiln_lowering::passes;
use kiln_lowering::target::host::{self, Compiler, Kernel, Pool};
use kiln_lowering::tile::Program;

use super::{Argument, Machine};

/// The host.
pub fn machine() -> Option<&'static dyn Machine> {
    static HOST: LazyLock<Host> =
        LazyLock::new(|| Host { compiler: Compiler::new(&host::spec()), pool: Pool::new(), kernels: Mutex::default() });
    Some(&*HOST)
}

struct Host {
    compiler: Compiler,
    pool: Pool,
    kernels: Mutex<HashMap<String, Kernel>>,
}

impl Host {
    fn kernel(&self, program: &Program) -> Result<Kernel, String> {
        let text = program.to_string();
        let known = |kernels: &HashMap<String, Kernel>| kernels.get(&text).cloned();
        if let Some(kernel) = known(&self.kernels.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(kernel);
        }
        let mut rewritten = program.clone();
        passes::run(&mut rewritten, &mut |_, _| {});
        let object = self.compiler.compile(&rewritten, &mut |_, _| {}).map_err(|e| format!("{e}\n{rewritten}"))?;
        let kernel = host::load(&object).map_err(|e| e.to_string())?;
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner).insert(text, kernel.clone());
        Ok(kernel)
    }
}

impl Machine for Host {
    fn launch(&self, program: &Program, grid: [u32; 3], args: &mut [Argument<'_>]) -> Result<u32, String> {
        let kernel = self.kernel(program)?;
        let params: Vec<u64> = args
            .iter_mut()
            .map(|arg| match arg {
                Argument::Buffer(bytes) => bytes.as_mut_ptr() as u64,
                Argument::Scalar(bits) => *bits,
            })
            .collect();
        let status = AtomicU32::new(0);
        // SAFETY: one slot per parameter, each buffer's from a slice that lives through the call and that nothing else
        // touches; that its length suffices the interpreter checked on the same program and arguments.
        unsafe { kernel.launch(&self.pool, grid, &params, &status) };
        Ok(status.load(Ordering::Relaxed))
    }
}
