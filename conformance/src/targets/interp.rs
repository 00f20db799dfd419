//! The interpreter, on programs as they are scheduled and as they are rewritten for code generation.

use kiln_lowering::passes;
use kiln_lowering::target::interp;
use kiln_lowering::tile::Program;

use super::{Argument, Machine};

/// Runs programs as they are scheduled.
pub static PLAIN: Interp = Interp { rewrite: false };

/// Runs programs after all passes.
pub static REWRITTEN: Interp = Interp { rewrite: true };

/// The interpreter.
pub struct Interp {
    rewrite: bool,
}

impl Machine for Interp {
    fn launch(&self, program: &Program, grid: [u32; 3], args: &mut [Argument<'_>]) -> Result<u32, String> {
        let mut program = program.clone();
        if self.rewrite {
            passes::run(&mut program, &mut |_, _| {});
        }
        let mut args: Vec<interp::Arg<'_>> = args
            .iter_mut()
            .map(|arg| match arg {
                Argument::Buffer(bytes) => interp::Arg::Buffer(bytes),
                Argument::Scalar(bits) => interp::Arg::Scalar(*bits),
            })
            .collect();
        let options = interp::Options { races: true, steps: None };
        let report =
            interp::launch_with(&program, grid, &mut args, options).map_err(|fault| format!("{fault}\n{program}"))?;
        Ok(report.checks.first().copied().unwrap_or(0))
    }
}
