//! The arguments of a GPU's kernel: one word of 64 bits per parameter of the program, a pointer or the bits of a scalar;
//! the address of the status word; the numbers of programs along the grid's axes, 32 bits each; tensor maps, if the kernel
//! has room for any.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::{AnyType, BasicMetadataTypeEnum};
use inkwell::values::{FunctionValue, InstructionOpcode as I, PointerValue};
use inkwell::{AddressSpace, IntPredicate};

use crate::dtype::DType;
use crate::llvm::ir::{Any, Ir, built};
use crate::tile::{ParamKind, Program};

/// The address space of buffers, on all GPUs.
const GLOBAL: u16 = 1;

/// Bytes of a tensor map, and what their address is a multiple of.
const MAP: (u32, u64) = (128, 64);

/// What a kernel is given.
pub(super) struct Arguments<'c> {
    /// Pointers to buffers, and scalars in their own type.
    pub params: Vec<Any<'c>>,
    /// The status word.
    pub status: PointerValue<'c>,
    /// The sixteen aligned bytes that it lies in, which may be read where nothing else may.
    pub harmless: PointerValue<'c>,
    /// Programs along each axis.
    pub extents: [Any<'c>; 3],
    /// Where the tensor maps are.
    pub maps: Vec<PointerValue<'c>>,
}

/// Declares a kernel for a program, with room for so many tensor maps.
pub(super) fn declare<'c>(ir: &Ir<'c>, program: &Program, symbol: &str, maps: u32) -> FunctionValue<'c> {
    let c = ir.context;
    let (word, int) = (c.i64_type(), c.i32_type());
    let global = c.ptr_type(AddressSpace::from(GLOBAL));
    let types = program.params.values().map(|data| match data.kind {
        ParamKind::Buffer { .. } => global.into(),
        ParamKind::Scalar { .. } => word.into(),
    });
    let maps = (0..maps).map(|_| c.ptr_type(AddressSpace::default()).into());
    let types: Vec<BasicMetadataTypeEnum> =
        types.chain([global.into(), int.into(), int.into(), int.into()]).chain(maps).collect();
    let function = ir.module.add_function(symbol, c.void_type().fn_type(&types, false), None);
    let names = program.params.keys().map(|param| param.to_string());
    for (i, name) in names.chain(["status", "x", "y", "z"].map(String::from)).enumerate() {
        argument(function, i as u32).set_name(&name);
    }
    let first = program.params.len() as u32 + 4;
    let (bytes, align) = (c.i8_type().array_type(MAP.0).as_any_type_enum(), MAP.1);
    let kind = Attribute::get_named_enum_kind_id;
    for i in first..function.count_params() {
        let here = AttributeLoc::Param(i);
        function.add_attribute(here, c.create_type_attribute(kind("byval"), bytes));
        function.add_attribute(here, c.create_enum_attribute(kind("align"), align));
        // Nobody writes there, so that the map's own address can be handed on.
        function.add_attribute(here, c.create_string_attribute("nvvm.grid_constant", ""));
    }
    function
}

impl<'c> Arguments<'c> {
    /// Reads the arguments of a kernel, at the builder's position.
    pub fn of(ir: &Ir<'c>, program: &Program, function: FunctionValue<'c>) -> Arguments<'c> {
        let params = program.params.iter().map(|(param, data)| {
            let x = argument(function, param.as_u32());
            match data.kind {
                ParamKind::Buffer { .. } => x,
                ParamKind::Scalar { .. } => scalar(ir, x, data.dtype),
            }
        });
        let params: Vec<Any<'c>> = params.collect();
        let count = params.len() as u32;
        let status = argument(function, count).into_pointer_value();
        let long = ir.context.i64_type();
        let address = built(ir.builder.build_ptr_to_int(status, long, ""));
        let aligned = ir.binary(I::And, address.into(), ir.int_like(address.into(), -16)).into_int_value();
        let harmless = built(ir.builder.build_int_to_ptr(aligned, status.get_type(), ""));
        let extents = [1, 2, 3].map(|i| argument(function, count + i));
        let maps = (count + 4..function.count_params()).map(|i| argument(function, i).into_pointer_value());
        Arguments { params, status, harmless, extents, maps: maps.collect() }
    }
}

fn argument<'c>(function: FunctionValue<'c>, i: u32) -> Any<'c> {
    match function.get_nth_param(i) {
        Some(value) => value,
        None => panic!("bug in the lowering: a kernel without argument {i}"),
    }
}

/// A scalar from the low bits of a word.
fn scalar<'c>(ir: &Ir<'c>, word: Any<'c>, dtype: DType) -> Any<'c> {
    let bits = match dtype {
        DType::Bool => ir.context.i8_type().into(),
        dtype => ir.scalar_type(dtype.signed_bits()),
    };
    let bits = if dtype.bytes() == 8 { word } else { ir.convert(I::Trunc, word, bits) };
    match dtype {
        DType::Bool => ir.icmp(IntPredicate::NE, bits, ir.int_like(bits, 0)),
        _ => ir.bitcast(bits, ir.scalar_type(dtype)),
    }
}
