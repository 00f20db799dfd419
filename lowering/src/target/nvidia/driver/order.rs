//! How far a device has come: marks in the order of work, and words that kernels leave the codes of failed checks in.

use std::ptr::NonNull;
use std::sync::PoisonError;

use cudarc::driver::sys::{self, CUresult};

use super::{Device, Error};

/// Marks that may be outstanding: whoever sets one more waits for the first of them, so that the host is never further
/// ahead than that.
const OUTSTANDING: u64 = 64;

/// Words that are allocated at a time.
const WORDS: usize = 4096;

/// A place in the order of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub u64);

/// A word that kernels may leave a code in, lent until the code is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket(pub u32);

#[derive(Default)]
pub(super) struct Marks {
    events: Vec<sys::CUevent>,
    set: u64,
    /// Marks known to have been passed.
    passed: u64,
}

/// Words in the device's memory, where masked lanes of kernels also read, each with a copy here that is brought up to date
/// at the next mark.  A word is 0 but for a failed check, so there is rarely anything to clear.
#[derive(Default)]
pub(super) struct Words {
    /// Where copies and words start.
    blocks: Vec<(NonNull<u64>, u64)>,
    free: Vec<u32>,
    /// Lent since the last mark.
    lent: Vec<u32>,
}

impl Words {
    /// The word's copy, and its address for the device.
    fn at(&self, number: u32) -> (NonNull<u64>, u64) {
        let (block, word) = (number as usize / WORDS, number as usize % WORDS);
        let (start, address) = self.blocks[block];
        // SAFETY: a block has that many words.
        (unsafe { start.add(word) }, address + 8 * word as u64)
    }

    fn grow(&mut self, device: &Device) -> Result<(), Error> {
        let full = || Error::Call { call: "cuMemAlloc", what: "out of memory".into() };
        let copies = device.page_locked(8 * WORDS)?.cast::<u64>();
        let address = device.allocate(8 * WORDS + 64)?.ok_or_else(full)?;
        // SAFETY: both were just allocated, with that many words.
        unsafe {
            copies.write_bytes(0, WORDS);
            device.fill(address, 0, 8 * WORDS)?;
        }
        let first = (self.blocks.len() * WORDS) as u32;
        self.blocks.push((copies, address));
        // The very first word is that of kernels without checks.
        self.free.extend((first.max(1)..first + WORDS as u32).rev());
        Ok(())
    }

    /// Asks for the words lent since last time.
    fn fetch(&mut self, device: &Device) -> Result<(), Error> {
        let mut lent = std::mem::take(&mut self.lent);
        lent.sort_unstable();
        for run in lent.chunk_by(|a, b| a + 1 == *b && !(*b as usize).is_multiple_of(WORDS)) {
            let (copy, word) = self.at(run[0]);
            // SAFETY: a run lies in one block here and there; the copies are read after the next mark only.
            let code = unsafe { sys::cuMemcpyDtoHAsync_v2(copy.as_ptr().cast(), word, 8 * run.len(), device.stream) };
            device.check("cuMemcpyDtoHAsync", code)?;
        }
        lent.clear();
        self.lent = lent;
        Ok(())
    }
}

impl Device {
    /// A word for kernels to leave a code in, and its address for them.
    pub fn ticket(&self) -> Result<(Ticket, u64), Error> {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if words.free.is_empty() {
            words.grow(self)?;
        }
        match words.free.pop() {
            Some(number) => {
                words.lent.push(number);
                Ok((Ticket(number), words.at(number).1))
            }
            None => unreachable!("words were just made"),
        }
    }

    /// The address of a word that no kernel writes: for kernels without checks.
    pub fn unused_word(&self) -> Result<u64, Error> {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if words.blocks.is_empty() {
            words.grow(self)?;
        }
        Ok(words.at(0).1)
    }

    /// The code that kernels left, 0 if none did.  The device must be past the mark after the kernels, or have stopped.
    pub fn verdict(&self, ticket: Ticket) -> u32 {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let (copy, word) = words.at(ticket.0);
        // SAFETY: the copy is in a live block, and the device has written it.
        let code = unsafe { copy.read_volatile() };
        if code != 0 {
            // SAFETY: as above; the word is lent again only after this, so kernels find it cleared.
            unsafe {
                copy.write_volatile(0);
                let _ = self.fill(word, 0, 8);
            }
        }
        words.free.push(ticket.0);
        code as u32
    }

    /// Marks what was asked for so far.
    pub fn mark(&self) -> Result<Mark, Error> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).fetch(self)?;
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = (marks.set % OUTSTANDING) as usize;
        match marks.events.get(slot) {
            None => marks.events.push(self.event()?),
            // SAFETY: the event is alive.
            Some(&event) => self.check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event) })?,
        }
        // SAFETY: event and stream are alive.
        self.check("cuEventRecord", unsafe { sys::cuEventRecord(marks.events[slot], self.stream) })?;
        marks.set += 1;
        marks.passed = marks.passed.max(marks.set.saturating_sub(OUTSTANDING));
        Ok(Mark(marks.set))
    }

    /// Whether everything before a mark is done; with `wait`, once it is.
    pub fn reach(&self, mark: Mark, wait: bool) -> Result<bool, Error> {
        let event = {
            let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
            if marks.passed >= mark.0 {
                return Ok(true);
            }
            marks.events[((mark.0 - 1) % OUTSTANDING) as usize]
        };
        // SAFETY: the event is alive; it may have been recorded anew meanwhile, which was after this mark.
        match unsafe { if wait { sys::cuEventSynchronize(event) } else { sys::cuEventQuery(event) } } {
            CUresult::CUDA_ERROR_NOT_READY => return Ok(false),
            code => self.check("cuEventSynchronize", code)?,
        }
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.passed = marks.passed.max(mark.0);
        Ok(true)
    }

    /// Waits until everything asked for so far is done.
    pub fn synchronise(&self) -> Result<(), Error> {
        self.enter()?;
        // SAFETY: the stream lives as long as the process.
        self.check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.stream) })
    }
}
