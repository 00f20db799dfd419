//! Runs a subject over its inputs, on all processors: each thread takes the next chunk, runs the kernel and judges.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kiln_conformance::targets::{self, Machine};

use crate::inputs::Inputs;
use crate::kernel::Kernel;
use crate::subject::Subject;
use crate::tally::Tally;

/// What a sweep found.
pub struct Found {
    /// What was measured.
    pub subject: Subject,
    /// Whether every number of the type came.
    pub all: bool,
    /// The results.
    pub tally: Tally,
    /// How long it took.
    pub time: Duration,
}

/// The machine that is measured.
pub fn machine() -> Result<&'static dyn Machine, String> {
    let host = targets::present().find(|(target, _)| target.name == "host");
    Ok(host.ok_or("this computer has no target called host")?.1)
}

/// Elements per launch: what fits the caches, or what gives progress to show where each one takes long.
fn chunk(subject: &Subject) -> usize {
    if subject.is_slow() { 1 << 10 } else { 1 << 16 }
}

/// Sweeps a subject over `2^strata` operands, or all there are; `step` learns how many have been judged.
pub fn sweep(subject: Subject, strata: u32, step: &(dyn Fn(u64) + Sync)) -> Result<Found, String> {
    let start = Instant::now();
    let arity = subject.op.row().arity;
    let inputs = Inputs::new(subject.dtype, arity, strata);
    let next = AtomicU64::new(0);
    let total: Mutex<Result<Tally, String>> = Mutex::new(Ok(Tally::default()));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let machine = machine()?;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let own = share(subject, &inputs, machine, &next, step);
                let mut total = total.lock().expect("a thread that panicked has ended the sweep");
                match (&mut *total, own) {
                    (Ok(total), Ok(own)) => total.merge(&own),
                    (Ok(_), Err(error)) => *total = Err(error),
                    (Err(_), _) => {}
                }
            });
        }
    });
    let tally = total.into_inner().expect("a thread that panicked has ended the sweep")?;
    Ok(Found { subject, all: inputs.are_all(), tally, time: start.elapsed() })
}

/// One thread's part.
fn share(
    subject: Subject,
    inputs: &Inputs,
    machine: &'static dyn Machine,
    next: &AtomicU64,
    step: &(dyn Fn(u64) + Sync),
) -> Result<Tally, String> {
    let chunk = chunk(&subject);
    let (arity, dtype, bound) = (subject.op.row().arity, subject.dtype, subject.bound());
    let mut kernel = Kernel::of(subject.op, dtype, chunk, machine)?;
    let mut operands = vec![vec![0; chunk]; arity];
    let mut results = Vec::with_capacity(chunk);
    let mut tally = Tally::default();
    loop {
        let start = next.fetch_add(chunk as u64, Ordering::Relaxed);
        let end = inputs.len().min(start.saturating_add(chunk as u64));
        if start >= end {
            return Ok(tally);
        }
        for (at, index) in (start..end).enumerate() {
            let pair = inputs.at(index);
            for (operand, bits) in operands.iter_mut().zip(pair) {
                operand[at] = bits;
            }
        }
        kernel.run(&operands, &mut results)?;
        for (at, &got) in results.iter().enumerate().take((end - start) as usize) {
            let pair = [operands[0][at], operands[arity - 1][at]];
            tally.add(dtype, arity, pair, got, &subject.judge(pair, got), bound);
        }
        step(end - start);
    }
}
