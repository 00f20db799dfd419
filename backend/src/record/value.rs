//! A value that was recorded: what it is, and, once computed, where it lies or why it does not.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use burn_backend::{DType as BurnDType, Shape};
use kiln_lowering::graph::Node;

use super::line::Line;
use super::stream::Stream;
use crate::run::{Failure, Place};

/// A recorded value.
pub(crate) struct Value {
    /// Handles of users, and operands of segments that are still being recorded.  A value without holders is dead:
    /// nobody will ask for it again.
    pub(crate) holders: AtomicU32,
    pub(crate) shape: Shape,
    pub(crate) dtype: BurnDType,
    /// Where it was recorded.
    pub(crate) stream: Arc<Stream>,
    /// Number of the segment it was recorded in; 0 for data.
    pub(crate) segment: u64,
    /// Its node there.
    pub(crate) node: Node,
    /// Set once, by the device's thread.
    pub(crate) place: OnceLock<Result<Place, Failure>>,
    /// Whether it counts where it lies: it does until it is dead.
    lodges: AtomicBool,
    /// The line that it is in, once a graph reads from that; none for what never gets into one.
    pub(crate) line: OnceLock<Option<Arc<Line>>>,
}

impl Value {
    /// A value of a segment, which nobody holds yet.
    pub(super) fn new(stream: Arc<Stream>, segment: u64, node: Node, (shape, dtype): (Shape, BurnDType)) -> Value {
        let (holders, lodges, place, line) = Default::default();
        Value { holders, shape, dtype, stream, segment, node, place, lodges, line }
    }

    /// A value that lies somewhere already, or could not be put there.
    pub(crate) fn placed(
        stream: Arc<Stream>,
        shape: Shape,
        dtype: BurnDType,
        place: Result<Place, Failure>,
    ) -> Arc<Value> {
        let node = Node::from_u32(0);
        let value = Value::new(stream, 0, node, (shape, dtype));
        value.settle(place);
        if value.stream.is_capturing() {
            // Data of the capture is part of the graph.
            let _ = value.line.set(None);
        }
        Arc::new(value)
    }

    /// Says where it lies or why it does not, once.
    pub(crate) fn settle(&self, place: Result<Place, Failure>) {
        if self.place.set(place).is_err() {
            return;
        }
        if let Some(Ok(place)) = self.place.get() {
            place.lodge();
            self.lodges.store(true, SeqCst);
            // Its last holder may have gone meanwhile; data has had none yet.
            if self.segment != 0 && self.holders.load(SeqCst) == 0 {
                self.leave();
            }
        }
    }

    /// Has it count no more where it lies.
    pub(crate) fn leave(&self) {
        if let Some(Ok(place)) = self.place.get()
            && self.lodges.swap(false, SeqCst)
        {
            place.leave();
        }
    }

    /// Whether it counts where it lies.
    pub(crate) fn lodges(&self) -> bool {
        self.lodges.load(SeqCst)
    }

    /// Whether nobody holds it.
    pub(crate) fn is_dead(&self) -> bool {
        self.holders.load(Acquire) == 0
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.leave();
    }
}
