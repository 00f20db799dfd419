//! What a device is to those who run plans on it: one interface, an implementation per kind of machine.  Nothing outside
//! asks which one it is.
//!
//! Work is asked for in order and done in order.  A machine may be done when a call returns (the processor) or later (a
//! device that works by itself): then checks answer with a ticket, and [`Engine::mark`] and [`Engine::reach`] say how far
//! it has come.

mod cuda;
#[cfg(test)]
pub(crate) mod delayed;
mod host;
mod interp;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use kiln_lowering::pipeline::See;
use kiln_lowering::schedule::{Arg, Buf, Gemm, Grain, Plan, Sort, Tail};
use kiln_lowering::spec::Spec;
use kiln_lowering::tile::Program;

use super::gather::{Asked, Submitted};
use super::heap::{Heap, HostHeap};
use super::memory::Buffer;
use crate::device::KilnDevice;
use crate::knobs;

/// A place in the order of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(u64);

/// A check whose answer comes later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket(u32);

/// What the checks of a kernel say.
pub(super) enum Checked {
    /// The code of the first that failed, or 0.
    Now(u32),
    /// The device is not there yet.
    Later(Ticket),
}

/// A launch of a kernel.
pub(super) struct Launch<'a> {
    pub(super) plan: &'a Plan,
    /// Numbers of program instances, none of them 0.
    pub(super) grid: [u32; 3],
    pub(super) args: &'a [Arg],
    /// A word per argument: a buffer's address, or a scalar's bits.
    pub(super) params: &'a [u64],
    /// Whether the program checks anything.
    pub(super) checks: bool,
}

/// Addresses of a product's factors and result, and of its epilogue's bias.
pub(super) type At = ([u64; 3], Option<u64>);

/// Where a product's operands and its result are, by the addresses of buffers.
pub(super) fn places(gemm: &Gemm, mut address: impl FnMut(Buf) -> Result<u64, String>) -> Result<At, String> {
    let matrices = [address(gemm.a.buffer)?, address(gemm.b.buffer)?, address(gemm.c.buffer)?];
    Ok((matrices, gemm.bias().map(|(buf, _)| address(buf)).transpose()?))
}

/// A program that can be launched.
pub(super) trait Kernel: Any + Send + Sync {
    /// Has it run.
    ///
    /// # Safety
    ///
    /// There is a word per parameter of the program, and in each buffer's the address of memory of this device that
    /// holds all elements that the program accesses, aligned to 64, which belongs to this run alone where it is written.
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<Checked, String>;
}

/// A place in the order of work, of which a device that works by itself keeps when it came past it.
pub(crate) trait Stamp: Any + Send {
    /// How long after an earlier one it was; waits until the device has come past it.
    fn since(&self, earlier: &dyn Stamp) -> Result<Duration, String>;
}

/// What an engine remembers of a part of a plan.
pub(super) type Memory = Option<Box<dyn Any>>;

/// A machine that runs plans.
pub(super) trait Engine: Send + Sync {
    /// The kernel of a program that needs no machine code.
    fn interpret(&self, _program: &Program) -> Option<Arc<dyn Kernel>> {
        None
    }

    /// What machine code is made for; nothing where there is none.
    fn spec(&self) -> Option<&Spec>;

    /// What machine code depends on besides: the version of a compiler that is not Kiln's.
    fn version(&self) -> String {
        String::new()
    }

    /// What decides besides how fast things are: the machine's name, the version of its library.
    fn identity(&self) -> String {
        String::new()
    }

