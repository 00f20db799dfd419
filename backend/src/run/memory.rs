//! Memory for tensors: blocks of a few sizes, kept for reuse when their last user lets go.
//!
//! Knows no element types.  Blocks are aligned to 64 bytes, and up to a sixteenth larger than asked for (64 bytes for
//! the small ones).

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn_backend::Bytes;

/// Alignment of every block, in bytes.
pub(crate) const ALIGN: usize = 64;

/// A large page, in bytes.
const LARGE_PAGE: usize = 2 << 20;

/// What a pool holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In blocks that tensors use.
    pub used: u64,
    /// In blocks kept for reuse.
    pub kept: u64,
    /// The most that was ever used at once.
    pub peak: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Blocks handed out so far.
    pub allocations: u64,
    /// Blocks that came from the system.
    pub fresh: u64,
}

/// Types of which every bit pattern is a value.
pub(crate) trait Plain: Copy {}

impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for u64 {}

/// The blocks of one device.
pub(crate) struct Pool {
    limit: Option<u64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Free blocks by size.
    free: BTreeMap<usize, Vec<Block>>,
    usage: Usage,
}

struct Block(NonNull<u8>);

// SAFETY: a block is memory that whoever holds the value owns alone.
unsafe impl Send for Block {}

/// Memory of a tensor; several may share it.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    /// Bytes that may be used.
    len: usize,
    home: Home,
    /// Whether more than one value has lain here: such a buffer is never given away.
    pub(crate) shared: AtomicBool,
}

