//! Memory for tensors: blocks of a few sizes, kept for reuse when their last user lets go.
//!
//! Knows no element types.  Blocks are aligned to 64 bytes, and up to a sixteenth larger than asked for (64 bytes for
//! the small ones).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use burn_backend::Bytes;

use super::fate::{Fate, Renewal};
use super::heap::{Heap, HostHeap};

/// Alignment of every block, in bytes.
pub(crate) const ALIGN: usize = 64;

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
pub(crate) trait Plain: Copy + Default {}

impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for u64 {}

/// The blocks of one device.
pub(crate) struct Pool {
    heap: Arc<dyn Heap>,
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
    /// Values that lie here and are not dead.
    pub(super) lodgers: AtomicU32,
    /// Graphs that name it: while there are any, it is never given away either.
    pins: AtomicU32,
    /// Graphs that write here.
    renewals: OnceLock<Mutex<Vec<Arc<Renewal>>>>,
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
pub(super) fn class(len: usize) -> usize {
    let step = match len {
        0..=1024 => ALIGN,
        _ => (len.next_power_of_two() / 2 / 16).max(ALIGN),
    };
    len.div_ceil(step) * step
}

impl Pool {
    /// An empty pool of this computer's memory that holds at most `limit` bytes.
    #[cfg(test)]
    pub(crate) fn new(limit: Option<u64>) -> Arc<Pool> {
        Pool::of(Arc::new(HostHeap), limit)
    }

    /// An empty pool that holds at most `limit` bytes.
    pub(super) fn of(heap: Arc<dyn Heap>, limit: Option<u64>) -> Arc<Pool> {
        Arc::new(Pool { heap, limit, state: Mutex::new(State::default()) })
    }

