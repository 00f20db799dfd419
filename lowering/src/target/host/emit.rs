//! A processor's answers to the questions of code generation.
//!
//! The kernel is `void kernel(const u64 *params, const u32 *ids, u32 *status)`: one slot per parameter, a pointer or the
//! bits of a scalar; `ids` are x₀, x₁, y, z and the grid's three extents.  One call runs the programs x₀ … x₁−1 of a row.

use std::cell::Cell;

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{FunctionValue, InstructionOpcode, InstructionValue, PhiValue, PointerValue};

use crate::dtype::DType;
use crate::llvm::Emit;
use crate::llvm::address::{element_address, element_addresses};
use crate::llvm::alias::Scopes;
use crate::llvm::check::report;
use crate::llvm::ir::{Any, Ir, built};
use crate::spec::Spec;
use crate::tile::{Param, ParamKind, Program};

/// Entry and loop of a kernel whose body is about to be emitted.
pub(super) struct Host<'c> {
    lanes: u32,
    params: Vec<Any<'c>>,
    /// Index of the running program along the grid's first axis.
    x: PhiValue<'c>,
    /// One past the last of them.
    end: Any<'c>,
    /// The program's place along the other axes, then the grid's extents.
    ids: [Any<'c>; 5],
    status: PointerValue<'c>,
    harmless: PointerValue<'c>,
    function: FunctionValue<'c>,
    body: BasicBlock<'c>,
    after: BasicBlock<'c>,
    scopes: Scopes<'c>,
    avx512: bool,
    /// Whether anything was written past the caches.
    streamed: Cell<bool>,
}

impl<'c> Host<'c> {
    /// Emits what comes before the body and leaves the builder there.
    pub fn begin(ir: &Ir<'c>, program: &Program, spec: &Spec, symbol: &str) -> Host<'c> {
        let c = ir.context;
        let pointer = c.ptr_type(Default::default());
        let ty = c.void_type().fn_type(&[pointer.into(); 3], false);
        let function = ir.module.add_function(symbol, ty, None);
        for (name, value) in [("target-cpu", spec.cpu.as_str()), ("target-features", &spec.features)] {
            function.add_attribute(inkwell::attributes::AttributeLoc::Function, c.create_string_attribute(name, value));
        }
        // Without this, code for some processors avoids the wide registers.
        let width = c.create_string_attribute("prefer-vector-width", &(spec.lanes * 32).to_string());
        function.add_attribute(inkwell::attributes::AttributeLoc::Function, width);
        let nounwind = inkwell::attributes::Attribute::get_named_enum_kind_id("nounwind");
        function.add_attribute(inkwell::attributes::AttributeLoc::Function, c.create_enum_attribute(nounwind, 0));

        let (entry, body, after) = (
            c.append_basic_block(function, "entry"),
            c.append_basic_block(function, "program"),
            c.append_basic_block(function, "end"),
        );
        ir.builder.position_at_end(entry);
        let argument = |i: u32| match function.get_nth_param(i) {
            Some(value) => value.into_pointer_value(),
            None => panic!("bug in the lowering: a kernel has three arguments"),
        };
        let (slots, ids, status) = (argument(0), argument(1), argument(2));
        let id = |i: u32| ir.load(c.i32_type().into(), element_address(ir, c.i32_type().into(), ids, ir.i32(i)), 4);
        let [start, end, y, z, nx, ny, nz] = std::array::from_fn(|i| id(i as u32));
        let params = program.params.iter().map(|(param, data)| {
            let slot = element_address(ir, c.i64_type().into(), slots, ir.i32(param.as_u32()));
            match data.kind {
                ParamKind::Buffer { .. } => ir.load(pointer.into(), slot, 8),
                ParamKind::Scalar { .. } => {
                    let x = ir.load(ir.memory_type(data.dtype), slot, 8);
                    if data.dtype == DType::Bool { ir.icmp(IntPredicate::NE, x, ir.int_like(x, 0)) } else { x }
                }
            }
        });
        let params = params.collect();
        let harmless = built(ir.builder.build_alloca(c.i64_type(), ""));
        let any = ir.icmp(IntPredicate::ULT, start, end);
        built(ir.builder.build_conditional_branch(any.into_int_value(), body, after));
        ir.builder.position_at_end(body);
        let x = built(ir.builder.build_phi(c.i32_type(), "x"));
        x.add_incoming(&[(&start, entry)]);
        Host {
            lanes: spec.lanes,
            params,
            x,
            end,
            ids: [y, z, nx, ny, nz],
            status,
            harmless,
            function,
            body,
            after,
            scopes: Scopes::new(ir, program),
            avx512: spec.lanes == 16,
            streamed: Cell::new(false),
        }
    }

    /// Emits what comes after the body.
    pub fn end(self, ir: &Ir<'c>) {
        let next = ir.binary(InstructionOpcode::Add, self.x.as_basic_value(), ir.i32(1));
        let more = ir.icmp(IntPredicate::ULT, next, self.end);
        if let Some(last) = ir.builder.get_insert_block() {
            self.x.add_incoming(&[(&next, last)]);
        }
        built(ir.builder.build_conditional_branch(more.into_int_value(), self.body, self.after));
        ir.builder.position_at_end(self.after);
        if self.streamed.get() {
            // Others must not read before it has arrived.
            ir.call("llvm.x86.sse.sfence", &[], &[]);
        }
        built(ir.builder.build_return(None));
    }
}

impl<'c> Emit<'c> for Host<'c> {
    fn width(&self) -> u32 {
        self.lanes
    }

