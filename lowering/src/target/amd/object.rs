//! Turns tile programs into code objects of AMD's GPUs: LLVM makes a relocatable object, its linker the shared object
//! that HIP loads.

mod link;

use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::Once;

use inkwell::AtomicOrdering;
use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::core::{LLVMBuildFenceSyncScope, LLVMGetSyncScopeID};
use inkwell::llvm_sys::disassembler::{LLVMCreateDisasmCPUFeatures, LLVMDisasmDispose, LLVMDisasmInstruction};
use inkwell::targets::{InitializationConfig, Target};
use inkwell::values::InstructionValue;

use super::code_object::{CodeObject, Kernel, Malformed};
use super::emit::{Amd, Group, Way};
use crate::llvm::{Ir, lower_body, started};
use crate::spec::Spec;
use crate::target::module::{self, Error, PASSES, See};
use crate::tile::Program;

pub use link::Linker;

/// Machine code of one program, for HIP to load.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// Name of the kernel in it.
    pub symbol: String,
    /// A code object.
    pub bytes: Vec<u8>,
    /// Programs that a work-group runs, side by side along x: the grid's x is the number of programs divided by this,
    /// rounded up.
    pub programs: u32,
    /// Lanes of a work-group.
    pub threads: u32,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Object { symbol, bytes, programs, threads } = self;
        write!(f, "Object({symbol}, {} bytes, {programs} programs on {threads} lanes)", bytes.len())
    }
}

/// How LLVM orders instructions (its name for it): as it usually does, which hides latency; and so that the fewest
/// registers are taken, which takes it longer, for where they do not suffice.
const ORDERS: [&str; 2] = ["", "iterative-minreg"];

/// Lanes of a work-group of several programs: enough waves that starting groups is not what a compute unit waits for.
const LANES: u32 = 256;

/// Compiles tile programs for one kind of GPU.
pub struct Compiler {
    spec: Spec,
    linker: Linker,
}

impl Compiler {
    /// A compiler for a GPU.
    pub fn new(spec: &Spec, linker: Linker) -> Compiler {
        Compiler { spec: spec.clone(), linker }
    }

    /// The GPU.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Compiles a valid program.  May be called from several threads at once.
    ///
    /// `see` learns of each stage, as on the host.
    ///
    /// # Errors
    ///
    /// LLVM's own words where it refuses the module; a program that needs more shared memory than there is; a linker that
    /// is missing or fails.
    pub fn compile(&self, program: &Program, see: See<'_>) -> Result<Object, Error> {
        let native = module::native(program, see);
        let programs = (LANES / self.spec.lanes).max(1);
        let [usual, sparing] = ORDERS;
        let object = self.compile_so(&native, Way { order: usual, programs }, see)?;
        if object.kernel().is_ok_and(|kernel| kernel.private_bytes == 0) {
            return Ok(object);
        }
        self.compile_so(&native, Way { order: sparing, programs }, see)
    }

    fn compile_so(&self, program: &Program, way: Way, see: See<'_>) -> Result<Object, Error> {
        let spec = &started(program, self.spec.running(program));
        let context = Context::create();
        initialise();
        let (ir, machine, symbol) = module::begin(&context, program, spec)?;
        let gpu = Amd::begin(&ir, program, spec, &symbol, way);
        lower_body(&ir, &gpu, program, spec);
        let Group { programs, threads, shared } = gpu.end(&ir);
        if shared > spec.shared_bytes {
            return match spec.shared_bytes / (shared / programs) {
                0 => {
                    let (program, machine) = (program.name.clone(), spec.name.clone());
                    Err(Error::Shared { program, machine, wanted: shared, got: spec.shared_bytes })
                }
                fitting => self.compile_so(program, Way { programs: 1 << fitting.ilog2(), ..way }, see),
            };
        }
        // At the end, what a kernel does not use is taken from what it is handed.
        let passes = format!("{PASSES},amdgpu-attributor");
        module::optimise(&ir, &machine, &passes, program, see)?;
        see("asm", &|| module::assembly(&ir, &machine, program).unwrap_or_else(|error| error.to_string()));
        let relocatable = module::relocatable(&ir, &machine, program)?;
        Ok(Object { symbol, bytes: self.linker.link(&program.name, &relocatable)?, programs, threads })
    }
}

impl Object {
    /// What the code object says of the kernel.
    ///
    /// # Errors
    ///
    /// The bytes, which may come from a file, are not a code object, or one without this kernel.
    pub fn kernel(&self) -> Result<Kernel, Malformed> {
        CodeObject::read(&self.bytes)?.kernel(&self.symbol)
    }
}

/// The instructions of a kernel, one a line.
///
/// # Errors
///
/// LLVM knows no such machine, or finds bytes that are no instruction.
pub fn disassemble(spec: &Spec, kernel: &Kernel) -> Result<Vec<String>, Error> {
    initialise();
    let failed = |message: String| Error::Machine(spec.cpu.clone(), message);
    let text = |text: &str| CString::new(text).map_err(|e| failed(e.to_string()));
    let (triple, cpu, features) = (text(&spec.triple)?, text(&spec.cpu)?, text(&spec.features)?);
    // SAFETY: three C strings that outlive the call; no callbacks, so nothing for them to be given.
    let context = unsafe {
        let none = std::ptr::null_mut();
        LLVMCreateDisasmCPUFeatures(triple.as_ptr(), cpu.as_ptr(), features.as_ptr(), none, 0, None, None)
    };
    if context.is_null() {
        return Err(failed("no disassembler".into()));
    }
    let (mut code, mut at, mut lines) = (kernel.code.clone(), 0, Vec::new());
    let mut line = [0; 256];
    let result = loop {
        let rest = &mut code[at..];
        if rest.is_empty() {
            break Ok(lines);
        }
        let (bytes, room) = (rest.len() as u64, line.len());
        // SAFETY: the context is live; `rest` and `line` are as long as is said, and LLVM ends what it writes with a 0.
        let length = unsafe {
            LLVMDisasmInstruction(context, rest.as_mut_ptr(), bytes, at as u64, line.as_mut_ptr().cast(), room)
        };
        match CStr::from_bytes_until_nul(&line) {
            Ok(text) if length > 0 => lines.push(text.to_string_lossy().trim().to_owned()),
            _ => break Err(failed(format!("byte {at} of {} begins no instruction", kernel.name))),
        }
        at += length;
    };
    // SAFETY: made above, used no more.
    unsafe { LLVMDisasmDispose(context) };
    result
}

/// A fence of the memory of the lanes in a scope of LLVM's.
pub(super) fn fence<'c>(ir: &Ir<'c>, order: AtomicOrdering, scope: &CStr) -> InstructionValue<'c> {
    // SAFETY: context and builder are live and belong together, the scope's name has that many bytes, and what is built is
    // an instruction.
    unsafe {
        let scope = LLVMGetSyncScopeID(ir.context.as_ctx_ref(), scope.as_ptr(), scope.count_bytes());
        InstructionValue::new(LLVMBuildFenceSyncScope(ir.builder.as_mut_ptr(), order.into(), scope, c"".as_ptr()))
    }
}

unsafe extern "C" {
    /// Lets LLVM read AMD's instructions.  Its crate for Rust leaves this one function out.
    fn LLVMInitializeAMDGPUDisassembler();
}

fn initialise() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        Target::initialize_amd_gpu(&InitializationConfig::default());
        // SAFETY: takes nothing; guarded by the `Once`.
        unsafe { LLVMInitializeAMDGPUDisassembler() };
    });
}
