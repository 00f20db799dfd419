//! A value that was recorded: what it is, and, once computed, where it lies or why it does not.

use std::sync::atomic::{AtomicU32, Ordering::Acquire};
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
    /// The line that it is in, once a graph reads from that; none for what never gets into one.
    pub(crate) line: OnceLock<Option<Arc<Line>>>,
}

impl Value {
    /// A value that lies somewhere already, or could not be put there.
    pub(crate) fn placed(
        stream: Arc<Stream>,
        shape: Shape,
        dtype: BurnDType,
        place: Result<Place, Failure>,
    ) -> Arc<Value> {
        let node = Node::from_u32(0);
        let place = OnceLock::from(place);
        let line = OnceLock::new();
        if stream.is_capturing() {
            // Data of the capture is part of the graph.
            let _ = line.set(None);
        }
        Arc::new(Value { holders: AtomicU32::new(0), shape, dtype, stream, segment: 0, node, place, line })
    }

    /// Whether nobody holds it.
    pub(crate) fn is_dead(&self) -> bool {
        self.holders.load(Acquire) == 0
    }
}
