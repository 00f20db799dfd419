//! Executes tile programs directly: the definition of what a tile program means.  Knows no lanes: a tile is a list of
//! elements in row-major order.
//!
//! Programs run one after the other, the first grid axis fastest.  Every access is checked against its buffer, so that
//! what a GPU would hide is a [`Fault`] with the instruction's text and place.

mod combine;
mod dot;
mod fault;
mod machine;
mod memory;
mod moves;

use machine::Machine;

pub use fault::{Cause, Fault};

use crate::tile::{ParamKind, Program, verify};

/// What a launch passes for a parameter.
#[derive(Debug)]
pub enum Arg<'a> {
    /// A buffer's bytes, elements in little-endian order.
    Buffer(&'a mut [u8]),
    /// A scalar's bit pattern, in the low bits.
    Scalar(u64),
}

/// What a launch looks for beside the accesses outside of buffers, which it always finds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Programs of one launch that touch one element without atomics, one of them storing; lanes of one store that give
    /// one element different values.
    pub races: bool,
    /// Most instructions to execute, for programs that may not end.
    pub steps: Option<u64>,
}

/// What a launch did, beside what it stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Codes of the checks that failed, ascending.
    pub checks: Vec<u32>,
    /// Bytes read by loads and atomics.
    pub loaded: u64,
    /// Bytes written by stores and atomics.
    pub stored: u64,
}

/// Runs every program of the grid.
pub fn launch(program: &Program, grid: [u32; 3], args: &mut [Arg<'_>]) -> Result<Report, Fault> {
    launch_with(program, grid, args, Options::default())
}

/// Runs every program of the grid, looking for more than [`launch`] does.
pub fn launch_with(program: &Program, grid: [u32; 3], args: &mut [Arg<'_>], options: Options) -> Result<Report, Fault> {
    let refused = |cause| Fault { at: format!("program {}", program.name), place: None, program: [0; 3], cause };
    if let Some(violation) = verify(program).into_iter().next() {
        return Err(refused(Cause::Invalid(Box::new(violation))));
    }
    if args.len() != program.params.len() {
        return Err(refused(Cause::Arguments { want: program.params.len(), got: args.len() }));
    }
    for ((param, data), arg) in program.params.iter().zip(&*args) {
        let want = match (&data.kind, arg) {
            (ParamKind::Buffer { .. }, Arg::Buffer(bytes)) if bytes.len() % data.dtype.bytes() == 0 => continue,
            (ParamKind::Scalar { divisor }, Arg::Scalar(bits))
                if data.dtype.sign_extend(*bits) % i64::from(*divisor) == 0 =>
            {
                continue;
            }
            (ParamKind::Buffer { .. }, _) => format!("a buffer of whole {} elements", data.dtype),
            (ParamKind::Scalar { divisor }, _) => format!("a scalar that {divisor} divides"),
        };
        return Err(refused(Cause::Argument { param, want }));
    }
    let mut machine = Machine::new(program, grid, args, options);
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                machine.run([x, y, z])?;
            }
        }
    }
    Ok(machine.report())
}

#[cfg(test)]
mod tests;
