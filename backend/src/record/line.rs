//! A line of values: what a program takes for one tensor that operations in place change.  Here each of them makes a
//! value of its own; the line says which one counts now, for graphs that read it again.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::stream::Stream;
use super::value::Value;
use crate::tensor::KilnTensor;

/// What a program takes for one tensor.
#[derive(Default)]
pub(crate) struct Line {
    state: Mutex<State>,
    moves: AtomicU64,
}

#[derive(Default)]
struct State {
    steps: Vec<Step>,
    /// Values that graphs were captured with.
    starts: Vec<Weak<Value>>,
}

/// One value in another's place, once nobody holds that any more.
struct Step {
    from: Weak<Value>,
    to: Weak<Value>,
}

fn is(weak: &Weak<Value>, other: &Weak<Value>) -> bool {
    Weak::ptr_eq(weak, other)
}

impl Line {
    /// How often another value came.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Acquire)
    }

    /// Has the line say from now on what has become of a value.
    pub(crate) fn begin(&self, start: &Arc<Value>) {
        self.lock().starts.push(Arc::downgrade(start));
    }

    /// Ends that.
    pub(super) fn end(&self, start: &Weak<Value>) {
        let starts = &mut self.lock().starts;
        if let Some(at) = starts.iter().position(|s| is(s, start)) {
            starts.swap_remove(at);
        }
    }

    /// The value that counts in the place of `start`, unless that still does or there is none any more; once what was
    /// recorded is handed over.
    pub(crate) fn latest(&self, start: &Weak<Value>) -> Option<Arc<Value>> {
        let state = self.lock();
        let mut now = start;
        loop {
            // What is still held beside its result was not changed in place.
            if let Some(value) = now.upgrade().filter(|value| !value.is_dead()) {
                return (!is(now, start)).then_some(value);
            }
            now = &state.steps.iter().rev().find(|step| is(&step.from, now))?.to;
        }
    }

    /// What a test says of the first value in the place of `start` that it knows.
    pub(crate) fn heir<T>(&self, start: &Arc<Value>, test: impl Fn(&Arc<Value>) -> Option<T>) -> Option<T> {
        let (state, start) = (self.lock(), Arc::downgrade(start));
        let mut now = &start;
        loop {
            now = &state.steps.iter().rev().find(|step| is(&step.from, now))?.to;
            if let Some(found) = now.upgrade().and_then(|value| test(&value)) {
                return Some(found);
            }
        }
    }

    /// Whether a value may have been changed in place.
    pub(crate) fn leaves(&self, value: &Arc<Value>) -> bool {
        let value = Arc::downgrade(value);
        self.lock().steps.iter().any(|step| is(&step.from, &value))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, from: &Arc<Value>, to: &Arc<Value>) {
        let State { steps, starts } = &mut *self.lock();
        steps.push(Step { from: Arc::downgrade(from), to: Arc::downgrade(to) });
        // Values that are gone are passed over.
        let mut at = 0;
        while at < steps.len() {
            let to = &steps[at].to;
            if to.strong_count() > 0 || starts.iter().any(|start| is(start, to)) {
                at += 1;
                continue;
            }
            let Step { from, to } = steps.remove(at);
            steps.iter_mut().filter(|step| is(&step.from, &to)).for_each(|step| step.from = Weak::clone(&from));
        }
        self.moves.fetch_add(1, AcqRel);
    }
}

/// Has a result take its operand's place in the line, if the operation could have been done in place: nobody else holds
/// the operand, which is as large and of the same type.  `open` is the segment that the operation was recorded in.
pub(super) fn follow(stream: &Arc<Stream>, open: u64, inputs: &[&KilnTensor], made: &KilnTensor) {
    for t in inputs {
        let Some(Some(line)) = t.value.line.get() else { continue };
        let fits = t.value.dtype == made.value.dtype && t.value.shape == made.value.shape;
        // The segment holds what was not made in it.
        let own = t.value.segment == open && Arc::ptr_eq(&t.value.stream, stream);
        if fits && t.value.holders.load(Acquire) <= 1 + u32::from(!own) {
            let _ = made.value.line.set(Some(Arc::clone(line)));
            return line.step(&t.value, &made.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn_backend::{Backend, Scalar, TensorData, ops::FloatTensorOps};

    use super::*;
    use crate::{Kiln, KilnDevice, record};

    fn more(x: KilnTensor) -> KilnTensor {
        Kiln::float_add_scalar(x, Scalar::Float(1.0))
    }

    /// A value that is held beside its result counts; one that is gone is passed over, and the line stays short.
    #[test]
    fn a_line_follows_what_is_changed_in_place() {
        let device = KilnDevice::Cpu;
        let mut x = record::from_data(TensorData::from([1.0f32, 2.0]), &device);
        Kiln::graph_start_capture(&device).expect("nothing is being captured");
        let _y = more(x.clone());
        let graph = Kiln::graph_stop_capture(&device).expect("nothing has failed");
        let start = Arc::downgrade(&x.value);
        let Some(Some(line)) = x.value.line.get().cloned() else { panic!("the graph reads it") };
        let beside = more(x.clone());
        assert!(line.latest(&start).is_none() && beside.value.line.get().is_none());
        for _ in 0..500 {
            x = more(x);
            record::flush(&device);
            x = more(more(x));
            // An open segment holds what it reads.
            record::flush(&device);
            assert!(line.latest(&start).is_some_and(|latest| Arc::ptr_eq(&latest, &x.value)));
        }
        record::sync(&device).expect("nothing has failed");
        x = more(x);
        assert!(line.lock().steps.len() < 20, "{} steps", line.lock().steps.len());
        drop(x);
        record::flush(&device);
        assert!(line.latest(&start).is_none());
        drop(graph);
        assert!(line.lock().starts.is_empty());
    }
}
