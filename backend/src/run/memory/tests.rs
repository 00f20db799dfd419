//! Blocks come back, limits hold, and what runs out is said.

use std::sync::atomic::AtomicU64;

use super::super::heap::LARGE_PAGE;
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
        block.fill_from(&vec![7; len]).expect("host memory");
        assert!(block.elements::<u8>()[..len].iter().all(|&b| b == 7));
    }
    assert_eq!(pool.usage().used, 0);
    pool.trim();
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

/// Memory that runs out.
struct Small(AtomicU64);

impl Heap for Small {
    fn is_host(&self) -> bool {
        true
    }

    fn allocate(&self, size: usize) -> Result<Option<NonNull<u8>>, String> {
        let taken = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(size as u64));
        if taken.is_ok() { HostHeap.allocate(size) } else { Ok(None) }
    }

    unsafe fn free(&self, start: NonNull<u8>, size: usize) {
        self.0.fetch_add(size as u64, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { HostHeap.free(start, size) };
    }

    unsafe fn write(&self, _: NonNull<u8>, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    unsafe fn duplicate(&self, start: NonNull<u8>, from: NonNull<u8>, bytes: usize) -> Result<(), String> {
        // SAFETY: as the caller promises.
        unsafe { HostHeap.duplicate(start, from, bytes) }
    }

    unsafe fn fill(&self, start: NonNull<u8>, byte: u8, bytes: usize) -> Result<(), String> {
        // SAFETY: as the caller promises.
        unsafe { HostHeap.fill(start, byte, bytes) }
    }

    unsafe fn read(&self, _: NonNull<u8>, _: &mut [u8]) -> Result<(), String> {
        Ok(())
    }

    fn size(&self) -> Option<u64> {
        Some(1 << 20)
    }
}

#[test]
fn where_memory_runs_out_kept_blocks_go_first_and_the_rest_stays_usable() {
    let pool = Pool::of(Arc::new(Small(AtomicU64::new(1 << 20))), None);
    drop(pool.allocate(600 << 10).expect("fits"));
    let held = pool.allocate(700 << 10).expect("fits once the kept block is gone");
    let message = pool.allocate(400 << 10).err().expect("too much");
    assert!(message.contains("400.0 KiB wanted") && message.contains("of 1.0 MiB"), "{message}");
    assert!(pool.allocate(200 << 10).is_ok());
    drop(held);
    assert!(pool.allocate(900 << 10).is_ok());
}

#[test]
fn absurd_sizes_are_errors() {
    assert!(Pool::new(None).allocate(usize::MAX).is_err());
    assert!(Pool::new(None).allocate(1 << 60).is_err());
    assert_eq!(Pool::new(Some(0)).allocate(0).expect("no bytes").len(), 0);
}