enum Home {
    /// A block of that size.
    Pool(Arc<Pool>, usize),
    /// Somebody's bytes, only read.
    Foreign(#[expect(dead_code, reason = "keeps the memory alive")] Bytes),
    /// No bytes at all.
    Nothing,
}

// SAFETY: the memory is plain bytes; who writes when is ordered by the device's thread, which alone runs kernels and
// publishes a buffer to readers only once it is written.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// The block size for `len` bytes: multiples of 64 up to 1024, then sixteen steps an octave.
fn class(len: usize) -> usize {
    let step = match len {
        0..=1024 => ALIGN,
        _ => (len.next_power_of_two() / 2 / 16).max(ALIGN),
    };
    len.div_ceil(step) * step
}

impl Pool {
    /// An empty pool that holds at most `limit` bytes.
    pub(crate) fn new(limit: Option<u64>) -> Arc<Pool> {
        Arc::new(Pool { limit, state: Mutex::new(State::default()) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the pool holds.
    pub(crate) fn usage(&self) -> Usage {
        self.lock().usage
    }

    /// Memory for `len` bytes, of any content.
    pub(crate) fn allocate(self: &Arc<Self>, len: usize) -> Result<Arc<Buffer>, String> {
        if len == 0 {
            return Ok(Arc::new(Buffer::nothing()));
        }
        if len > isize::MAX as usize / 2 {
            return Err(format!("out of memory: {} wanted", Size(len as u64)));
        }
        let size = class(len);
        let mut state = self.lock();
        let found = state.free.get_mut(&size).and_then(Vec::pop);
        let block = match found {
            Some(block) => {
                state.usage.kept -= size as u64;
                block
            }
            None => {
                let over =
                    |usage: &Usage| self.limit.is_some_and(|limit| usage.used + usage.kept + size as u64 > limit);
                if over(&state.usage) {
                    state.release();
                }
                if over(&state.usage) {
                    return Err(self.exhausted(len, &state.usage));
                }
                let block = Block::new(size).or_else(|| {
                    state.release();
                    Block::new(size)
                });
                let Some(block) = block else {
                    return Err(self.exhausted(len, &state.usage));
                };
                state.usage.fresh += 1;
                block
            }
        };
        let usage = &mut state.usage;
        usage.used += size as u64;
        usage.peak = usage.peak.max(usage.used);
        usage.blocks += 1;
        usage.allocations += 1;
        let home = Home::Pool(Arc::clone(self), size);
        Ok(Arc::new(Buffer { start: block.0, len: size, home, shared: AtomicBool::new(false) }))
    }

    fn exhausted(&self, len: usize, usage: &Usage) -> String {
        let limit = match self.limit {
            Some(limit) => format!(" of {} allowed by {}", Size(limit), crate::knobs::KILN_MEMORY_LIMIT),
            None => String::new(),
        };
        format!(
            "out of memory: {} wanted, {} in use by {} tensors{limit}",
            Size(len as u64),
            Size(usage.used),
            usage.blocks
        )
    }

    /// Gives kept blocks back to the system.
    pub(crate) fn trim(&self) {
        self.lock().release();
    }
}

impl State {
    fn release(&mut self) {
        for (size, blocks) in std::mem::take(&mut self.free) {
            blocks.into_iter().for_each(|b| b.free(size));
        }
        self.usage.kept = 0;
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.release();
    }
}

/// How a block of that size is allocated: large ones at the bounds of large pages.
fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, if size >= 2 * LARGE_PAGE { LARGE_PAGE } else { ALIGN }).ok()
}

/// Asks for large pages: accesses that stride through a block miss the tables of small ones each time.
#[cfg(target_os = "linux")]
fn advise(start: NonNull<u8>, size: usize) {
    if size >= 2 * LARGE_PAGE {
        // SAFETY: the range is a block of our own; advice changes nothing that is in it, and may be declined.
        let _ = unsafe { libc::madvise(start.as_ptr().cast(), size / LARGE_PAGE * LARGE_PAGE, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise(_: NonNull<u8>, _: usize) {}

impl Block {
    fn new(size: usize) -> Option<Block> {
        let layout = layout(size)?;
        // SAFETY: the size is not 0: classes start at 64.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        advise(start, size);
        Some(Block(start))
    }

    fn free(self, size: usize) {
        if let Some(layout) = layout(size) {
            // SAFETY: `new` made the block with this layout, and it is consumed here.
            unsafe { dealloc(self.0.as_ptr(), layout) };
        }
    }
}

impl Buffer {
    fn nothing() -> Buffer {
        // An aligned address that is never followed.
        let start = NonNull::new(std::ptr::without_provenance_mut(ALIGN)).unwrap_or(NonNull::dangling());
        Buffer { start, len: 0, home: Home::Nothing, shared: AtomicBool::new(false) }
    }

    /// Somebody's bytes as a buffer, if they are aligned.
    pub(crate) fn foreign(bytes: Bytes) -> Result<Arc<Buffer>, Bytes> {
        let (address, len) = (bytes.as_ptr(), bytes.len());
        match NonNull::new(address.cast_mut()) {
            Some(start) if len > 0 && (address as usize).is_multiple_of(ALIGN) => {
                Ok(Arc::new(Buffer { start, len, home: Home::Foreign(bytes), shared: AtomicBool::new(true) }))
            }
            _ => Err(bytes),
        }
    }

    /// Number of bytes that may be used.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where it starts.
    pub(crate) fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Whether it may be written to, once nobody reads it.
    pub(crate) fn is_writable(&self) -> bool {
        !matches!(self.home, Home::Foreign(_)) && !self.shared.load(Relaxed)
    }

    /// Its bytes as whole elements.  Nobody may be writing: readers get a buffer after the device's thread is done with
    /// it.
    pub(crate) fn elements<T: Plain>(&self) -> &[T] {
        // SAFETY: `start` is valid for `len` bytes for as long as `self` lives and aligned to 64; every bit pattern is a
        // value of a plain type; blocks are initialised by the kernel or copy that made the value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<T>(), self.len / size_of::<T>()) }
    }

    /// Fills the beginning of a fresh buffer.
    pub(crate) fn fill_from(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len, "the bytes fit");
        // SAFETY: the destination holds that many bytes, and a fresh buffer has no other reader or writer.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr(), bytes.len()) };
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Home::Pool(pool, size) = &self.home {
            let mut state = pool.lock();
            state.usage.used -= *size as u64;
            state.usage.kept += *size as u64;
            state.usage.blocks -= 1;
            state.free.entry(*size).or_default().push(Block(self.start));
        }
    }
}

/// A number of bytes, for people.
pub(crate) struct Size(pub(crate) u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            n if n >= 1 << 30 => write!(f, "{:.2} GiB", n as f64 / (1u64 << 30) as f64),
            n if n >= 1 << 20 => write!(f, "{:.1} MiB", n as f64 / (1u64 << 20) as f64),
            n if n >= 1 << 10 => write!(f, "{:.1} KiB", n as f64 / (1u64 << 10) as f64),
            n => write!(f, "{n} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_little() {
        for len in [1, 63, 64, 65, 1000, 1024, 1025, 4097, 1 << 20, (1 << 20) + 1, 123_456_789] {
            let size = class(len);
            assert!(size >= len && size.is_multiple_of(ALIGN), "{len} in {size}");
            assert!(size <= len + len / 16 + ALIGN, "{len} in {size}");
            assert_eq!(class(size), size);
        }
    }

    #[test]
    fn memory_is_aligned_and_reused() {
        let pool = Pool::new(None);
        let first = pool.allocate(1000).expect("fits");
        let address = first.address();
        assert_eq!(address as usize % ALIGN, 0);
        drop(first);
        let again = pool.allocate(1001).expect("fits");
        assert_eq!(again.address(), address);
        assert_eq!(pool.usage().fresh, 1);
        assert_eq!(pool.usage().used, 1024);
    }

    #[test]
    fn large_blocks_start_at_large_pages_and_come_back() {
        let pool = Pool::new(None);
        for len in [4 << 20, (4 << 20) + 1, 9_000_001] {
            let block = pool.allocate(len).expect("fits");
            assert_eq!(block.address() as usize % LARGE_PAGE, 0, "{len}");
            block.fill_from(&vec![7; len]);
            assert!(block.elements::<u8>()[..len].iter().all(|&b| b == 7));
        }
        assert_eq!(pool.usage().used, 0);
        pool.lock().release();
        assert_eq!(pool.usage().kept, 0);
    }

    #[test]
    fn ten_thousand_rounds_stay_flat() {
        let pool = Pool::new(None);
        for round in 0..10_000usize {
            let a = pool.allocate(4096 + 64 * (round % 3)).expect("fits");
            let _b = pool.allocate(100).expect("fits");
            drop(a);
        }
        let usage = pool.usage();
        assert_eq!((usage.used, usage.blocks), (0, 0));
        assert!(usage.fresh <= 4, "{usage:?}");
    }

    #[test]
    fn the_limit_is_an_error_and_kept_blocks_yield_first() {
        let pool = Pool::new(Some(1 << 20));
        drop(pool.allocate(700 << 10).expect("fits"));
        let big = pool.allocate(800 << 10).expect("fits once the kept block is gone");
        let message = pool.allocate(300 << 10).err().expect("too much");
        assert!(message.contains("300.0 KiB wanted") && message.contains("KILN_MEMORY_LIMIT"), "{message}");
        drop(big);
        assert!(pool.allocate(300 << 10).is_ok());
    }

    #[test]
    fn absurd_sizes_are_errors() {
        assert!(Pool::new(None).allocate(usize::MAX).is_err());
        assert!(Pool::new(None).allocate(1 << 60).is_err());
        assert_eq!(Pool::new(Some(0)).allocate(0).expect("no bytes").len(), 0);
    }
}