    fn program_id(&self, _ir: &Ir<'c>, axis: u8) -> Any<'c> {
        if axis == 0 { self.x.as_basic_value() } else { self.ids[axis as usize - 1] }
    }

    fn num_programs(&self, _ir: &Ir<'c>, axis: u8) -> Any<'c> {
        self.ids[axis as usize + 2]
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
        let builder = ir.context.create_builder();
        match self.function.get_first_basic_block().and_then(|entry| entry.get_first_instruction()) {
            Some(first) => builder.position_before(&first),
            None => panic!("bug in the lowering: a kernel without an entry"),
        }
        let ty: BasicTypeEnum = ir.context.i64_type().vec_type(8).array_type(bytes.div_ceil(64)).into();
        built(builder.build_alloca(ty, ""))
    }

    fn harmless(&self) -> PointerValue<'c> {
        self.harmless
    }

    fn tag(&self, _ir: &Ir<'c>, inst: Option<InstructionValue<'c>>, param: Param) {
        self.scopes.tag(inst, param);
    }

    fn check(&self, ir: &Ir<'c>, condition: Any<'c>, code: u32) {
        report(ir, self.status, condition, code);
    }

    fn has_masked_access(&self, dtype: DType) -> bool {
        self.avx512 || self.lanes == 8 && dtype.bytes() >= 4
    }

    fn prefetch(&self, ir: &Ir<'c>, address: PointerValue<'c>) {
        // A read of data that is to stay in all caches.
        let address: Any<'c> = address.into();
        ir.call("llvm.prefetch", &[address.get_type()], &[address, ir.i32(0), ir.i32(3), ir.i32(1)]);
    }

    fn streams(&self, bytes: u32) -> bool {
        let can = cfg!(target_arch = "x86_64") && bytes >= 16;
        self.streamed.set(self.streamed.get() || can);
        can
    }

    fn divides_slowly(&self) -> bool {
        self.lanes >= 8
    }

    fn has_gather(&self, dtype: DType) -> bool {
        self.lanes >= 8 && dtype.bytes() >= 4
    }

    fn has_scatter(&self, dtype: DType) -> bool {
        self.avx512 && dtype.bytes() >= 4
    }
}
