//! A device as its users see it: where work is sent, what went wrong, the state of its random numbers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use burn_backend::ExecutionError;
use rustc_hash::FxHashSet;

use super::ahead::Ahead;
use super::engine::{self, Start};
use super::exit;
use super::failure::Failure;
use super::memory::Pool;
use super::place::Place;
use super::profile::Watch;
use super::runner::Runner;
use crate::device::KilnDevice;
use crate::inspect::Segment;
use crate::knobs;
use crate::record::Work;
use crate::record::graph::{Captured, Replay};
use crate::record::stream::Stream;

/// Segments that may wait for the device.  A user thread that is further ahead waits, which bounds memory.
const QUEUE: usize = 256;

/// How long the end of the process waits for a segment that is running.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pauses between two looks, half a microsecond together.
const PAUSES: u32 = 16;

/// How long a device's thread looks for work before it sleeps, and others for its answer: to be woken takes a thread longer
/// than small kernels do.
const LOOK: Duration = Duration::from_micros(50);
const LOOK_FOR_ANSWER: Duration = Duration::from_millis(1);

/// What a device's thread is asked to do.
pub(crate) enum Message {
    /// Run a segment.
    Run(Box<Work>),
    /// Begin with one that is still being recorded.
    Begin(Box<Ahead>),
    /// Nobody wants anything of a segment that was begun with.
    Unwanted(u64),
    /// Answer when everything before has been asked for: its values have their places.
    Reach(SyncSender<()>),
    /// Answer when everything before is done, or why it never will be.
    Wait(SyncSender<Result<(), String>>),
    /// Keep what a stream sends from now on; segments before `first` are none of the graph.
    Capture {
        /// The stream.
        stream: u64,
        /// Number of the first segment.
        first: u64,
    },
    /// Answer with the graph of what a stream has sent, once that is done.
    Captured(u64, SyncSender<Result<Captured, ExecutionError>>),
    /// Keep nothing of what a stream has sent.
    Abandon(u64),
    /// Run a graph again.
    Replay(Box<Replay>),
    /// Let go of a graph.
    Forget(u64),
    /// Open or close a window of time.
    Watch(Watch),
    /// Answer and end.
    Halt(SyncSender<()>),
}

/// Numbers of things that happened on a device.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) ops: AtomicU64,
    pub(crate) segments: AtomicU64,
    pub(crate) launches: AtomicU64,
    pub(crate) gemms: AtomicU64,
    pub(crate) planned: AtomicU64,
    pub(crate) compiled: AtomicU64,
    pub(crate) compile_nanos: AtomicU64,
    pub(crate) cache_hits: AtomicU64,
    /// Parts of plans that ran before their segment was whole, and came to be wanted.
    pub(crate) ahead: AtomicU64,
    /// Classes of products whose ways were measured.
    pub(crate) tuned: AtomicU64,
    /// For how long the device's thread has looked for work before it slept.
    pub(crate) look_nanos: AtomicU64,
}

/// The seed and how many random elements were drawn from it.
pub(crate) struct Generator {
    seed: u64,
    drawn: u64,
}

impl Generator {
    /// Starts over from a seed.
    pub(crate) fn restart(&mut self, seed: u64) {
        *self = Generator { seed, drawn: 0 };
    }

    /// The seed, and the number of the first of `count` elements.
    pub(crate) fn draw(&mut self, count: u64) -> (u64, u64) {
        let first = self.drawn;
        // Whole blocks of four, so that every draw starts at one.
        self.drawn = self.drawn.wrapping_add(count.next_multiple_of(4));
        (self.seed, first)
    }
}

/// Names of windows that programs have opened and not closed.
#[derive(Default)]
pub(crate) struct OpenWindows(Mutex<Vec<u64>>);

impl OpenWindows {
    /// Adds one.
    pub(crate) fn open(&self, id: u64) {
        lock(&self.0).push(id);
    }

    /// Takes one out; whether it was there.
    pub(crate) fn close(&self, id: u64) -> bool {
        let mut open = lock(&self.0);
        let at = open.iter().position(|o| *o == id);
        at.map(|at| open.swap_remove(at)).is_some()
    }
}

/// Devices in use.
static MACHINES: Mutex<Vec<&'static Machine>> = Mutex::new(Vec::new());

