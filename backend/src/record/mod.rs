//! Recording: operations become nodes of a graph that is handed to the device's thread in segments.
//!
//! A segment belongs to one user thread and one device.  It ends when a value is read, on sync and flush, when it is
//! long or holds much memory, and when another thread needs one of its values.  Nothing here waits for the device
//! but [`into_data`], [`host_value`] and [`sync`].

pub(crate) mod graph;
pub(crate) mod line;
pub(crate) mod profile;
mod segment;
pub(crate) mod stream;
mod tape;
pub(crate) mod value;

use burn_backend::{DType as BurnDType, ExecutionError, TensorData};
use kiln_lowering::graph::Node;
use smallvec::{SmallVec, smallvec};

use crate::device::KilnDevice;
use crate::run::{self, Machine, Place};
use crate::tensor::KilnTensor;

pub use graph::KilnGraph;
pub use tape::Tape;

pub(crate) use segment::{Beginning, OpMark, Operand, Work};
use stream::Stream;
pub(crate) use value::Value;

/// Records one operation with one result.
///
/// `op` names it in errors and reports; `f` adds its rows to the tape, given the operands' nodes, and returns the
/// result's node, whose element type `out` is in Burn's terms.
///
/// # Panics
///
/// If operands live on another device, or as `f` does; what was recorded before stays as it was.
pub fn record<const N: usize>(
    op: &'static str,
    device: &KilnDevice,
    inputs: [&KilnTensor; N],
    out: BurnDType,
    f: impl FnOnce(&mut Tape<'_>, [Node; N]) -> Node,
) -> KilnTensor {
    let stream = stream::of(device);
    settle(op, &stream, &inputs);
    stream.record(|stream, segment| {
        segment.begin(op);
        let nodes = inputs.map(|t| segment.operand(stream, t));
        let node = f(&mut Tape { segment }, nodes);
        let made = segment.result(stream, node, out);
        line::follow(stream, segment.number, &inputs, &made);
        segment.end();
        made
    })
}

/// As [`record`], for any number of operands and results.
pub fn record_many(
    op: &'static str,
    device: &KilnDevice,
    inputs: &[&KilnTensor],
    f: impl FnOnce(&mut Tape<'_>, &[Node]) -> SmallVec<[(Node, BurnDType); 2]>,
) -> SmallVec<[KilnTensor; 2]> {
    let stream = stream::of(device);
    settle(op, &stream, inputs);
    stream.record(|stream, segment| {
        segment.begin(op);
        let nodes: SmallVec<[Node; 8]> = inputs.iter().map(|t| segment.operand(stream, t)).collect();
        let results = f(&mut Tape { segment }, &nodes);
        let made: SmallVec<[KilnTensor; 2]> =
            results.into_iter().map(|(node, dtype)| segment.result(stream, node, dtype)).collect();
        made.iter().for_each(|made| line::follow(stream, segment.number, inputs, made));
        segment.end();
        made
    })
}

/// Makes sure that operands which other threads recorded are on their way to the device.
fn settle(op: &'static str, stream: &std::sync::Arc<Stream>, inputs: &[&KilnTensor]) {
    for t in inputs {
        let from = &t.value.stream;
        if std::sync::Arc::ptr_eq(from, stream) {
            continue;
        }
        if !std::ptr::eq(from.machine, stream.machine) {
            panic!(
                "`{op}` wants its operands on one device, got {} and {}; move one with `to_device`",
                stream.machine.device, from.machine.device
            );
        }
        from.submit_if(t.value.segment);
    }
}

/// A tensor of the given data.  Its bytes are kept where their alignment allows, else copied.  Where memory runs out,
/// whoever reads what depends on the tensor is told.
///
/// # Panics
///
/// For quantized data.
pub fn from_data(data: TensorData, device: &KilnDevice) -> KilnTensor {
    let stream = stream::of(device);
    let (bytes, shape, dtype) = data.into_parts();
    let placed = run::place_bytes(&stream.machine.pool, bytes, &shape, dtype);
    let place = placed.map_err(|why| {
        let message = format!("`from_data` giving {:?} {}: {why}", shape.as_slice(), crate::dtype::to_kiln(dtype));
        stream.machine.failure(stream.number, message)
    });
    KilnTensor::first(value::Value::placed(stream, shape, dtype, place))
}

/// The elements of a tensor, in row-major order.
///
/// # Errors
///
/// The first failure that the tensor depends on.
pub fn into_data(t: KilnTensor) -> Result<TensorData, ExecutionError> {
    let value = &t.value;
    run::read_place(place_of(value)?, &value.shape, value.dtype).map_err(ExecutionError::with_context)
}

/// Where a value lies, once it does; not that it is there already, but that no check it depends on fails.
fn place_of(value: &value::Value) -> Result<&Place, ExecutionError> {
    let machine = value.stream.machine;
    graph::may_read(machine)?;
    value.stream.submit_if(value.segment);
    // What a graph writes may be on the way to being written again.
    if value.place.get().is_none_or(|placed| placed.as_ref().is_ok_and(Place::is_renewed)) {
        machine.reach();
    }
    match value.place.get() {
        Some(Ok(place)) => match machine.outcome(place) {
            Some(failure) => Err(machine.take(&failure)),
            None => Ok(place),
        },
        Some(Err(failure)) => Err(machine.take(failure)),
        None => Err(ExecutionError::with_context(format!("the thread of device {} has ended", machine.device))),
    }
}

/// The tensor on another device: copied by the devices where they can, else through the host's memory.  If it could not
/// be computed, whoever reads what depends on it is told.
pub fn transfer(op: &'static str, t: KilnTensor, device: &KilnDevice) -> KilnTensor {
    if t.device() == *device {
        return t;
    }
    let (stream, value) = (stream::of(device), &t.value);
    let moved = place_of(value)
        .map_err(|error| error.to_string())
        .and_then(|place| run::move_place(place, &value.shape, value.dtype, &stream.machine.pool));
    let place = moved.map_err(|why| stream.machine.failure(stream.number, format!("`{op}` to {device}: {why}")));
    let (shape, dtype) = (value.shape.clone(), value.dtype);
    KilnTensor::first(value::Value::placed(stream, shape, dtype, place))
}

/// The elements of a tensor, for an operation that cannot go on without them.
///
/// # Panics
///
/// With the failure's message, if the tensor could not be computed.
pub fn host_value(op: &'static str, t: &KilnTensor) -> TensorData {
    match into_data(t.clone()) {
        Ok(data) => data,
        Err(error) => panic!("`{op}` needs its operand's value: {error}"),
    }
}

/// Hands what this thread has recorded to the device.
pub fn flush(device: &KilnDevice) {
    stream::of(device).submit();
}

/// Waits for everything that this thread has recorded.
///
/// # Errors
///
/// The first failure of this thread's work since the last one taken.
pub fn sync(device: &KilnDevice) -> Result<(), ExecutionError> {
    let stream = stream::of(device);
    let machine = stream.machine;
    graph::may_read(machine)?;
    machine.submit_orphans();
    stream.submit();
    let reached = machine.wait();
    crate::inspect::write_stats(machine);
    match machine.take_first(stream.number) {
        Some(error) => Err(error),
        None => reached.map_err(ExecutionError::with_context),
    }
}

/// Restarts the device's random numbers from a seed.
pub fn seed(device: &KilnDevice, seed: u64) {
    Machine::of(device).random.lock().unwrap_or_else(std::sync::PoisonError::into_inner).restart(seed);
}

/// Records a constant tensor, which operations without operands start from.
pub fn full(
    op: &'static str,
    device: &KilnDevice,
    value: burn_backend::Scalar,
    dims: &[u64],
    out: BurnDType,
) -> KilnTensor {
    record(op, device, [], out, |t, []| t.scalar(crate::dtype::to_kiln(out), value, dims))
}

/// Records one operation with one operand.
pub fn record_one(
    op: &'static str,
    input: &KilnTensor,
    out: BurnDType,
    f: impl FnOnce(&mut Tape<'_>, Node) -> Node,
) -> KilnTensor {
    record(op, &input.device(), [input], out, |t, [x]| f(t, x))
}

/// One result, for [`record_many`].
pub fn only(node: Node, dtype: BurnDType) -> SmallVec<[(Node, BurnDType); 2]> {
    smallvec![(node, dtype)]
}

#[cfg(test)]
mod tests;
