//! Turns tile programs into relocatable objects for this machine's processor.

use std::fmt;
use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::llvm_sys::support::LLVMParseCommandLineOptions;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};
use inkwell::types::{AsTypeRef, BasicTypeEnum};
use inkwell::values::{AsValueRef, PointerValue, VectorValue};

use super::emit::Host;
use super::symbols;
use crate::llvm::ir::{Any, Ir, built};
use crate::llvm::lower_body;
use crate::passes;
use crate::spec::Spec;
use crate::tile::Program;

/// Why a program has no object, or an object no kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// LLVM knows no such machine.
    #[error("LLVM has no target machine for {0}: {1}")]
    Machine(String, String),
    /// LLVM refused the module.
    #[error("{program}: LLVM failed in {stage}: {message}")]
    Llvm {
        /// Name of the program.
        program: String,
        /// What LLVM was doing.
        stage: &'static str,
        /// What it said.
        message: String,
    },
    /// The code calls functions that a kernel has no access to.
    #[error("{program}: the code calls {}, which kernels cannot reach", symbols.join(", "))]
    Undefined {
        /// Name of the program.
        program: String,
        /// The functions.
        symbols: Vec<String>,
    },
    /// The bytes are not an object of this machine.
    #[error("{0}: not an object for this machine")]
    Foreign(String),
    /// The object could not be loaded.
    #[error("{symbol}: cannot load: {message}")]
    Load {
        /// The kernel.
        symbol: String,
        /// What the loader said.
        message: String,
    },
}

/// Machine code of one program, not yet loaded.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// Name of the kernel in it.
    pub symbol: String,
    /// A relocatable ELF object.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({}, {} bytes)", self.symbol, self.bytes.len())
    }
}

/// The passes, chosen for what tile programs leave behind: repeated splats and addresses, values that do not change in
/// a loop, stores that are overwritten.  There is nothing to vectorise, unroll or inline.
const PASSES: &str = "function(early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),gvn,instcombine<no-verify-fixpoint>,dse,simplifycfg)";

/// Watches a compilation: called with the name of a stage and a function that prints what it left.
pub type See<'a> = &'a mut dyn FnMut(&'static str, &dyn Fn() -> String);

/// Compiles tile programs for one processor.
pub struct Compiler {
    spec: Spec,
}

/// This machine, as LLVM sees it.
pub fn spec() -> Spec {
    let triple = TargetMachine::get_default_triple();
    let (cpu, features) = (TargetMachine::get_host_cpu_name(), TargetMachine::get_host_cpu_features());
    Spec::host(&triple.as_str().to_string_lossy(), &cpu.to_string_lossy(), &features.to_string_lossy())
}

impl Compiler {
    /// A compiler for a processor.
    pub fn new(spec: &Spec) -> Compiler {
        Compiler { spec: spec.clone() }
    }

    /// Compiles a valid program.  May be called from several threads at once.
    ///
    /// `see` learns of each stage (the passes by their names, then `llvm`, `optimised`, `asm`) and is given a function
    /// that prints it, which costs nothing unless it is called.
    pub fn compile(&self, program: &Program, see: See<'_>) -> Result<Object, Error> {
        let mut native = program.clone();
        passes::run(&mut native, &mut |pass, program| see(pass, &|| program.to_string()));
        let program = &native;
        let context = Context::create();
        let ir = Ir::new(&context, &program.name);
        let machine = machine(&self.spec)?;
        ir.module.set_triple(&TargetTriple::create(&self.spec.triple));
        ir.module.set_data_layout(&machine.get_target_data().get_data_layout());
        let symbol = format!("kiln_{}", program.name);
        let host = Host::begin(&ir, program, &self.spec, &symbol);
        lower_body(&ir, &host, program, &self.spec);
        host.end(&ir);
        see("llvm", &|| ir.module.print_to_string().to_string());

        let failed = |stage, message: String| Error::Llvm { program: program.name.clone(), stage, message };
        ir.module.verify().map_err(|e| failed("the verifier", e.to_string()))?;
        ir.module
            .run_passes(PASSES, &machine, PassBuilderOptions::create())
            .map_err(|e| failed("optimisation", e.to_string()))?;
        see("optimised", &|| ir.module.print_to_string().to_string());
        see("asm", &|| match machine.write_to_memory_buffer(&ir.module.clone(), FileType::Assembly) {
            Ok(text) => String::from_utf8_lossy(text.as_slice()).into_owned(),
            Err(error) => error.to_string(),
        });
        let buffer = machine
            .write_to_memory_buffer(&ir.module, FileType::Object)
            .map_err(|e| failed("code generation", e.to_string()))?;
        let object = Object { symbol, bytes: buffer.as_slice().to_vec() };
        object.check()?;
        Ok(object)
    }
}

/// What a kernel may call: LLVM makes these out of plain loads and stores.
pub(super) const MEMORY_FUNCTIONS: [&str; 3] = ["memcpy", "memmove", "memset"];

impl Object {
    /// Whether a kernel can be loaded from the bytes, which may come from a file.
    pub(super) fn check(&self) -> Result<(), Error> {
        let undefined = symbols::undefined(&self.bytes).ok_or_else(|| Error::Foreign(self.symbol.clone()))?;
        let symbols: Vec<String> = undefined.into_iter().filter(|s| !MEMORY_FUNCTIONS.contains(&s.as_str())).collect();
        if symbols.is_empty() { Ok(()) } else { Err(Error::Undefined { program: self.symbol.clone(), symbols }) }
    }
}

pub(super) fn initialise() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = Target::initialize_native(&InitializationConfig::default());
        // Loop strength reduction takes up to four fifths of the time of code generation on nests of loops over tiles,
        // and their addresses are as good without it.  There is no other way to leave it out.
        let arguments = [c"kiln".as_ptr(), c"-disable-lsr".as_ptr()];
        // SAFETY: two C strings and their number; guarded by the `Once`, before any code is generated by us.
        unsafe { LLVMParseCommandLineOptions(2, arguments.as_ptr(), std::ptr::null()) };
    });
}

