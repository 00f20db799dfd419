//! The order of one user thread on one device: its open segment, and how it is handed over.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::LocalKey;

use smallvec::SmallVec;

use super::segment::Segment;
use crate::device::KilnDevice;
use crate::knobs::Numerics;
use crate::run::{Machine, Message};

/// One user thread's work on one device.
pub(crate) struct Stream {
    pub(crate) machine: &'static Machine,
    /// Unlike any other stream's.
    pub(crate) number: u64,
    /// Number of the segment being recorded.
    open: AtomicU64,
    /// Whether what is recorded is kept as a graph.
    capturing: AtomicBool,
    segment: Mutex<Segment>,
}

/// Segments are numbered from 1 throughout the process.
static SEGMENTS: AtomicU64 = AtomicU64::new(1);
static STREAMS: AtomicU64 = AtomicU64::new(1);

/// The streams of this thread.  When it ends, devices take them over.
struct Own(RefCell<SmallVec<[Arc<Stream>; 2]>>);

impl Drop for Own {
    fn drop(&mut self) {
        for stream in self.0.take() {
            stream.machine.adopt(stream);
        }
    }
}

thread_local! {
    static OWN: Own = const { Own(RefCell::new(SmallVec::new_const())) };
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    static FUSE: Cell<Option<bool>> = const { Cell::new(None) };
    static STRICT: Cell<bool> = const { Cell::new(false) };
}

/// This thread's stream on a device.
pub(crate) fn of(device: &KilnDevice) -> Arc<Stream> {
    let device = device.resolve();
    OWN.try_with(|own| {
        let mut streams = own.0.borrow_mut();
        match streams.iter().find(|s| s.machine.device == device) {
            Some(stream) => Arc::clone(stream),
            None => {
                let stream = Stream::new(Machine::of(&device));
                streams.push(Arc::clone(&stream));
                stream
            }
        }
    })
    // The thread is ending: whatever still records gets a stream of its own.
    .unwrap_or_else(|_| Stream::new(Machine::of(&device)))
}

/// This thread's stream on a device, if it captures a graph there.
pub(super) fn capturing(machine: &'static Machine) -> Option<Arc<Stream>> {
    let captures = |s: &&Arc<Stream>| std::ptr::eq(s.machine, machine) && s.is_capturing();
    OWN.try_with(|own| own.0.borrow().iter().find(captures).map(Arc::clone)).ok().flatten()
}

/// Runs `f` with fusing switched on or off for what this thread records.
pub(crate) fn with_fusing<T>(fuse: bool, f: impl FnOnce() -> T) -> T {
    with(&FUSE, Some(fuse), f)
}

/// Runs `f` with strict numerics for what this thread records.
pub(crate) fn with_strict<T>(f: impl FnOnce() -> T) -> T {
    with(&STRICT, true, f)
}

/// Runs `f` with another setting for what this thread records.
fn with<S: Copy + 'static, T>(cell: &'static LocalKey<Cell<S>>, value: S, f: impl FnOnce() -> T) -> T {
    struct Restore<S: Copy + 'static>(&'static LocalKey<Cell<S>>, S);
    impl<S: Copy> Drop for Restore<S> {
        fn drop(&mut self) {
            submit_own();
            self.0.set(self.1);
        }
    }
    submit_own();
    let _restore = Restore(cell, cell.replace(value));
    f()
}

fn submit_own() {
    let streams: SmallVec<[Arc<Stream>; 2]> =
        OWN.try_with(|own| own.0.borrow().iter().cloned().collect()).unwrap_or_default();
    streams.iter().for_each(|s| s.submit());
}

/// Marks that this thread is inside an operation's function, which must not record another.
struct Recording;

impl Recording {
    fn start() -> Recording {
        if RECORDING.replace(true) {
            panic!("an operation was recorded inside another one's recording function");
        }
        Recording
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDING.set(false);
    }
}

impl Stream {
    fn new(machine: &'static Machine) -> Arc<Stream> {
        machine.submit_orphans();
        let number = SEGMENTS.fetch_add(1, Relaxed);
        Arc::new(Stream {
            machine,
            number: STREAMS.fetch_add(1, Relaxed),
            open: AtomicU64::new(number),
            capturing: AtomicBool::new(false),
            segment: Mutex::new(Segment::new(number, machine)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Segment> {
        // A segment is consistent after every push; a panic leaves dead nodes at worst.
        self.segment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the open segment, and hands it over if it has become long.
    pub(crate) fn record<T>(self: &Arc<Self>, f: impl FnOnce(&Arc<Stream>, &mut Segment) -> T) -> T {
        let _recording = Recording::start();
        let mut segment = self.lock();
        let made = f(self, &mut segment);
        if segment.is_full() {
            self.hand_over(&mut segment);
        } else if let Some(ahead) = segment.ahead(self) {
            self.machine.send(Message::Begin(Box::new(ahead)));
        }
        made
    }

    /// Hands the open segment over.
    pub(crate) fn submit(&self) {
        self.hand_over(&mut self.lock());
    }

    /// Hands segment `number` over if it is still open.
    pub(crate) fn submit_if(&self, number: u64) {
        if self.open.load(Acquire) == number {
            let mut segment = self.lock();
            if segment.number == number {
                self.hand_over(&mut segment);
            }
        }
    }

    /// Number of the segment being recorded.
    pub(super) fn open(&self) -> u64 {
        self.open.load(Acquire)
    }

    /// Whether what is recorded is kept as a graph.
    pub(crate) fn is_capturing(&self) -> bool {
        self.capturing.load(Relaxed)
    }

    /// Starts keeping what is recorded, unless it is kept already.
    pub(super) fn start_capture(&self) -> bool {
        !self.capturing.swap(true, Relaxed)
    }

    /// Ends that; whether there was a capture to end.
    pub(crate) fn end_capture(&self) -> bool {
        self.capturing.swap(false, Relaxed)
    }

    fn hand_over(&self, segment: &mut Segment) {
        if segment.is_empty() {
            return;
        }
        let next = SEGMENTS.fetch_add(1, AcqRel);
        let done = std::mem::replace(segment, Segment::new(next, self.machine));
        let begun = done.is_begun().then_some(done.number);
        let fuse = FUSE.try_with(Cell::get).ok().flatten().unwrap_or(crate::knobs::get().fuse);
        let strict = STRICT.try_with(Cell::get).unwrap_or_default() || crate::knobs::get().numerics == Numerics::Strict;
        if let Some((work, holds)) = done.close(self.number, fuse, strict) {
            self.machine.send(Message::Run(work));
            drop(holds);
        } else if let Some(number) = begun {
            self.machine.send(Message::Unwanted(number));
        }
        // Whoever sees the new number finds the old segment's work in the queue.
        self.open.store(next, Release);
    }
}
