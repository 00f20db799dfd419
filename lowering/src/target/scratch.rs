//! Scratch memory of the programs of a GPU's block: each has a piece of the block's shared memory, as long as the
//! instruction that needs the most of it asks for.

use std::cell::{Cell, OnceCell};

use inkwell::AddressSpace;
use inkwell::module::Linkage;
use inkwell::values::{GlobalValue, InstructionOpcode as I, PointerValue};

use crate::llvm::address::element_address;
use crate::llvm::ir::{Any, Ir};

/// The address space of a block's memory, on all GPUs.
pub(super) const SHARED: u16 = 3;

/// What every piece, and every part of one, is aligned to.
const ALIGN: u32 = 16;

/// What parts that are at least as long are aligned to: matrix instructions read them in rows whose places follow from
/// their addresses.
pub(super) const PANEL: u32 = 1024;

/// Memory of the running program while its body is emitted.
pub(super) struct Scratch<'c> {
    /// Number of the running program in its block.
    program: Any<'c>,
    /// Where constants lie.
    constants: AddressSpace,
    /// The block's memory, and the length of a piece: a number in the module until it is known.
    globals: OnceCell<[GlobalValue<'c>; 2]>,
    taken: Cell<u32>,
    /// What was taken of it for longer than an instruction.
    held: Cell<u32>,
    most: Cell<u32>,
}

impl<'c> Scratch<'c> {
    /// None taken yet.
    pub fn new(program: Any<'c>, constants: AddressSpace) -> Scratch<'c> {
        Scratch {
            program,
            constants,
            globals: OnceCell::new(),
            taken: Cell::new(0),
            held: Cell::new(0),
            most: Cell::new(0),
        }
    }

    /// Memory for the instruction that is being emitted; `shared` declares that of the block.
    pub fn take(&self, ir: &Ir<'c>, bytes: u32, shared: impl FnOnce() -> GlobalValue<'c>) -> PointerValue<'c> {
        let int = ir.context.i32_type();
        let start = self.taken.get().next_multiple_of(if bytes >= PANEL { PANEL } else { ALIGN });
        self.taken.set(start + bytes.next_multiple_of(ALIGN));
        self.most.set(self.most.get().max(self.taken.get()));
        let [shared, stride] = *self.globals.get_or_init(|| {
            let shared = shared();
            let stride = ir.module.add_global(int, Some(self.constants), "stride");
            stride.set_constant(true);
            stride.set_linkage(Linkage::Internal);
            [shared, stride]
        });
        let stride = ir.load(int.into(), stride.as_pointer_value(), 4);
        let offset = ir.binary(I::Add, ir.binary(I::Mul, self.program, stride), ir.i32(start));
        element_address(ir, ir.context.i8_type().into(), shared.as_pointer_value(), offset)
    }

    /// The instruction is over.
    pub fn give_back(&self) {
        self.taken.set(self.held.get());
    }

    /// What is taken now stays so; gives what was held before.
    pub fn hold(&self) -> u32 {
        self.held.replace(self.taken.get())
    }

    /// Nothing is held but what was before.
    pub fn let_go(&self, held: u32) {
        self.held.set(held);
        self.taken.set(held);
    }

    /// The body is over: the block's memory, if any is used, and the bytes of a piece.
    pub fn end(self, ir: &Ir<'c>) -> (Option<GlobalValue<'c>>, u32) {
        let stride = self.most.get();
        let shared = self.globals.get().map(|[shared, number]| {
            number.set_initializer(&ir.context.i32_type().const_int(stride.into(), false));
            *shared
        });
        (shared, stride)
    }
}
