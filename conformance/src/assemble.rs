//! Machines that programs are compiled for, whether this computer has them or not.

use kiln_lowering::target::nvidia;
use kiln_lowering::tile::Program;

/// The version of PTX that is written where no driver says which it takes.
const PTX: u32 = 86;

/// Something that programs are compiled for.
pub struct Assembler {
    /// The machine, as LLVM calls it.
    pub name: &'static str,
    /// Compiles a program; the error is the compiler's.
    pub assemble: fn(&str, &Program) -> Result<(), String>,
}

/// Every machine.
pub const ASSEMBLERS: &[Assembler] =
    &[Assembler { name: "sm_80", assemble: to_ptx }, Assembler { name: "sm_90a", assemble: to_ptx }];

fn to_ptx(name: &str, program: &Program) -> Result<(), String> {
    let spec = nvidia::spec(name, PTX).ok_or("there is no row for it")?;
    let object = nvidia::Compiler::new(&spec).compile(program, &mut |_, _| {}).map_err(|error| error.to_string())?;
    match object.ptx.contains(&object.symbol) {
        true => Ok(()),
        false => Err(format!("the code lacks {}", object.symbol)),
    }
}
