//! A GPU's answers to the questions of code generation.

use std::cell::{Cell, RefCell};

use inkwell::attributes::AttributeLoc;
use inkwell::basic_block::BasicBlock;
use inkwell::module::Linkage;
use inkwell::values::{
    AnyValue, BasicValueEnum, FunctionValue, InstructionOpcode as I, InstructionValue, MetadataValue, PointerValue,
};
use inkwell::{AddressSpace, IntPredicate};

use super::assembly::pure_assembly;
use super::specs::begins_early;
use super::{calls, copies, group, matrix, turns};
use crate::dtype::DType;
use crate::layout::fragment::{Matrix, Tiling};
use crate::llvm::address::{element_address, element_addresses};
use crate::llvm::alias::Scopes;
use crate::llvm::check::report;
use crate::llvm::ir::{Any, Ir, built};
use crate::llvm::tensor_map::{self, TensorMap};
use crate::llvm::{Emit, Left, Thread};
use crate::spec::Spec;
use crate::target::arguments::{self, Arguments};
use crate::target::scratch::{PANEL, SHARED, Scratch};
use crate::tile::{Param, ParamKind, Program};

/// LLVM's number of the calling convention of kernels.
const PTX_KERNEL: u32 = 71;

/// Programs of one warp that share a block: enough of them that the blocks which fit a multiprocessor fill it.
const PROGRAMS: u32 = 4;

