//! What all targets that go through LLVM share: errors, the machine, verification and optimisation of a module.

use inkwell::OptimizationLevel;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, RelocMode, Target, TargetMachine, TargetTriple};

use crate::llvm::Ir;
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
    /// The program needs more shared memory than the machine has.
    #[error("{program}: a block wants {wanted} bytes of shared memory, {machine} has {got}")]
    Shared {
        /// Name of the program.
        program: String,
        /// Name of the machine.
        machine: String,
        /// Bytes wanted.
        wanted: u32,
        /// Bytes there are.
        got: u32,
    },
    /// There is no linker.
    #[error("AMD's code objects need LLVM's linker, ld.lld, which was not found (tried {0})")]
    NoLinker(String),
    /// The linker failed.
    #[error("{program}: ld.lld: {message}")]
    Link {
        /// Name of the program.
        program: String,
        /// What it said.
        message: String,
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

/// Watches a compilation: called with the name of a stage and a function that prints what it left.
pub type See<'a> = &'a mut dyn FnMut(&'static str, &dyn Fn() -> String);

/// LLVM's code generator for a machine whose family of targets is initialised.
pub(super) fn machine(spec: &Spec) -> Result<TargetMachine, Error> {
    let triple = TargetTriple::create(&spec.triple);
    let failed = |message: String| Error::Machine(spec.triple.clone(), message);
    let target = Target::from_triple(&triple).map_err(|e| failed(e.to_string()))?;
    // The default fuses a product and a sum only where the program says so.
    let (level, reloc, model) = (OptimizationLevel::Aggressive, RelocMode::PIC, CodeModel::Small);
    target
        .create_target_machine(&triple, &spec.cpu, &spec.features, level, reloc, model)
        .ok_or_else(|| failed(format!("{} {}", spec.cpu, spec.features)))
}

/// Tells a module which machine it is for.
pub(super) fn aim(ir: &Ir, spec: &Spec, machine: &TargetMachine) {
    ir.module.set_triple(&TargetTriple::create(&spec.triple));
    ir.module.set_data_layout(&machine.get_target_data().get_data_layout());
}

/// Verifies a module and runs LLVM's passes on it.
pub(super) fn optimise(
    ir: &Ir,
    machine: &TargetMachine,
    passes: &str,
    program: &Program,
    see: See<'_>,
) -> Result<(), Error> {
    see("llvm", &|| ir.module.print_to_string().to_string());
    ir.module.verify().map_err(|e| failed(program, "the verifier", e.to_string()))?;
    ir.module
        .run_passes(passes, machine, PassBuilderOptions::create())
        .map_err(|e| failed(program, "optimisation", e.to_string()))?;
    see("optimised", &|| ir.module.print_to_string().to_string());
    Ok(())
}

/// Assembly text of a module.
pub(super) fn assembly(ir: &Ir, machine: &TargetMachine, program: &Program) -> Result<String, Error> {
    let text = machine
        .write_to_memory_buffer(&ir.module.clone(), FileType::Assembly)
        .map_err(|e| failed(program, "code generation", e.to_string()))?;
    Ok(String::from_utf8_lossy(text.as_slice()).into_owned())
}

/// A relocatable object of a module.
pub(super) fn relocatable(ir: &Ir, machine: &TargetMachine, program: &Program) -> Result<Vec<u8>, Error> {
    let bytes = machine
        .write_to_memory_buffer(&ir.module, FileType::Object)
        .map_err(|e| failed(program, "code generation", e.to_string()))?;
    Ok(bytes.as_slice().to_vec())
}

fn failed(program: &Program, stage: &'static str, message: String) -> Error {
    Error::Llvm { program: program.name.clone(), stage, message }
}
