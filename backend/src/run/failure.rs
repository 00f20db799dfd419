//! Why a value could not be computed; one failure is shared by everything that depends on it.

use std::sync::Arc;

use burn_backend::ExecutionError;

/// The first thing that went wrong on the way to a value.
#[derive(Clone, Debug)]
pub(crate) struct Failure(Arc<Cause>);

#[derive(Debug)]
struct Cause {
    stream: u64,
    message: String,
}

impl Failure {
    /// A failure of work that stream `stream` recorded.
    pub(crate) fn new(stream: u64, message: String) -> Failure {
        Failure(Arc::new(Cause { stream, message }))
    }

    /// The stream whose work failed.
    pub(crate) fn stream(&self) -> u64 {
        self.0.stream
    }

    /// Whether this is the same event.
    pub(crate) fn is(&self, other: &Failure) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// In Burn's terms.
    pub(crate) fn error(&self) -> ExecutionError {
        ExecutionError::with_context(self.0.message.clone())
    }
}
