//! How fast this machine copies: the limit of everything that reads and writes memory once.

use std::fmt;
use std::thread;
use std::time::Instant;

use crate::median::median;

/// Bytes of each of the two buffers: far beyond what caches hold, and the size of the pointwise workloads' operands,
/// which a large cache may hold.
const LARGE: usize = 256 << 20;
const SMALL: usize = 16 << 20;

const RUNS: usize = 9;

/// Bytes read and written a second, in GB/s.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    pub large: f64,
    pub small: f64,
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "copy: {:.1} GB/s (256 MiB), {:.1} GB/s (16 MiB), read and written", self.large, self.small)
    }
}

/// Copies on all threads.
pub fn measure() -> Copy {
    Copy { large: rate(LARGE, 1), small: rate(SMALL, 16) }
}

/// The median over some runs of `times` copies each.
fn rate(bytes: usize, times: usize) -> f64 {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let part = bytes.div_ceil(threads);
    let source = vec![1u8; bytes];
    let mut target = vec![2u8; bytes];
    let rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            thread::scope(|scope| {
                for (source, target) in source.chunks(part).zip(target.chunks_mut(part)) {
                    // Each thread repeats its own part, so that starting it is paid once.
                    scope.spawn(move || {
                        (0..times).for_each(|_| std::hint::black_box(&mut *target).copy_from_slice(source))
                    });
                }
            });
            (2 * bytes * times) as f64 / start.elapsed().as_secs_f64() / 1e9
        })
        .collect();
    median(&rates)
}
