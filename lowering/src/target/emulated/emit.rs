//! Answers to the questions of code generation.  The kernel has a processor's signature; behind its parameters' slots
//! come the thread's lane and warp, the address of what the threads share, the addresses of the functions that exchange
//! words and wait, that of scratch memory, those of the functions that do what a matrix instruction does and what an engine
//! does that copies boxes.

use std::cell::{Cell, RefCell};

use inkwell::IntPredicate;
use inkwell::values::{FunctionValue, InstructionOpcode, InstructionOpcode as I, InstructionValue, PointerValue};

use crate::dtype::DType;
use crate::layout::fragment::Matrix;
use crate::llvm::address::{element_address, element_addresses};
use crate::llvm::alias::Scopes;
use crate::llvm::check::report;
use crate::llvm::ir::{Any, Ir, built};
use crate::llvm::tensor_map::TensorMap;
use crate::llvm::{Emit, Thread};
use crate::spec::Spec;
use crate::tile::{Param, ParamKind, Program};

/// Slots behind those of the parameters.
pub const SLOTS: usize = 8;

pub(super) struct Emulated<'c> {
    params: Vec<Any<'c>>,
    ids: [Any<'c>; 6],
    status: PointerValue<'c>,
    thread: Thread<'c>,
    shared: PointerValue<'c>,
    exchange: PointerValue<'c>,
    wait: PointerValue<'c>,
    scratch: PointerValue<'c>,
    multiply: PointerValue<'c>,
    copy: PointerValue<'c>,
    maps: RefCell<Vec<TensorMap>>,
    function: FunctionValue<'c>,
    matrices: &'static [Matrix],
    scopes: Scopes<'c>,
    taken: Cell<u32>,
    held: Cell<u32>,
    most: Cell<u32>,
}

impl<'c> Emulated<'c> {
    pub fn begin(ir: &Ir<'c>, program: &Program, spec: &Spec, symbol: &str) -> Emulated<'c> {
        let c = ir.context;
        let pointer = c.ptr_type(Default::default());
        let function = ir.module.add_function(symbol, c.void_type().fn_type(&[pointer.into(); 3], false), None);
        ir.builder.position_at_end(c.append_basic_block(function, "entry"));
        let [slots, ids, status] = [0, 1, 2].map(|i| argument(function, i));
        let int = c.i32_type();
        let id = |i: u32| ir.load(int.into(), element_address(ir, int.into(), ids, ir.i32(i)), 4);
        let slot = |i: u32| element_address(ir, c.i64_type().into(), slots, ir.i32(i));
        let params = program.params.iter().map(|(param, data)| match data.kind {
            ParamKind::Buffer { .. } => ir.load(pointer.into(), slot(param.as_u32()), 8),
            ParamKind::Scalar { .. } => {
                let x = ir.load(ir.memory_type(data.dtype), slot(param.as_u32()), 8);
                if data.dtype == DType::Bool { ir.icmp(IntPredicate::NE, x, ir.int_like(x, 0)) } else { x }
            }
        });
        let params: Vec<Any<'c>> = params.collect();
        let first = params.len() as u32;
        let number = |i: u32| ir.load(int.into(), slot(first + i), 8);
        let address = |i: u32| ir.load(pointer.into(), slot(first + i), 8).into_pointer_value();
        Emulated {
            params,
            ids: [0, 2, 3, 4, 5, 6].map(id),
            status,
            thread: Thread { lane: number(0), warp: number(1) },
            shared: address(2),
            exchange: address(3),
            wait: address(4),
            scratch: address(5),
            multiply: address(6),
            copy: address(7),
            maps: RefCell::default(),
            function,
            matrices: spec.matrices,
            scopes: Scopes::new(ir, program),
            taken: Cell::new(0),
            held: Cell::new(0),
            most: Cell::new(0),
        }
    }

    /// Ends the function; gives the bytes of scratch memory that it uses, and its tensor maps.
    pub fn end(self, ir: &Ir<'c>) -> (u32, Vec<TensorMap>) {
        built(ir.builder.build_return(None));
        (self.most.get(), self.maps.into_inner())
    }
}

fn argument<'c>(function: FunctionValue<'c>, i: u32) -> PointerValue<'c> {
    function.get_nth_param(i).expect("three arguments").into_pointer_value()
}

