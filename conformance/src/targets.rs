//! The targets that tests run on, a line each.  A target executes tile programs; everything above is the same for all.

mod host;
mod interp;
mod nvidia;

use kiln_lowering::schedule::Grain;
use kiln_lowering::tile::Program;

/// What a launch passes for a parameter.
pub enum Argument<'a> {
    /// A buffer, aligned to 64 bytes.
    Buffer(&'a mut [u8]),
    /// A scalar's bit pattern.
    Scalar(u64),
}

/// Something that executes tile programs.
pub trait Machine: Sync {
    /// Runs a program over a grid; gives the code of a check that failed, or 0.
    fn launch(&self, program: &Program, grid: [u32; 3], args: &mut [Argument<'_>]) -> Result<u32, String>;
}

/// A machine with its name.
pub struct Target {
    /// As it is printed in reports.
    pub name: &'static str,
    /// How plans for it are cut, which changes no bit of a result.
    pub grain: Grain,
    /// The machine, where this computer has it.
    pub machine: fn() -> Option<&'static dyn Machine>,
}

/// As for a processor of four threads.
pub const FOR_VECTORS: Grain = Grain::of_vectors(4);
/// As for a GPU of some hundred multiprocessors.
pub const FOR_THREADS: Grain = Grain::of_threads(8192);

/// Every target, each after the one that it is compared with.
pub const TARGETS: &[Target] = &[
    Target { name: "interp without passes", grain: FOR_VECTORS, machine: || Some(&interp::PLAIN) },
    Target { name: "interp", grain: FOR_VECTORS, machine: || Some(&interp::REWRITTEN) },
    Target { name: "host", grain: FOR_VECTORS, machine: || host::machine() },
    Target { name: "nvidia", grain: FOR_THREADS, machine: || nvidia::machine() },
];

/// The targets that this computer has, with their machines.
pub fn present() -> impl Iterator<Item = (&'static Target, &'static dyn Machine)> {
    TARGETS.iter().filter_map(|target| Some((target, (target.machine)()?)))
}
