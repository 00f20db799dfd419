//! Windows of time: how long a device was at the work of a stream between two places in its order.
//!
//! A device that works by itself has a clock of its own, which is read at both ends.  Elsewhere the device's thread does
//! the work, and the time that it spends on the stream's is added up.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use super::engine::Stamp;
use super::runner::Runner;

/// What is asked of windows.
pub(crate) enum Watch {
    /// Open one for the work of a stream.
    Open {
        /// Its name.
        id: u64,
        /// The stream.
        stream: u64,
    },
    /// Close one, and answer what it measured; nothing if it could not.
    Close(u64, SyncSender<Option<Measured>>),
    /// Close one that nobody asks for.
    Drop(u64),
}

/// What a window measured.
pub(crate) struct Measured {
    /// When it was opened.
    pub(crate) start: Instant,
    span: Span,
}

enum Span {
    Known(Duration),
    Between(Box<dyn Stamp>, Box<dyn Stamp>),
}

impl Measured {
    /// How long the device was at work.  Waits for it.
    ///
    /// # Errors
    ///
    /// If it has stopped.
    pub(crate) fn resolve(&self) -> Result<Duration, String> {
        match &self.span {
            Span::Known(time) => Ok(*time),
            Span::Between(first, last) => last.since(&**first),
        }
    }
}

/// Windows that are open.
#[derive(Default)]
pub(super) struct Windows(Vec<Window>);

struct Window {
    id: u64,
    stream: u64,
    start: Instant,
    /// The device's own time at the start, or why it can't be told.
    stamp: Result<Option<Box<dyn Stamp>>, String>,
    /// Time that the device's thread was at the stream's work.
    busy: Duration,
    /// Whether there was any.
    ran: bool,
}

impl Windows {
    /// The time, if a window wants to know how long a stream's work takes.
    pub(super) fn clock(&self, stream: u64) -> Option<Instant> {
        self.0.iter().any(|window| window.stream == stream).then(Instant::now)
    }

    /// Adds what has begun then.
    pub(super) fn add(&mut self, stream: u64, since: Option<Instant>) {
        let Some(since) = since else { return };
        let busy = since.elapsed();
        for window in self.0.iter_mut().filter(|window| window.stream == stream) {
            window.busy += busy;
            window.ran = true;
        }
    }
}

impl Runner {
    /// Opens or closes a window.
    pub(super) fn watch_time(&mut self, watch: Watch) {
        match watch {
            Watch::Open { id, stream } => {
                let (start, stamp) = (Instant::now(), self.kernels.engine.stamp());
                self.windows.0.push(Window { id, stream, start, stamp, busy: Duration::ZERO, ran: false });
            }
            Watch::Close(id, reply) => {
                let measured = self.close(id).map(|window| self.measure(window));
                let measured = measured.and_then(|m| m.map_err(|why| super::warn(&format!("no time: {why}"))).ok());
                let _ = reply.send(measured);
            }
            Watch::Drop(id) => drop(self.close(id)),
        }
    }

    fn close(&mut self, id: u64) -> Option<Window> {
        let at = self.windows.0.iter().position(|window| window.id == id)?;
        Some(self.windows.0.swap_remove(at))
    }

    fn measure(&self, window: Window) -> Result<Measured, String> {
        let Window { start, stamp, busy, ran, .. } = window;
        let span = match stamp? {
            _ if !ran => Span::Known(Duration::ZERO),
            None => Span::Known(busy),
            Some(first) => match self.kernels.engine.stamp()? {
                Some(last) => Span::Between(first, last),
                None => Span::Known(busy),
            },
        };
        Ok(Measured { start, span })
    }
}