    /// Whether the processor reads and writes its memory by itself.
    pub(crate) fn is_host(&self) -> bool {
        self.heap.is_host()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the pool holds.
    pub(crate) fn usage(&self) -> Usage {
        self.lock().usage
    }

    /// Whether more than half of what it may hold is in use.
    pub(super) fn is_short(&self) -> bool {
        let most = self.limit.or_else(|| self.heap.size());
        most.is_some_and(|most| self.usage().used > most / 2)
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
        let found = state.free.get_mut(&size).and_then(|blocks| match self.is_host() {
            // The last to come back may still be in a cache.
            true => blocks.pop(),
            // The same one each time that the same are free: work that comes again is then the same to the last address.
            false => (0..blocks.len()).min_by_key(|&i| blocks[i].0).map(|i| blocks.swap_remove(i)),
        });
        let block = match found {
            Some(block) => {
                state.usage.kept -= size as u64;
                block
            }
            None => {
                let over =
                    |usage: &Usage| self.limit.is_some_and(|limit| usage.used + usage.kept + size as u64 > limit);
                if over(&state.usage) {
                    self.release(&mut state);
                }
                if over(&state.usage) {
                    return Err(self.exhausted(len, &state.usage));
                }
                let mut block = self.heap.allocate(size)?;
                if block.is_none() {
                    self.release(&mut state);
                    block = self.heap.allocate(size)?;
                }
                let Some(block) = block else {
                    return Err(self.exhausted(len, &state.usage));
                };
                state.usage.fresh += 1;
                Block(block)
            }
        };
        let usage = &mut state.usage;
        usage.used += size as u64;
        usage.peak = usage.peak.max(usage.used);
        usage.blocks += 1;
        usage.allocations += 1;
        let home = Home::Pool(Arc::clone(self), size);
        Ok(Arc::new(Buffer::new(block.0, size, home, false)))
    }

    /// Fills all memory that nobody has with bytes that are no number as floats.
    pub(super) fn poison(&self) -> Result<(), String> {
        const POISON: u8 = 0xff;
        let state = self.lock();
        let mut blocks = state.free.iter().flat_map(|(size, blocks)| blocks.iter().map(|block| (*size, block.0)));
        // SAFETY: free blocks belong to the pool, each has its size, and as long as the lock is held nobody gets one.  Work that
        // used one before was asked for before.
        blocks.try_for_each(|(size, start)| unsafe { self.heap.fill(start, POISON, size) })
    }

    fn exhausted(&self, len: usize, usage: &Usage) -> String {
        let limit = match self.limit {
            Some(limit) => format!(" of {} allowed by {}", Size(limit), crate::knobs::KILN_MEMORY_LIMIT),
            None => match self.heap.size() {
                Some(size) => format!(" of {}", Size(size)),
                None => String::new(),
            },
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
        self.release(&mut self.lock());
    }

    fn release(&self, state: &mut State) {
        for (size, blocks) in std::mem::take(&mut state.free) {
            // SAFETY: kept blocks came from this heap, are no tensor's any more, and go here.
            blocks.into_iter().for_each(|block| unsafe { self.heap.free(block.0, size) });
        }
        state.usage.kept = 0;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.trim();
    }
}

impl Buffer {
    fn new(start: NonNull<u8>, len: usize, home: Home, shared: bool) -> Buffer {
        let (lodgers, pins, renewals) = Default::default();
        Buffer { start, len, home, shared: AtomicBool::new(shared), lodgers, pins, renewals }
    }

    fn nothing() -> Buffer {
        // An aligned address that is never followed.
        let start = NonNull::new(std::ptr::without_provenance_mut(ALIGN)).unwrap_or(NonNull::dangling());
        Buffer::new(start, 0, Home::Nothing, false)
    }

    /// Somebody's bytes as a buffer, if they are aligned.
    pub(crate) fn foreign(bytes: Bytes) -> Result<Arc<Buffer>, Bytes> {
        let (address, len) = (bytes.as_ptr(), bytes.len());
        match NonNull::new(address.cast_mut()) {
            Some(start) if len > 0 && (address as usize).is_multiple_of(ALIGN) => {
                Ok(Arc::new(Buffer::new(start, len, Home::Foreign(bytes), true)))
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
        !matches!(self.home, Home::Foreign(_)) && !self.shared.load(Relaxed) && self.pins.load(Relaxed) == 0
    }

    /// Has it named by one graph more.
    pub(super) fn pin(&self) {
        self.pins.fetch_add(1, Relaxed);
    }

    /// Has it named by one graph less.
    pub(super) fn unpin(&self) {
        self.pins.fetch_sub(1, Relaxed);
    }

    /// Whether graphs write here.
    pub(super) fn is_renewed(&self) -> bool {
        self.renewals.get().is_some_and(|list| !list.lock().unwrap_or_else(PoisonError::into_inner).is_empty())
    }

    /// What becomes of the last replays that wrote here.
    pub(super) fn renewals(&self) -> Vec<Arc<Fate>> {
        let all = |list: &Mutex<Vec<Arc<Renewal>>>| {
            list.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(|r| r.fate()).collect()
        };
        self.renewals.get().map(all).unwrap_or_default()
    }

    /// Gives it to a graph, which writes here.
    pub(super) fn renewed_by(&self, renewal: &Arc<Renewal>) {
        let list = self.renewals.get_or_init(Mutex::default);
        list.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(renewal));
    }

    /// Takes it from a graph that will not write here again.
    pub(super) fn left_by(&self, renewal: &Arc<Renewal>) {
        if let Some(list) = self.renewals.get() {
            list.lock().unwrap_or_else(PoisonError::into_inner).retain(|r| !Arc::ptr_eq(r, renewal));
        }
    }

    /// The memory that it is a part of, if the processor cannot reach that by itself.
    fn remote(&self) -> Option<&dyn Heap> {
        match &self.home {
            Home::Pool(pool, _) if !pool.is_host() => Some(&*pool.heap),
            _ => None,
        }
    }

    /// Makes a block of the pool a fresh one, if nobody else has it.
    pub(super) fn renew(this: &mut Arc<Buffer>) -> bool {
        match Arc::get_mut(this) {
            Some(Buffer { home: Home::Pool(..), shared, renewals, .. }) => {
                *shared.get_mut() = false;
                renewals.take();
                true
            }
            _ => false,
        }
    }

    /// Its bytes as whole elements, where the processor can reach them.  Nobody may be writing: readers get a buffer
    /// after the device's thread is done with it.
    pub(crate) fn elements<T: Plain>(&self) -> &[T] {
        assert!(self.remote().is_none(), "a device's memory is copied, not looked at");
        // SAFETY: `start` is valid for `len` bytes for as long as `self` lives and aligned to 64; every bit pattern is a
        // value of a plain type; blocks are initialised by the kernel or copy that made the value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<T>(), self.len / size_of::<T>()) }
    }

    /// Elements from number `first` on, as they lie or copied from the device, once its work so far is done.
    pub(crate) fn fetch<T: Plain>(&self, first: usize, count: usize) -> Result<Cow<'_, [T]>, String> {
        assert!((first + count) * size_of::<T>() <= self.len, "the elements lie in the buffer");
        let Some(heap) = self.remote() else { return Ok(Cow::Borrowed(&self.elements::<T>()[first..first + count])) };
        let mut copied = vec![T::default(); count];
        // SAFETY: the range lies in the buffer, and whoever has the buffer reads it only after what writes it was asked
        // for; the vector's bytes may be any.
        unsafe {
            let bytes = std::slice::from_raw_parts_mut(copied.as_mut_ptr().cast::<u8>(), count * size_of::<T>());
            heap.read(self.start.add(first * size_of::<T>()), bytes)?;
        }
        Ok(Cow::Owned(copied))
    }

    /// Fills the beginning of a fresh buffer with part of another device's, if the devices can do that.
    pub(crate) fn take_from(&self, other: &Buffer, first: usize, bytes: usize) -> Result<bool, String> {
        assert!(bytes <= self.len && first + bytes <= other.len, "the bytes lie in the buffers");
        let (Some(heap), Some(source)) = (self.remote(), other.remote()) else { return Ok(false) };
        // SAFETY: the ranges lie in the buffers; a fresh one has no other reader or writer, and the other one is read only
        // after what writes it was asked for.
        unsafe { heap.copy(self.start, source, other.start.add(first), bytes) }
    }

    /// Fills the beginning of a buffer with that of another one of the same device, after all work asked for so far.
    pub(super) fn copy_from(&self, other: &Buffer, bytes: usize) -> Result<(), String> {
        assert!(bytes <= self.len && bytes <= other.len, "the bytes lie in the buffers");
        let heap = self.remote().unwrap_or(&HostHeap);
        // SAFETY: both hold as many bytes; the device's thread alone has the one written to, and asks for what reads it
        // after this.
        unsafe { heap.duplicate(self.start, other.start, bytes) }
    }

    /// Fills the beginning of a fresh buffer.
    pub(crate) fn fill_from(&self, bytes: &[u8]) -> Result<(), String> {
        assert!(bytes.len() <= self.len, "the bytes fit");
        let heap = self.remote().unwrap_or(&HostHeap);
        // SAFETY: the destination holds that many bytes, and a fresh buffer has no other reader or writer.
        unsafe { heap.write(self.start, bytes) }
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
mod tests;
