//! Which memory a plan was bound to, for a plan that runs on the same memory again.

use std::sync::Arc;

use kiln_lowering::schedule::Buf;

use super::memory::Buffer;

/// The memory of a plan's buffers, all of it kept.
pub(super) struct Hold {
    addresses: Vec<Option<*mut u8>>,
    memory: Vec<Arc<Buffer>>,
}

impl Hold {
    /// That of a plan with so many buffers, of none so far.
    pub(super) fn new(buffers: usize) -> Hold {
        Hold { addresses: vec![None; buffers], memory: Vec::new() }
    }

    /// Where a buffer lies.
    pub(super) fn note(&mut self, buf: Buf, memory: &Arc<Buffer>) {
        self.addresses[buf.as_u32() as usize] = Some(memory.address());
    }

    /// Keeps memory that the plan may still hand from one of its buffers to another, but nobody else gets.
    pub(super) fn keep(&mut self, memory: impl IntoIterator<Item = Arc<Buffer>>) {
        self.memory.extend(memory);
    }

    /// The memory of each buffer that has got one.
    pub(super) fn bound(self) -> Vec<Option<Arc<Buffer>>> {
        let at = |address: *mut u8| self.memory.iter().find(|m| m.address() == address).map(Arc::clone);
        self.addresses.iter().map(|address| address.and_then(at)).collect()
    }
}