fn machine(spec: &Spec) -> Result<TargetMachine, Error> {
    initialise();
    let triple = TargetTriple::create(&spec.triple);
    let failed = |message: String| Error::Machine(spec.triple.clone(), message);
    let target = Target::from_triple(&triple).map_err(|e| failed(e.to_string()))?;
    // The default fuses a product and a sum only where the program says so.
    let (level, reloc, model) = (OptimizationLevel::Aggressive, RelocMode::PIC, CodeModel::Small);
    target
        .create_target_machine(&triple, &spec.cpu, &spec.features, level, reloc, model)
        .ok_or_else(|| failed(format!("{} {}", spec.cpu, spec.features)))
}

/// Address of element `offset` of type `element`, counted from `base`.
pub(super) fn element_address<'c>(
    ir: &Ir<'c>,
    element: BasicTypeEnum<'c>,
    base: PointerValue<'c>,
    offset: Any<'c>,
) -> PointerValue<'c> {
    // SAFETY: only emits an instruction.  That it computes an address inside the buffer is what the program promises
    // for every element it accesses, and the result is used for nothing but accesses.
    built(unsafe { ir.builder.build_gep(element, base, &[offset.into_int_value()], "") })
}

/// Addresses of the elements at a vector of offsets.
pub(super) fn element_addresses<'c>(
    ir: &Ir<'c>,
    element: BasicTypeEnum<'c>,
    base: PointerValue<'c>,
    offsets: Any<'c>,
) -> Any<'c> {
    let mut index = offsets.as_value_ref();
    // SAFETY: builder, pointer and index belong to one live context; a vector of indices gives a vector of pointers.
    // No promise about the addresses is made (`LLVMBuildGEP2`, not its `InBounds` sibling): lanes that are masked off
    // may point anywhere.
    unsafe {
        let gep = inkwell::llvm_sys::core::LLVMBuildGEP2(
            ir.builder.as_mut_ptr(),
            element.as_type_ref(),
            base.as_value_ref(),
            &mut index,
            1,
            c"".as_ptr(),
        );
        VectorValue::new(gep).into()
    }
}
