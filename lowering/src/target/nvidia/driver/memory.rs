//! A device's memory: blocks of it, and what is copied in and out, by way of page-locked memory of the host that the
//! device reads and writes by itself.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::PoisonError;

use cudarc::driver::sys::{self, CUresult};

use super::{Device, Error};

/// Bytes of a page-locked block: what takes longer to copy than to ask for.
const BLOCK: usize = 1 << 20;

/// Page-locked blocks of a direction at most.
const BLOCKS: usize = 32;

/// Copies to the host that are under way at a time.
const AHEAD: usize = 4;

/// Page-locked blocks, used in turn.
#[derive(Default)]
pub(super) struct Staging {
    blocks: Vec<Block>,
    next: usize,
}

struct Block {
    start: NonNull<u8>,
    /// Passed when the device is done with the block.
    done: sys::CUevent,
}

impl Device {
    /// An event that only says whether it has passed.
    pub(super) fn event(&self) -> Result<sys::CUevent, Error> {
        let mut event = MaybeUninit::uninit();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the driver writes the handle on success, and only then is it read.
        unsafe {
            self.check("cuEventCreate", sys::cuEventCreate(event.as_mut_ptr(), flags))?;
            Ok(event.assume_init())
        }
    }

    /// Page-locked memory of the host, which this device can also reach.
    pub(super) fn page_locked(&self, bytes: usize) -> Result<NonNull<u8>, Error> {
        let mut start: *mut c_void = std::ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the driver writes the address on success.
        self.check("cuMemHostAlloc", unsafe { sys::cuMemHostAlloc(&mut start, bytes, flags) })?;
        NonNull::new(start.cast()).ok_or(Error::Call { call: "cuMemHostAlloc", what: "no address".into() })
    }

    /// Memory of the device, unless it has not as much.
    pub fn allocate(&self, bytes: usize) -> Result<Option<u64>, Error> {
        self.enter()?;
        let mut address = 0;
        // SAFETY: the driver writes the address on success.
        match unsafe { sys::cuMemAlloc_v2(&mut address, bytes) } {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Ok(None),
            code => self.check("cuMemAlloc", code).map(|()| Some(address)),
        }
    }

    /// Gives memory back, once everything asked for so far is done with it.
    ///
    /// # Safety
    ///
    /// The address is one that [`Device::allocate`] gave, given back once, and nothing asked for later uses it.
    pub unsafe fn free(&self, address: u64) {
        // On a device that has stopped there is nothing to give back to.
        if self.enter().is_ok() {
            // SAFETY: as the caller promises; the driver waits for work under way.
            let _ = self.check("cuMemFree", unsafe { sys::cuMemFree_v2(address) });
        }
    }