/// A kernel whose body is about to be emitted.
pub(super) struct Nvidia<'c> {
    params: Vec<Any<'c>>,
    status: PointerValue<'c>,
    harmless: PointerValue<'c>,
    /// The program's place, and the grid's extents.
    ids: [Any<'c>; 3],
    extents: [Any<'c>; 3],
    thread: Thread<'c>,
    /// Number of programs in a block.
    programs: u32,
    warps: u32,
    exit: BasicBlock<'c>,
    scopes: Scopes<'c>,
    /// Parameters that nobody writes as long as the kernel is there, and the mark of loads from there: one that begins early is
    /// there while the one before it still writes.
    constant: Vec<bool>,
    invariant: (MetadataValue<'c>, u32),
    scratch: Scratch<'c>,
    /// Where tensor maps are, and those that the kernel is given.
    maps: (Vec<PointerValue<'c>>, RefCell<Vec<TensorMap>>),
    has_gates: bool,
    function: FunctionValue<'c>,
    /// Whether warps multiply together anywhere.
    together: Cell<bool>,
    turns: Turns,
}

/// Turns of two groups of warps.
struct Turns {
    /// Whether there may be any.
    may: bool,
    /// Whether it is somebody's, at the builder's position.
    taken: Cell<bool>,
    /// Whether all threads wait for each other in one: then the other group waits for its turn for ever.
    tangled: Cell<bool>,
}

/// How a kernel is to be launched.
pub(super) struct Ended {
    /// Programs of a block.
    pub programs: u32,
    /// Bytes of shared memory of a block.
    pub shared: u32,
    /// The tensor maps that it is given, and how many it has room for.
    pub maps: Vec<TensorMap>,
    pub room: u32,
    /// Whether it has to be emitted without turns.
    pub tangled: bool,
}

impl<'c> Nvidia<'c> {
    /// Emits what comes before the body and leaves the builder there; with turns of groups of warps, if there may be any.
    pub fn begin(ir: &Ir<'c>, program: &Program, spec: &Spec, symbol: &str, turns: bool) -> Nvidia<'c> {
        let c = ir.context;
        let room = if spec.boxes { tensor_map::most(program) } else { 0 };
        let function = arguments::declare(ir, program, symbol, room);
        function.set_call_conventions(PTX_KERNEL);
        let programs = if spec.warps == 1 { PROGRAMS } else { 1 };
        let threads = (spec.lanes * spec.present() * programs).to_string();
        for (name, value) in
            [("nvvm.reqntid", threads.as_str()), ("target-cpu", &spec.cpu), ("target-features", &spec.features)]
        {
            function.add_attribute(AttributeLoc::Function, c.create_string_attribute(name, value));
        }
        let early = begins_early(&spec.cpu);
        let (entry, body, exit) = (
            c.append_basic_block(function, "entry"),
            c.append_basic_block(function, "program"),
            c.append_basic_block(function, "end"),
        );
        ir.builder.position_at_end(entry);
        if early {
            ir.call("llvm.nvvm.griddepcontrol.wait", &[], &[]);
        }
        let Arguments { params, status, harmless, extents, maps } = Arguments::of(ir, program, function);
        let register = |name: &str| ir.intrinsic(&format!("llvm.nvvm.read.ptx.sreg.{name}"), &[], &[]);
        let [tid, x, y, z] = ["tid.x", "ctaid.x", "ctaid.y", "ctaid.z"].map(register);
        let lane = ir.binary(I::And, tid, ir.i32(spec.lanes - 1));
        let warp = ir.binary(I::LShr, tid, ir.i32(spec.lane_bits()));
        let first = ir.binary(I::Mul, x, ir.i32(programs));
        let (x, warp, number) = match spec.warps {
            1 => (ir.binary(I::Add, first, warp), ir.i32(0), warp),
            _ => (x, warp, ir.i32(0)),
        };
        let any = ir.icmp(IntPredicate::ULT, x, extents[0]);
        built(ir.builder.build_conditional_branch(any.into_int_value(), body, exit));
        ir.builder.position_at_end(body);

        Nvidia {
            params,
            status,
            harmless,
            ids: [x, y, z],
            extents,
            thread: Thread { lane, warp },
            programs,
            warps: spec.warps,
            exit,
            scopes: Scopes::new(ir, program),
            constant: program
                .params
                .values()
                .map(|p| !early && p.kind == ParamKind::Buffer { written: false })
                .collect(),
            invariant: (c.metadata_node(&[]), c.get_kind_id("invariant.load")),
            scratch: Scratch::new(number, AddressSpace::default()),
            maps: (maps, RefCell::default()),
            has_gates: spec.group > 0,
            function,
            together: Cell::new(false),
            turns: Turns { may: turns && spec.group > 0, taken: Cell::new(false), tangled: Cell::new(false) },
        }
    }

    /// Emits what comes after the body.
    pub fn end(self, ir: &Ir<'c>) -> Ended {
        built(ir.builder.build_unconditional_branch(self.exit));
        ir.builder.position_at_end(self.exit);
        built(ir.builder.build_return(None));
        if self.together.get() {
            calls::leave_out(ir, self.function);
        }
        let (_, piece) = self.scratch.end(ir);
        let (room, maps) = (self.maps.0.len() as u32, self.maps.1.into_inner());
        let tangled = self.turns.tangled.get();
        Ended { programs: self.programs, shared: piece * self.programs, maps, room, tangled }
    }
}

impl<'c> Nvidia<'c> {
    /// Whether this is the first thread of its program.
    fn is_first(&self, ir: &Ir<'c>) -> Any<'c> {
        let Thread { lane, warp } = self.thread;
        ir.icmp(IntPredicate::EQ, ir.binary(I::Or, lane, warp), ir.i32(0))
    }
}

impl<'c> Emit<'c> for Nvidia<'c> {
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
        self.scratch.take(ir, bytes, || {
            let memory = ir.context.i8_type().array_type(0);
            let shared = ir.module.add_global(memory, Some(AddressSpace::from(SHARED)), "shared");
            shared.set_linkage(Linkage::External);
            shared.set_alignment(PANEL);
            shared
        })
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

    fn tag(&self, ir: &Ir<'c>, inst: Option<InstructionValue<'c>>, param: Param) {
        self.scopes.tag(inst, param);
        let Some(inst) = inst else { return };
        if self.constant[param.as_u32() as usize] {
            let _ = inst.set_metadata(self.invariant.0, self.invariant.1);
        } else if inst.get_opcode() == I::Load
            && let Ok(loaded) = BasicValueEnum::try_from(inst.as_any_value_enum())
        {
            // LLVM would move it down to where it is used, when it is too late to ask for it.
            ir.call("llvm.fake.use", &[], &[loaded]);
        }
    }

    fn check(&self, ir: &Ir<'c>, condition: Any<'c>, code: u32) {
        report(ir, self.status, condition, code);
    }

    fn thread(&self, _ir: &Ir<'c>) -> Option<Thread<'c>> {
        Some(self.thread)
    }

    fn word_of_lane(&self, ir: &Ir<'c>, word: Any<'c>, from: Any<'c>) -> Any<'c> {
        ir.intrinsic("llvm.nvvm.shfl.sync.idx.i32", &[], &[ir.i32(u32::MAX), word, from, ir.i32(31)])
    }

    fn word_across(&self, ir: &Ir<'c>, word: Any<'c>, mask: u32) -> Any<'c> {
        ir.intrinsic("llvm.nvvm.shfl.sync.bfly.i32", &[], &[ir.i32(u32::MAX), word, ir.i32(mask), ir.i32(31)])
    }

    fn to_bf16(&self, ir: &Ir<'c>, x: Any<'c>) -> Option<Any<'c>> {
        // The conversion of two is several times as fast as that of one.  In the high half the result is also a bf16
        // widened to f32, where the optimiser knows that there is nothing in the low one.
        let word = self.round_pair(ir, DType::Bf16, ir.float_like(x, 0.0), x)?;
        let low = ir.binary(I::And, word, ir.i32(0xffff));
        ir.call("llvm.assume", &[], &[ir.icmp(IntPredicate::EQ, low, ir.i32(0))]);
        Some(ir.convert(I::Trunc, ir.binary(I::LShr, word, ir.i32(16)), ir.context.i16_type().into()))
    }

    fn round_pair(&self, ir: &Ir<'c>, dtype: DType, low: Any<'c>, high: Any<'c>) -> Option<Any<'c>> {
        // What PTX's own compiler makes of f16 is better: it multiplies and rounds them two at once.
        if dtype != DType::Bf16 {
            return None;
        }
        // LLVM's intrinsics give vectors of two, which it takes apart element by element.
        Some(pure_assembly(ir, "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f", &[high, low]))
    }

    fn word(&self, ir: &Ir<'c>, word: Any<'c>) -> Any<'c> {
        // LLVM would take halves out of the vector that was loaded, and shift them one by one.
        pure_assembly(ir, "mov.b32 $0, $1;", "=r,r", &[word])
    }

    fn exp2_approx(&self, ir: &Ir<'c>, x: Any<'c>) -> Option<Any<'c>> {
        // PTX ISA, `ex2.approx.ftz.f32`: two units in the last place off at most.
        Some(ir.intrinsic("llvm.nvvm.ex2.approx.ftz", &[x.get_type()], &[x]))
    }

    fn divides_slowly(&self) -> bool {
        true
    }

    fn approximate_reciprocal(&self, ir: &Ir<'c>, x: Any<'c>) -> Option<Any<'c>> {
        // PTX ISA, `rcp.approx.ftz.f32`: at most one unit in the last place off.
        Some(ir.intrinsic("llvm.nvvm.rcp.approx.ftz.f", &[], &[x]))
    }

    fn approximate_inverse_root(&self, ir: &Ir<'c>, x: Any<'c>) -> Option<Any<'c>> {
        // What `sqrt.rn.f32` begins with.
        Some(ir.intrinsic("llvm.nvvm.rsqrt.approx.ftz.f", &[], &[x]))
    }

    fn multiply(&self, ir: &Ir<'c>, matrix: &Matrix, a: &[Any<'c>], b: &[Any<'c>], c: &[Any<'c>]) -> Vec<Any<'c>> {
        matrix::multiply(ir, matrix, a, b, c)
    }

    fn publish(&self, ir: &Ir<'c>) {
        group::publish(ir);
    }

    fn multiply_together(
        &self,
        ir: &Ir<'c>,
        product: (&Matrix, &Tiling),
        base: PointerValue<'c>,
        a: Left<'_, 'c>,
        c: &[Any<'c>],
    ) -> Option<Vec<Any<'c>>> {
        self.together.set(true);
        group::multiply(ir, product, self.thread.warp, base, a, c)
    }

    fn await_products(&self, ir: &Ir<'c>, groups: u32, sums: &[Any<'c>]) -> Vec<Any<'c>> {
        group::wait(ir, groups, sums)
    }

    fn copy(&self, ir: &Ir<'c>, to: PointerValue<'c>, from: PointerValue<'c>, wanted: Option<Any<'c>>) {
        copies::copy(ir, to, from, wanted);
    }

    fn tensor_map(&self, map: &TensorMap) -> Option<u32> {
        let (places, mut maps) = (&self.maps.0, self.maps.1.borrow_mut());
        let known = maps.iter().position(|other| other == map);
        let number = known.or_else(|| {
            (maps.len() < places.len()).then(|| {
                maps.push(*map);
                maps.len() - 1
            })
        });
        number.map(|number| number as u32)
    }

    fn copy_box(&self, ir: &Ir<'c>, map: u32, at: [Any<'c>; 3], to: PointerValue<'c>, gate: Option<PointerValue<'c>>) {
        let Some(gate) = gate else { panic!("bug in the lowering: nobody waits for a box") };
        copies::copy_box(ir, self.maps.0[map as usize], at, to, gate);
    }

    fn pass_when_arrived(&self, ir: &Ir<'c>, gate: PointerValue<'c>, bytes: u32) {
        copies::pass_when_arrived(ir, gate, bytes);
    }

    fn has_gates(&self) -> bool {
        self.has_gates
    }

    fn make_gate(&self, ir: &Ir<'c>, gate: PointerValue<'c>, count: u32) {
        copies::make_gate(ir, self.is_first(ir), gate, count);
    }

    fn end_gate(&self, ir: &Ir<'c>, gate: PointerValue<'c>) {
        copies::end_gate(ir, self.is_first(ir), gate);
    }

    fn await_gate(&self, ir: &Ir<'c>, gate: PointerValue<'c>, odd: Any<'c>) {
        copies::await_gate(ir, gate, odd);
    }

    fn pass_when_copied(&self, ir: &Ir<'c>, gate: PointerValue<'c>) {
        copies::pass_when_copied(ir, gate);
    }

    fn pass_as_warp(&self, ir: &Ir<'c>, gate: PointerValue<'c>, passes: Any<'c>) {
        let first = ir.icmp(IntPredicate::EQ, self.thread.lane, ir.i32(0));
        copies::pass(ir, ir.binary(I::And, first, passes), gate);
    }

    fn has_turns(&self) -> bool {
        self.turns.may
    }

    fn take_turn(&self, ir: &Ir<'c>) {
        self.turns.taken.set(true);
        turns::take(ir, self.thread.warp);
    }

    fn pass_turn(&self, ir: &Ir<'c>) {
        self.turns.taken.set(false);
        turns::pass(ir, self.thread.warp);
    }

    fn begin_turns(&self, ir: &Ir<'c>) {
        turns::begin(ir, self.thread.warp);
    }

    fn end_turns(&self, ir: &Ir<'c>) {
        turns::end(ir, self.thread.warp);
    }

    fn group_copies(&self, ir: &Ir<'c>) {
        ir.call("llvm.nvvm.cp.async.commit.group", &[], &[]);
    }

    fn await_copies(&self, ir: &Ir<'c>, groups: u32) {
        ir.call("llvm.nvvm.cp.async.wait.group", &[], &[ir.i32(groups)]);
    }

    fn barrier(&self, ir: &Ir<'c>) {
        if self.turns.taken.get() {
            self.turns.tangled.set(true);
        }
        match self.warps {
            1 => ir.call("llvm.nvvm.bar.warp.sync", &[], &[ir.i32(u32::MAX)]),
            _ => ir.call("llvm.nvvm.barrier.cta.sync.aligned.all", &[], &[ir.i32(0)]),
        };
    }
}