    /// Machine code of a program, in a form that can be kept.
    fn compile(&self, program: &Program, see: See<'_>) -> Result<Vec<u8>, String>;

    /// Loads machine code, which may come from a file: its checksum held, but it may be another machine's.
    fn load(&self, code: &[u8]) -> Result<Arc<dyn Kernel>, String>;

    /// How work is cut up.
    fn grain(&self) -> Grain;

    /// Products of at least this many multiplications go to the library; none where there is no library.
    fn gemm_from(&self) -> Option<u64>;

    /// Whether the library computes a product as its operands lie.
    fn takes(&self, _gemm: &Gemm) -> bool {
        true
    }

    /// Whether the library computes a product with its epilogue, and rounds once after both.  Strict numerics have no
    /// products by the library, and so none of these.
    fn absorbs(&self, _gemm: &Gemm) -> bool {
        false
    }

    /// Whether it is measured in which way products are computed best.
    fn tunes(&self) -> bool {
        knobs::get().tune
    }

    /// Whether what was measured is kept for the next process.
    fn remembers(&self) -> bool {
        true
    }

    /// Called by the device's thread before it asks for the work of a plan.
    fn begin(&self) -> Result<(), String> {
        Ok(())
    }

    /// Has the library compute a product.
    ///
    /// # Safety
    ///
    /// The addresses are those of the buffers of both factors, of the result, and of the epilogue's bias where it has
    /// one; the plan's places lie inside them, and the result has a buffer of its own.
    unsafe fn product(&self, gemm: &Gemm, at: At) -> Result<(), String>;

    /// Whether a product and its tail are better asked for together.
    fn finishes(&self) -> bool {
        false
    }

    /// Has the library compute a product, and a kernel finish each part of it as [`Tail`] says.
    ///
    /// # Safety
    ///
    /// As for [`Engine::product`] and [`Kernel::launch`], the kernel being of this engine.
    unsafe fn finish(
        &self,
        _product: (&Gemm, Tail, At),
        _kernel: &dyn Kernel,
        _launch: &Launch<'_>,
    ) -> Result<Checked, String> {
        unreachable!("this machine is asked for a product and its tail one after the other")
    }

    /// Sorts a buffer into another.
    ///
    /// # Safety
    ///
    /// The result has a buffer of its own, which holds it.
    unsafe fn sort(&self, sort: &Sort, input: &Arc<Buffer>, output: &Arc<Buffer>) -> Result<(), String>;

    /// Whether a plan's work is better asked for in parts than one by one.
    fn gathers(&self) -> bool {
        false
    }

    /// Memory for work that will come again for certain.
    fn expect(&self) -> Memory {
        None
    }

    /// Asks for work as a whole.  `memory` is that of the plan's part, for what makes it faster when it comes again; there is
    /// none where the work is no such part.
    ///
    /// # Safety
    ///
    /// As for [`Kernel::launch`] and [`Engine::product`].
    unsafe fn submit(&self, _asked: &[Asked<'_>], _words: &[u64], _memory: Option<&mut Memory>) -> Submitted {
        unreachable!("this machine is asked for one thing after another")
    }

    /// The device's own time after what was asked for so far; nothing where that is done already.
    fn stamp(&self) -> Result<Option<Box<dyn Stamp>>, String> {
        Ok(None)
    }

    /// Marks what was asked for so far; nothing where it is done already.
    fn mark(&self) -> Result<Option<Mark>, String> {
        Ok(None)
    }

    /// Whether everything before a mark is done; with `wait`, once it is.
    fn reach(&self, _mark: Mark, _wait: bool) -> Result<bool, String> {
        Ok(true)
    }

    /// The answer of a check; asked for once, when the device has come past a mark behind it, or never will.
    fn verdict(&self, ticket: Ticket) -> u32 {
        unreachable!("no check of this machine is answered later, got {ticket:?}")
    }

    /// Waits until everything asked for so far is done.
    fn synchronise(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A device's engine, made on the thread that runs it.
pub(super) type Start = Box<dyn FnOnce() -> Box<dyn Engine> + Send>;

/// A device's memory, and what starts its engine.
///
/// # Errors
///
/// Why it can't be used, in one line.
pub(super) fn open(device: KilnDevice) -> Result<(Arc<dyn Heap>, Start), String> {
    match device {
        KilnDevice::Cpu | KilnDevice::Chosen => Ok((Arc::new(HostHeap), Box::new(|| Box::new(host::Host::new())))),
        KilnDevice::Interp => Ok((Arc::new(HostHeap), Box::new(|| Box::new(interp::Interp)))),
        #[cfg(test)]
        KilnDevice::Cuda(number @ delayed::FIRST..) => Ok(delayed::open(number)),
        KilnDevice::Cuda(number) => cuda::open(number),
        KilnDevice::Hip(_) => Err("Kiln does not run on AMD GPUs yet".into()),
    }
}

/// How many devices there are of the kind of a device.
pub(crate) fn count(kind: KilnDevice) -> usize {
    match kind {
        KilnDevice::Cpu | KilnDevice::Interp | KilnDevice::Chosen => 1,
        KilnDevice::Cuda(_) => kiln_lowering::target::nvidia::driver::count(),
        KilnDevice::Hip(_) => 0,
    }
}

/// What is known of this computer's devices, by their names; of a kind of which there is none, why.
pub(crate) fn about() -> Vec<(String, Vec<(&'static str, String)>)> {
    let mut devices = vec![("cpu".to_string(), host::about())];
    devices.extend(cuda::about());
    devices
}
