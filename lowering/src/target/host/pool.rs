//! Threads that run the programs of a launch.  Knows nothing of kernels: it calls a function for runs of programs.
//!
//! The launching thread works too.  Where the others have parked it starts alone: only when the programs it has run so
//! far say that the rest will take longer than waking somebody does are they called.  Chunks are claimed from a counter,
//! so a thread that is held up holds up nobody but itself.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a launch runs: called with x₀, x₁, y, z and the extents of the grid, for the programs x₀ … x₁−1 of a row.
type Run<'a> = &'a (dyn Fn(&[u32; 7]) + Sync);

/// Waking a parked thread takes about this long; less work than that is done alone.
const WAKING: Duration = Duration::from_micros(15);

/// Rounds that a thread looks for work, or for the end of others' work, before it parks: some tens of microseconds.
const SPINS: u32 = 4_000;

/// Fewest programs for which threads that are awake are called at once.
const CALLED_AT_ONCE: u64 = 8;

/// Chunks per thread: enough for even shares, few enough for the counter not to matter.
const CHUNKS: u64 = 8;

/// A fixed set of threads.  One launch at a time uses them; launches that come meanwhile run on their own thread.
pub struct Pool {
    shared: Arc<Shared>,
    launching: Mutex<()>,
    helpers: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Signals a new job, or the end.
    called: Condvar,
    /// Signals that a helper has left a job.
    left: Condvar,
    /// Counts jobs, for helpers that are still looking.
    calls: AtomicU64,
    /// Helpers that are looking and have not parked.
    looking: AtomicUsize,
    /// Helpers inside the job.  Written under the lock, so that nobody waits for a signal that has been given.
    working: AtomicUsize,
}

#[derive(Default)]
struct State {
    job: Option<JobRef>,
    stop: bool,
}

/// A job on the stack of the launching thread.
#[derive(Clone, Copy)]
struct JobRef(*const Job<'static>);

// SAFETY: `Job` is `Sync`, and the launching thread keeps it alive until every helper has left it.
unsafe impl Send for JobRef {}

struct Job<'a> {
    run: Run<'a>,
    grid: [u32; 3],
    total: u64,
    chunk: u64,
    next: AtomicU64,
    panicked: AtomicBool,
}

impl Job<'_> {
    /// Claims and runs chunks until none are left, or one panicked.
    fn work(&self) {
        let done = catch_unwind(AssertUnwindSafe(|| while self.step() {}));
        if done.is_err() {
            self.panicked.store(true, Ordering::Relaxed);
            self.next.store(self.total, Ordering::Relaxed);
        }
    }

    /// Runs one chunk, if there is one left.
    fn step(&self) -> bool {
        let from = self.next.fetch_add(self.chunk, Ordering::Relaxed);
        if from >= self.total {
            return false;
        }
        self.span(from, self.total.min(from + self.chunk));
        true
    }

    /// Runs chunks until all are done (true), or those done so far say that the rest is worth waking somebody for.
    fn finishes_soon(&self) -> bool {
        let started = Instant::now();
        while self.step() {
            let done = self.next.load(Ordering::Relaxed).min(self.total);
            if started.elapsed().mul_f64((self.total - done) as f64 / done as f64) > WAKING {
                return false;
            }
        }
        true
    }

    /// Runs the programs `from … to−1`, counted with x fastest, row by row.
    fn span(&self, mut from: u64, to: u64) {
        let [nx, ny, nz] = self.grid;
        while from < to {
            let (x, row) = ((from % u64::from(nx)) as u32, from / u64::from(nx));
            let (y, z) = ((row % u64::from(ny)) as u32, (row / u64::from(ny)) as u32);
            let end = u64::from(nx).min(u64::from(x) + (to - from)) as u32;
            (self.run)(&[x, end, y, z, nx, ny, nz]);
            from += u64::from(end - x);
        }
    }
}

impl Pool {
    /// As many threads as the process may use at once.
    pub fn new() -> Pool {
        Pool::with_threads(std::thread::available_parallelism().map_or(1, |n| n.get()))
    }

