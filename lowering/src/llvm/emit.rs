//! What code generation asks of a target.  Every question has a small answer, and where most targets would give the
//! same one it is given here.

use inkwell::values::{InstructionValue, PointerValue};

use super::ir::{Any, Ir};
use crate::dtype::DType;
use crate::tile::Param;

/// A target's answers while one function is being emitted.
pub trait Emit<'c> {
    /// Elements that one register of a tile holds side by side: the lanes of a processor's vector, 1 on a GPU.
    fn width(&self) -> u32;

    /// Index of this program along a grid axis, i32.
    fn program_id(&self, ir: &Ir<'c>, axis: u8) -> Any<'c>;

    /// Number of programs along a grid axis, i32.
    fn num_programs(&self, ir: &Ir<'c>, axis: u8) -> Any<'c>;

    /// Value of a scalar parameter.
    fn scalar(&self, ir: &Ir<'c>, param: Param) -> Any<'c>;

    /// First element of a buffer parameter.
    fn buffer(&self, ir: &Ir<'c>, param: Param) -> PointerValue<'c>;

    /// Address of element `offset` (a signed scalar) of type `dtype` counted from `base`.
    fn address(&self, ir: &Ir<'c>, base: PointerValue<'c>, dtype: DType, offset: Any<'c>) -> PointerValue<'c>;

    /// Addresses of the elements at a vector of offsets.
    fn addresses(&self, ir: &Ir<'c>, base: PointerValue<'c>, dtype: DType, offsets: Any<'c>) -> Any<'c>;

    /// Memory of one program, `bytes` long, for the use of one instruction: shared memory on a GPU, the stack on a
    /// processor.  Contents do not outlive the instruction.
    fn scratch(&self, ir: &Ir<'c>, bytes: u32) -> PointerValue<'c>;

    /// Eight bytes that may be read where nothing else may.
    fn harmless(&self) -> PointerValue<'c>;

    /// Reports `code` to the launch where `condition` (an i1) is false.
    fn check(&self, ir: &Ir<'c>, condition: Any<'c>, code: u32);

    /// Marks an access to a buffer: different buffers don't overlap.
    fn tag(&self, ir: &Ir<'c>, inst: Option<InstructionValue<'c>>, param: Param);

    /// Waits until every thread of the program is here and sees the others' writes to scratch memory.
    fn barrier(&self, _ir: &Ir<'c>) {}

    /// Moves elements between lanes: lane `i` of the result holds what lane `from[i]` of `x` holds.
    fn shuffle(&self, ir: &Ir<'c>, x: Any<'c>, from: &[u32]) -> Any<'c> {
        ir.shuffle(x, from)
    }

    /// Whether a masked access to consecutive elements of this type is one instruction; if not, the code asks first
    /// whether the mask is full.
    fn has_masked_access(&self, _dtype: DType) -> bool {
        true
    }

    /// Whether dividing vectors of f32 takes longer than ten other operations.
    fn divides_slowly(&self) -> bool {
        false
    }

    /// Whether reading scattered elements of this type is one instruction.
    fn has_gather(&self, _dtype: DType) -> bool {
        false
    }

    /// Whether writing scattered elements of this type is one instruction.
    fn has_scatter(&self, _dtype: DType) -> bool {
        false
    }
}
