//! Turns tile programs into relocatable objects for this machine's processor.

use std::fmt;
use std::sync::Once;

use inkwell::context::Context;
use inkwell::targets::{InitializationConfig, Target, TargetMachine};

use super::emit::Host;
use super::symbols;
use crate::llvm::lower_body;
use crate::spec::Spec;
use crate::target::module::{self, Error, PASSES, See};
use crate::tile::Program;

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
    /// Prepares LLVM for code of this processor.
    #[cfg(test)]
    pub(in crate::target) fn initialise() {
        initialise();
    }

    /// A compiler for a processor.
    pub fn new(spec: &Spec) -> Compiler {
        Compiler { spec: spec.clone() }
    }

    /// Compiles a valid program.  May be called from several threads at once.
    ///
    /// `see` learns of each stage (the passes by their names, then `llvm`, `optimised`, `asm`) and is given a function
    /// that prints it, which costs nothing unless it is called.
    pub fn compile(&self, program: &Program, see: See<'_>) -> Result<Object, Error> {
        let program = &module::native(program, see);
        let context = Context::create();
        initialise();
        let (ir, machine, symbol) = module::begin(&context, program, &self.spec)?;
        let host = Host::begin(&ir, program, &self.spec, &symbol);
        lower_body(&ir, &host, program, &self.spec);
        host.end(&ir);
        module::optimise(&ir, &machine, PASSES, program, see)?;
        see("asm", &|| module::assembly(&ir, &machine, program).unwrap_or_else(|error| error.to_string()));
        let object = Object { symbol, bytes: module::relocatable(&ir, &machine, program)? };
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
    });
}
