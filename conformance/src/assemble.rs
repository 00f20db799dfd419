//! Machines that programs are compiled for, whether this computer has them or not.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kiln_lowering::target::amd::{self, Linker};
use kiln_lowering::target::{Error, nvidia};
use kiln_lowering::tile::Program;

/// The version of PTX that is written where no driver says which it takes.
const PTX: u32 = 86;

/// Code that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Bytes of memory that each thread has for what its registers do not hold.
    pub private: u32,
}

/// Why there is no code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missed {
    /// This computer lacks a tool.
    Tool(String),
    /// The compiler's words.
    Refused(String),
}

/// Something that programs are compiled for.
pub struct Assembler {
    /// The machine, as LLVM calls it.
    pub name: &'static str,
    compile: fn(&str, &Program) -> Result<Code, Error>,
    /// Whether it takes LLVM's linker, which is a program of its own.
    links: bool,
}

/// Every machine.
pub const ASSEMBLERS: &[Assembler] = &[
    Assembler { name: "sm_80", compile: ptx, links: false },
    Assembler { name: "sm_90a", compile: ptx, links: false },
    Assembler { name: "gfx90a", compile: code_object, links: true },
    Assembler { name: "gfx942", compile: code_object, links: true },
    Assembler { name: "gfx1100", compile: code_object, links: true },
    Assembler { name: "gfx1201", compile: code_object, links: true },
];

impl Assembler {
    /// Compiles a program.
    pub fn assemble(&self, program: &Program) -> Result<Code, Missed> {
        // The linker is asked for last, after all the work: once it is known to be missing, that is spared.
        static HAS_NO_LINKER: AtomicBool = AtomicBool::new(false);
        let no_linker = || Missed::Tool("no ld.lld".into());
        if self.links && HAS_NO_LINKER.load(Relaxed) {
            return Err(no_linker());
        }
        (self.compile)(self.name, program).map_err(|error| match error {
            Error::NoLinker(_) => {
                HAS_NO_LINKER.store(true, Relaxed);
                no_linker()
            }
            other => Missed::Refused(other.to_string()),
        })
    }
}

fn unknown(name: &str) -> Error {
    Error::Machine(name.into(), "there is no row for it".into())
}

fn ptx(name: &str, program: &Program) -> Result<Code, Error> {
    let spec = nvidia::spec(name, PTX).ok_or_else(|| unknown(name))?;
    let object = nvidia::Compiler::new(&spec).compile(program, &mut |_, _| {})?;
    // `.local .align 8 .b8 __local_depot0[16];`
    let bytes = |line: &str| line.split_once('[')?.1.split_once(']')?.0.parse::<u32>().ok();
    let local = object.ptx.lines().filter(|line| line.trim_start().starts_with(".local"));
    Ok(Code { private: local.filter_map(bytes).sum() })
}

fn code_object(name: &str, program: &Program) -> Result<Code, Error> {
    let spec = amd::spec(name).ok_or_else(|| unknown(name))?;
    let object = amd::Compiler::new(&spec, Linker::new(None)).compile(program, &mut |_, _| {})?;
    let amd::Inspection { kernel, violations, .. } = amd::Inspection::of(program, &spec, &object)?;
    match violations.is_empty() {
        true => Ok(Code { private: kernel.private_bytes }),
        false => Err(Error::Foreign(format!("{}: {}", program.name, violations.join("; ")))),
    }
}
