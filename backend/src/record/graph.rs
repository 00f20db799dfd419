//! Graphs: a stretch of one thread's work that is kept as it ran, memory included, and run again as a whole.
//!
//! A graph names memory, not tensors.  So that it reads what the program has meanwhile put in their place, each tensor
//! that it read from before is a [`Line`]: an operation that could have been done in place moves it on, and the next
//! replay copies the new value to where the graph looks for it.

use std::fmt;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use burn_backend::ExecutionError;

use super::line::Line;
use super::stream;
use super::value::Value;
use crate::device::KilnDevice;
use crate::run::{Machine, Message};

/// Why nothing is read while a graph is captured.
const READS: &str = "a tensor cannot be read while this thread captures a graph on its device; the capture has ended";

/// Work that was captured between [`graph_start_capture`](burn_backend::Backend::graph_start_capture) and
/// [`graph_stop_capture`](burn_backend::Backend::graph_stop_capture), to be run again on the same memory.
///
/// The work ran while it was captured; a replay runs it once more and leaves its results where the captured ones lie, so
/// that the tensors which came out of the capture have new elements.  Views and clones of them share their memory.
///
/// - *Inputs* are read as they are at the replay: where the program has changed one in place since
///   ([`slice_assign`](burn_backend::ops::FloatTensorOps::float_slice_assign) and whatever else takes a tensor that
///   nobody else holds, and gives one of its shape and type), the new elements count.  An input that is a view of
///   another tensor can't be changed; data that came from the host during the capture stays what it was, and so does a
///   result that is an input itself, or a view of one.
/// - *State* that the captured work changes in place goes on from replay to replay, as a cache that grows does.  What
///   the program or another graph changes in place there stays in the same memory, unless a view of it is held.
/// - *Memory* that the graph names is the graph's until the last clone of it is dropped, whether the tensors live or not.
/// - *Random numbers* are the next ones of the device at each replay, as if the work were recorded anew.  All other
///   numbers, a learning rate for one, are those of the capture.
/// - *Failures* of a replay are those of its results, until a replay succeeds: whoever reads one is told.  A graph that
///   has failed in the middle of changing its own state has lost it, and is captured anew.
#[derive(Clone)]
pub struct KilnGraph(Arc<Handle>);

struct Handle {
    machine: &'static Machine,
    /// The graph's name on the device's thread.
    number: u64,
    /// What it read from before, and how far each had moved when it was last replayed.
    inputs: Vec<Start>,
    seen: Mutex<Vec<u64>>,
    /// Random elements that a replay draws, one count a draw.
    draws: Vec<u64>,
}

/// A line, and the value that it had at the capture.
type Start = (Arc<Line>, Weak<Value>);

/// What a finished capture consists of, as the device's thread tells.
pub(crate) struct Captured {
    pub(crate) number: u64,
    pub(crate) inputs: Vec<Start>,
    pub(crate) draws: Vec<u64>,
}

/// A graph to be run again.
pub(crate) struct Replay {
    pub(crate) number: u64,
    pub(crate) stream: u64,
    /// Inputs that have another value than at the last replay.
    pub(crate) moved: Vec<(usize, Arc<Value>)>,
    /// Seed and first number of each draw.
    pub(crate) draws: Vec<(u64, u64)>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inputs.iter().for_each(|(line, start)| line.end(start));
        self.machine.send(Message::Forget(self.number));
    }
}

impl fmt::Debug for KilnGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KilnGraph({} on {})", self.0.number, self.0.machine.device)
    }
}

fn error(reason: impl Into<String>) -> ExecutionError {
    ExecutionError::with_context(reason.into())
}

/// That this thread may read what lies on a device.  A capture ends here: work that depends on what the program has seen
/// cannot be replayed, and whoever goes on without the value finds a thread that works.
pub(super) fn may_read(machine: &'static Machine) -> Result<(), ExecutionError> {
    let Some(stream) = stream::capturing(machine) else { return Ok(()) };
    stream.submit();
    stream.end_capture();
    machine.send(Message::Abandon(stream.number));
    Err(error(READS))
}

/// Captures what this thread records from now on.
///
/// # Errors
///
/// If it captures already.
pub fn start_capture(device: &KilnDevice) -> Result<(), ExecutionError> {
    let stream = stream::of(device);
    stream.submit();
    if !stream.start_capture() {
        return Err(error(format!("this thread captures a graph on {device} already")));
    }
    stream.machine.send(Message::Capture { stream: stream.number, first: stream.open() });
    Ok(())
}

/// Ends what [`start_capture`] began; waits until the work is done.
///
/// # Errors
///
/// If nothing is being captured, a read has ended the capture, or some of the work has failed.
pub fn stop_capture(device: &KilnDevice) -> Result<KilnGraph, ExecutionError> {
    let stream = stream::of(device);
    if !stream.is_capturing() {
        return Err(error(format!("this thread captures no graph on {device}, or has read in between")));
    }
    stream.submit();
    stream.end_capture();
    let machine = stream.machine;
    let (reply, answer) = sync_channel(1);
    machine.send(Message::Captured(stream.number, reply));
    let gone = || Err(error(format!("the thread of device {} has ended", machine.device)));
    let captured = answer.recv().unwrap_or_else(|_| gone())?;
    let Captured { number, inputs, draws } = captured;
    let seen = Mutex::new(vec![0; inputs.len()]);
    Ok(KilnGraph(Arc::new(Handle { machine, number, inputs, seen, draws })))
}

/// Has a graph run again, after everything that this thread has recorded.
///
/// # Errors
///
/// If it is another device's, or this thread captures.
pub fn replay(device: &KilnDevice, graph: &KilnGraph) -> Result<(), ExecutionError> {
    let Handle { machine, number, inputs, seen, draws } = &*graph.0;
    let stream = stream::of(device);
    if !std::ptr::eq(*machine, stream.machine) {
        return Err(error(format!("a graph captured on {} cannot be replayed on {device}", machine.device)));
    }
    if stream.is_capturing() {
        return Err(error("a graph cannot be replayed while this thread captures another one"));
    }
    stream.submit();
    let mut moved = Vec::new();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    for (at, (line, start)) in inputs.iter().enumerate() {
        let now = line.moves();
        if now != seen[at] {
            seen[at] = now;
            let latest = line.latest(start);
            latest.iter().for_each(|value| value.stream.submit_if(value.segment));
            moved.extend(latest.map(|value| (at, value)));
        }
    }
    let draws = machine.draw_all(draws);
    machine.send(Message::Replay(Box::new(Replay { number: *number, stream: stream.number, moved, draws })));
    Ok(())
}