/// A device.  Made at its first use, lives as long as the process.
pub(crate) struct Machine {
    pub(crate) device: KilnDevice,
    pub(crate) pool: Arc<Pool>,
    pub(crate) random: Mutex<Generator>,
    pub(crate) counters: Counters,
    pub(crate) windows: OpenWindows,
    /// Bytes of operands that recorded work may hold.
    pub(crate) segment_bytes: u64,
    /// Whether a segment of which much is still wanted goes on: memory is a way off, and what need not be written to it
    /// saves more than working on the first operations early.
    pub(crate) is_patient: bool,
    /// Hashes of what known segments begin with.
    beginnings: Mutex<FxHashSet<u64>>,
    /// Set at the end of the process: what is still in the queue is left undone.
    halted: AtomicBool,
    queue: SyncSender<Message>,
    /// First failures not yet taken, at most one a stream.
    failures: Mutex<Vec<Failure>>,
    /// Segments that ran, of streams that are being inspected.
    inspected: Mutex<Vec<(u64, Vec<Segment>)>>,
    /// Streams of threads that have ended.
    orphans: Mutex<Vec<Arc<Stream>>>,
}

impl Machine {
    /// The device, started if need be.
    ///
    /// # Panics
    ///
    /// If the device cannot be used.
    pub(crate) fn of(device: &KilnDevice) -> &'static Machine {
        let device = device.resolve();
        let mut machines = lock(&MACHINES);
        if let Some(machine) = machines.iter().find(|m| m.device == device) {
            return machine;
        }
        let (heap, start) = match engine::open(device) {
            Ok(opened) => opened,
            Err(why) => {
                drop(machines);
                panic!("device {device} cannot be used: {why}");
            }
        };
        let knobs = knobs::get();
        let (queue, inbox) = sync_channel(QUEUE);
        let machine: &'static Machine = Box::leak(Box::new(Machine {
            device,
            segment_bytes: knobs.segment_bytes.or_else(|| Some(heap.size()? / 16)).unwrap_or(1 << 30),
            is_patient: !heap.is_host(),
            pool: Pool::of(heap, knobs.memory_limit),
            random: Mutex::new(Generator { seed: entropy(), drawn: 0 }),
            counters: Counters::default(),
            windows: OpenWindows::default(),
            beginnings: Mutex::default(),
            halted: AtomicBool::new(false),
            queue,
            failures: Mutex::new(Vec::new()),
            inspected: Mutex::new(Vec::new()),
            orphans: Mutex::new(Vec::new()),
        }));
        let started =
            std::thread::Builder::new().name(format!("kiln {device}")).spawn(move || serve(machine, inbox, start));
        if let Err(error) = started {
            drop(machines);
            panic!("cannot start the thread of device {device}: {error}");
        }
        machines.push(machine);
        exit::arrange();
        machine
    }

    /// Every device in use.
    pub(super) fn all() -> Vec<&'static Machine> {
        lock(&MACHINES).clone()
    }

    /// Ends the device's thread, after the segment it is running.
    pub(super) fn halt(&self) {
        self.halted.store(true, Relaxed);
        let (reply, answer) = sync_channel(1);
        self.send(Message::Halt(reply));
        let _ = answer.recv_timeout(PATIENCE);
    }

    /// Whether a known segment begins so.
    pub(crate) fn knows_beginning(&self, hash: u64) -> bool {
        lock(&self.beginnings).contains(&hash)
    }

    /// Changes what known segments begin with.
    pub(super) fn change_beginnings(&self, f: impl FnOnce(&mut FxHashSet<u64>)) {
        f(&mut lock(&self.beginnings));
    }

    /// Puts a message into the queue.
    pub(crate) fn send(&self, message: Message) {
        // Only a device thread that has ended refuses; readers find out.
        let _ = self.queue.send(message);
    }

    /// Waits until all values of everything sent so far have their places.
    pub(crate) fn reach(&self) {
        let (reply, answer) = sync_channel(1);
        self.send(Message::Reach(reply));
        let _ = self.next(&answer, LOOK_FOR_ANSWER);
    }

    /// Waits until everything sent so far is done.
    ///
    /// # Errors
    ///
    /// If the device has stopped.
    pub(crate) fn wait(&self) -> Result<(), String> {
        let (reply, answer) = sync_channel(1);
        self.send(Message::Wait(reply));
        self.next(&answer, LOOK_FOR_ANSWER)
            .unwrap_or_else(|_| Err(format!("the thread of device {} has ended", self.device)))
    }

    /// Waits for what comes next; by looking for it at first, where threads are waited for.
    fn next<T>(&self, inbox: &Receiver<T>, look: Duration) -> Result<T, RecvError> {
        let begun = Instant::now();
        while self.is_patient && begun.elapsed() < look {
            if let Ok(message) = inbox.try_recv() {
                return Ok(message);
            }
            // Who sends should not have to wait for who looks.
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        inbox.recv()
    }

    /// Draws random elements, and gives the seed and the number of the first one for each count.
    pub(crate) fn draw_all(&self, counts: &[u64]) -> Vec<(u64, u64)> {
        let mut random = lock(&self.random);
        counts.iter().map(|&count| random.draw(count)).collect()
    }

    /// Why a value that has its place is nevertheless none, once the device is past the checks that it depends on.
    pub(crate) fn outcome(&self, place: &Place) -> Option<Failure> {
        let fates = place.fates();
        if fates.iter().any(|fate| fate.known().is_none()) {
            // A device that has stopped fails all values that wait.
            let _ = self.wait();
        }
        fates.iter().find_map(|fate| fate.known().flatten().cloned())
    }

    /// Takes over the stream of a thread that ended.
    pub(crate) fn adopt(&self, stream: Arc<Stream>) {
        if stream.end_capture() {
            self.send(Message::Abandon(stream.number));
        }
        lock(&self.orphans).push(stream);
    }

    /// Hands over what ended threads have recorded.
    pub(crate) fn submit_orphans(&self) {
        let orphans = std::mem::take(&mut *lock(&self.orphans));
        orphans.iter().for_each(|s| s.submit());
    }

    /// A failure of a stream, which is kept if it is the first.
    pub(crate) fn failure(&self, stream: u64, message: String) -> Failure {
        let failure = Failure::new(stream, message);
        self.keep(&failure);
        failure
    }

    /// Keeps a failure, if it is the first of its stream.
    fn keep(&self, failure: &Failure) {
        let mut failures = lock(&self.failures);
        if failures.iter().all(|f| f.stream() != failure.stream()) {
            failures.push(failure.clone());
        }
    }

    /// Starts or ends keeping a stream's segments; gives what was kept.
    pub(crate) fn listen(&self, stream: u64, start: bool) -> Vec<Segment> {
        let mut inspected = lock(&self.inspected);
        let index = inspected.iter().position(|(s, _)| *s == stream);
        let kept = index.map(|i| inspected.swap_remove(i).1).unwrap_or_default();
        if start {
            inspected.push((stream, Vec::new()));
        }
        kept
    }

    /// Keeps a segment, if its stream is inspected.
    pub(crate) fn log(&self, segment: Segment) {
        if let Some((_, kept)) = lock(&self.inspected).iter_mut().find(|(s, _)| *s == segment.stream) {
            kept.push(segment);
        }
    }

    /// The error of a failure, which is then no longer kept.
    pub(crate) fn take(&self, failure: &Failure) -> ExecutionError {
        lock(&self.failures).retain(|f| !f.is(failure));
        failure.error()
    }

    /// The error that a stream's work has met first.
    pub(crate) fn take_first(&self, stream: u64) -> Option<ExecutionError> {
        let mut failures = lock(&self.failures);
        let index = failures.iter().position(|f| f.stream() == stream)?;
        Some(failures.swap_remove(index).error())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A seed for whoever sets none.
fn entropy() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

fn serve(machine: &'static Machine, inbox: Receiver<Message>, start: Start) {
    let mut runner = Runner::new(machine, start);
    loop {
        let begun = Instant::now();
        let Ok(message) = machine.next(&inbox, LOOK) else { return };
        if machine.is_patient {
            let looked = begun.elapsed().min(LOOK);
            machine.counters.look_nanos.fetch_add(looked.as_nanos() as u64, Relaxed);
        }
        match message {
            Message::Run(_) | Message::Begin(_) | Message::Replay(_) if machine.halted.load(Relaxed) => {}
            Message::Run(work) => runner.run(*work),
            Message::Begin(ahead) => runner.begin(*ahead),
            Message::Unwanted(segment) => runner.beginnings.forget(segment, &*runner.kernels.engine),
            Message::Capture { stream, first } => runner.capture(stream, first),
            Message::Captured(stream, reply) => {
                let _ = reply.send(runner.captured(stream));
            }
            Message::Abandon(stream) => runner.abandon(stream),
            Message::Replay(replay) => runner.replay(*replay),
            Message::Forget(number) => runner.forget(number),
            Message::Watch(watch) => runner.watch_time(watch),
            Message::Reach(reply) => {
                let _ = reply.send(());
            }
            Message::Wait(reply) => {
                let _ = reply.send(runner.settle());
            }
            Message::Halt(reply) => {
                let _ = reply.send(());
                return;
            }
        }
    }
}
