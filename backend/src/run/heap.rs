//! Where a device's memory comes from and how bytes get there.  Knows single blocks only: [`Pool`](super::memory::Pool)
//! keeps them for reuse.

use std::alloc::{Layout, alloc, dealloc};
use std::any::Any;
use std::ptr::NonNull;

use super::memory::ALIGN;

/// A large page, in bytes.
pub(super) const LARGE_PAGE: usize = 2 << 20;

/// The memory of a device.
pub(super) trait Heap: Any + Send + Sync {
    /// Whether the processor reads and writes it by itself.
    fn is_host(&self) -> bool;

    /// Memory for `size` bytes, which is not 0; aligned to 64 at least.  Nothing where there is not as much.
    ///
    /// # Errors
    ///
    /// Where the device does not answer any more.
    fn allocate(&self, size: usize) -> Result<Option<NonNull<u8>>, String>;

    /// Gives memory back.
    ///
    /// # Safety
    ///
    /// `allocate` gave it for that size, and nobody will ask for work on it.
    unsafe fn free(&self, start: NonNull<u8>, size: usize);

    /// Fills memory; the bytes are taken over before this returns.
    ///
    /// # Safety
    ///
    /// As many bytes from there on belong to one block, and nobody else uses them.
    unsafe fn write(&self, start: NonNull<u8>, bytes: &[u8]) -> Result<(), String>;

    /// Copies memory out, once all work asked for so far has been done.
    ///
    /// # Safety
    ///
    /// As many bytes from there on belong to one block, and nobody writes them.
    unsafe fn read(&self, start: NonNull<u8>, bytes: &mut [u8]) -> Result<(), String>;

    /// Copies memory of another device in, once all work asked for there so far has been done; whether this can be.
    ///
    /// # Safety
    ///
    /// As for [`write`](Heap::write) and [`read`](Heap::read).
    unsafe fn copy(
        &self,
        _: NonNull<u8>,
        _other: &dyn Heap,
        _from: NonNull<u8>,
        _bytes: usize,
    ) -> Result<bool, String> {
        Ok(false)
    }

    /// Copies memory to another place in it, after all work asked for so far.
    ///
    /// # Safety
    ///
    /// As for [`write`](Heap::write) and [`read`](Heap::read); the two do not overlap.
    unsafe fn duplicate(&self, start: NonNull<u8>, from: NonNull<u8>, bytes: usize) -> Result<(), String>;

    /// Fills memory with one byte, after all work asked for so far.
    ///
    /// # Safety
    ///
    /// As for [`write`](Heap::write).
    unsafe fn fill(&self, start: NonNull<u8>, byte: u8, bytes: usize) -> Result<(), String>;

    /// How much there is in all, where that is known.
    fn size(&self) -> Option<u64> {
        None
    }
}

/// This computer's memory.
pub(super) struct HostHeap;

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

impl Heap for HostHeap {
    fn is_host(&self) -> bool {
        true
    }

    fn allocate(&self, size: usize) -> Result<Option<NonNull<u8>>, String> {
        let Some(layout) = layout(size) else { return Ok(None) };
        // SAFETY: the size is not 0, as the caller promises.
        let start = NonNull::new(unsafe { alloc(layout) });
        start.inspect(|&start| advise(start, size));
        Ok(start)
    }

    unsafe fn free(&self, start: NonNull<u8>, size: usize) {
        if let Some(layout) = layout(size) {
            // SAFETY: `allocate` made the block with this layout, as the caller promises.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }

    unsafe fn write(&self, start: NonNull<u8>, bytes: &[u8]) -> Result<(), String> {
        // SAFETY: as the caller promises.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn read(&self, start: NonNull<u8>, bytes: &mut [u8]) -> Result<(), String> {
        // SAFETY: as the caller promises.
        unsafe { std::ptr::copy_nonoverlapping(start.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn duplicate(&self, start: NonNull<u8>, from: NonNull<u8>, bytes: usize) -> Result<(), String> {
        // SAFETY: as the caller promises.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), start.as_ptr(), bytes) };
        Ok(())
    }

    unsafe fn fill(&self, start: NonNull<u8>, byte: u8, bytes: usize) -> Result<(), String> {
        // SAFETY: as the caller promises.
        unsafe { start.as_ptr().write_bytes(byte, bytes) };
        Ok(())
    }
}