    /// `threads` threads, the launching one among them.
    pub fn with_threads(threads: usize) -> Pool {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            called: Condvar::new(),
            left: Condvar::new(),
            calls: AtomicU64::new(0),
            looking: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
        });
        let helper = |i: usize| {
            let shared = Arc::clone(&shared);
            // A machine that refuses another thread gets on with fewer.
            std::thread::Builder::new().name(format!("kiln-host-{i}")).spawn(move || shared.help()).ok()
        };
        let helpers = (1..threads).filter_map(helper).collect();
        Pool { shared, launching: Mutex::new(()), helpers }
    }

    /// Number of threads, the launching one included.
    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `run` for all programs of a grid and returns when all are done.  A panic in one of them goes on here.
    pub fn run(&self, grid: [u32; 3], run: Run<'_>) {
        let total: u64 = grid.iter().map(|&n| u64::from(n)).product();
        self.work(grid, (total / (self.threads() as u64 * CHUNKS)).max(1), true, run);
    }

    /// Calls `run` for the numbers below `tasks`, known to be long ones: helpers are called at once.
    pub fn share(&self, tasks: u32, run: &(dyn Fn(u32) + Sync)) {
        self.work([tasks, 1, 1], 1, false, &|ids| (ids[0]..ids[1]).for_each(run));
    }

    fn work(&self, grid: [u32; 3], chunk: u64, alone_first: bool, run: Run<'_>) {
        let total: u64 = grid.iter().map(|&n| u64::from(n)).product();
        if total == 0 {
            return;
        }
        let job = Job { run, grid, total, chunk, next: AtomicU64::new(0), panicked: AtomicBool::new(false) };
        let alone = match self.launching.try_lock() {
            _ if total == 1 || self.helpers.is_empty() => None,
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        };
        let Some(_guard) = alone else { return job.span(0, total) };

        let awake = total >= CALLED_AT_ONCE && self.shared.looking.load(Ordering::Relaxed) > 0;
        if alone_first && !awake && job.finishes_soon() {
            return;
        }
        {
            let _open = self.shared.open(&job);
            job.work();
        }
        if job.panicked.load(Ordering::Relaxed) {
            resume_unwind(Box::new("a program of this launch panicked"));
        }
    }
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::new()
    }
}

/// A job that helpers may enter; closing it waits until they have left.
struct Open<'a>(&'a Shared);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open<'a>(&'a self, job: &'a Job<'a>) -> Open<'a> {
        self.lock().job = Some(JobRef(std::ptr::from_ref(job).cast()));
        self.calls.fetch_add(1, Ordering::Release);
        self.called.notify_all();
        Open(self)
    }

    /// A helper's life.
    fn help(&self) {
        let mut seen = 0;
        loop {
            self.looking.fetch_add(1, Ordering::Relaxed);
            for _ in 0..SPINS {
                if self.calls.load(Ordering::Acquire) != seen {
                    break;
                }
                std::hint::spin_loop();
            }
            self.looking.fetch_sub(1, Ordering::Relaxed);
            let mut state = self.lock();
            while !state.stop && self.calls.load(Ordering::Acquire) == seen {
                state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.stop {
                return;
            }
            seen = self.calls.load(Ordering::Acquire);
            let Some(job) = state.job else { continue };
            self.working.fetch_add(1, Ordering::Relaxed);
            drop(state);
            // SAFETY: the job was open when we entered, under the lock that closing it takes, and closing it waits
            // until `working` is zero again.
            unsafe { (*job.0).work() };
            let state = self.lock();
            self.working.fetch_sub(1, Ordering::Release);
            drop(state);
            self.left.notify_all();
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.lock().job = None;
        let working = || self.0.working.load(Ordering::Acquire) > 0;
        // What a helper still has to do is one chunk, often less work than falling asleep and being woken.
        for _ in 0..SPINS {
            if !working() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut state = self.0.lock();
        while working() {
            state = self.0.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.called.notify_all();
        for helper in self.helpers.drain(..) {
            let _ = helper.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// How often each program of a grid runs.
    fn counts(pool: &Pool, grid: [u32; 3], slow: bool) -> Vec<u32> {
        let hits: Vec<AtomicU32> = (0..grid.iter().product::<u32>()).map(|_| AtomicU32::new(0)).collect();
        pool.run(grid, &|&[x0, x1, y, z, nx, ny, nz]| {
            assert_eq!([nx, ny, nz], grid);
            for x in x0..x1 {
                hits[((z * ny + y) * nx + x) as usize].fetch_add(1, Ordering::Relaxed);
                if slow {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        });
        hits.into_iter().map(AtomicU32::into_inner).collect()
    }

    #[test]
    fn every_program_runs_once() {
        let pool = Pool::with_threads(3);
        for grid in [[1, 1, 1], [7, 1, 1], [1000, 1, 1], [3, 5, 7], [1, 1, 100], [0, 4, 4], [64, 64, 1]] {
            for slow in [false, grid != [64, 64, 1]] {
                assert!(counts(&pool, grid, slow).iter().all(|&n| n == 1), "{grid:?}");
            }
        }
    }

    #[test]
    fn shared_tasks_run_once_each() {
        let pool = Pool::with_threads(3);
        for tasks in [0, 1, 2, 3, 50] {
            let hits: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
            pool.share(tasks, &|i| _ = hits[i as usize].fetch_add(1, Ordering::Relaxed));
            assert!(hits.into_iter().all(|n| n.into_inner() == 1));
        }
    }

    #[test]
    fn a_panic_reaches_the_launcher_and_the_pool_goes_on() {
        let pool = Pool::with_threads(3);
        for _ in 0..20 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run([500, 1, 1], &|ids| {
                    std::thread::sleep(Duration::from_micros(20));
                    assert!(ids[0] < 200, "on purpose");
                });
            }));
            assert!(result.is_err());
            assert!(counts(&pool, [300, 1, 1], true).iter().all(|&n| n == 1));
        }
    }

    #[test]
    fn launches_from_several_threads_share_a_pool() {
        let pool = Pool::with_threads(2);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope
                    .spawn(|| (0..20).for_each(|_| assert!(counts(&pool, [100, 2, 1], false).iter().all(|&n| n == 1))));
            }
        });
    }
}