    /// Copies bytes into the device's memory, after everything asked for so far.  They are taken over before this
    /// returns.
    ///
    /// # Safety
    ///
    /// As many bytes from the address on are the device's memory, and nobody else uses them.
    pub unsafe fn upload(&self, mut address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.enter()?;
        let mut staging = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        for part in bytes.chunks(BLOCK) {
            let block = staging.free(self)?;
            // SAFETY: the block is as long as a part at least, and the device is done with it; what is copied from it
            // lies where the caller says, and the block is left alone until its event has passed.
            unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), block.start.as_ptr(), part.len());
                let from = block.start.as_ptr().cast();
                self.check("cuMemcpyHtoDAsync", sys::cuMemcpyHtoDAsync_v2(address, from, part.len(), self.stream))?;
                self.check("cuEventRecord", sys::cuEventRecord(block.done, self.stream))?;
            }
            address += part.len() as u64;
        }
        Ok(())
    }

    /// Copies bytes out of the device's memory, once everything asked for so far is done.
    ///
    /// # Safety
    ///
    /// As many bytes from the address on are the device's memory.
    pub unsafe fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.enter()?;
        let mut staging = self.downloads.lock().unwrap_or_else(PoisonError::into_inner);
        let len = bytes.len();
        let parts = len.div_ceil(BLOCK);
        while staging.blocks.len() < parts.min(AHEAD) {
            let block = Block::new(self)?;
            staging.blocks.push(block);
        }
        let of = |part: usize| part * BLOCK..len.min((part + 1) * BLOCK);
        let ask = |part: usize| {
            let (block, range) = (&staging.blocks[part % AHEAD], of(part));
            let (to, from) = (block.start.as_ptr().cast(), address + range.start as u64);
            // SAFETY: the memory is the device's, as the caller promises; the block has been read since it was last
            // written, and is read again only after its event.
            unsafe {
                self.check("cuMemcpyDtoHAsync", sys::cuMemcpyDtoHAsync_v2(to, from, range.len(), self.stream))?;
                self.check("cuEventRecord", sys::cuEventRecord(block.done, self.stream))
            }
        };
        (0..parts.min(AHEAD)).try_for_each(ask)?;
        for part in 0..parts {
            let (block, to) = (&staging.blocks[part % AHEAD], &mut bytes[of(part)]);
            // SAFETY: the event is alive.  After it the block holds the part.
            unsafe {
                self.check("cuEventSynchronize", sys::cuEventSynchronize(block.done))?;
                to.copy_from_slice(std::slice::from_raw_parts(block.start.as_ptr(), to.len()));
            }
            if part + AHEAD < parts {
                ask(part + AHEAD)?;
            }
        }
        Ok(())
    }

    /// Copies from another device's memory, after everything asked for so far on both; what is asked for later on the
    /// other one waits for it.
    ///
    /// # Safety
    ///
    /// As for [`Device::upload`] and [`Device::download`].
    pub unsafe fn copy(&self, to: u64, other: &Device, from: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: events belong to the context that was entered when they were made and recorded; a stream may wait for
        // another device's, which may go once all that was asked for is.  The memory is the caller's promise.
        unsafe {
            other.enter()?;
            let ready = other.event()?;
            other.check("cuEventRecord", sys::cuEventRecord(ready, other.stream))?;
            self.enter()?;
            let copied = self.event()?;
            self.check("cuStreamWaitEvent", sys::cuStreamWaitEvent(self.stream, ready, 0))?;
            let code = sys::cuMemcpyPeerAsync(to, self.context, from, other.context, bytes, self.stream);
            self.check("cuMemcpyPeerAsync", code)?;
            self.check("cuEventRecord", sys::cuEventRecord(copied, self.stream))?;
            other.enter()?;
            other.check("cuStreamWaitEvent", sys::cuStreamWaitEvent(other.stream, copied, 0))?;
            for event in [ready, copied] {
                let _ = sys::cuEventDestroy_v2(event);
            }
        }
        Ok(())
    }

    /// Copies memory to another place of the same device's, after everything asked for so far.
    ///
    /// # Safety
    ///
    /// As for [`Device::upload`] and [`Device::download`]; the two do not overlap.
    pub unsafe fn duplicate(&self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        self.enter()?;
        // SAFETY: as the caller promises.
        let code = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream) };
        self.check("cuMemcpyDtoDAsync", code)
    }

    /// Fills memory with one byte, after everything asked for so far.
    ///
    /// # Safety
    ///
    /// As for [`Device::upload`].
    pub unsafe fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        self.check("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(address, byte, bytes, self.stream) })
    }
}

impl Block {
    fn new(device: &Device) -> Result<Block, Error> {
        Ok(Block { start: device.page_locked(BLOCK)?, done: device.event()? })
    }

    /// Whether the device is done with it.
    fn is_free(&self) -> bool {
        // SAFETY: the event is alive.
        unsafe { sys::cuEventQuery(self.done) == CUresult::CUDA_SUCCESS }
    }
}

impl Staging {
    /// The next block, once the device is done with it.
    fn free(&mut self, device: &Device) -> Result<&Block, Error> {
        let at = self.next.min(self.blocks.len());
        if self.blocks.len() < BLOCKS && self.blocks.get(at).is_none_or(|b| !b.is_free()) {
            let block = Block::new(device)?;
            self.blocks.insert(at, block);
        }
        let block = &self.blocks[at];
        self.next = (at + 1) % self.blocks.len();
        // SAFETY: the event is alive; one that was never recorded has passed.
        device.check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(block.done) })?;
        Ok(block)
    }
}