impl<'c> Emit<'c> for Emulated<'c> {
    fn width(&self) -> u32 {
        1
    }

    fn program_id(&self, _ir: &Ir<'c>, axis: u8) -> Any<'c> {
        self.ids[axis as usize]
    }

    fn num_programs(&self, _ir: &Ir<'c>, axis: u8) -> Any<'c> {
        self.ids[axis as usize + 3]
    }

    fn scalar(&self, _ir: &Ir<'c>, param: Param) -> Any<'c> {
        self.params[param.as_u32() as usize]
    }

    fn buffer(&self, _ir: &Ir<'c>, param: Param) -> PointerValue<'c> {
        self.params[param.as_u32() as usize].into_pointer_value()
    }

    fn address(&self, ir: &Ir<'c>, base: PointerValue<'c>, dtype: DType, offset: Any<'c>) -> PointerValue<'c> {
        element_address(ir, ir.memory_type(dtype), base, offset)
    }

    fn addresses(&self, ir: &Ir<'c>, base: PointerValue<'c>, dtype: DType, offsets: Any<'c>) -> Any<'c> {
        element_addresses(ir, ir.memory_type(dtype), base, offsets)
    }

    fn scratch(&self, ir: &Ir<'c>, bytes: u32) -> PointerValue<'c> {
        let start = self.taken.get();
        self.taken.set(start + bytes.next_multiple_of(16));
        self.most.set(self.most.get().max(self.taken.get()));
        element_address(ir, ir.context.i8_type().into(), self.scratch, ir.i32(start))
    }

    fn end_of_instruction(&self) {
        self.taken.set(self.held.get());
    }

    fn hold(&self) -> u32 {
        self.held.replace(self.taken.get())
    }

    fn let_go(&self, held: u32) {
        self.held.set(held);
        self.taken.set(held);
    }

    fn harmless(&self) -> PointerValue<'c> {
        self.scratch
    }

    fn check(&self, ir: &Ir<'c>, condition: Any<'c>, code: u32) {
        report(ir, self.status, condition, code);
    }

    fn tag(&self, _ir: &Ir<'c>, inst: Option<InstructionValue<'c>>, param: Param) {
        self.scopes.tag(inst, param);
    }

    fn thread(&self, _ir: &Ir<'c>) -> Option<Thread<'c>> {
        Some(self.thread)
    }

    fn word_of_lane(&self, ir: &Ir<'c>, word: Any<'c>, from: Any<'c>) -> Any<'c> {
        let (int, pointer) = (ir.context.i32_type(), ir.context.ptr_type(Default::default()));
        let ty = int.fn_type(&[pointer.into(), int.into(), int.into(), int.into(), int.into()], false);
        let Thread { lane, warp } = self.thread;
        let args = [self.shared.into(), warp.into(), lane.into(), word.into(), from.into()];
        let call = built(ir.builder.build_indirect_call(ty, self.exchange, &args, ""));
        call.try_as_basic_value().basic().expect("a word")
    }

    fn divides_slowly(&self) -> bool {
        true
    }

    /// Off by a unit in the last place in every other lane.
    fn approximate_reciprocal(&self, ir: &Ir<'c>, x: Any<'c>) -> Option<Any<'c>> {
        let exact = ir.binary(InstructionOpcode::FDiv, ir.float_like(x, 1.0), x);
        let bits = ir.bitcast(exact, ir.context.i32_type().into());
        let odd = ir.binary(InstructionOpcode::And, self.thread.lane, ir.i32(1));
        Some(ir.bitcast(ir.binary(InstructionOpcode::Xor, bits, odd), x.get_type()))
    }

    /// Off by a unit in the last place here and there, as both steps round.
    fn approximate_inverse_root(&self, ir: &Ir<'c>, x: Any<'c>) -> Option<Any<'c>> {
        let root = ir.intrinsic("llvm.sqrt", &[x.get_type()], &[x]);
        Some(ir.binary(InstructionOpcode::FDiv, ir.float_like(x, 1.0), root))
    }

    fn tensor_map(&self, map: &TensorMap) -> Option<u32> {
        let mut maps = self.maps.borrow_mut();
        maps.push(*map);
        Some(maps.len() as u32 - 1)
    }

    fn copy_box(
        &self,
        ir: &Ir<'c>,
        map: u32,
        [x, y, z]: [Any<'c>; 3],
        to: PointerValue<'c>,
        _gate: Option<PointerValue<'c>>,
    ) {
        let (int, pointer) = (ir.context.i32_type(), ir.context.ptr_type(Default::default()));
        let types = [pointer.into(), int.into(), int.into(), int.into(), int.into(), pointer.into()];
        let ty = ir.context.void_type().fn_type(&types, false);
        let args = [self.shared.into(), ir.i32(map).into(), x.into(), y.into(), z.into(), to.into()];
        built(ir.builder.build_indirect_call(ty, self.copy, &args, ""));
    }

    fn barrier(&self, ir: &Ir<'c>) {
        let ty = ir.context.void_type().fn_type(&[ir.context.ptr_type(Default::default()).into()], false);
        built(ir.builder.build_indirect_call(ty, self.wait, &[self.shared.into()], ""));
    }

    /// Each thread hands the bits of its elements over, one a word, those of `a` before those of `b` and `c`, and takes
    /// those of the result from where the latter were.
    fn multiply(&self, ir: &Ir<'c>, matrix: &Matrix, a: &[Any<'c>], b: &[Any<'c>], c: &[Any<'c>]) -> Vec<Any<'c>> {
        let (int, pointer) = (ir.context.i32_type(), ir.context.ptr_type(Default::default()));
        let count = (a.len() + b.len() + c.len()) as u32;
        let entry = self.function.get_first_basic_block().and_then(|block| block.get_first_instruction());
        let start = ir.context.create_builder();
        start.position_before(&entry.expect("a beginning"));
        let words = built(start.build_alloca(int.array_type(count), ""));
        let place = |i: usize| element_address(ir, int.into(), words, ir.i32(i as u32));
        for (i, (&x, dtype)) in
            a.iter().chain(b).map(|x| (x, matrix.operand)).chain(c.iter().map(|x| (x, matrix.sum))).enumerate()
        {
            let bits = ir.bitcast(x, ir.scalar_type(dtype.signed_bits()));
            let word = if dtype.bytes() == 4 { bits } else { ir.convert(I::ZExt, bits, int.into()) };
            ir.store(place(i), word, 4);
        }
        let ty = ir
            .context
            .void_type()
            .fn_type(&[pointer.into(), int.into(), int.into(), int.into(), pointer.into()], false);
        let which = self.matrices.iter().position(|m| m == matrix).expect("an instruction of this machine");
        let Thread { lane, warp } = self.thread;
        let args = [self.shared.into(), warp.into(), lane.into(), ir.i32(which as u32).into(), words.into()];
        built(ir.builder.build_indirect_call(ty, self.multiply, &args, ""));
        let result = (a.len() + b.len()..count as usize).map(|i| {
            let word = ir.load(int.into(), place(i), 4);
            ir.bitcast(word, ir.scalar_type(matrix.sum))
        });
        result.collect()
    }
}
