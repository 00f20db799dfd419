//! What code generation asks of a target.  Every question has a small answer, and where most targets would give the
//! same one it is given here.

use inkwell::values::{InstructionOpcode, InstructionValue, PointerValue};

use super::ir::{Any, Ir};
use super::tensor_map::TensorMap;
use crate::dtype::DType;
use crate::layout::fragment::{Matrix, Tiling};
use crate::tile::Param;

/// Where a thread stands, as i32: its lane in its warp, its warp in its program.
#[derive(Clone, Copy, Debug)]
pub struct Thread<'c> {
    /// Lane in the warp.
    pub lane: Any<'c>,
    /// Warp in the program; 0 where a program is one warp.
    pub warp: Any<'c>,
}

/// The first factor of a product by several warps.
#[derive(Clone, Copy, Debug)]
pub enum Left<'a, 'c> {
    /// The elements that one lane holds, in the order of the tiling.
    Registers(&'a [Any<'c>]),
    /// Where its panels begin in scratch memory.
    Scratch(PointerValue<'c>),
}

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
    /// processor.  Contents do not outlive the instruction, unless they are held.
    fn scratch(&self, ir: &Ir<'c>, bytes: u32) -> PointerValue<'c>;

    /// Says that the instruction is over: its scratch memory is another's from now on.
    fn end_of_instruction(&self) {}

    /// `2^x` of an f32 by an instruction that is within 4·10⁻⁶ of it, if there is one.
    fn exp2_approx(&self, _ir: &Ir<'c>, _x: Any<'c>) -> Option<Any<'c>> {
        None
    }

    /// An aligned place of the size of the widest access that may be read where nothing else may.
    fn harmless(&self) -> PointerValue<'c>;

    /// Reports `code` to the launch where `condition` (an i1) is false.
    fn check(&self, ir: &Ir<'c>, condition: Any<'c>, code: u32);

    /// Marks an access to a buffer: different buffers don't overlap.
    fn tag(&self, ir: &Ir<'c>, inst: Option<InstructionValue<'c>>, param: Param);

    /// Waits until every thread of the program is here and sees the others' writes to scratch memory.
    fn barrier(&self, _ir: &Ir<'c>) {}

    /// The running thread's place, where lanes are threads; nothing where they are the elements of vectors.
    fn thread(&self, _ir: &Ir<'c>) -> Option<Thread<'c>> {
        None
    }

    /// Where lanes are threads: the word (an i32) that lane `from` (an i32) of this warp has.
    fn word_of_lane(&self, _ir: &Ir<'c>, _word: Any<'c>, _from: Any<'c>) -> Any<'c> {
        panic!("bug in the lowering: the lanes of this target are not threads")
    }

    /// Where lanes are threads: the word that the lane has whose number differs in the bits of `mask`.
    fn word_across(&self, ir: &Ir<'c>, word: Any<'c>, mask: u32) -> Any<'c> {
        let lane = self.thread(ir).map_or(word, |thread| thread.lane);
        let from = ir.binary(InstructionOpcode::Xor, lane, ir.i32(mask));
        self.word_of_lane(ir, word, from)
    }

    /// Moves elements between lanes that are elements of vectors: lane `i` of the result holds what lane `from[i]` of
    /// `x` holds.
    fn shuffle(&self, ir: &Ir<'c>, x: Any<'c>, from: &[u32]) -> Any<'c> {
        ir.shuffle(x, from)
    }

    /// `c + a·b` by one of the matrix instructions of the target's [`Spec`](crate::spec::Spec): the elements that one
    /// lane holds of each operand, in the order of the fragments' registers; gives those of the result.
    fn multiply(&self, _ir: &Ir<'c>, matrix: &Matrix, _a: &[Any<'c>], _b: &[Any<'c>], _c: &[Any<'c>]) -> Vec<Any<'c>> {
        panic!("bug in the lowering: no instruction `{}` here", matrix.name)
    }

    /// Makes this thread's writes to scratch memory seen by instructions of several warps, behind the next barrier.
    fn publish(&self, _ir: &Ir<'c>) {}

    /// The same for all fragments of a product whose second factor lies in scratch memory from `base` on, if there is an
    /// instruction of several warps for it: the elements of `a` and `c` that one lane holds, in the order of the tiling.
    /// Nobody may look at what it gives, but for the next product that adds to it, until it was
    /// [waited for](Emit::await_products).
    fn multiply_together(
        &self,
        _ir: &Ir<'c>,
        _product: (&Matrix, &Tiling),
        _base: PointerValue<'c>,
        _a: Left<'_, 'c>,
        _c: &[Any<'c>],
    ) -> Option<Vec<Any<'c>>> {
        None
    }

    /// Waits until no more than so many products of several warps are under way; gives the sums, which are complete then.
    fn await_products(&self, _ir: &Ir<'c>, _groups: u32, sums: &[Any<'c>]) -> Vec<Any<'c>> {
        sums.to_vec()
    }

    /// Keeps the scratch memory that was taken for an instruction from those inside of it, until [`let_go`](Emit::let_go)
    /// is given what this gives.
    fn hold(&self) -> u32 {
        0
    }

    /// Ends a [`hold`](Emit::hold).
    fn let_go(&self, _held: u32) {}

    /// Starts to copy sixteen bytes from a buffer to scratch memory, zeros in their stead where they are not `wanted`.
    fn copy(&self, ir: &Ir<'c>, to: PointerValue<'c>, from: PointerValue<'c>, wanted: Option<Any<'c>>) {
        let ty = ir.wide(ir.context.i32_type().into(), 4);
        let harmless = || self.harmless().into();
        let from = wanted.map_or(from, |wanted| ir.select(wanted, from.into(), harmless()).into_pointer_value());
        let x = ir.load(ty, from, 16);
        let x = wanted.map_or(x, |wanted| ir.select(wanted, x, ty.const_zero()));
        ir.store(to, x, 16);
    }

    /// The copies of this thread that were started since the last such call are a group.
    fn group_copies(&self, _ir: &Ir<'c>) {}

    /// Waits until no more than so many groups of this thread's copies are under way.
    fn await_copies(&self, _ir: &Ir<'c>, _groups: u32) {}

    /// The number of a tensor map, which the kernel is given from now on, if it has room for it.  Asked where the machine
    /// has an engine that copies [boxes](crate::spec::Spec::boxes).
    fn tensor_map(&self, _map: &TensorMap) -> Option<u32> {
        None
    }

    /// Has the engine copy the box at a place of a tensor to scratch memory, in panels; asked for by one thread.  The gate, if
    /// there is one, hears of the bytes that arrive.
    fn copy_box(
        &self,
        _ir: &Ir<'c>,
        _map: u32,
        _at: [Any<'c>; 3],
        _to: PointerValue<'c>,
        _gate: Option<PointerValue<'c>>,
    ) {
        panic!("bug in the lowering: no engine copies boxes here")
    }

    /// Passes a gate, on the running thread alone, as soon as so many bytes have arrived.
    fn pass_when_arrived(&self, _ir: &Ir<'c>, _gate: PointerValue<'c>, _bytes: u32) {}

    /// Whether there are gates.
    fn has_gates(&self) -> bool {
        false
    }

    /// Makes a gate in scratch memory that opens each time when so many have passed it, behind the next barrier; whether it
    /// has opened an even or an odd number of times is what waiting asks for.
    fn make_gate(&self, _ir: &Ir<'c>, _gate: PointerValue<'c>, _count: u32) {}

    /// Ends a gate's life, so that its memory can be used for something else.
    fn end_gate(&self, _ir: &Ir<'c>, _gate: PointerValue<'c>) {}

    /// Waits until a gate has opened for the round of that parity (an i32); those before the first one are taken to be odd.
    fn await_gate(&self, _ir: &Ir<'c>, _gate: PointerValue<'c>, _odd: Any<'c>) {}

    /// Passes a gate as soon as the copies that this thread has started are complete.
    fn pass_when_copied(&self, _ir: &Ir<'c>, _gate: PointerValue<'c>) {}

    /// Passes a gate where `passes` (an i1, the same throughout the warp) holds, once for the whole warp.
    fn pass_as_warp(&self, _ir: &Ir<'c>, _gate: PointerValue<'c>, _passes: Any<'c>) {}

    /// Whether two groups of warps can take turns.  While it is a group's turn, nobody may wait for all threads.
    fn has_turns(&self) -> bool {
        false
    }

    /// Waits until it is the turn of this group of warps, of two, which is the first one's at first.
    fn take_turn(&self, _ir: &Ir<'c>) {}

    /// Ends this group's turn: it is the other one's.
    fn pass_turn(&self, _ir: &Ir<'c>) {}

    /// Has the first of two groups begin, which both take their turns from here on.
    fn begin_turns(&self, _ir: &Ir<'c>) {}

    /// Ends the turns of two groups, both of which have passed their last.
    fn end_turns(&self, _ir: &Ir<'c>) {}

    /// Whether a masked access to consecutive elements of this type is one instruction; if not, the code asks first
    /// whether the mask is full.
    fn has_masked_access(&self, _dtype: DType) -> bool {
        true
    }

    /// The bits (an i16) of an f32 rounded to bf16, to nearest even, if the machine does that for all numbers.
    /// Processors flush those below the normal range.
    fn to_bf16(&self, _ir: &Ir<'c>, _x: Any<'c>) -> Option<Any<'c>> {
        None
    }

    /// A word (an i32) that is about to be taken apart by shifts and masks, and not by what the optimiser would rather do.
    fn word(&self, _ir: &Ir<'c>, word: Any<'c>) -> Any<'c> {
        word
    }

    /// Two f32 rounded to a type of 16 bits, to nearest even, side by side in a word (an i32), if that is one instruction.
    fn round_pair(&self, _ir: &Ir<'c>, _dtype: DType, _low: Any<'c>, _high: Any<'c>) -> Option<Any<'c>> {
        None
    }

    /// The reciprocal of an f32 within the normal range to a unit in the last place, if it comes cheap and a division
    /// does not.
    fn approximate_reciprocal(&self, _ir: &Ir<'c>, _x: Any<'c>) -> Option<Any<'c>> {
        None
    }

    /// The reciprocal of the square root of an f32, near enough for one step from it to round the root correctly, if it
    /// comes cheap and a root does not.
    fn approximate_inverse_root(&self, _ir: &Ir<'c>, _x: Any<'c>) -> Option<Any<'c>> {
        None
    }

    /// Whether dividing vectors of f32 takes longer than ten other operations.
    fn divides_slowly(&self) -> bool {
        false
    }

    /// Whether reading scattered elements of this type is one instruction.
    fn has_gather(&self, _dtype: DType) -> bool {
        false
    }

    /// Asks for memory that will be read, if that is worth an instruction; it need not be anybody's.
    fn prefetch(&self, _ir: &Ir<'c>, _address: PointerValue<'c>) {}

    /// Whether so many bytes at once, aligned to their number, can be written past the caches.
    fn streams(&self, _bytes: u32) -> bool {
        false
    }

    /// Whether writing scattered elements of this type is one instruction.
    fn has_scatter(&self, _dtype: DType) -> bool {
        false
    }
}
