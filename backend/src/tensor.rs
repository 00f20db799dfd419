//! The tensor that Burn holds: a counted handle to a recorded value.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use burn_backend::{DType as BurnDType, Shape, TensorMetadata};
use kiln_lowering::DType;

use crate::device::KilnDevice;
use crate::dtype::to_kiln;
use crate::record::value::Value;

/// A tensor of any kind.  Cloning counts; dropping forgets, and neither waits nor fails.
pub struct KilnTensor {
    pub(crate) value: Arc<Value>,
}

impl KilnTensor {
    /// The first handle to a value.
    pub(crate) fn first(value: Arc<Value>) -> KilnTensor {
        value.holders.fetch_add(1, Relaxed);
        KilnTensor { value }
    }

    /// Burn's element type, the bool's storage included.
    pub fn dtype(&self) -> BurnDType {
        self.value.dtype
    }

    /// Kiln's element type.
    pub fn kiln_dtype(&self) -> DType {
        to_kiln(self.value.dtype)
    }

    /// Extents.
    pub fn shape(&self) -> &Shape {
        &self.value.shape
    }

    /// Extents, as graphs have them.
    pub fn dims(&self) -> kiln_lowering::graph::Dims {
        self.value.shape.iter().map(|&n| n as u64).collect()
    }

    /// The machine it lives on.
    pub fn device(&self) -> KilnDevice {
        self.value.stream.machine.device
    }
}

impl Clone for KilnTensor {
    fn clone(&self) -> KilnTensor {
        KilnTensor::first(Arc::clone(&self.value))
    }
}

impl Drop for KilnTensor {
    fn drop(&mut self) {
        if self.value.holders.fetch_sub(1, SeqCst) == 1 {
            self.value.leave();
        }
    }
}

impl fmt::Debug for KilnTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KilnTensor({:?} {:?} on {})", self.value.shape.as_slice(), self.value.dtype, self.device())
    }
}

impl TensorMetadata for KilnTensor {
    type Device = KilnDevice;

    fn dtype(&self) -> BurnDType {
        self.value.dtype
    }

    fn shape(&self) -> Shape {
        self.value.shape.clone()
    }

    fn rank(&self) -> usize {
        self.value.shape.len()
    }

    fn device(&self) -> KilnDevice {
        self.value.stream.machine.device
    }

    fn can_mut(&self) -> bool {
        self.value.holders.load(Acquire) == 1
    }
}
