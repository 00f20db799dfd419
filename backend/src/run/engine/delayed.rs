//! For tests: a device that works by itself, played by the processor.  Everything asked for waits in a queue until
//! somebody reads or waits, and its memory can't be looked at: what a GPU forgives only now and then fails here always.

use std::any::Any;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use kiln_lowering::DType;
use kiln_lowering::pipeline::See;
use kiln_lowering::schedule::{Gemm, Grain, Plan, Sort};
use kiln_lowering::spec::Spec;
use kiln_lowering::tile::Program;

use super::super::blas::{self, On};
use super::super::gather::{Asked, Submitted, ask_each};
use super::super::heap::{Heap, HostHeap};
use super::super::memory::Buffer;
use super::host::Host;
use super::{At, Checked, Engine, Kernel, Launch, Mark, Memory, Stamp, Start, Ticket};

/// Number of the first CUDA device that is played.
pub(crate) const FIRST: usize = 9000;

/// Number of one that stops at the first check that fails.
pub(crate) const FRAIL: usize = FIRST + 100;

/// Number of one with little memory, and how much that is.
pub(crate) const SMALL: usize = FIRST + 50;
const LITTLE: usize = 300 << 10;

/// Numbers of those that multiply tiles: the first does not measure whether its library would be faster, others do, and the
/// library of the last leaves results as they were.
pub(crate) const QUIET: usize = FIRST + 60;
pub(crate) const TUNED: usize = QUIET + 1;
pub(crate) const IDLE: usize = FIRST + 69;

/// What a stopped device says.
const STOPPED: &str = "the device has stopped";

#[derive(Default)]
struct Queue {
    tasks: Mutex<VecDeque<Box<dyn FnOnce() -> bool + Send>>>,
    /// Tasks asked for, and done.
    asked: AtomicU32,
    done: AtomicU32,
    /// Words of checks.
    words: Mutex<Words>,
    stopped: AtomicU32,
}

/// What checks leave, by ticket: a kernel writes a code only if the check failed, and a mark brings it to the host.  Tickets
/// are lent again, the last one first.
#[derive(Default)]
struct Words {
    codes: Vec<u32>,
    copies: Vec<u32>,
    lent: Vec<usize>,
    free: Vec<usize>,
}

impl Words {
    fn lend(&mut self) -> usize {
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.codes.push(0);
            self.copies.push(0);
            self.codes.len() - 1
        });
        self.lent.push(ticket);
        ticket
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    fn check(&self) -> Result<(), String> {
        if self.stopped.load(Relaxed) == 0 { Ok(()) } else { Err(STOPPED.into()) }
    }

    /// Puts work behind all other.
    fn ask(&self, task: impl FnOnce() -> bool + Send + 'static) -> Result<(), String> {
        self.check()?;
        lock(&self.tasks).push_back(Box::new(task));
        self.asked.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Does what was asked for, up to a number.
    fn run(&self, up_to: u32) -> Result<(), String> {
        let mut tasks = lock(&self.tasks);
        while self.done.load(Relaxed) < up_to {
            self.check()?;
            let Some(task) = tasks.pop_front() else { return Ok(()) };
            if !task() {
                self.stopped.store(1, Relaxed);
            }
            self.done.fetch_add(1, Relaxed);
        }
        self.check()
    }

    fn run_all(&self) -> Result<(), String> {
        self.run(u32::MAX)
    }
}

struct Remote {
    queue: Arc<Queue>,
    size: usize,
    taken: AtomicUsize,
}

/// An address that may go to whoever does the work.
#[derive(Clone, Copy)]
struct Address(usize);

impl Address {
    fn of(start: NonNull<u8>) -> Address {
        Address(start.as_ptr().expose_provenance())
    }

