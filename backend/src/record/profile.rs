//! Windows of time as programs open and close them.  Nothing here waits for the device but who asks for the outcome.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;

use burn_backend::{ExecutionError, ProfileDuration, ProfileOptions, ProfileTicks, ProfileToken};

use super::stream;
use crate::device::KilnDevice;
use crate::run::{Machine, Message, Watch, warn};

/// Opens a window for the work of this thread: what it has recorded and not handed over yet falls in, if it runs before
/// the end.
pub fn start(device: &KilnDevice) -> ProfileToken {
    static WINDOWS: AtomicU64 = AtomicU64::new(1);
    let stream = stream::of(device);
    let id = WINDOWS.fetch_add(1, Relaxed);
    stream.machine.windows.open(id);
    stream.machine.send(Message::Watch(Watch::Open { id, stream: stream.number }));
    ProfileToken { id, opened_on: stream.number }
}

/// Closes a window.  What is recorded and not handed over falls out, unless the options flush.
///
/// # Errors
///
/// If no such window is open.
pub fn end(
    device: &KilnDevice,
    token: ProfileToken,
    options: ProfileOptions,
) -> Result<ProfileDuration, ExecutionError> {
    let stream = stream::of(device);
    if !stream.machine.windows.close(token.id) {
        let message = format!("no profiling window {} is open on device {device}", token.id);
        return Err(ExecutionError::with_context(message));
    }
    if options.flushes() {
        stream.submit();
    }
    let (reply, answer) = sync_channel(1);
    stream.machine.send(Message::Watch(Watch::Close(token.id, reply)));
    Ok(ProfileDuration::new_device_time_maybe(async move {
        let measured = answer.recv().ok().flatten()?;
        let time = measured.resolve().map_err(|why| warn(&format!("no time: {why}"))).ok()?;
        Some(ProfileTicks::from_start_end(measured.start, measured.start + time))
    }))
}

/// Closes a window of which nobody asks what it measured.
pub fn abandon(device: &KilnDevice, token: ProfileToken) {
    let machine = Machine::of(device);
    if machine.windows.close(token.id) {
        machine.send(Message::Watch(Watch::Drop(token.id)));
    }
}
