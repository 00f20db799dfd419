//! An AMD GPU's answers to the questions of code generation.
//!
//! A program of one wave shares a work-group with others, side by side along x, of which the last may find themselves
//! beyond the grid.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::module::Linkage;
use inkwell::values::{FunctionValue, InstructionOpcode as I, InstructionValue, MetadataValue, PointerValue};
use inkwell::{AddressSpace, AtomicOrdering, IntPredicate};

use super::object::fence;
use super::{lanes, matrix};
use crate::dtype::DType;
use crate::layout::fragment::Matrix;
use crate::llvm::address::{element_address, element_addresses};
use crate::llvm::alias::Scopes;
use crate::llvm::check::report;
use crate::llvm::ir::{Any, Ir, built};
use crate::llvm::{Emit, Thread};
use crate::spec::Spec;
use crate::target::arguments::{self, Arguments};
use crate::target::scratch::{SHARED, Scratch};
use crate::tile::{Param, ParamKind, Program};

/// LLVM's number of the calling convention of kernels.
const AMDGPU_KERNEL: u32 = 91;

/// Constants.
const CONSTANT: u16 = 4;

/// A kernel whose body is about to be emitted.
pub(super) struct Amd<'c> {
    params: Vec<Any<'c>>,
    status: PointerValue<'c>,
    harmless: PointerValue<'c>,
    /// The program's place, and the grid's extents.
    ids: [Any<'c>; 3],
    extents: [Any<'c>; 3],
    thread: Thread<'c>,
    lanes: u32,
    warps: u32,
    /// Number of programs in a work-group.
    programs: u32,
    threads: u32,
    exit: BasicBlock<'c>,
    scopes: Scopes<'c>,
    scratch: Scratch<'c>,
    /// Says of a fence that it is about shared memory alone.
    local: (MetadataValue<'c>, u32),
}

/// What can be chosen.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// LLVM's name of how to order instructions.
    pub order: &'static str,
    /// Programs of one wave in a work-group.
    pub programs: u32,
}

/// What a work-group holds.
pub(super) struct Group {
    /// Programs.
    pub programs: u32,
    /// Lanes.
    pub threads: u32,
    /// Bytes of shared memory.
    pub shared: u32,
}

impl<'c> Amd<'c> {
    /// Emits what comes before the body and leaves the builder there.
    pub fn begin(ir: &Ir<'c>, program: &Program, spec: &Spec, symbol: &str, way: Way) -> Amd<'c> {
        let c = ir.context;
        let function = arguments::declare(ir, program, symbol, 0);
        function.set_call_conventions(AMDGPU_KERNEL);
        let programs = if spec.warps == 1 { way.programs } else { 1 };
        let threads = spec.lanes * spec.present() * programs;
        for (name, value) in [
            ("target-cpu", spec.cpu.as_str()),
            ("target-features", &spec.features),
            ("amdgpu-flat-work-group-size", &format!("{threads},{threads}")),
            ("uniform-work-group-size", "true"),
            ("amdgpu-sched-strategy", way.order),
        ] {
            function.add_attribute(AttributeLoc::Function, c.create_string_attribute(name, value));
        }
        describe_buffers(ir, program, function);
        let (entry, body, exit) = (
            c.append_basic_block(function, "entry"),
            c.append_basic_block(function, "program"),
            c.append_basic_block(function, "end"),
        );
        ir.builder.position_at_end(entry);
        let Arguments { params, status, harmless, extents, .. } = Arguments::of(ir, program, function);
        let [item, x, y, z] =
            ["workitem.id.x", "workgroup.id.x", "workgroup.id.y", "workgroup.id.z"].map(|name| register(ir, name));
        // One number for all lanes of a wave, which the scalar unit can compute with.
        let wave = ir.binary(I::LShr, item, ir.i32(spec.lane_bits()));
        let wave = ir.intrinsic("llvm.amdgcn.readfirstlane", &[c.i32_type().into()], &[wave]);
        let (x, warp, number) = match spec.warps {
            1 => (ir.binary(I::Add, ir.binary(I::Mul, x, ir.i32(programs)), wave), ir.i32(0), wave),
            _ => (x, wave, ir.i32(0)),
        };
        let lane = lanes::number(ir, spec.lanes);
        let any = ir.icmp(IntPredicate::ULT, x, extents[0]);
        built(ir.builder.build_conditional_branch(any.into_int_value(), body, exit));
        ir.builder.position_at_end(body);
        let local = c.metadata_node(&["amdgpu-synchronize-as", "local"].map(|text| c.metadata_string(text).into()));
        Amd {
            params,
            status,
            harmless,
            ids: [x, y, z],
            extents,
            thread: Thread { lane, warp },
            lanes: spec.lanes,
            warps: spec.warps,
            programs,
            threads,
            exit,
            scopes: Scopes::new(ir, program),
            scratch: Scratch::new(number, AddressSpace::from(CONSTANT)),
            local: (local, c.get_kind_id("mmra")),
        }
    }

    /// Emits what comes after the body.
    pub fn end(self, ir: &Ir<'c>) -> Group {
        built(ir.builder.build_unconditional_branch(self.exit));
        ir.builder.position_at_end(self.exit);
        built(ir.builder.build_return(None));
        let (placeholder, piece) = self.scratch.end(ir);
        let shared = piece * self.programs;
        if let Some(placeholder) = placeholder {
            let memory = ir.context.i8_type().array_type(shared);
            let whole = ir.module.add_global(memory, Some(AddressSpace::from(SHARED)), "shared");
            whole.set_linkage(Linkage::Internal);
            whole.set_alignment(16);
            whole.set_initializer(&memory.get_poison());
            placeholder.as_pointer_value().replace_all_uses_with(whole.as_pointer_value());
        }
        Group { programs: self.programs, threads: self.threads, shared }
    }

    fn fence(&self, ir: &Ir<'c>, order: AtomicOrdering) {
        let scope = if self.warps == 1 { c"wavefront" } else { c"workgroup" };
        let _ = fence(ir, order, scope).set_metadata(self.local.0, self.local.1);
    }
}

/// A number that the hardware keeps for a wave or its lanes, i32.
fn register<'c>(ir: &Ir<'c>, name: &str) -> Any<'c> {
    ir.intrinsic(&format!("llvm.amdgcn.{name}"), &[], &[])
}