    fn start(self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

impl Heap for Remote {
    fn is_host(&self) -> bool {
        false
    }

    fn allocate(&self, size: usize) -> Result<Option<NonNull<u8>>, String> {
        self.queue.check()?;
        if self
            .taken
            .fetch_update(Relaxed, Relaxed, |taken| (taken + size <= self.size).then_some(taken + size))
            .is_err()
        {
            return Ok(None);
        }
        let start = HostHeap.allocate(size)?;
        // A fresh block holds anything.
        // SAFETY: the block is as long.
        start.inspect(|s| unsafe { s.write_bytes(0xa5, size) });
        Ok(start)
    }

    unsafe fn free(&self, start: NonNull<u8>, size: usize) {
        let _ = self.queue.run_all();
        self.taken.fetch_sub(size, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { HostHeap.free(start, size) };
    }

    unsafe fn write(&self, start: NonNull<u8>, bytes: &[u8]) -> Result<(), String> {
        let (to, bytes) = (Address::of(start), bytes.to_vec());
        self.queue.ask(move || {
            // SAFETY: as the caller promises.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.start(), bytes.len()) };
            true
        })
    }

    unsafe fn read(&self, start: NonNull<u8>, bytes: &mut [u8]) -> Result<(), String> {
        self.queue.run_all()?;
        // SAFETY: as the caller promises.
        unsafe { HostHeap.read(start, bytes) }
    }

    unsafe fn copy(
        &self,
        start: NonNull<u8>,
        other: &dyn Heap,
        from: NonNull<u8>,
        bytes: usize,
    ) -> Result<bool, String> {
        let Some(source) = (other as &dyn Any).downcast_ref::<Remote>() else { return Ok(false) };
        source.queue.run_all()?;
        let (to, from) = (Address::of(start), Address::of(from));
        // SAFETY: as the caller promises.
        let copied = unsafe { std::slice::from_raw_parts(from.start(), bytes) }.to_vec();
        self.queue.ask(move || {
            // SAFETY: as the caller promises.
            unsafe { std::ptr::copy_nonoverlapping(copied.as_ptr(), to.start(), bytes) };
            true
        })?;
        Ok(true)
    }

    unsafe fn duplicate(&self, start: NonNull<u8>, from: NonNull<u8>, bytes: usize) -> Result<(), String> {
        let (to, from) = (Address::of(start), Address::of(from));
        self.queue.ask(move || {
            // SAFETY: as the caller promises.
            unsafe { std::ptr::copy_nonoverlapping(from.start(), to.start(), bytes) };
            true
        })
    }

    unsafe fn fill(&self, start: NonNull<u8>, byte: u8, bytes: usize) -> Result<(), String> {
        let to = Address::of(start);
        self.queue.ask(move || {
            // SAFETY: as the caller promises.
            unsafe { to.start().write_bytes(byte, bytes) };
            true
        })
    }

    fn size(&self) -> Option<u64> {
        Some(self.size as u64)
    }
}

struct Delayed {
    number: usize,
    host: Host,
    queue: Arc<Queue>,
}

struct Loaded {
    kernel: Arc<dyn Kernel>,
    queue: Arc<Queue>,
    frail: bool,
}

impl Kernel for Loaded {
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<Checked, String> {
        let ticket = launch.checks.then(|| lock(&self.queue.words).lend());
        let (kernel, queue, frail) = (Arc::clone(&self.kernel), Arc::clone(&self.queue), self.frail);
        let (grid, params) = (launch.grid, launch.params.to_vec());
        self.queue.ask(move || {
            let launch = Launch { plan: &Plan::default(), grid, args: &[], params: &params, checks: ticket.is_some() };
            // SAFETY: as the caller promises.
            let code = match unsafe { kernel.launch(&launch) } {
                Ok(Checked::Now(code)) => code,
                _ => unreachable!("the processor knows at once"),
            };
            if let Some(ticket) = ticket.filter(|_| code != 0) {
                lock(&queue.words).codes[ticket] = code;
            }
            !frail || code == 0
        })?;
        Ok(ticket.map_or(Checked::Now(0), |ticket| Checked::Later(Ticket(ticket as u32))))
    }
}

/// Opens one.
pub(super) fn open(number: usize) -> (Arc<dyn Heap>, Start) {
    let queue = Arc::new(Queue::default());
    let size = if number == SMALL { LITTLE } else { 1 << 30 };
    let heap = Arc::new(Remote { queue: Arc::clone(&queue), size, taken: AtomicUsize::new(0) });
    (heap, Box::new(move || Box::new(Delayed { host: Host::new(), queue, number })))
}

/// What a product's epilogue makes of the product.
///
/// # Safety
///
/// The addresses are those of the buffers of the result and of the bias.
unsafe fn finish(gemm: &Gemm, c: *mut f32, bias: Option<*const f32>) {
    let Some(epilogue) = gemm.epilogue else { return };
    // A result with a tail lies without gaps.
    for at in 0..gemm.batch.iter().product::<u64>() * gemm.m * gemm.n {
        // SAFETY: as the caller promises; the plan's places lie inside the buffers.
        unsafe {
            let x = c.offset(gemm.c.offset as isize + at as isize);
            if let (Some(bias), Some((_, first))) = (bias, epilogue.bias) {
                *x += *bias.offset(first as isize + (at % gemm.n) as isize);
            }
            if epilogue.relu && *x < 0.0 {
                *x = 0.0;
            }
        }
    }
}

struct Passed {
    queue: Arc<Queue>,
    time: Arc<OnceLock<Instant>>,
}

impl Stamp for Passed {
    fn since(&self, earlier: &dyn Stamp) -> Result<Duration, String> {
        self.queue.run_all()?;
        let earlier: &dyn Any = earlier;
        let earlier = earlier.downcast_ref::<Passed>().and_then(|passed| passed.time.get());
        earlier.zip(self.time.get()).map(|(first, last)| *last - *first).ok_or("the stamps were not passed".into())
    }
}

impl Engine for Delayed {
    fn spec(&self) -> Option<&Spec> {
        self.host.spec()
    }

    fn compile(&self, program: &Program, see: See<'_>) -> Result<Vec<u8>, String> {
        self.host.compile(program, see)
    }

    fn load(&self, code: &[u8]) -> Result<Arc<dyn Kernel>, String> {
        let (kernel, queue, frail) = (self.host.load(code)?, Arc::clone(&self.queue), self.number >= FRAIL);
        Ok(Arc::new(Loaded { kernel, queue, frail }))
    }

    fn grain(&self) -> Grain {
        let grain = Grain::of_vectors(100);
        if (QUIET..=IDLE).contains(&self.number) { grain.together() } else { grain }
    }

    fn tunes(&self) -> bool {
        (TUNED..=IDLE).contains(&self.number)
    }

    fn remembers(&self) -> bool {
        false
    }

    fn gemm_from(&self) -> Option<u64> {
        self.host.gemm_from()
    }

    fn takes(&self, gemm: &Gemm) -> bool {
        kiln_lowering::target::nvidia::driver::takes(gemm)
    }

    fn begin(&self) -> Result<(), String> {
        self.queue.check()
    }

    fn absorbs(&self, gemm: &Gemm) -> bool {
        gemm.dtype == DType::F32 && self.takes(gemm)
    }

    unsafe fn product(&self, gemm: &Gemm, (addresses, bias): At) -> Result<(), String> {
        let (gemm, at) = (gemm.clone(), addresses.map(|a| Address(a as usize)));
        let bias = bias.map(|a| Address(a as usize));
        let works = self.number != IDLE;
        self.queue.ask(move || {
            if !works {
                return true;
            }
            let [a, b, c] = at.map(Address::start);
            // SAFETY: as the caller promises.
            unsafe {
                blas::run(On::Definition, &gemm, a, b, c);
                finish(&gemm, c.cast(), bias.map(|bias| bias.start().cast_const().cast()));
            }
            true
        })
    }

    unsafe fn sort(&self, sort: &Sort, input: &Arc<Buffer>, output: &Arc<Buffer>) -> Result<(), String> {
        self.queue.run_all()?;
        // SAFETY: as the caller promises.
        unsafe { self.host.sort(sort, input, output) }
    }

    fn gathers(&self) -> bool {
        true
    }

    unsafe fn submit(&self, asked: &[Asked<'_>], words: &[u64], memory: Option<&mut Memory>) -> Submitted {
        if let Some(memory) = memory {
            // Others run what they recorded of a part, with new words: it must be the same work each time.
            let work: Vec<Option<(usize, [u32; 3])>> = asked
                .iter()
                .map(|one| match one {
                    Asked::Launch { kernel, grid, .. } => Some((Arc::as_ptr(kernel).addr(), *grid)),
                    Asked::Product { .. } => None,
                })
                .collect();
            let known = memory.get_or_insert_with(|| Box::new(work.clone())).downcast_ref();
            assert_eq!(known, Some(&work), "a part of a plan is another than it was");
        }
        // SAFETY: as the caller promises.
        unsafe { ask_each(self, asked, words) }
    }

    fn stamp(&self) -> Result<Option<Box<dyn Stamp>>, String> {
        let (queue, time) = (Arc::clone(&self.queue), Arc::<OnceLock<Instant>>::default());
        let passed = Arc::clone(&time);
        self.queue.ask(move || passed.set(Instant::now()).is_ok())?;
        Ok(Some(Box::new(Passed { queue, time })))
    }

    fn mark(&self) -> Result<Option<Mark>, String> {
        self.queue.check()?;
        let lent = std::mem::take(&mut lock(&self.queue.words).lent);
        if !lent.is_empty() {
            let queue = Arc::clone(&self.queue);
            self.queue.ask(move || {
                let mut words = lock(&queue.words);
                lent.iter().for_each(|&ticket| words.copies[ticket] = words.codes[ticket]);
                true
            })?;
        }
        Ok(Some(Mark(self.queue.asked.load(Relaxed).into())))
    }

    fn reach(&self, mark: Mark, wait: bool) -> Result<bool, String> {
        self.queue.check()?;
        if wait {
            self.queue.run(mark.0 as u32)?;
        }
        Ok(u64::from(self.queue.done.load(Relaxed)) >= mark.0)
    }

    fn verdict(&self, ticket: Ticket) -> u32 {
        let (mut words, ticket) = (lock(&self.queue.words), ticket.0 as usize);
        let code = words.copies[ticket];
        if code != 0 {
            (words.copies[ticket], words.codes[ticket]) = (0, 0);
        }
        words.free.push(ticket);
        code
    }

    fn synchronise(&self) -> Result<(), String> {
        self.queue.run_all()
    }
}