/// What is known of buffers: they are aligned, reached in one way only, and what is never written never changes, so that
/// elements which all lanes want come by way of the scalar cache.
fn describe_buffers<'c>(ir: &Ir<'c>, program: &Program, function: FunctionValue<'c>) {
    let mark = |i: u32, name: &str, value: u64| {
        let kind = Attribute::get_named_enum_kind_id(name);
        function.add_attribute(AttributeLoc::Param(i), ir.context.create_enum_attribute(kind, value));
    };
    for (param, data) in &program.params {
        let ParamKind::Buffer { written } = data.kind else { continue };
        mark(param.as_u32(), "noalias", 0);
        mark(param.as_u32(), "align", 64);
        if !written {
            mark(param.as_u32(), "readonly", 0);
        }
    }
}

impl<'c> Emit<'c> for Amd<'c> {
    fn width(&self) -> u32 {
        1
    }

    fn program_id(&self, _ir: &Ir<'c>, axis: u8) -> Any<'c> {
        self.ids[axis as usize]
    }

    fn num_programs(&self, _ir: &Ir<'c>, axis: u8) -> Any<'c> {
        self.extents[axis as usize]
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
        // A placeholder until its length is known.
        let memory = ir.context.i8_type().array_type(0);
        self.scratch.take(ir, bytes, || ir.module.add_global(memory, Some(AddressSpace::from(SHARED)), ""))
    }

    fn end_of_instruction(&self) {
        self.scratch.give_back();
    }

    fn hold(&self) -> u32 {
        self.scratch.hold()
    }

    fn let_go(&self, held: u32) {
        self.scratch.let_go(held);
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

    fn thread(&self, _ir: &Ir<'c>) -> Option<Thread<'c>> {
        Some(self.thread)
    }

    fn exp2_approx(&self, ir: &Ir<'c>, x: Any<'c>) -> Option<Any<'c>> {
        // `v_exp_f32`: one unit in the last place off, and 0 below the normal numbers.
        Some(ir.intrinsic("llvm.amdgcn.exp2", &[x.get_type()], &[x]))
    }

    fn word_of_lane(&self, ir: &Ir<'c>, word: Any<'c>, from: Any<'c>) -> Any<'c> {
        lanes::from_lane(ir, word, from)
    }

    fn word_across(&self, ir: &Ir<'c>, word: Any<'c>, mask: u32) -> Any<'c> {
        lanes::exchange(ir, self.lanes, self.thread.lane, word, mask)
    }

    /// The lanes of one wave are never apart, so that its own fence keeps LLVM's order and costs nothing.
    fn barrier(&self, ir: &Ir<'c>) {
        self.fence(ir, AtomicOrdering::Release);
        ir.call(if self.warps == 1 { "llvm.amdgcn.wave.barrier" } else { "llvm.amdgcn.s.barrier" }, &[], &[]);
        self.fence(ir, AtomicOrdering::Acquire);
    }

    fn multiply(&self, ir: &Ir<'c>, with: &Matrix, a: &[Any<'c>], b: &[Any<'c>], c: &[Any<'c>]) -> Vec<Any<'c>> {
        matrix::multiply(ir, with, a, b, c)
    }
}
